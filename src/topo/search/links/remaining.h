// What the channels found so far leave: the bandwidth of each link and of each NIC, and which GPUs a channel
// has. It belongs to one communicator and outlives the search of one graph: NCCL does not give back
// everything that it took, and the next graph begins with what is left. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "topo/search/links/fingerprint.h"
#include "topo/search/links/routes.h"
#include "topo/search/links/thousandths.h"

namespace railwise::topo {

class Remaining {
 public:
  explicit Remaining(const Routes& routes, const Graph& graph);

  // Takes `bandwidth` (GB/s) from each link of a route; a negative bandwidth gives it back. False: a link has
  // too little, and the links before it got back what was taken.
  bool take(const Routes& routes, const Route& route, float bandwidth);

  // The first link of a route that has too little for `bandwidth`. Nothing is taken. link -1: there is none.
  struct Lack {
    int32_t link = -1;
    float needed = 0;
    float left = 0;
  };
  Lack lackOf(const Routes& routes, const Route& route, float bandwidth) const;

  // Takes bandwidth from a NIC and from all others that share its port.
  float ofNet(int net) const { return nets_[static_cast<std::size_t>(net)]; }
  void takeFromPort(int net, float bandwidth);

  // Equal numbers mean equal bandwidths, and equally many channels for each GPU, but for one chance in 2^64.
  // Between beginExact() and endExact() without counting anything again.
  uint64_t fingerprint() const;

  // Are all bandwidths whole thousandths? Bandwidths that are never too little, or less than `least`, do not
  // count.
  bool isRounded(float least = 0) const;

  // True if NCCL's rounding restores all bandwidths exactly when `bandwidth` is taken and given back on any
  // route.
  bool restores(const Routes& routes, float bandwidth) const;

  // Until endExact(), only bandwidths that are restored are taken, and all of them are given back. take()
  // then has NCCL's results without its roundings.
  void beginExact();
  void endExact() { exact_ = false; }

  // What remains of the PCIe link of a GPU, in the direction with less, in whole GB/s. -1: it has none.
  int pciBandwidth(int gpu) const;

  bool used(int gpu, int channel) const {
    return (used_[static_cast<std::size_t>(gpu)] >> channel & 1U) != 0;
  }
  void toggle(int gpu, int channel) {
    used_[static_cast<std::size_t>(gpu)] ^= uint64_t{1} << channel;
    const uint64_t mark = mixed(kGpus, static_cast<uint64_t>(gpu));
    fingerprint_ += used(gpu, channel) ? mark : -mark;
  }

 private:
  // Numbers from which the fingerprints of GPUs and NETs are mixed, so that they differ from those of links.
  static constexpr uint64_t kGpus = uint64_t{1} << 62U;
  static constexpr uint64_t kNets = uint64_t{1} << 63U;
  std::size_t walk(std::span<const RouteStep> steps, bool intel, float bandwidth);
  bool netsAreBinary() const;

  std::vector<float> links_;
  std::vector<float> nets_;
  std::vector<std::vector<int>> port_;  // for each NET: the NETs of its port
  std::vector<Routes::LinkPair> pci_;   // for each GPU: its PCIe link
  std::vector<uint64_t> used_;          // for each GPU: a bit for each channel
  bool exact_ = false;                  // thousandths_ are in use, not links_
  Thousandths thousandths_;
  uint64_t fingerprint_ = 0;  // of NETs and GPUs
};

}  // namespace railwise::topo
