// What one attempt of the search looks for, and the channels that an attempt has found. Plain values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "topo/search/channel_graph.h"

namespace railwise::topo {

// The limits of one attempt. Between attempts NCCL relaxes them one by one.
struct SearchLimits {
  Pattern pattern = Pattern::kRing;
  int cross_nic = 0;
  bool collnet = false;        // only NICs that the CollNet plugin can use
  bool same_channels = false;  // all channels have one order of GPUs
  int min_channels = 1;
  int max_channels = 1;
  float bandwidth_intra = 0;
  float bandwidth_inter = 0;
  PathType type_intra = PathType::kLoc;
  PathType type_inter = PathType::kPix;

  bool operator==(const SearchLimits&) const = default;
};

// Channels under the limits with which they were found. GPUs and NETs are indices; of nodes with equal rank
// or id, the first one.
class ChannelSet {
 public:
  ChannelSet(int gpus, int most_channels)
      : gpus_(static_cast<std::size_t>(gpus)),
        order_(gpus_ * static_cast<std::size_t>(most_channels)),
        nets_(2 * static_cast<std::size_t>(most_channels), -1) {}

  SearchLimits limits;
  int count = 0;  // channels that are complete
  // The number of links that the channels use. It can drift: NCCL adds fractions to a whole number.
  int hops = 0;
  float latency = 0;  // microseconds of the NIC that was tried last

  float bandwidthIntra() const { return static_cast<float>(count) * limits.bandwidth_intra; }
  float bandwidthInter() const { return static_cast<float>(count) * limits.bandwidth_inter; }

  int& gpu(int channel, int step) { return order_[place(channel, step)]; }
  int gpu(int channel, int step) const { return order_[place(channel, step)]; }
  int& netIn(int channel) { return nets_[2 * static_cast<std::size_t>(channel)]; }
  int netIn(int channel) const { return nets_[2 * static_cast<std::size_t>(channel)]; }
  int& netOut(int channel) { return nets_[2 * static_cast<std::size_t>(channel) + 1]; }
  int netOut(int channel) const { return nets_[2 * static_cast<std::size_t>(channel) + 1]; }

  // Becomes a copy of `other`, without its unused room.
  void take(const ChannelSet& other) {
    limits = other.limits;
    count = other.count;
    hops = other.hops;
    latency = other.latency;
    const auto channels = static_cast<std::ptrdiff_t>(other.count);
    std::copy_n(other.order_.begin(), channels * static_cast<std::ptrdiff_t>(gpus_), order_.begin());
    std::copy_n(other.nets_.begin(), channels * 2, nets_.begin());
  }

 private:
  std::size_t place(int channel, int step) const {
    return static_cast<std::size_t>(channel) * gpus_ + static_cast<std::size_t>(step);
  }

  std::size_t gpus_;
  std::vector<int> order_;
  std::vector<int> nets_;
};

}  // namespace railwise::topo
