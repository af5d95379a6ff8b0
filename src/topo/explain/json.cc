#include "base/text/json.h"

#include <algorithm>

#include "topo/explain/describe.h"
#include "topo/explain/explain.h"

namespace railwise::topo {
namespace {

std::string netLabel(const Graph& graph, int net) { return graph.label(NodeType::kNet, net); }

void writeView(JsonWriter& json, const Graph& graph, const NicView& view) {
  json.key("net").value(netLabel(graph, view.net));
  json.key("name").value(graph.of(NodeType::kNet, view.net).name);
  json.key("type").value(pathTypeName(view.type));
  json.key("bandwidth").value(view.bandwidth);
  json.key("hops").value(view.hops);
  json.key("steps").inlineObjects(view.steps, [&](const Step& step) {
    json.key("link").value(step.link).key("bandwidth").value(step.bandwidth);
    json.key("to").value(step.to_name);
  });
}

void writeGdrAnswer(JsonWriter& json, const char* key, const GdrAnswer& answer) {
  json.key(key).beginObject();
  json.key("mode").value(static_cast<int>(answer.mode));
  json.key("distance").value(pathTypeName(answer.distance)).key("level").value(pathTypeName(answer.level));
  json.key("rule").value(answer.rule).key("reason").value(answer.reason);
  json.endObject();
}

void writeChosen(JsonWriter& json, const Graph& graph, const ChosenNic& nic) {
  json.beginObject();
  writeView(json, graph, nic.view);
  json.key("channels").row(nic.channels);
  json.key("proxy_rank").value(nic.proxy_rank);
  writeGdrAnswer(json, "gpudirect_receive", nic.receive);
  writeGdrAnswer(json, "gpudirect_send", nic.send);
  json.key("flush").beginObject();
  json.key("mode").value(static_cast<int>(nic.flush.flush)).key("reason").value(nic.flush.reason);
  json.endObject().endObject();
}

void writeRejected(JsonWriter& json, const Graph& graph, const NicView& view, const std::string& rule,
                   const std::string& reason) {
  json.beginObject();
  writeView(json, graph, view);
  json.key("rule").value(rule).key("reason").value(reason);
  json.endObject();
}

void writeProblems(JsonWriter& json, const std::vector<Problem>& problems) {
  json.key("problems").objects(problems, [&](const Problem& problem) {
    json.key("kind").value(problem.kind).key("text").value(problem.text).key("what_to_do").value(problem.fix);
  });
}

bool asked(const std::vector<int>& channels, int channel, std::size_t period) {
  return channel < 0 || std::count(channels.begin(), channels.end(), channel % static_cast<int>(period)) != 0;
}

constexpr std::pair<EndUse, const char*> kUseNames[] = {{EndUse::kRingEnters, "ring-enters"},
                                                        {EndUse::kRingLeaves, "ring-leaves"}};
const char* useName(EndUse use) { return nameIn(kUseNames, use, "tree"); }

void writeEnds(JsonWriter& json, const Graph& graph, const GpuExplanation& gpu,
               const DomainChannels& channels, int channel) {
  json.key("channel_ends").beginArray();
  for (const ChannelEnd& end : gpu.ends) {
    if (!channels.has(end, channel)) continue;
    json.beginObject().key("use").value(useName(end.use)).key("channels").row(end.channels);
    writeView(json, graph, end.view);
    json.key("proxy_rank").value(end.proxy_rank).key("gpudirect").value(end.gpu_direct);
    json.key("own").value(end.rule.empty());
    json.key("rule").value(end.rule).key("reason").value(end.reason).endObject();
  }
  json.endArray();
}

void writeSearches(JsonWriter& json, const Graph& graph, const std::vector<DomainChannels>& domains) {
  const auto net = [&](int index) { return index < 0 ? std::string() : netLabel(graph, index); };
  json.key("rings_and_trees").objects(domains, [&](const DomainChannels& domain) {
    json.key("ranks").row(domain.ranks);
    json.key("channels").value(domain.channels).key("rings").value(domain.rings);
    json.key("trees").value(domain.trees).key("missing").value(domain.missing);
    json.key("swapped_rings").rows(domain.swapped, [&](const SwappedRing& ring) {
      json.value(ring.channel).value(ring.enter_rank).value(net(ring.enter_net));
      json.value(ring.leave_rank).value(net(ring.leave_net));
    });
    json.key("simple_rings").value(domain.simple_rings).key("simple_trees").value(domain.simple_trees);
  });
}

void writeGpu(JsonWriter& json, const Graph& graph, const GpuExplanation& gpu, const DomainChannels* channels,
              int channel) {
  const Node& node = graph.of(NodeType::kGpu, gpu.gpu);
  json.beginObject();
  json.key("gpu").value(graph.label(NodeType::kGpu, gpu.gpu));
  json.key("rank").value(gpu.rank).key("dev").value(node.dev).key("busid").value(node.busid);
  json.key("local_cpu").value(gpu.local_cpu);
  if (!gpu.error.empty()) json.key("error").value(gpu.error);
  json.key("channel_nets").row(gpu.nets, [&](const int net) { return netLabel(graph, net); });
  json.key("chosen").beginArray();
  for (const ChosenNic& nic : gpu.chosen) {
    if (asked(nic.channels, channel, gpu.nets.size())) writeChosen(json, graph, nic);
  }
  json.endArray().key("rejected").beginArray();
  for (const ChosenNic& nic : gpu.chosen) {
    if (asked(nic.channels, channel, gpu.nets.size())) continue;
    writeRejected(json, graph, nic.view, "channel", "the turn of another channel");
  }
  for (const RejectedNic& nic : gpu.rejected) {
    writeRejected(json, graph, nic.view, nic.rule, nic.reason + (nic.deal.empty() ? "" : ": " + nic.deal));
  }
  json.endArray().key("peers").beginArray();
  for (const PeerRoute& route : gpu.peers) {
    if (!asked({route.channel}, channel, std::max<std::size_t>(1, gpu.nets.size()))) continue;
    json.beginInlineObject().key("peer_dev").value(route.peer_dev).key("channel").value(route.channel);
    json.key("net")
        .value(netLabel(graph, route.net))
        .key("proxy_rank")
        .value(route.proxy_rank)
        .endInlineObject();
  }
  json.endArray();
  if (!gpu.one_sided.empty()) {
    json.key("one_sided").row(gpu.one_sided);
  }
  if (channels != nullptr) writeEnds(json, graph, gpu, *channels, channel);
  writeProblems(json, gpu.problems);
  json.endObject();
}

}  // namespace

Outcome<std::string> explainJson(const Machine& machine, const MachineExplanation& all, int rank,
                                 int channel) {
  if (rank >= 0 && machine.graph->gpuOfRank(rank) < 0) {
    return Error{noGpuText(machine, rank)};
  }
  JsonWriter json;
  json.beginObject();
  json.key("schema").value("railwise-explain").key("schema_version").value(1);
  json.key("machine").value(machine.name);
  json.key("nccl").value(ncclVersionName(machine.settings->nccl));
  json.key("gpus").beginArray();
  for (const GpuExplanation& gpu : all.gpus) {
    if (rank < 0 || gpu.rank == rank) writeGpu(json, *machine.graph, gpu, all.channelsOf(gpu.rank), channel);
  }
  json.endArray();
  if (!all.channels.empty()) writeSearches(json, *machine.graph, all.channels);
  writeProblems(json, all.problems);
  json.endObject();
  return json.text();
}

}  // namespace railwise::topo
