// In which order the search tries GPUs and NICs. What depends on the paths alone is computed once, when it is
// first asked for. One thread at a time.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "topo/paths/paths.h"
#include "topo/search/channel_graph.h"
#include "topo/search/links/remaining.h"

namespace railwise::topo {

class Candidates {
 public:
  explicit Candidates(const Paths& paths);

  // The NETs for a channel of `gpu` (-1: for its beginning, of all GPUs): first those that NCCL prefers for
  // the GPU, then all within `farthest`. Null: the GPU reaches no NET, and NCCL gives up.
  const std::vector<int>* nets(int gpu, PathType farthest) {
    return listFor(gpu, static_cast<int>(farthest));
  }
  // Are all lists of nets() equal for these two types?
  bool equalNets(PathType one, PathType other);
  // The NETs that NCCL prefers for a GPU. Null: the GPU reaches no NET, and NCCL's init fails.
  const std::vector<int>* preferredNets(int gpu) { return listFor(gpu, kPreferred); }

  // The GPUs nearest to a NET.
  const std::vector<int>& gpusNear(int net);
  // No GPU reaches the NET.
  bool isolated(int net);

  // How the GPUs after `gpu` are sorted.
  enum class Towards {
    kGpus,     // by their paths from `gpu` alone
    kNet,      // the next GPU returns to the NET
    kLaterNet  // a later GPU returns to the NET: equal GPUs in reverse
  };
  // Appends to `gpus` the GPUs to try after `gpu`, without those that the channel has. `net`: where the
  // channel entered; not used for kGpus. The order towards a NET depends on what remains of the GPUs' PCIe
  // links.
  void next(int gpu, Towards towards, int net, Pattern pattern, const Remaining& remaining, int channel,
            std::vector<int>& gpus);

 private:
  struct Scored {
    int gpu = 0;
    int distance = 0;  // in the order of the GPUs, from the one that is asked about
    int hops = 0;
    int bandwidth = 0;
    int net_hops = 0;
    int net_bandwidth = 0;
  };

  static auto rank(const Scored& scored) {
    return std::tuple(-scored.net_bandwidth, scored.net_hops, -scored.bandwidth, scored.hops,
                      scored.distance);
  }
  void neighbours(int gpu, Pattern pattern, const Remaining& remaining, int channel,
                  std::vector<int>& gpus) const;
  static constexpr int kPreferred = -1;  // in place of a path type: no other NETs
  const std::vector<int>* listFor(int gpu, int farthest);
  bool connected(int from, int to) const;
  const std::vector<Scored>& scores(int gpu, int net);
  bool addPreferred(int gpu, std::vector<int>& nets) const;
  bool addPreferredByGpu(int gpu, std::vector<int>& nets) const;
  bool addPreferredByChannel(int gpu, std::vector<int>& nets) const;
  void addWithin(int farthest, int gpu, std::size_t most, std::vector<int>& nets) const;

  const Paths& paths_;
  const Graph& graph_;
  const int gpus_;
  const bool switched_;
  struct NetList {
    bool made = false;
    bool complete = false;
    std::vector<int> nets;
  };
  std::vector<NetList> nets_;                // by GPU (the first: all GPUs) and type
  std::vector<std::vector<Scored>> scores_;  // by GPU and NET (the first: no NET); sorted but for PCIe links
  struct Free {
    int gpu = 0;
    int net_bandwidth = 0;
    int pci_bandwidth = 0;
  };
  std::vector<Free> free_;  // of next(), between its calls only memory
  std::vector<std::optional<std::vector<int>>> near_;
};

}  // namespace railwise::topo
