#include "topo/search/links/remaining.h"

#include <algorithm>
#include <cmath>

#include "topo/graph/constants.h"

namespace railwise::topo {
namespace {

// Bandwidths are kept to a thousandth, as NCCL keeps them.
constexpr float kThousandths = 1000;

// Intel's root complexes cut GPU traffic into small packets, whose headers need bandwidth.
constexpr float onPci(bool intel, float bandwidth) { return intel ? bandwidth * 6 / 5 : bandwidth; }

// roundf(), without a call: numbers of this size have no fraction.
constexpr float kWholeNumbers = 8388608;
float rounded(float number) {
  if (!(std::fabs(number) < kWholeNumbers)) return number;
  const auto whole = static_cast<float>(static_cast<int>(number));
  const float rest = number - whole;
  if (rest >= 0.5F) return whole + 1;
  return rest <= -0.5F ? whole - 1 : whole;
}

// Taking and giving back can change the last digit.
void subtract(float& from, float bandwidth) {
  from = rounded((from - bandwidth) * kThousandths) / kThousandths;
}

// Links inside of a device always have enough.
constexpr float kEnough = kLocalBandwidth / 2;

}  // namespace

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

bool Remaining::operator==(const Remaining& other) const {
  const auto alike = [](float a, float b) { return a == b || (a >= kEnough && b >= kEnough); };
  return std::equal(links_.begin(), links_.end(), other.links_.begin(), alike) && nets_ == other.nets_ &&
         used_ == other.used_;
}

int Remaining::pciBandwidth(int gpu) const {
  const Routes::LinkPair& link = pci_[static_cast<std::size_t>(gpu)];
  if (link.up < 0) return -1;
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

void Remaining::takeFromPort(int net, float bandwidth) {
  for (const int sharer : port_[static_cast<std::size_t>(net)])
    nets_[static_cast<std::size_t>(sharer)] -= bandwidth;
}

}  // namespace railwise::topo
