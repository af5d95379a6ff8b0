#include "topo/search/graph_search.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "topo/graph/constants.h"
#include "topo/search/channel_graph.h"
#include "topo/search/vain_attempts.h"

namespace railwise::topo {
namespace {

// NCCL counts steps instead of time, so that a search does not depend on the speed of the machine.
constexpr long kAllSteps = 1L << 19;
constexpr int kSteps = 1 << 14;
constexpr int kStepsOfSameChannels = 1 << 8;

constexpr int kMostNvlsHeads = 32;   // NCCL_MAX_NVLS_ARITY
constexpr int kMostDirectHeads = 8;  // NCCL_MAX_DIRECT_ARITY + 1
constexpr int kAmpere = 80;
constexpr int kHopper = 90;
constexpr float kLeastBandwidth = 0.1F;  // of a channel that no search has found

// The pattern with which the search of a graph begins, by NCCL's ids of the graphs.
constexpr Pattern kFirstPatterns[kAlgorithms] = {Pattern::kRing, Pattern::kBalancedTree, Pattern::kTree,
                                                 Pattern::kNvls, Pattern::kCollNetDirect};

int lowestSm(const Graph& graph) {
  const auto& devices = graph.of(graph.deviceType());
  int lowest = graph.node(devices[0]).sm;
  for (const NodeIndex device : devices) lowest = std::min(lowest, graph.node(device).sm);
  return lowest;
}

struct TypeRange {
  PathType least = PathType::kSys;
  PathType most = PathType::kLoc;
};
// The nearest and the farthest path from a GPU to a node of a type.
TypeRange typesOf(const Paths& paths, NodeType to) {
  TypeRange range;
  for (int g = 0; g < paths.graph().count(NodeType::kGpu); ++g) {
    if (!paths.reaches(NodeType::kGpu, g, to)) continue;
    for (int i = 0; i < paths.graph().count(to); ++i) {
      if (to == NodeType::kGpu && i == g) continue;
      const PathType type = paths.get(NodeType::kGpu, g, to, i).type;
      range.least = std::min(range.least, type);
      range.most = std::max(range.most, type);
    }
  }
  return range;
}

// A lower speed is worth an attempt if twice as many channels could be found with it.
bool isWorthwhile(float speed, float best) { return static_cast<double>(speed / best) > .49; }

PathType longer(PathType type) { return static_cast<PathType>(static_cast<int>(type) + 1); }

}  // namespace

GraphSearch::GraphSearch(SearchSpace& space, SearchBandwidth bandwidth, SearchTask task, GraphTrace* trace)
    : space_(space),
      bandwidth_(bandwidth),
      task_(std::move(task)),
      trace_(trace),
      gpus_(space.graph.count(NodeType::kGpu)),
      sm_(lowestSm(space.graph)),
      speeds_(searchSpeeds(space.paths.settings().nccl, space.inter, sm_)),
      current_(gpus_, kMaxChannels),
      best_(gpus_, kMaxChannels) {
  SearchLimits& limits = best_.limits;
  limits.pattern = kFirstPatterns[static_cast<std::size_t>(task_.algorithm)];
  limits.min_channels = task_.min_channels;
  limits.max_channels = task_.max_channels;
}

Outcome<ChannelGraph> GraphSearch::run() {
  SearchLimits& limits = best_.limits;
  setTypes();
  try_same_ = limits.pattern != Pattern::kNvls;
  limits.same_channels = try_same_;
  if (task_.given) {
    if (!task_.given->channels.empty()) {
      if (trace_ != nullptr) trace_->skipped = SearchSkipped::kFromFile;
      ChannelGraph given = *task_.given;
      given.origin = ChannelOrigin::kFile;
      return given;
    }
    takeGiven();
  }
  if (limits.pattern == Pattern::kNvls && (graph().count(NodeType::kNvs) == 0 || sm_ < kHopper)) {
    if (trace_ != nullptr) trace_->skipped = SearchSkipped::kNoNvls;
    return result();
  }
  if (limits.pattern == Pattern::kNvls) limits.max_channels = std::min(kMostNvlsHeads, gpus_);
  if (limits.pattern == Pattern::kCollNetDirect) limits.max_channels = std::min(kMostDirectHeads, gpus_);
  if (gpus_ == 1 && limits.pattern != Pattern::kRing) limits.pattern = Pattern::kTree;
  // Inside one host NVLS has to pull evenly from all GPUs.
  if (!space_.inter && limits.pattern == Pattern::kNvls) limits.min_channels = limits.max_channels;
  // Two halves joined by something slower than NVLink: a tree works better there, and needs two channels. It
  // has as many as the ring.
  if (limits.pattern == Pattern::kRing && splitNvlink() && limits.max_channels >= 2 &&
      limits.min_channels == 1)
    limits.min_channels = 2;

  current_ = best_;
  firstPass();
  if (space_.failure.empty()) {
    doubleChannels();
    secondPass();
  }
  if (!space_.failure.empty()) return Error{space_.failure};
  if (best_.count == 0 && !isCollNet(task_.algorithm) && limits.pattern != Pattern::kNvls) {
    const auto done = takeSimpleOrder();
    if (!done.ok()) return done.failure();
  }
  return result();
}

// Sets which paths the first attempt may use, and which ones the last attempt.
void GraphSearch::setTypes() {
  SearchLimits& limits = best_.limits;
  const bool may_cross = limits.pattern == Pattern::kRing || limits.pattern == Pattern::kBalancedTree;
  const bool several = graph().count(NodeType::kNet) > 1;
  cross_nic_ = several && may_cross ? space_.paths.settings().cross_nic : 0;
  limits.cross_nic = cross_nic_ == 1 ? 1 : 0;
  if (gpus_ > 1) {
    const TypeRange range = typesOf(space_.paths, NodeType::kGpu);
    min_intra_ = range.least;
    max_intra_ = range.most;
  }
  if (space_.inter) {
    const TypeRange range = typesOf(space_.paths, NodeType::kNet);
    min_inter_ = range.least;
    max_inter_ = range.most;
    max_intra_ = max_inter_;
  }
  if (space_.paths.settings().nccl.has(NcclRule::kFarNetsBeforeHopper) && sm_ < kHopper)
    max_inter_ = PathType::kSys;
  limits.type_intra = min_intra_;
  limits.type_inter = min_inter_;
}

// A file that describes a graph without channels still says how the search begins.
void GraphSearch::takeGiven() {
  SearchLimits& limits = best_.limits;
  limits.pattern = task_.given->pattern;
  limits.cross_nic = task_.given->cross_nic;
  limits.bandwidth_intra = task_.given->bandwidth_intra;
  limits.bandwidth_inter = task_.given->bandwidth_inter;
  limits.type_intra = task_.given->type_intra;
  limits.type_inter = task_.given->type_inter;
  limits.same_channels = task_.given->same_channels;
  best_.latency = task_.given->latency_inter;
}

// Are there two groups of GPUs with NVLink inside, and none in between?
bool GraphSearch::splitNvlink() const {
  std::vector<int> group(static_cast<std::size_t>(gpus_));
  for (int g = 0; g < gpus_; ++g) group[static_cast<std::size_t>(g)] = g;
  for (int g = 0; g < gpus_; ++g)
    for (int p = g + 1; p < gpus_; ++p)
      if (space_.paths.get(NodeType::kGpu, g, NodeType::kGpu, p).type == PathType::kNvl)
        group[static_cast<std::size_t>(p)] = group[static_cast<std::size_t>(g)];
  int groups = 0;
  for (int g = 0; g < gpus_; ++g)
    if (std::count(group.begin(), group.end(), g) > 1) ++groups;
  return groups == 2;
}

// The fastest speed that one path and all links of a GPU allow.
void GraphSearch::chooseFirstSpeed() {
  float total = bandwidth_.gpu;
  // Only a ring comes back to where it began: other graphs use one link less of each GPU.
  const int devices = graph().count(graph().deviceType());
  if (devices > 1 && best_.limits.pattern != Pattern::kRing)
    total = static_cast<float>(static_cast<double>(total) * (devices * 1.0 / (devices - 1)));
  const auto channels = static_cast<float>(best_.limits.min_channels);
  // Before 2.21.5 NCCL divided by the number of other GPUs, which is 0.
  const bool any_total = devices == 1 && !space_.paths.settings().nccl.has(NcclRule::kOneGpuBandwidth);
  while (speed_ + 1 < speeds_.size() &&
         (speed() > bandwidth_.channel || (!any_total && speed() * channels > total)))
    ++speed_;
  current_.limits.bandwidth_intra = current_.limits.bandwidth_inter = speed();
}

int GraphSearch::attempt(SearchMove move) {
  const int steps = current_.limits.same_channels ? kStepsOfSameChannels : kSteps;
  steps_left_ -= steps;
  const int before = best_.count;
  const SearchLimits limits_before = best_.limits;
  const int left = runAttempt(steps);
  if (trace_ != nullptr) {
    trace_->steps += steps - std::max(left, 0);
    const SearchLimits& now = best_.limits;
    const bool better = best_.count != before || now.bandwidth_intra != limits_before.bandwidth_intra ||
                        now.bandwidth_inter != limits_before.bandwidth_inter ||
                        now.type_intra != limits_before.type_intra ||
                        now.type_inter != limits_before.type_inter ||
                        now.cross_nic != limits_before.cross_nic || now.pattern != limits_before.pattern;
    trace_->attempts.push_back({.move = move,
                                .limits = current_.limits,
                                .better = better && best_.count > 0,
                                .out_of_steps = left == 0,
                                .found = best_.count});
  }
  return left;
}

int GraphSearch::runAttempt(int steps) {
  const int hops = current_.hops;
  if (const auto* known = vain_.find(current_.limits, hops, space_.candidates)) return known->steps_left;
  const Remaining before = space_.remaining;
  ChannelSearch search(space_, current_, best_);
  const int left = search.run(steps);
  if (trace_ != nullptr) trace_->visited += steps - std::max(left, 0);
  const bool restored = space_.remaining == before;
  if (!restored) vain_.clear();
  // Attempts for NVLS are left out: more channels of less bandwidth can be better there, and worse later.
  if (restored && left != ChannelSearch::kPerfect && current_.hops == hops &&
      current_.limits.pattern != Pattern::kNvls)
    vain_.add({current_.limits, search.noted(), hops, left});
  return left;
}

// Relaxes the limits one by one until there are channels that cannot be better.
void GraphSearch::firstPass() {
  steps_left_ = kAllSteps;
  chooseFirstSpeed();
  SearchMove move = SearchMove::kBegin;
  for (;;) {
    const int left = attempt(move);
    if (!space_.failure.empty()) return;
    if (left == ChannelSearch::kPerfect) return endWith(SearchEnd::kPerfect);
    if (saturated()) return endWith(SearchEnd::kAllLinks);
    if (!relax(left, move)) return;
  }
}

void GraphSearch::endWith(SearchEnd end) {
  if (trace_ != nullptr) trace_->end = end;
}

// Changes the limits to those of the next attempt. False: there is none.
bool GraphSearch::relax(int steps_left, SearchMove& move) {
  SearchLimits& limits = current_.limits;
  const Node& cpu = graph().of(NodeType::kCpu, 0);
  const bool amd = cpu.arch == CpuArch::kX86 && cpu.vendor == CpuVendor::kAmd;
  if (limits.same_channels && !(amd && limits.type_intra == PathType::kSys)) {
    limits.same_channels = false;
    move = SearchMove::kDifferentChannels;
    return true;
  }
  limits.same_channels = try_same_;

  steps_left_ += steps_left;
  if (steps_left_ < 0 && best_.count > 0) {
    endWith(SearchEnd::kOutOfSteps);
    return false;
  }

  if (sm_ >= kHopper && limits.pattern == Pattern::kBalancedTree) {
    limits.pattern = Pattern::kTree;
    move = SearchMove::kSimplerTree;
    return true;
  }
  limits.pattern = best_.limits.pattern;

  const bool none = best_.count == 0;
  const PathType max_intra = space_.inter ? limits.type_inter : max_intra_;
  if (limits.type_intra < max_intra && (none || limits.type_intra < best_.limits.type_intra)) {
    limits.type_intra = longer(limits.type_intra);
    move = SearchMove::kWiderIntra;
    if (limits.type_intra < PathType::kDis) return true;
  }
  limits.type_intra = min_intra_;

  if (space_.inter && limits.type_inter < max_inter_ &&
      (none || limits.type_inter < best_.limits.type_inter || limits.type_inter < PathType::kPxn)) {
    limits.type_inter = longer(limits.type_inter);
    move = SearchMove::kWiderInter;
    if (limits.type_inter < PathType::kDis) return true;
  }
  limits.type_inter = min_inter_;

  const Pattern pattern = best_.limits.pattern;
  if (cross_nic_ == 2 && limits.cross_nic == 0 &&
      (pattern == Pattern::kRing || pattern == Pattern::kBalancedTree)) {
    limits.cross_nic = 2;
    move = SearchMove::kCrossNic;
    return true;
  }
  limits.cross_nic = cross_nic_ == 1 ? 1 : 0;
  move = SearchMove::kLowerSpeed;
  return lowerSpeed();
}

bool GraphSearch::lowerSpeed() {
  const bool slowest = speed_ + 1 >= speeds_.size();
  if (slowest || (best_.count > 0 && !isWorthwhile(speeds_[speed_ + 1], best_.limits.bandwidth_inter))) {
    endWith(slowest ? SearchEnd::kLowestSpeed : SearchEnd::kNotWorthwhile);
    return false;
  }
  ++speed_;
  current_.limits.bandwidth_inter = current_.limits.bandwidth_intra = speed();
  return true;
}

// Fast channels are split in two: more thread blocks then share the work.
void GraphSearch::doubleChannels() {
  constexpr float kFast = 25;
  constexpr float kFastAfterAmpere = 50;
  constexpr int kEnough = 4;
  SearchLimits& limits = best_.limits;
  const int count = best_.count;
  if (count == 0 || limits.pattern == Pattern::kNvls || limits.bandwidth_intra < kFast) return;
  if (sm_ > kAmpere && limits.bandwidth_intra < kFastAfterAmpere && count > kEnough) return;
  const int doubled = std::min(count * 2, limits.max_channels);
  for (int c = count; c < doubled; ++c) {
    for (int step = 0; step < gpus_; ++step) best_.gpu(c, step) = best_.gpu(c - count, step);
    best_.netIn(c) = best_.netIn(c - count);
    best_.netOut(c) = best_.netOut(c - count);
  }
  const auto parts = static_cast<float>((doubled + count - 1) / count);
  limits.bandwidth_intra /= parts;
  limits.bandwidth_inter /= parts;
  best_.count = doubled;
  if (trace_ != nullptr && doubled > count) trace_->undoubled = count;
}

// Tries to give the channels that were found more bandwidth.
void GraphSearch::secondPass() {
  current_ = best_;
  speed_ = 0;
  while (speeds_[speed_] > best_.limits.bandwidth_inter && speed_ + 1 < speeds_.size()) ++speed_;
  current_.limits.bandwidth_intra = current_.limits.bandwidth_inter = speed();
  current_.limits.min_channels = best_.count;
  SearchMove move{};
  while (speed_ > 0 && raise(move)) {
    if (attempt(move) == 0) return;
  }
}

bool GraphSearch::raise(SearchMove& move) {
  SearchLimits& limits = current_.limits;
  if (best_.limits.pattern == Pattern::kRing) {
    limits.bandwidth_intra = limits.bandwidth_inter = speeds_[--speed_];
    move = SearchMove::kFasterRing;
    return true;
  }
  if (best_.limits.pattern == Pattern::kNvls && limits.bandwidth_inter == best_.limits.bandwidth_inter &&
      limits.bandwidth_inter < limits.bandwidth_intra * 2) {
    limits.min_channels = limits.max_channels = best_.count;
    limits.bandwidth_inter = speeds_[--speed_];
    move = SearchMove::kFasterNetwork;
    return true;
  }
  if (limits.bandwidth_intra == best_.limits.bandwidth_intra &&
      limits.bandwidth_intra < limits.bandwidth_inter * 2) {
    limits.bandwidth_intra = speeds_[--speed_];
    move = SearchMove::kFasterInside;
    return true;
  }
  return false;
}

// One channel of all GPUs in the order of the list, whatever connects them.
Outcome<void> GraphSearch::takeSimpleOrder() {
  origin_ = ChannelOrigin::kSimpleOrder;
  if (trace_ != nullptr) {
    trace_->simple_order = true;
    trace_->failed_pattern = best_.limits.pattern;
    trace_->blocked = findBlocked();
  }
  SearchLimits& limits = best_.limits;
  for (int g = 0; g < gpus_; ++g) best_.gpu(0, g) = space_.paths.firstOfRank(g);
  best_.count = 1;
  limits.bandwidth_intra = kLeastBandwidth;
  limits.type_intra = PathType::kSys;
  best_.netIn(0) = best_.netOut(0) = -1;
  if (!space_.paths.settings().nccl.has(NcclRule::kSimpleOrderNamesNets)) {
    limits.bandwidth_inter = kLeastBandwidth;
    limits.type_inter = PathType::kSys;
    best_.netIn(0) = best_.netOut(0) = graph().indexOf(NodeType::kNet, 0);
    return {};
  }
  const auto* const first = space_.candidates.preferredNets(0);
  const auto* const last = space_.candidates.preferredNets(gpus_ - 1);
  if (first == nullptr || last == nullptr)
    return Error{noNicText(graph().of(NodeType::kGpu, first == nullptr ? 0 : gpus_ - 1).rank)};
  if (first->empty() || last->empty()) {
    limits.bandwidth_inter = 0;
    limits.type_inter = PathType::kDis;
    return {};
  }
  best_.netIn(0) = first->front();
  best_.netOut(0) = last->front();
  limits.bandwidth_inter = kLeastBandwidth;
  limits.type_inter = PathType::kSys;
  return {};
}

// Walks through the GPUs in the order of the list, as the search did, at the lowest speed and with the
// farthest paths that NCCL allows.
BlockedWalk GraphSearch::findBlocked() {
  Remaining remaining(space_.routes, graph());
  struct Stop {
    NodeType type;
    int index;
  };
  std::vector<Stop> stops;
  for (int g = 0; g < gpus_; ++g) stops.push_back({NodeType::kGpu, g});
  const bool ring = best_.limits.pattern == Pattern::kRing;
  if (space_.inter) {
    const auto* const nets = space_.candidates.nets(-1, max_inter_);
    if (nets == nullptr || nets->empty()) return {};
    const Stop net{NodeType::kNet, nets->front()};
    if (ring) stops.push_back(net);
    stops.insert(stops.begin(), net);
  } else if (ring) {
    stops.push_back(stops.front());
  }
  for (std::size_t i = 0; i + 1 < stops.size(); ++i) {
    const Stop& from = stops[i];
    const Stop& to = stops[i + 1];
    const Route& route = space_.routes.route(from.type, from.index, to.type, to.index);
    const bool network = from.type == NodeType::kNet || to.type == NodeType::kNet;
    const PathType farthest = std::min(network || space_.inter ? max_inter_ : max_intra_, PathType::kNet);
    BlockedWalk blocked{.from_type = from.type,
                        .from = from.index,
                        .to_type = to.type,
                        .to = to.index,
                        .type = route.type,
                        .farthest = farthest};
    if (route.type > farthest || route.type >= PathType::kDis) return blocked;
    const auto lack = remaining.lackOf(space_.routes, route, speeds_.back());
    if (lack.link >= 0) {
      blocked.needed = lack.needed;
      blocked.left = lack.left;
      std::tie(blocked.link_from, blocked.link_to) = space_.routes.endsOf(lack.link);
      return blocked;
    }
    remaining.take(space_.routes, route, speeds_.back());
  }
  return {};
}

ChannelGraph GraphSearch::result() const {
  const SearchLimits& limits = best_.limits;
  ChannelGraph found{.algorithm = task_.algorithm,
                     .pattern = limits.pattern,
                     .cross_nic = limits.cross_nic,
                     .bandwidth_intra = limits.bandwidth_intra,
                     .bandwidth_inter = limits.bandwidth_inter,
                     .latency_inter = best_.latency,
                     .type_intra = limits.type_intra,
                     .type_inter = limits.type_inter,
                     .same_channels = limits.same_channels,
                     .hops = best_.hops,
                     .origin = origin_,
                     .channels = {}};
  const bool heads = limits.pattern == Pattern::kNvls || limits.pattern == Pattern::kCollNetDirect;
  for (int c = 0; c < best_.count; ++c) {
    Channel channel;
    if (space_.inter) {
      channel.net_in = best_.netIn(c);
      channel.net_out = best_.netOut(c);
    }
    for (int step = 0; step < (heads ? 1 : gpus_); ++step)
      channel.ranks.push_back(graph().of(NodeType::kGpu, best_.gpu(c, step)).rank);
    found.channels.push_back(std::move(channel));
  }
  return found;
}

}  // namespace railwise::topo
