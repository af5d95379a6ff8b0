#include "topo/search/channel_search.h"

#include <algorithm>

namespace railwise::topo {

ChannelSearch::ChannelSearch(SearchSpace& space, ChannelSet& current, ChannelSet& best)
    : space_(space),
      current_(current),
      best_(best),
      gpus_(space.graph.count(NodeType::kGpu)),
      rails_(space.paths.settings().nccl.has(NcclRule::kRails)),
      errors_count_(space.paths.settings().nccl.has(NcclRule::kSearchErrors)) {}

int ChannelSearch::run(int steps) {
  current_.count = 0;
  nextChannel(steps);
  return steps;
}

// Searches a channel beside the complete ones, and from there all further channels.
void ChannelSearch::nextChannel(int& steps_left) {
  Stage stage{.steps_left = &steps_left};
  if (!space_.inter) {
    if (limits().pattern == Pattern::kRing) stage.loop_step = gpus_ - 1;
    startAtGpus(stage);
    return;
  }
  stage.net_step = 0;
  if (limits().pattern == Pattern::kRing) stage.net_step = gpus_ - 1;
  if (limits().pattern == Pattern::kSplitTree) stage.net_step = 1;
  startAtNets(stage);  // before 2.31 NCCL does not look at its error
}

bool ChannelSearch::startAtGpus(Stage stage) {
  // The heads of NVLS are all GPUs in order.
  if (limits().pattern == Pattern::kNvls) return begin(current_.count, stage);
  const bool first_channel = current_.count == 0;
  stage.order = first_channel ? Order::kAsListed : Order::kAsLastChannel;
  if (!begin(first_channel ? 0 : current_.gpu(current_.count - 1, 0), stage)) return false;
  if (limits().same_channels && !first_channel) return true;
  stage.order = Order::kFree;
  for (int gpu = 0; gpu < gpus_; ++gpu)
    if (!begin(gpu, stage)) return false;
  return true;
}

bool ChannelSearch::startAtNets(const Stage& stage) {
  const std::vector<int>* const nets = space_.candidates.nets(-1, limits().type_inter);
  if (nets == nullptr) return failWithoutNet(-1);
  const std::size_t count = nets->size();
  const auto channel = static_cast<std::size_t>(current_.count);
  // NCCL counts the bandwidth of a NIC in whole GB/s here.
  const auto bandwidth = static_cast<float>(static_cast<int>(limits().bandwidth_inter));
  bool head_found = false;
  for (std::size_t i = 0; i < count && !head_found; ++i) {
    const int net = (*nets)[(channel + i) % count];
    const Node& node = space_.graph.of(NodeType::kNet, net);
    if (space_.remaining.ofNet(net) < bandwidth) continue;
    const int known = space_.paths.firstOfId(net);
    if (limits().pattern == Pattern::kRing && channel % 2 != 0) {
      noted_.cross_nic = true;
      if (limits().cross_nic == 2 && known != current_.netOut(current_.count - 1)) continue;
    }
    current_.netIn(current_.count) = known;
    current_.latency = node.latency;
    space_.remaining.takeFromPort(net, bandwidth);
    const bool heads = limits().pattern == Pattern::kNvls || limits().pattern == Pattern::kCollNetDirect;
    const bool replay = current_.count > 0 && limits().same_channels;
    if (heads) {
      if (!startHead(net, channel < count, stage, head_found)) return false;
    } else if (replay) {
      Stage as_last = stage;
      as_last.order = Order::kAsLastChannel;
      if (!enter(net, current_.gpu(current_.count - 1, 0), as_last)) return false;
    } else {
      if (!startChain(net, stage)) return false;
      // NCCL forgets to give back the bandwidth of a NIC that no GPU reaches.
      if (space_.candidates.isolated(net)) continue;
    }
    space_.remaining.takeFromPort(net, -bandwidth);
  }
  return true;
}

// NVLS and CollNet direct look for a GPU for each NIC: the head that sends for all others.
bool ChannelSearch::startHead(int net, bool more_nets, const Stage& stage, bool& found) {
  const int gpu = space_.paths.localGpu(net);
  if (!more_nets || gpu < 0) return true;
  for (int channel = 0; channel < current_.count; ++channel)
    if (current_.gpu(channel, 0) == space_.paths.firstOfRank(gpu)) return true;
  found = true;
  return enter(net, gpu, stage);
}

// A ring or a tree that enters by `net`.
bool ChannelSearch::startChain(int net, const Stage& stage) {
  if (current_.count == 0 && space_.graph.count(NodeType::kNvs) == 0) {
    // The order of the list first, with steps of its own, to have something to compare with.
    int steps = kStepsOfListedOrder;
    Stage listed = stage;
    listed.order = Order::kAsListed;
    listed.steps_left = &steps;
    if (!enter(net, 0, listed)) return false;
    if (steps == kPerfect) *stage.steps_left = kPerfect;
  }
  const int local = space_.paths.localGpu(net);
  if (local >= 0 && !enter(net, local, stage)) return false;
  if (space_.candidates.isolated(net)) return true;
  for (const int gpu : space_.candidates.gpusNear(net))
    if (gpu != local && !enter(net, gpu, stage)) return false;
  return true;
}

bool ChannelSearch::enter(int net, int gpu, const Stage& stage) {
  if (!follow(NodeType::kNet, net, NodeType::kGpu, gpu, 1)) return true;
  if (!begin(gpu, stage)) return false;
  follow(NodeType::kNet, net, NodeType::kGpu, gpu, -1);
  return true;
}

bool ChannelSearch::begin(int gpu, const Stage& stage) {
  const int channel = current_.count;
  space_.remaining.toggle(gpu, channel);
  if (!visit(gpu, stage)) return false;
  space_.remaining.toggle(gpu, channel);
  return true;
}

// Puts a GPU at the current step of the channel and searches the rest of the channel.
bool ChannelSearch::visit(int gpu, const Stage& stage) {
  if (*stage.steps_left <= 0) return true;
  --*stage.steps_left;
  if (stage.step == gpus_) {
    complete(stage);
    return true;
  }
  current_.gpu(current_.count, stage.step) = space_.paths.firstOfRank(gpu);
  if (stage.step == stage.net_step) return returnToNet(gpu, stage);
  if (limits().pattern == Pattern::kNvls) return pullByAll(gpu, stage);
  if (limits().pattern == Pattern::kCollNetDirect) return scatterFrom(gpu, stage);
  if (stage.step < gpus_ - 1) return goOn(gpu, stage);
  if (stage.step == stage.loop_step) return closeRing(gpu, stage);
  return finish(gpu, stage);
}

bool ChannelSearch::returnToNet(int gpu, const Stage& stage) {
  const std::vector<int>* const nets = space_.candidates.nets(gpu, limits().type_inter);
  if (nets == nullptr) return failWithoutNet(gpu);
  const bool balanced = limits().pattern == Pattern::kBalancedTree;
  // A balanced tree has half of its traffic at each of its first two GPUs.
  const float share = balanced ? 0.5F : 1;
  Stage next = stage;
  next.net_step = balanced && stage.step == 0 ? 1 : -1;
  const int start = current_.netIn(current_.count);
  for (const int net : *nets) {
    if (!fits(start, net, stage.step) || !follow(NodeType::kGpu, gpu, NodeType::kNet, net, 1, share))
      continue;
    current_.netOut(current_.count) = space_.paths.firstOfId(net);
    if (!visit(gpu, next)) return false;
    follow(NodeType::kGpu, gpu, NodeType::kNet, net, -1, share);
  }
  return true;
}

bool ChannelSearch::goOn(int gpu, const Stage& stage) {
  Stage next = stage;
  ++next.step;
  const auto tryGpu = [&](int other) {
    if (!follow(NodeType::kGpu, gpu, NodeType::kGpu, other, 1)) return true;
    if (!begin(other, next)) return false;
    follow(NodeType::kGpu, gpu, NodeType::kGpu, other, -1);
    return true;
  };
  if (stage.order == Order::kAsListed) return tryGpu(next.step);
  if (stage.order == Order::kAsLastChannel) return tryGpu(current_.gpu(current_.count - 1, next.step));

  using Towards = Candidates::Towards;
  const Towards towards = stage.net_step == -1          ? Towards::kGpus
                          : stage.net_step == next.step ? Towards::kNet
                                                        : Towards::kLaterNet;
  const std::size_t first = untried_.size();
  space_.candidates.next(gpu, towards, current_.netIn(current_.count), limits().pattern, space_.remaining,
                         current_.count, untried_);
  // Deeper stages append lists of their own, and remove them.
  for (std::size_t i = first, end = untried_.size(); i < end; ++i)
    if (!tryGpu(untried_[i])) return false;
  untried_.resize(first);
  return true;
}

bool ChannelSearch::closeRing(int gpu, const Stage& stage) {
  const int first = current_.gpu(current_.count, 0);
  if (!follow(NodeType::kGpu, gpu, NodeType::kGpu, first, 1)) return true;
  Stage end = stage;
  end.step = gpus_;
  end.loop_step = -1;
  if (!visit(first, end)) return false;
  follow(NodeType::kGpu, gpu, NodeType::kGpu, first, -1);
  return true;
}

bool ChannelSearch::finish(int gpu, const Stage& stage) {
  Stage end = stage;
  end.step = gpus_;
  end.net_step = end.loop_step = -1;
  return visit(gpu, end);
}

void ChannelSearch::complete(const Stage& stage) {
  ++current_.count;
  if (better()) {
    best_ = current_;
    if (current_.count == limits().max_channels) *stage.steps_left = kPerfect;
  }
  if (current_.count < limits().max_channels) nextChannel(*stage.steps_left);
  --current_.count;
}

// NVLS: every GPU reads from and writes to the NVSwitches, the head twice.
bool ChannelSearch::pullByAll(int head, const Stage& stage) {
  const auto down = [this, head](int gpu, float times) {
    return follow(NodeType::kNvs, 0, NodeType::kGpu, gpu, gpu == head ? 2 * times : times);
  };
  const auto up = [this, head](int gpu, float times) {
    return follow(NodeType::kGpu, gpu, NodeType::kNvs, 0, gpu == head ? 2 * times : times);
  };
  return throughAll(head, stage, down, up, 1);
}

// CollNet direct: the head exchanges an equal part with every GPU.
bool ChannelSearch::scatterFrom(int head, const Stage& stage) {
  const auto from_head = [this, head](int gpu, float times) {
    return follow(NodeType::kGpu, head, NodeType::kGpu, gpu, times);
  };
  const auto to_head = [this, head](int gpu, float times) {
    return follow(NodeType::kGpu, gpu, NodeType::kGpu, head, times);
  };
  const auto others = static_cast<float>(gpus_ - 1);
  return throughAll(head, stage, from_head, to_head, static_cast<float>(1.0 / static_cast<double>(others)));
}

// The channel is complete if both walks are possible with every GPU at once.
template <typename Forth, typename Back>
bool ChannelSearch::throughAll(int head, const Stage& stage, const Forth& forth, const Back& back,
                               float times) {
  int forward = 0;
  while (forward < gpus_ && forth(forward, times)) ++forward;
  if (forward == gpus_) {
    int backward = 0;
    while (backward < gpus_ && back(backward, times)) ++backward;
    if (backward == gpus_ && !finish(head, stage)) return false;
    while (backward-- > 0) back(backward, -times);
  }
  while (forward-- > 0) forth(forward, -times);
  return true;
}

bool ChannelSearch::follow(NodeType from, int from_index, NodeType to, int to_index, float times,
                           float share) {
  const Route& route = space_.routes.route(from, from_index, to, to_index);
  if (route.type >= PathType::kDis || route.return_type >= PathType::kDis)
    failWithoutPath(from, from_index, to, to_index);
  if (route.type >= PathType::kDis) return false;
  const bool network = from == NodeType::kNet || to == NodeType::kNet;
  if (times == 1) {
    const bool tree = limits().pattern <= Pattern::kTree;  // its data flows in both directions
    const PathType type = tree ? std::max(route.type, route.return_type) : route.type;
    const bool permitted = type <= (network ? limits().type_inter : limits().type_intra);
    (network ? noted_.inter : noted_.intra).note(type, permitted);
    if (!permitted) return false;
  }
  const float bandwidth = (network ? limits().bandwidth_inter : limits().bandwidth_intra) * share;
  if (!space_.remaining.take(space_.routes, route, bandwidth * times)) return false;
  current_.hops =
      static_cast<int>(static_cast<float>(current_.hops) + times * static_cast<float>(route.steps));
  return true;
}

// NCCL's table of paths between two nodes is missing in one direction (ncclTopoFollowPath).
void ChannelSearch::failWithoutPath(NodeType from, int from_index, NodeType to, int to_index) {
  if (!errors_count_ || !space_.failure.empty()) return;
  const bool there = space_.paths.reaches(from, from_index, to);
  if (there && space_.paths.reaches(to, to_index, from)) return;
  const bool to_switch = to == NodeType::kNvs || from == NodeType::kNvs;
  const bool from_gpu = from == NodeType::kGpu;
  const Node& gpu = space_.graph.of(NodeType::kGpu, from_gpu ? from_index : to_index);
  const std::string name = "GPU " + std::to_string(gpu.rank) + " (" + gpu.busid + ")";
  if (to_switch) {
    space_.failure = "the search for NVLS needs a path from every GPU to the NVSwitches, and " + name +
                     " has no NVLink to them: NCCL " + ncclVersionName(space_.paths.settings().nccl) +
                     " fails its init; set NCCL_NVLS_ENABLE=0, or repair the NVLinks of the GPU";
    return;
  }
  space_.failure = name + " has no path to " +
                   space_.graph.label(space_.graph.of(
                       from_gpu ? to : from)[static_cast<std::size_t>(from_gpu ? to_index : from_index)]) +
                   ": NCCL fails its init; connect them in the topology file";
}

// `gpu`: -1 for any. Always false.
bool ChannelSearch::failWithoutNet(int gpu) {
  if (!errors_count_ || !space_.failure.empty()) return false;
  for (int g = 0; g < gpus_ && gpu < 0; ++g)
    if (space_.candidates.preferredNets(g) == nullptr) gpu = g;
  if (gpu >= 0) space_.failure = noNicText(space_.graph.of(NodeType::kGpu, gpu).rank);
  return false;
}

std::string noNicText(int rank) {
  return "the search looks for the NIC of GPU " + std::to_string(rank) +
         " and finds none: NCCL fails its init; connect a NIC to the GPU in the topology file";
}

bool ChannelSearch::better() {
  if (current_.count < limits().min_channels) return false;
  if (limits().pattern == Pattern::kNvls)  // each channel is a head: the more the better
    return (current_.count > best_.count && current_.count <= gpus_) ||
           current_.bandwidthInter() > best_.bandwidthInter();
  if (current_.bandwidthIntra() != best_.bandwidthIntra())
    return current_.bandwidthIntra() > best_.bandwidthIntra();
  if (limits().pattern != best_.limits.pattern) return false;
  if (current_.hops >= best_.hops) return false;
  noted_.cross_nic = true;
  return limits().cross_nic == best_.limits.cross_nic;
}

// Can a channel that enters by one NET leave by another one?
bool ChannelSearch::fits(int start, int net, int step) {
  const Node& from = space_.graph.of(NodeType::kNet, start);
  const Node& to = space_.graph.of(NodeType::kNet, net);
  const int known = space_.paths.firstOfId(net);
  const Pattern pattern = limits().pattern;
  if (rails_ && from.plane >= 0 && to.plane >= 0 && from.plane != to.plane) return false;
  if (pattern == Pattern::kTree && known != start) return false;
  // Every second channel goes the way of the channel before it, the other way round.
  const bool paired = pattern == Pattern::kRing && current_.count % 2 != 0;
  const int cross_nic = limits().cross_nic;
  const bool answers_way_out = !paired || known == current_.netIn(current_.count - 1);
  if (!noted_.cross_nic || cross_nic == 0) {
    const bool one_rail = oneRail(from, to);
    if (!one_rail || !answers_way_out) noted_.cross_nic = true;
    if (cross_nic == 0 && !one_rail) return false;
  }
  if (pattern == Pattern::kRing && cross_nic == 2 && !answers_way_out) return false;
  return pattern != Pattern::kBalancedTree || step == 0 || known == current_.netOut(current_.count);
}

bool ChannelSearch::oneRail(const Node& from, const Node& to) const {
  if (rails_ && from.rail != -1 && to.rail != -1) return from.rail == to.rail;
  if (space_.paths.settings().mnnvl_rail_per_host != 0 && from.host != to.host)
    return placeOf(from) == placeOf(to) && from.port == to.port;
  return from.guid == to.guid && from.port == to.port;
}

// Where a NET is inside of its host: its PCI address, or its GUID if it has no address.
std::string ChannelSearch::placeOf(const Node& net) const {
  for (const Link& link : net.links)
    if (!space_.graph.node(link.to).busid.empty()) return space_.graph.node(link.to).busid;
  return "guid " + std::to_string(net.guid);
}

}  // namespace railwise::topo
