#include "topo/machine/machine.h"

#include <algorithm>

#include "topo/graph/graph.h"
#include "topo/paths/decisions.h"

namespace railwise::topo {
namespace {

// ncclTopoTrimSystem: the domain of each GPU, identified by the lowest GPU index in the domain.
std::vector<int> domainOfGpus(const Paths& paths) {
  const int gpus = paths.graph().count(NodeType::kGpu);
  std::vector<int> domain(static_cast<std::size_t>(gpus));
  for (int g = 0; g < gpus; ++g) {
    auto& own = domain[static_cast<std::size_t>(g)];
    own = g;
    for (int p = 0; p < g; ++p)
      if (paths.get(NodeType::kGpu, g, NodeType::kGpu, p).type < PathType::kNet)
        own = std::min(own, domain[static_cast<std::size_t>(p)]);
  }
  return domain;
}

void finishDomain(Domain& domain) {
  for (const NodeIndex gpu : domain.graph->of(NodeType::kGpu))
    domain.ranks.push_back(domain.graph->node(gpu).rank);
  const SearchBandwidth most = searchBandwidth(*domain.paths, true);
  domain.max_bandwidth = most.channel;
  domain.total_bandwidth = most.gpu;
}

// Returns "", or why NCCL fails.
std::string splitIntoDomains(Machine& machine, const std::shared_ptr<const Paths>& seen) {
  const auto domain_of = domainOfGpus(*seen);
  for (int first = 0; first < static_cast<int>(domain_of.size()); ++first) {
    std::vector<bool> keep;
    for (const int domain : domain_of) keep.push_back(domain == first);
    const auto members = std::count(keep.begin(), keep.end(), true);
    if (members == 0) continue;
    Domain domain;
    if (members == static_cast<std::ptrdiff_t>(domain_of.size())) {
      domain.graph = machine.graph;
      domain.paths = seen;
    } else {
      domain.graph = std::make_shared<Graph>(machine.graph->keepingGpus(keep));
      auto paths = Paths::compute(*domain.graph, *machine.settings, {.with_communicator = true});
      if (!paths.ok()) return paths.error();
      domain.paths = std::make_shared<Paths>(std::move(*paths));
    }
    finishDomain(domain);
    machine.domains.push_back(std::move(domain));
  }
  const auto lowest = [](const Domain& domain) {
    return *std::min_element(domain.ranks.begin(), domain.ranks.end());
  };
  std::sort(machine.domains.begin(), machine.domains.end(),
            [&lowest](const Domain& a, const Domain& b) { return lowest(a) < lowest(b); });
  return "";
}

}  // namespace

Outcome<Machine> makeMachine(XmlDocument document, const Settings& settings, std::string name) {
  Machine machine;
  machine.name = std::move(name);
  machine.settings = std::make_unique<Settings>(settings);
  machine.xml = std::make_unique<XmlDocument>(std::move(document));
  auto graph = buildGraph(*machine.xml, *machine.settings);
  if (!graph.ok()) return Error{graph.error()};
  machine.graph = std::make_shared<Graph>(std::move(*graph));
  auto paths = Paths::compute(*machine.graph, *machine.settings);
  if (!paths.ok()) return Error{machine.xml->file + ": " + paths.error()};
  machine.paths = std::make_shared<Paths>(std::move(*paths));

  std::shared_ptr<const Paths> seen = machine.paths;
  if (machine.paths->anyNetworkPreferred()) {
    auto marked = Paths::compute(*machine.graph, *machine.settings, {.with_communicator = true});
    if (!marked.ok()) return Error{machine.xml->file + ": " + marked.error()};
    seen = std::make_shared<Paths>(std::move(*marked));
  }
  const std::string failed = splitIntoDomains(machine, seen);
  if (!failed.empty()) return Error{machine.xml->file + ": " + failed};
  return machine;
}

}  // namespace railwise::topo
