// How many channels there can be at most at a speed, whatever the search tries. With it a search ends as soon
// as nothing can become better, and has NCCL's result without NCCL's steps. Immutable; thread-safe.
#pragma once

#include <vector>

#include "topo/search/channel_graph.h"
#include "topo/search/channel_search.h"

namespace railwise::topo {

// GB/s by which channels can enter the host at one NIC.
struct EntryBandwidths {
  float shared = 0;            // for all of them together
  std::vector<float> to_gpus;  // for those that enter at one GPU
};

class ChannelBound {
 public:
  explicit ChannelBound(SearchSpace& space);

  // True: attempts leave all bandwidths exactly as they were, so leaving some out changes nothing later. Not
  // so where NCCL's rounding or its lost bandwidths change them.
  bool attemptsLeaveNoTrace(Pattern pattern, const Remaining& remaining) const;

  // The most channels with these bandwidths in GB/s.
  int channels(Pattern pattern, float intra, float inter) const;

  // The fewest links that a channel can use.
  int hops(Pattern pattern) const;

 private:
  int byNics(float inter) const;
  int byGpus(Pattern pattern, float intra) const;

  const bool inter_;
  const int gpus_;
  const bool restores_;  // NCCL gives all bandwidth back
  std::vector<EntryBandwidths> nics_;
  std::vector<float> ports_;  // GB/s of each port, as NCCL counts it for all NETs of the port
  std::vector<std::vector<float>>
      gpus_links_;            // for each GPU: GB/s of the links by which it reaches other GPUs
  bool shared_gpus_ = false;  // several ranks on one GPU
  int gpu_hops_ = 0;          // fewest hops of a path between GPUs
  int in_hops_ = 0;           // from a NET to a GPU
  int out_hops_ = 0;
};

}  // namespace railwise::topo
