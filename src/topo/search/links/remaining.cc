#include "topo/search/links/remaining.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "topo/graph/constants.h"

namespace railwise::topo {
namespace {

// Links inside of a device always have enough: how much does not count.
constexpr int32_t kPlenty = static_cast<int32_t>(kLocalBandwidth * kThousandths) / 2;

uint64_t markOf(std::size_t link, int32_t left) {
  return left >= kPlenty ? 0 : mixed(link << 32U, static_cast<uint32_t>(left));
}

// roundf(), without a call: numbers of this size have no fraction.
constexpr float kWholeNumbers = 8388608;
float rounded(float number) {
  if (!(std::fabs(number) < kWholeNumbers)) return number;
  const auto whole = static_cast<float>(static_cast<int>(number));
  const float rest = number - whole;
  if (rest >= 0.5F) return whole + 1;
  return rest <= -0.5F ? whole - 1 : whole;
}

// Bandwidths are kept to a thousandth, as NCCL keeps them: taking and giving back can change the last digit.
void subtract(float& from, float bandwidth) {
  from = rounded((from - bandwidth) * kThousandths) / kThousandths;
}

// Links inside of a device always have enough.
constexpr float kEnough = kLocalBandwidth / 2;

uint64_t markOf(uint64_t place, float bandwidth) {
  return mixed(place << 32U, std::bit_cast<uint32_t>(bandwidth));
}

// A float has too few digits for thousandths of more.
constexpr float kMostThousandths = 1024;

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

Remaining::Remaining(const Routes& routes, const Graph& graph)
    : links_(routes.bandwidths()), used_(static_cast<std::size_t>(graph.count(NodeType::kGpu))) {
  for (int g = 0; g < graph.count(NodeType::kGpu); ++g) pci_.push_back(routes.pciLinkOf(g));
  const auto& nets = graph.of(NodeType::kNet);
  for (const NodeIndex net : nets) {
    const Node& node = graph.node(net);
    nets_.push_back(node.bandwidth);
    auto& sharers = port_.emplace_back();
    for (std::size_t i = 0; i < nets.size(); ++i)
      if (graph.node(nets[i]).guid == node.guid && graph.node(nets[i]).port == node.port)
        sharers.push_back(static_cast<int>(i));
  }
}

bool Remaining::take(const Routes& routes, const Route& route, float bandwidth) {
  if (exact_) return thousandths_.take(routes, route, bandwidth);
  const auto steps = routes.steps(route);
  const std::size_t done = walk(steps, route.intel, bandwidth);
  if (done == steps.size()) return true;
  walk(steps.first(done), route.intel, -bandwidth);
  return false;
}

std::size_t Remaining::walk(std::span<const RouteStep> steps, bool intel, float bandwidth) {
  const float pci_bandwidth = onPci(intel, bandwidth);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const RouteStep& step = steps[i];
    const float forward = step.pci ? pci_bandwidth : bandwidth;
    const float backward = forward * step.back_share;
    float& link = links_[static_cast<std::size_t>(step.link)];
    if (link < forward) return i;
    if (backward != 0) {
      float& back = links_[static_cast<std::size_t>(step.back)];
      if (back < backward) return i;
      subtract(link, forward);
      subtract(back, backward);
    } else {
      subtract(link, forward);
    }
  }
  return steps.size();
}

uint64_t Remaining::fingerprint() const {
  if (exact_) return fingerprint_ + thousandths_.fingerprint();
  uint64_t number = fingerprint_;
  for (std::size_t link = 0; link < links_.size(); ++link)
    if (links_[link] < kEnough) number += markOf(link, links_[link]);
  return number;
}

int Remaining::pciBandwidth(int gpu) const {
  const Routes::LinkPair& link = pci_[static_cast<std::size_t>(gpu)];
  if (link.up < 0) return -1;
  if (exact_) return std::min(thousandths_.wholeOf(link.up), thousandths_.wholeOf(link.down));
  return static_cast<int>(
      std::min(links_[static_cast<std::size_t>(link.up)], links_[static_cast<std::size_t>(link.down)]));
}

Remaining::Lack Remaining::lackOf(const Routes& routes, const Route& route, float bandwidth) const {
  Remaining copy = *this;
  const auto steps = routes.steps(route);
  const std::size_t done = copy.walk(steps, route.intel, bandwidth);
  if (done == steps.size()) return {};
  const RouteStep& step = steps[done];
  const float forward = step.pci ? onPci(route.intel, bandwidth) : bandwidth;
  const float left = copy.links_[static_cast<std::size_t>(step.link)];
  if (left < forward) return {step.link, forward, left};
  return {step.back, forward * step.back_share, copy.links_[static_cast<std::size_t>(step.back)]};
}

bool Remaining::isRounded(float least) const {
  least -= 1 / kThousandths;  // a link with as many thousandths as an amount counts
  return std::all_of(links_.begin(), links_.end(), [least](float link) {
    return link >= kEnough || link < least ||
           (link < kMostThousandths && rounded(link * kThousandths) / kThousandths == link);
  });
}

bool Remaining::restores(const Routes& routes, float bandwidth) const {
  float least = bandwidth;
  for (const bool intel : {false, true})
    for (const float share : {1.0F, routes.shareOfRequests()}) {
      const float amount = onPci(intel, bandwidth) * share;
      if (amount == 0) continue;
      if (!keepsThousandths(amount)) return false;
      least = std::min(least, amount);
    }
  return isRounded(least) && netsAreBinary();
}

// What a NIC has is taken in whole GB/s, without rounding. That is exact if the NIC has as much; of several
// NICs with one port one can have less.
bool Remaining::netsAreBinary() const {
  constexpr float kBinaryDigits = 1024;
  for (std::size_t net = 0; net < nets_.size(); ++net) {
    const float digits = nets_[net] * kBinaryDigits;
    if (port_[net].size() > 1 && !(digits < kWholeNumbers && digits == std::floor(digits))) return false;
  }
  return true;
}

void Remaining::beginExact() {
  exact_ = true;
  thousandths_.assign(links_);
}

void Remaining::takeFromPort(int net, float bandwidth) {
  for (const int sharer : port_[static_cast<std::size_t>(net)]) {
    const auto place = static_cast<std::size_t>(sharer);
    const float left = nets_[place] - bandwidth;
    fingerprint_ += mixed(kNets | place << 32U, std::bit_cast<uint32_t>(left)) -
                    mixed(kNets | place << 32U, std::bit_cast<uint32_t>(nets_[place]));
    nets_[place] = left;
  }
}

}  // namespace railwise::topo
