#include "topo/search/links/routes.h"

#include <algorithm>
#include <functional>

namespace railwise::topo {
namespace {

// GPUs before Ampere send a request for each read over the link back.
constexpr int kReadsCheaply = 80;
constexpr float kShareOfRequests = 0.125F;

}  // namespace

Routes::Routes(const Paths& paths) : paths_(paths), graph_(paths.graph()) {
  int32_t links = 0;
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    first_link_.push_back(links);
    links += static_cast<int32_t>(graph_.nodes()[i].links.size());
    if (!graph_.nodes()[i].links.empty()) by_address_.push_back(static_cast<NodeIndex>(i));
  }
  std::sort(by_address_.begin(), by_address_.end(), [this](NodeIndex a, NodeIndex b) {
    return std::less<>{}(graph_.node(a).links.data(), graph_.node(b).links.data());
  });
  for (const auto& [from, to] : {std::pair{NodeType::kGpu, NodeType::kGpu},
                                 {NodeType::kGpu, NodeType::kNet},
                                 {NodeType::kNet, NodeType::kGpu},
                                 {NodeType::kGpu, NodeType::kNvs},
                                 {NodeType::kNvs, NodeType::kGpu}}) {
    const auto columns = static_cast<std::size_t>(graph_.count(to));
    tables_[slot(from)][slot(to)] = {
        columns, std::vector<Route>(static_cast<std::size_t>(graph_.count(from)) * columns)};
  }
}

void Routes::make(Route& route, NodeType from, int from_index, NodeType to, int to_index) {
  const Path& path = paths_.get(from, from_index, to, to_index);
  route.type = path.type;
  route.return_type = paths_.get(to, to_index, from, from_index).type;
  route.first = static_cast<int>(steps_.size());
  NodeIndex at = graph_.at(from, from_index);
  for (const Link* link : paths_.links(path)) {
    const Node& next = graph_.node(link->to);
    RouteStep step{.link = numberOf(link), .pci = link->type == LinkType::kPci};
    if (next.type == graph_.deviceType() && next.sm < kReadsCheaply && from != NodeType::kGpu)
      step.back_share = kShareOfRequests;
    if (next.type == NodeType::kCpu && next.arch == CpuArch::kPower && link->type == LinkType::kNvl)
      step.back_share = 1;
    if (step.back_share > 0) step.back = linkBack(link->to, at, link->type);
    if (step.back < 0) step.back_share = 0;
    if (next.type == NodeType::kCpu && path.type == PathType::kPhb && from == NodeType::kGpu &&
        next.arch == CpuArch::kX86 && next.vendor == CpuVendor::kIntel)
      route.intel = true;
    steps_.push_back(step);
    at = link->to;
  }
  route.steps = static_cast<int>(steps_.size()) - route.first;
}

int32_t Routes::numberOf(const Link* link) const {
  const auto after = std::upper_bound(
      by_address_.begin(), by_address_.end(), link,
      [this](const Link* one, NodeIndex node) { return std::less<>{}(one, graph_.node(node).links.data()); });
  const NodeIndex owner = *std::prev(after);
  return first_link_[static_cast<std::size_t>(owner)] +
         static_cast<int32_t>(link - graph_.node(owner).links.data());
}

int32_t Routes::linkBack(NodeIndex from, NodeIndex to, LinkType type) const {
  for (const Link& link : graph_.node(from).links)
    if (link.to == to && link.type == type) return numberOf(&link);
  return -1;
}

Routes::LinkPair Routes::pciLinkOf(int gpu) const {
  const NodeIndex own = graph_.at(NodeType::kGpu, gpu);
  const NodeIndex parent = graph_.node(own).parent;
  const NodeIndex device = parent == kNoNode ? own : parent;
  for (const Link& up : graph_.node(device).links) {
    if (up.type != LinkType::kPci) continue;
    for (const Link& down : graph_.node(up.to).links)
      if (down.to == device) return {numberOf(&up), numberOf(&down)};
  }
  return {};
}

std::pair<NodeIndex, NodeIndex> Routes::endsOf(int32_t link) const {
  const auto after = std::upper_bound(first_link_.begin(), first_link_.end(), link);
  const auto from = static_cast<NodeIndex>(after - first_link_.begin() - 1);
  const int32_t first = first_link_[static_cast<std::size_t>(from)];
  return {from, graph_.node(from).links[static_cast<std::size_t>(link - first)].to};
}

std::vector<float> Routes::bandwidths() const {
  std::vector<float> bandwidths;
  for (const Node& node : graph_.nodes())
    for (const Link& link : node.links) bandwidths.push_back(link.bandwidth);
  return bandwidths;
}

}  // namespace railwise::topo
