#include "topo/search/links/thousandths.h"

#include <algorithm>
#include <cmath>

#include "topo/graph/constants.h"
#include "topo/search/links/fingerprint.h"

namespace railwise::topo {
namespace {

// Links inside of a device always have enough: how much does not count.
constexpr int32_t kPlenty = static_cast<int32_t>(kLocalBandwidth * kThousandths) / 2;

uint64_t markOf(std::size_t link, int32_t left) {
  return left >= kPlenty ? 0 : mixed(link << 32U, static_cast<uint32_t>(left));
}

}  // namespace

bool keepsThousandths(float amount) {
  constexpr float kFarEnough = 0.2F;
  const float digits = amount * kThousandths;
  return std::fabs(digits - std::floor(digits) - 0.5F) > kFarEnough;
}

void Thousandths::assign(const std::vector<float>& links) {
  left_.clear();
  amounts_.clear();
  before_.clear();
  fingerprint_ = 0;
  for (const float bandwidth : links) {
    const float link = std::min(bandwidth, kLocalBandwidth);
    const float digits = link * kThousandths;
    const float near = std::round(digits);
    left_.push_back(static_cast<int32_t>(near / kThousandths == link ? near : std::floor(digits)));
    fingerprint_ += markOf(left_.size() - 1, left_.back());
  }
}

// NCCL compares floats: of an amount between two thousandths, or with the error of its last digit, a link can
// have as many thousandths and yet too little.
Thousandths::Amount Thousandths::amountOf(float bandwidth) {
  const float near = std::round(bandwidth * kThousandths);
  const auto taken = static_cast<int32_t>(near);
  return {near / kThousandths < bandwidth ? taken + 1 : taken, taken};
}

const Thousandths::Amounts& Thousandths::addAmounts(float bandwidth, float share_of_requests) {
  Amounts& amounts = amounts_.emplace_back();
  amounts.bandwidth = bandwidth;
  for (const bool intel : {false, true}) {
    const float whole = onPci(intel, bandwidth);
    amounts.of[intel ? 1 : 0] = {amountOf(whole), amountOf(whole * share_of_requests)};
  }
  return amounts;
}

bool Thousandths::takeAll(std::span<const RouteStep> steps, const Route& route, const Amounts& amounts) {
  const uint64_t before = fingerprint_;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const RouteStep& step = steps[i];
    const auto& of = amounts.of[step.pci && route.intel ? 1 : 0];
    if (left_[static_cast<std::size_t>(step.link)] < of[0].least ||
        (step.back >= 0 &&
         left_[static_cast<std::size_t>(step.back)] < of[step.back_share < 1 ? 1 : 0].least)) {
      if (!route.distinct) change(steps.first(i), route.intel, amounts, 1);
      fingerprint_ = before;
      return false;
    }
    if (!route.distinct) change(steps.subspan(i, 1), route.intel, amounts, -1);
  }
  if (route.distinct) change(steps, route.intel, amounts, -1);
  before_.push_back(before);
  return true;
}

void Thousandths::change(std::span<const RouteStep> steps, bool intel, const Amounts& amounts, int32_t sign) {
  const auto add = [this, sign](int32_t link, int32_t amount) {
    const auto at = static_cast<std::size_t>(link);
    const int32_t left = left_[at] + sign * amount;
    if (sign < 0) fingerprint_ += markOf(at, left) - markOf(at, left_[at]);
    left_[at] = left;
  };
  for (const RouteStep& step : steps) {
    const auto& of = amounts.of[step.pci && intel ? 1 : 0];
    add(step.link, of[0].taken);
    if (step.back >= 0) add(step.back, of[step.back_share < 1 ? 1 : 0].taken);
  }
}

}  // namespace railwise::topo
