// What the channels found so far leave: the bandwidth of each link and of each NIC, and which GPUs a channel
// has. It belongs to one communicator and outlives the search of one graph: NCCL does not give back
// everything that it took, and the next graph begins with what is left. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topo/search/links/routes.h"

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

  // True if both have equal bandwidths, and equally many channels for each GPU. Links inside of a device do
  // not count: they always have enough.
  bool operator==(const Remaining& other) const;

  // What remains of the PCIe link of a GPU, in the direction with less, in whole GB/s. -1: it has none.
  int pciBandwidth(int gpu) const;

  bool used(int gpu, int channel) const {
    return (used_[static_cast<std::size_t>(gpu)] >> channel & 1U) != 0;
  }
  void toggle(int gpu, int channel) { used_[static_cast<std::size_t>(gpu)] ^= uint64_t{1} << channel; }

 private:
  std::size_t walk(std::span<const RouteStep> steps, bool intel, float bandwidth);

  std::vector<float> links_;
  std::vector<float> nets_;
  std::vector<std::vector<int>> port_;  // for each NET: the NETs of its port
  std::vector<Routes::LinkPair> pci_;   // for each GPU: its PCIe link
  std::vector<uint64_t> used_;          // for each GPU: a bit for each channel
};

}  // namespace railwise::topo
