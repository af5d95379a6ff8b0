// What the channels found so far leave: the bandwidth of each link and of each NIC, and which GPUs a channel
// has. It belongs to one communicator and outlives the search of one graph: NCCL does not give back
// everything that it took, and the next graph begins with what is left. One thread at a time.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "topo/search/links/routes.h"

namespace railwise::topo {

// What remains of each link in whole thousandths of a GB/s: as Remaining, without fractions and their
// rounding. It serves attempts that take only amounts which keepThousandths(). One thread at a time.

// Bandwidths are kept to a thousandth, as NCCL keeps them.
inline constexpr float kThousandths = 1000;

// Intel's root complexes cut GPU traffic into small packets, whose headers need bandwidth.
constexpr float onPci(bool intel, float bandwidth) { return intel ? bandwidth * 6 / 5 : bandwidth; }

// Does NCCL's rounding undo itself when this amount of GB/s is taken and given back? The errors of both float
// subtractions are at most 0.15 thousandths. They must not reach the middle between two thousandths.
bool keepsThousandths(float amount);

class Thousandths {
 public:
  // The bandwidths of all links in GB/s. They are whole thousandths, or less than each amount that is taken.
  void assign(const std::vector<float>& links);

  // As Remaining::take(). What was taken last must be given back first.
  bool take(const Routes& routes, const Route& route, float bandwidth) {
    const Amounts& amounts = amountsOf(std::fabs(bandwidth), routes.shareOfRequests());
    if (bandwidth >= 0) return takeAll(routes.steps(route), route, amounts);
    change(routes.steps(route), route.intel, amounts, 1);
    fingerprint_ = before_.back();
    before_.pop_back();
    return true;
  }

  // What a link has left, in whole GB/s.
  int wholeOf(int32_t link) const {
    return left_[static_cast<std::size_t>(link)] / static_cast<int>(kThousandths);
  }
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  // What one step takes from a link.
  struct Amount {
    int32_t least = 0;  // a link with less has too little
    int32_t taken = 0;
  };
  struct Amounts {
    float bandwidth = 0;
    std::array<std::array<Amount, 2>, 2> of;  // by Intel's PCIe, and by whether it is the share of requests
  };
  const Amounts& amountsOf(float bandwidth, float share_of_requests) {
    for (const Amounts& known : amounts_)
      if (known.bandwidth == bandwidth) return known;
    return addAmounts(bandwidth, share_of_requests);
  }
  static Amount amountOf(float bandwidth);
  const Amounts& addAmounts(float bandwidth, float share_of_requests);
  bool takeAll(std::span<const RouteStep> steps, const Route& route, const Amounts& amounts);
  void change(std::span<const RouteStep> steps, bool intel, const Amounts& amounts, int32_t sign);

  std::vector<int32_t> left_;
  std::vector<Amounts> amounts_;
  uint64_t fingerprint_ = 0;
  std::vector<uint64_t> before_;  // the fingerprints before all that was taken
};

// Numbers of 64 bits that stand for states of a search.

// Mixes a value into a number: each bit of both changes about half of all bits.
constexpr uint64_t mixed(uint64_t number, uint64_t value) {
  uint64_t bits = (number ^ value) * 0x9E3779B97F4A7C15U;
  bits ^= bits >> 32U;
  bits *= 0xD6E8FEB86659FD93U;
  return bits ^ bits >> 32U;
}

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
