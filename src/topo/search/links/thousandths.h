// What remains of each link in whole thousandths of a GB/s: as Remaining, without fractions and their
// rounding. It serves attempts that take only amounts which keepThousandths(). One thread at a time.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "topo/search/links/routes.h"

namespace railwise::topo {

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

}  // namespace railwise::topo
