#include "topo/search/search.h"

#include <algorithm>
#include <set>

#include "topo/graph/constants.h"
#include "topo/search/graph_search.h"

namespace railwise::topo {
namespace {

bool networkTakesPart(const SearchOptions& options) { return options.nodes > 1 || options.several_domains; }

// ncclTopoTrimSystem: the network takes part if a domain has not as many GPUs as the communicator has ranks.
// Of ranks whose documents could not become one, the GPUs are there twice.
bool takesNetwork(const Machine& machine, const Domain& domain) {
  std::set<int> ranks;
  for (const Domain& each : machine.domains) ranks.insert(each.ranks.begin(), each.ranks.end());
  return domain.ranks.size() != ranks.size();
}

// True if such a communicator can exist: where the network takes part, there must be a NIC.
bool canSearch(const Domain& domain, const SearchOptions& options) {
  return !networkTakesPart(options) || domain.graph->count(NodeType::kNet) > 0;
}

}  // namespace

Outcome<CommunicatorGraphs> searchGraphs(const Domain& domain, const Settings& settings,
                                         const SearchOptions& options) {
  const auto paths = Paths::compute(*domain.graph, settings, {.with_communicator = true, .for_search = true});
  if (!paths.ok()) return paths.failure();
  SearchSpace space(*paths, networkTakesPart(options));
  const SearchBandwidth bandwidth = searchBandwidth(*paths, space.inter);

  CommunicatorGraphs found{.nodes = options.nodes,
                           .inter = space.inter,
                           .max_bandwidth = bandwidth.channel,
                           .total_bandwidth = bandwidth.gpu,
                           .graphs = {}};
  int rings = 0;
  // NCCL's order: the searches share what is left of the bandwidths.
  for (const Algorithm algorithm : kListedAlgorithms) {
    ChannelGraph& graph = found.graphs[static_cast<std::size_t>(algorithm)];
    graph.algorithm = algorithm;
    if (algorithm == Algorithm::kCollNetChain) graph.pattern = Pattern::kTree;
    if (algorithm == Algorithm::kCollNetDirect) graph.pattern = Pattern::kCollNetDirect;
    if (isCollNet(algorithm) && domain.graph->count(NodeType::kNet) == 0) continue;
    SearchTask task{.algorithm = algorithm, .min_channels = rings, .max_channels = rings, .given = {}};
    const int most = maxChannels(settings.nccl);
    if (algorithm == Algorithm::kRing) task.min_channels = 1, task.max_channels = most / 2;
    if (algorithm == Algorithm::kCollNetDirect || algorithm == Algorithm::kNvls)
      task.min_channels = 1, task.max_channels = most;
    if (options.file != nullptr) {
      auto given = options.file->find(algorithm, *domain.graph, space.inter, settings);
      if (!given.ok()) return given.failure();
      task.given = std::move(*given);
    }
    GraphTrace* trace = nullptr;
    if (options.trace != nullptr) {
      trace = &options.trace->graphs.emplace_back();
      trace->algorithm = algorithm;
    }
    auto searched = GraphSearch(space, bandwidth, std::move(task), trace).run();
    // Without NVLS NCCL makes no such search.
    const bool unused = algorithm == Algorithm::kNvls && (!options.nvls || settings.nvls_enable == 0);
    if (!searched.ok() && unused) continue;
    if (!searched.ok()) return searched.failure();
    graph = std::move(*searched);
    if (algorithm == Algorithm::kRing) rings = static_cast<int>(graph.channels.size());
  }
  return found;
}

Outcome<std::vector<DomainGraphs>> searchMachine(const Machine& machine, const MachineSearch& wanted) {
  std::vector<DomainGraphs> all;
  for (const Domain& domain : machine.domains) {
    DomainGraphs& graphs = all.emplace_back();
    for (const int nodes : {1, 2}) {
      if (!(nodes == 1 ? wanted.one_host : wanted.two_hosts)) continue;
      SearchTrace& trace = nodes == 1 ? graphs.one_host_trace : graphs.two_hosts_trace;
      const SearchOptions options{.nodes = nodes,
                                  .several_domains = takesNetwork(machine, domain),
                                  .nvls = wanted.nvls,
                                  .file = machine.graph_file.get(),
                                  .trace = wanted.traces ? &trace : nullptr};
      if (!canSearch(domain, options)) continue;
      auto found = searchGraphs(domain, *machine.settings, options);
      if (!found.ok()) return found.failure();
      (nodes == 1 ? graphs.one_host : graphs.two_hosts) = std::move(*found);
    }
  }
  return all;
}

std::string initFailure(const Machine& machine) {
  const auto found = searchMachine(machine, {});
  if (found.ok()) return "";
  for (const bool two_hosts : {false, true}) {
    if (machine.graph_file == nullptr) break;
    const auto fits = searchMachine(machine, {.one_host = !two_hosts, .two_hosts = two_hosts});
    if (fits.ok() && std::any_of(fits->begin(), fits->end(),
                                 [](const DomainGraphs& of) { return of.one_host || of.two_hosts; }))
      return "";
  }
  return found.error();
}

}  // namespace railwise::topo
