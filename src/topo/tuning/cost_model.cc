#include "topo/tuning/cost_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "topo/graph/constants.h"
#include "topo/settings.h"

// Floats and doubles are mixed as NCCL mixes them: the last digit of its printed table depends on it.

namespace railwise::topo::tuning {
namespace {

// The constants of NCCL's cost model. Source: ncclTunerConstantsDefaults, nvlsEfficiency and
// treeCorrectionFactor in src/graph/tuning.cc of NCCL 2.30.7. 2.31.2 has equal ones in src/tuning. 2.29.7
// differs in one number, which is marked.

using PerProtocol = std::array<double, 3>;  // LL, LL128, Simple
using PerAlgorithm =
    std::array<PerProtocol, 7>;          // Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT
using PerScale = std::array<double, 3>;  // 1 node, 2 nodes, more
using PerGeneration = std::array<PerScale, 4>;  // Volta, Ampere, Hopper, Blackwell

// Microseconds before the first step.
constexpr PerAlgorithm kBaseLatency = {{
    {6.8, 14.0, 8.4},
    {6.6, 14.0, 8.4},
    {},
    {},
    {},
    {},
    {8.0, 8.0, 8.0},
}};

// Microseconds of a step over NVLink, PCIe, and the network.
constexpr PerAlgorithm kNvlinkLatency = {{
    {0.6, 1.25, 4.0},
    {0.6, 1.9, 3.4},
    {0, 0, 3.7},
    {0, 0, 2.8},
    {0, 0, 25},
    {0, 0, 25},
    {0, 0, 4.0},
}};
constexpr PerAlgorithm kPciLatency = {{
    {1.0, 1.9, 4.0},
    {1.0, 2.5, 5.7},
    {0, 0, 3.7},
    {0, 0, 2.8},
    {},
    {},
    {0, 0, 4.0},
}};
constexpr PerAlgorithm kNetLatency = {{
    {5.0, 8.5, 14},
    {2.7, 4.0, 14},
    {0, 0, 31},
    {0, 0, 30},
    {0, 0, 18},
    {0, 0, 20.9},
    {0, 0, 14},
}};

// GB/s that LL reaches. On one node the row is the GPU's generation. On several nodes the row is 0, and 1
// with CPUs of AMD.
constexpr PerGeneration kLlMost = {{
    {39.0, 39.0, 20.4},
    {87.7, 22.5, 19.0},
    {141.0, 45.0, 35.0},
    {2 * 141.0, 2 * 45.0, 2 * 35.0},
}};

// GB/s of one channel.
constexpr PerGeneration kRingLl128Channel = {{
    {20.0, 20.0, 20.0},
    {20.0, 20.0, 20.0},
    {36.7, 36.7, 36.7},
    {40.0, 40.0, 40.0},
}};
constexpr PerGeneration kTreeLl128Channel = {{
    {20.0, 20.0, 20.0},
    {20.0, 20.0, 20.0},
    {36.7, 36.7, 29.0},
    {55.6, 31.67, 20.0},
}};
constexpr PerGeneration kTreeChannel = {{
    {26.5, 18.5, 10.0},
    {24.0, 23.6, 17.8},
    {38.7, 41.4, 36.0},
    {70.0, 42.8, 24.0},
}};
constexpr PerGeneration kNvlsTreeChannel = {{
    {26.5, 18.5, 10.0},
    {24.0, 23.6, 17.8},
    {0.0, 57.7, 45.5},
    {0.0, 96.0, 80.0},
}};
constexpr double kNvlsTreeChannelBefore2_30 = 43.8;  // 2.28.9 to 2.29.7: Blackwell, more than 2 nodes
constexpr NcclVersion kFasterNvlsTree{23003};
constexpr NcclVersion kOldestModel{22907};

// Share of the links that NVLS reaches, by generation.
constexpr std::array<float, 4> kNvlsEfficiency = {0.0F, 0.0F, 0.85F, 0.74F};

// Correction of a tree's bandwidth for 64 bytes times 2^index.
constexpr std::array<std::array<float, 24>, 3> kTreeCorrection = {{
    {1.0F, 1.0F, 1.0F, 1.0F, .9F, .8F, .7F, .7F,  .7F,  .7F,  .6F,  .5F,
     .4F,  .4F,  .5F,  .6F,  .7F, .8F, .9F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F},
    {1.0F, 1.0F, 1.0F, 1.0F, 1.0F, .9F, .8F, .8F, .8F, .7F,  .6F,  .6F,
     .6F,  .6F,  .6F,  .6F,  .8F,  .9F, .9F, .9F, .9F, 1.0F, 1.0F, 1.0F},
    {.9F, .9F, .9F, .9F, .9F, .9F, .9F, .8F, .7F, .6F, .6F, .5F,
     .5F, .5F, .5F, .6F, .7F, .8F, .7F, .7F, .8F, .9F, .9F, .9F},
}};

constexpr int kBlackwell = 100;     // compute capability 10.0
constexpr int kMostNvlsHeads = 32;  // NCCL_MAX_NVLS_ARITY

std::size_t index(Collective collective) { return static_cast<std::size_t>(collective); }
std::size_t index(Algorithm algorithm) { return static_cast<std::size_t>(algorithm); }
std::size_t index(Protocol protocol) { return static_cast<std::size_t>(protocol); }

bool gathers(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter;
}
bool hasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}

int log2Floor(std::size_t value) { return value == 0 ? -1 : static_cast<int>(std::bit_width(value)) - 1; }

// The computation for one communicator.
class Tuning {
 public:
  Tuning(const Communicator& its, const CommunicatorGraphs& graphs)
      : its_(its),
        graphs_(graphs),
        ranks_(its.ranks()),
        per_node_(static_cast<float>(ranks_) / static_cast<float>(its.nodes)),
        per_algorithm_(its.nccl.has(NcclRule::kModelPerAlgorithm)),
        generation_(its.min_capability >= kBlackwell ? 3
                    : its.min_capability >= 90       ? 2
                    : its.min_capability >= 80       ? 1
                                                     : 0),
        scale_(its.nodes <= 2 ? static_cast<std::size_t>(its.nodes - 1) : 2) {}

  // NCCL gives tree and ring the smaller number of channels of both (src/init.cc).
  int searchedChannels() const {
    return static_cast<int>(std::min(graphs_.of(topo::Algorithm::kTree).channels.size(),
                                     graphs_.of(topo::Algorithm::kRing).channels.size()));
  }

  // ncclTopoPostset in src/graph/connect.cc, without NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS.
  int channels() const {
    int channels = std::min(maxChannels(its_.nccl), 2 * searchedChannels());
    // Four channels of a kernel for one of the search: fewer than 8 ranks on a node reach the peak so.
    if (its_.min_capability >= 90 && its_.nodes > 1 && channels < 16 &&
        graphs_.of(topo::Algorithm::kRing).bandwidth_intra > 45.0F)
      channels *= 2;
    return channels;
  }

  Cost cost(Collective collective, Algorithm algorithm, Protocol protocol) const {
    if (!exists(collective, algorithm, protocol)) return {};
    Cost cost = bandwidth(collective, algorithm, protocol);
    cost.latency_us = latency(collective, algorithm, protocol);
    if (!allowed(algorithm, protocol)) cost.bandwidth = 0;
    return cost;
  }

 private:
  const ChannelGraph& graphOf(Algorithm algorithm) const { return tuning::graphOf(graphs_, algorithm); }
  int channelsOf(Algorithm algorithm) const {
    const bool nvls = algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree;
    if (!nvls) return searchedChannels();
    // NCCL searches the graph only if the driver supports multicast.
    return its_.nvls ? static_cast<int>(graphOf(algorithm).channels.size()) : 0;
  }

  bool patEnabled() const { return its_.min_capability >= 60 && its_.nodes == ranks_; }

  bool exists(Collective collective, Algorithm algorithm, Protocol protocol) const {
    if (hasRoot(collective) && algorithm != Algorithm::kRing) return false;
    switch (algorithm) {
      case Algorithm::kRing:
        return true;
      case Algorithm::kTree:
        return collective == Collective::kAllReduce;
      case Algorithm::kNvls:
        return protocol == Protocol::kSimple && channelsOf(algorithm) >= 2;
      case Algorithm::kNvlsTree:
        return protocol == Protocol::kSimple && channelsOf(algorithm) >= 2 &&
               collective == Collective::kAllReduce;
      case Algorithm::kPat:
        return protocol == Protocol::kSimple && gathers(collective) && patEnabled();
    }
    return false;
  }

  int steps(Collective collective) const {
    if (collective == Collective::kAllReduce) return 2 * (ranks_ - 1);
    return gathers(collective) ? ranks_ - 1 : ranks_;
  }

  float nvlsChannelBandwidth(Collective collective, Algorithm algorithm) const {
    const ChannelGraph& graph = graphOf(algorithm);
    const auto channels = static_cast<float>(channelsOf(algorithm));
    float intra = graph.bandwidth_intra * kNvlsEfficiency[generation_] * (channels - 1) / channels;
    if (collective == Collective::kAllReduce) intra *= 2.0F;  // it pipelines two operations
    else intra *= (per_node_ - 1) / per_node_;
    const bool tree = algorithm == Algorithm::kNvlsTree;
    const float inter = graph.bandwidth_inter * static_cast<float>(its_.nodes <= 2 && tree ? 2 : 1);
    double most = kNvlsTreeChannel[generation_][scale_];
    if (its_.nccl < kFasterNvlsTree && generation_ == 3 && scale_ == 2) most = kNvlsTreeChannelBefore2_30;
    return std::min({intra, inter, tree ? static_cast<float>(most) : std::numeric_limits<float>::max()});
  }

  // Replaces *bandwidth by `most` if that is less.
  static void limit(double bandwidth, double most, Bound bound, Cost& cost) {
    cost.bandwidth = static_cast<float>(std::min(bandwidth, most));
    if (most < bandwidth) cost.bound = bound;
  }

  // GB/s of a channel of a ring, a tree or PAT.
  float channelBandwidth(Algorithm algorithm) const {
    const ChannelGraph& graph = graphOf(algorithm);
    const float slower = std::min(graph.bandwidth_intra, graph.bandwidth_inter);
    const bool blackwell = per_algorithm_ && its_.min_capability >= kBlackwell;
    if (per_algorithm_ && algorithm == Algorithm::kPat) return slower;
    if (blackwell && algorithm == Algorithm::kTree) return slower;
    const int most = blackwell ? 1 : 2;  // nodes between which NCCL does not count the network
    return its_.nodes <= most ? graph.bandwidth_intra : graph.bandwidth_inter;
  }

  Cost bandwidth(Collective collective, Algorithm algorithm, Protocol protocol) const {
    const ChannelGraph& graph = graphOf(algorithm);
    const int channels = channelsOf(algorithm);
    const bool nvls = algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree;
    Cost cost;
    cost.bandwidth = static_cast<float>(channels) *
                     (nvls ? nvlsChannelBandwidth(collective, algorithm) : channelBandwidth(algorithm));
    // On several nodes the CPU counts, since it moves the lines of LL.
    const std::size_t ll_row = its_.nodes == 1 ? generation_ : its_.cpu_vendor == CpuVendor::kAmd ? 1 : 0;
    const double ll_most = kLlMost[ll_row][scale_];
    float& bus = cost.bandwidth;
    if (algorithm == Algorithm::kRing) {
      if (protocol == Protocol::kLl) limit(bus * .5, ll_most, Bound::kProtocol, cost);
      if (protocol == Protocol::kLl128)
        limit(bus * 0.92, channels * kRingLl128Channel[generation_][scale_], Bound::kChannel, cost);
    }
    if (algorithm == Algorithm::kTree) {
      limit(bus * .92, channels * kTreeChannel[generation_][scale_], Bound::kChannel, cost);
      if (protocol == Protocol::kLl) limit(bus * 1.0 / 3.8, ll_most, Bound::kProtocol, cost);
      if (protocol == Protocol::kLl128)
        limit(bus * (its_.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
              channels * kTreeLl128Channel[generation_][scale_], Bound::kChannel, cost);
      if (graph.pattern == Pattern::kTree) bus = static_cast<float>(bus * .85);
    }
    if (algorithm == Algorithm::kPat) bus = static_cast<float>(bus * .75);
    // NVLS over several nodes needs CollNet.
    if (algorithm == Algorithm::kNvls && its_.nodes > 1) bus = 0;
    if (algorithm == Algorithm::kNvlsTree && its_.nodes == 1) bus = 0;
    if (algorithm == Algorithm::kRing || !gathers(collective)) {
      if (algorithm == Algorithm::kTree) bus *= 0.5F;
      else if (per_algorithm_) bus = bus * static_cast<float>(ranks_) / static_cast<float>(steps(collective));
      else bus *= static_cast<float>((1.0 * ranks_) / steps(collective));
    }
    return cost;
  }

  // Microseconds in which the CPU hands one message to the NIC.
  float netOverhead() const {
    return its_.cpu_arch == CpuArch::kX86 && its_.cpu_vendor == CpuVendor::kAmd ? 2.0F : 1.0F;
  }

  float latency(Collective collective, Algorithm algorithm, Protocol protocol) const {
    const std::size_t a = index(algorithm);
    const std::size_t p = index(protocol);
    const ChannelGraph& graph = graphOf(algorithm);
    const PerAlgorithm& intra_table = graph.type_intra == PathType::kNvl ? kNvlinkLatency : kPciLatency;
    auto inside = [&](std::size_t which) {
      // On POWER a tree's step over PCIe costs as much as a ring's, up to 2.30.
      const bool power = !per_algorithm_ && its_.cpu_arch == CpuArch::kPower && &intra_table == &kPciLatency;
      const bool tree = which == index(Algorithm::kTree) && protocol == Protocol::kSimple;
      return static_cast<float>(intra_table[power && tree ? index(Algorithm::kRing) : which][p]);
    };
    float intra = inside(a);
    // One rank on a node hides nothing: a tree's latency counts, from 2.31 on for rings alone.
    const bool exposed = per_node_ == 1 && (!per_algorithm_ || algorithm == Algorithm::kRing);
    auto inter = static_cast<float>(kNetLatency[exposed ? index(Algorithm::kTree) : a][p]);
    inter += graph.latency_inter;
    if (protocol == Protocol::kSimple && !(per_algorithm_ && algorithm == Algorithm::kPat))
      inter += graph.latency_inter;  // the flush
    auto latency = static_cast<float>(kBaseLatency[a][p]);
    const int nodes = its_.nodes;
    const auto hops = static_cast<float>(log2Floor(static_cast<std::size_t>(nodes)));
    switch (algorithm) {
      case Algorithm::kRing:
        if (hasRoot(collective)) {
          const auto of = [&](std::size_t which) {
            return nodes == 1 ? inside(which) : static_cast<float>(kNetLatency[which][p]);
          };
          if (graph.same_channels) return latency + of(a);
          const float step = of(protocol == Protocol::kSimple ? index(Algorithm::kTree) : a);
          return latency + static_cast<float>(steps(collective)) * step;
        } else {
          float overhead = nodes > 1 ? netOverhead() : 0.0F;
          if (protocol == Protocol::kSimple) overhead *= 3;
          intra = std::max(intra, overhead);
          const int between = nodes == 1                             ? 0
                              : collective == Collective::kAllReduce ? 2 * (nodes - 1)
                                                                     : nodes - 1;
          return latency + (static_cast<float>(steps(collective) - between) * intra +
                            static_cast<float>(between) * inter);
        }
      case Algorithm::kTree:
        return latency + 2 * (static_cast<float>(ranks_ / nodes - 1) * intra + hops * inter);
      case Algorithm::kNvls:
        return nodes > 1 ? intra + inter : intra;
      case Algorithm::kNvlsTree:
        return latency + (intra + 2 * hops * inter);
      case Algorithm::kPat:
        return static_cast<float>(latency + (hops * (inter / 3.5) + ranks_ * 2.8));
    }
    return latency;
  }

  // LL128 is safe only where 128 bytes arrive at once.
  bool allowed(Algorithm algorithm, Protocol protocol) const {
    if (protocol != Protocol::kLl128) return true;
    const ChannelGraph& graph = graphOf(algorithm);
    const PathType farthest = its_.min_capability >= 90 ? PathType::kPxn : PathType::kPxb;
    const bool mixed = its_.min_capability != its_.max_capability;
    // From 2.30 on GPUs of Hopper and later may be mixed.
    const bool mixing_is_safe = its_.nccl.has(NcclRule::kMixedGpusLl128) && its_.min_capability >= 90;
    return graph.type_inter <= farthest && graph.type_intra <= PathType::kNvb && (!mixed || mixing_is_safe) &&
           its_.min_capability >= 70;
  }

  const Communicator& its_;
  const CommunicatorGraphs& graphs_;
  int ranks_;
  float per_node_;
  bool per_algorithm_;      // the model of 2.31 and newer
  std::size_t generation_;  // of the GPUs
  std::size_t scale_;       // 1 node, 2 nodes, more
};

}  // namespace

const char* nameOf(Collective collective) {
  constexpr std::array kNames = {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
  return kNames[index(collective)];
}
const char* nameOf(Algorithm algorithm) {
  constexpr std::array kNames = {"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return kNames[index(algorithm)];
}
const char* nameOf(Protocol protocol) {
  constexpr std::array kNames = {"LL", "LL128", "Simple"};
  return kNames[index(protocol)];
}

const ChannelGraph& graphOf(const CommunicatorGraphs& graphs, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return graphs.of(topo::Algorithm::kRing);
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
      return graphs.of(topo::Algorithm::kNvls);
    case Algorithm::kTree:
    case Algorithm::kPat:
      break;
  }
  return graphs.of(topo::Algorithm::kTree);
}

NcclVersion modelRelease(NcclVersion version) { return std::max(version, kOldestModel); }

CostModel::CostModel(const Communicator& communicator, const CommunicatorGraphs& graphs)
    : its_(communicator),
      nvlink_plateau_(its_.nccl.has(NcclRule::kModelPerAlgorithm) && its_.min_capability >= kBlackwell &&
                      graphs.of(topo::Algorithm::kRing).type_intra == PathType::kNvl) {
  const Tuning tuning(its_, graphs);
  channels_ = tuning.channels();
  if (its_.ranks() < 2 || channels_ == 0) return;
  for (std::size_t collective = 0; collective < kCollectives; ++collective)
    for (const Algorithm algorithm : kModelled)
      for (std::size_t protocol = 0; protocol < kProtocols; ++protocol)
        at(static_cast<Collective>(collective), algorithm, static_cast<Protocol>(protocol)) =
            tuning.cost(static_cast<Collective>(collective), algorithm, static_cast<Protocol>(protocol));
}

Cost& CostModel::at(Collective collective, Algorithm algorithm, Protocol protocol) {
  return costs_[index(collective)][index(algorithm)][index(protocol)];
}
const Cost& CostModel::cost(Collective collective, Algorithm algorithm, Protocol protocol) const {
  return costs_[index(collective)][index(algorithm)][index(protocol)];
}

namespace {

// Does NCCL correct the bandwidth of NVLSTree for 64 bytes times 2^size?
bool correctsNvlsTree(const Communicator& its, int size) {
  constexpr float kFastNet = 96;  // GB/s
  constexpr int kGpusOfTray = 4;
  if (size >= 24 || its.min_capability < kBlackwell) return false;
  if (its.cpu_arch == CpuArch::kX86) return true;
  return its.nccl.has(NcclRule::kModelPerAlgorithm) && its.cpu_arch == CpuArch::kArm &&
         its.min_net_bandwidth >= kFastNet && its.ranks_per_node == kGpusOfTray &&
         (size < 23 || its.nodes > 2);
}

}  // namespace

// Gathers go over NVLS where no more ranks are on a node than it has heads (updateCollCostTable() in
// src/enqueue.cc, since 2.27). NCCL's table of costs has a row for it all the same.
bool CostModel::offers(Collective collective, Algorithm algorithm) const {
  return algorithm != Algorithm::kNvls || !gathers(collective) || its_.ranks_per_node <= kMostNvlsHeads;
}

std::optional<float> CostModel::timeUs(Collective collective, Algorithm algorithm, Protocol protocol,
                                       std::size_t bytes) const {
  const Cost& its = cost(collective, algorithm, protocol);
  if (its.bandwidth == 0 || !offers(collective, algorithm)) return std::nullopt;
  float bandwidth = its.bandwidth;
  float latency = its.latency_us;
  const int size = log2Floor(bytes >> 6);
  const bool all_reduce = collective == Collective::kAllReduce;
  const bool corrected = (algorithm == Algorithm::kTree && size < 23) ||
                         (algorithm == Algorithm::kNvlsTree && correctsNvlsTree(its_, size));
  if (all_reduce && corrected && size >= 0)
    bandwidth *= kTreeCorrection[index(protocol)][static_cast<std::size_t>(size)];
  // The plateau of a ring.
  const bool plateau = its_.nodes > 1 ? all_reduce : nvlink_plateau_ && gathers(collective);
  if (algorithm == Algorithm::kRing && protocol == Protocol::kSimple && plateau &&
      bytes / static_cast<std::size_t>(channels_ * its_.ranks()) >= 64)
    latency = static_cast<float>(latency * (its_.min_capability < 80 ? 1.9 : 1.4));
  return latency + static_cast<float>(bytes) / (1000 * bandwidth);
}

std::optional<Choice> CostModel::choose(Collective collective, std::size_t bytes) const {
  const bool last = its_.nccl.has(NcclRule::kModelPerAlgorithm);
  std::optional<Choice> best;
  for (const Algorithm algorithm : kModelled) {
    for (std::size_t p = 0; p < kProtocols; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      const auto time = timeUs(collective, algorithm, protocol, bytes);
      if (time && (!best || *time < best->time_us || (last && *time == best->time_us)))
        best = Choice{algorithm, protocol, *time};
    }
  }
  return best;
}

std::optional<Choice> CostModel::fastest(Collective collective) const {
  std::optional<Choice> best;
  for (const Algorithm algorithm : kModelled) {
    if (!offers(collective, algorithm)) continue;
    for (std::size_t p = 0; p < kProtocols; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      const float bandwidth = cost(collective, algorithm, protocol).bandwidth;
      if (bandwidth > 0 && (!best || bandwidth > cost(collective, best->algorithm, best->protocol).bandwidth))
        best = Choice{algorithm, protocol, 0};
    }
  }
  return best;
}

double busFactor(Collective collective, int ranks) {
  const double all = ranks;
  if (collective == Collective::kAllReduce) return 2 * (all - 1) / all;
  return gathers(collective) ? (all - 1) / all : 1;
}

}  // namespace railwise::topo::tuning
