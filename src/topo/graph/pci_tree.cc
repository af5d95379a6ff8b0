#include "topo/graph/pci_tree.h"

#include <algorithm>

#include "topo/graph/constants.h"

namespace railwise::topo {

NodeIndex PciTree::switchOf(int64_t id) const {
  const int index = graph_.indexOf(NodeType::kPci, id);
  return index < 0 ? kNoNode : graph_.of(NodeType::kPci)[static_cast<std::size_t>(index)];
}

// ncclTopoFlattenBcmSwitches. Broadcom's Gen4 and Gen5 switches appear as two levels of switches, but carry
// full bandwidth between them.
bool PciTree::flattenSwitches() {
  for (int s = 0; s < graph_.count(NodeType::kPci); ++s) {
    const NodeIndex top = graph_.of(NodeType::kPci)[static_cast<std::size_t>(s)];
    const int generation = broadcomGeneration(at(top).pci_device, 0);
    if (generation == 0 || (generation == 5 && !gen5_)) continue;
    if (!flattenSwitch(top, generation)) return false;
    s = -1;
  }
  return true;
}

bool PciTree::flattenSwitch(NodeIndex top, int generation) {
  std::vector<int64_t> subs;
  for (std::size_t i = 0; i < at(top).links.size();) {
    const Node& sub = at(at(top).links[i].to);
    if (sub.type != NodeType::kPci || broadcomGeneration(sub.pci_device, 1) != generation) {
      ++i;
      continue;
    }
    subs.push_back(sub.id);
    takeOut(top, i);
  }
  for (const int64_t id : subs) {
    const NodeIndex sub = switchOf(id);
    if (sub == kNoNode || sub == top) {
      error_.text = file_ + ": two PCIe switches have the same busid " + at(top).busid;
      return false;
    }
    moveLinks(sub, top);
    // NCCL continues with the node that is now at the same place in its array. If the inner switch was before
    // the outer one, that is a different node.
    const int place = at(top).index;
    removeSwitch(sub);
    if (place >= graph_.count(NodeType::kPci)) return true;
    top = graph_.of(NodeType::kPci)[static_cast<std::size_t>(place)];
  }
  at(top).pci_device |= 0xffff;  // so that this switch is not flattened again
  return true;
}

void PciTree::moveLinks(NodeIndex sub, NodeIndex top) {
  for (const Link& link : at(sub).links) {
    if (link.to == top) continue;
    at(top).links.push_back(link);
    auto& left = leftovers(top);
    if (!left.empty()) left.erase(left.begin());
    for (Link& back : at(link.to).links) {
      if (back.to != sub) continue;
      back.to = top;
      break;
    }
  }
}

std::vector<PciTree::Leftover>& PciTree::leftovers(NodeIndex node) {
  leftovers_.resize(graph_.nodes().size());
  return leftovers_[static_cast<std::size_t>(node)];
}

// NCCL moves the links that follow by one place, so the last link is there twice: in its new place and behind
// the end.
void PciTree::takeOut(NodeIndex node, std::size_t i) {
  auto& links = at(node).links;
  auto& left = leftovers(node);
  left.insert(left.begin(), leftoverOf(links.back()));
  links.erase(links.begin() + static_cast<std::ptrdiff_t>(i));
}

void PciTree::removeSwitch(NodeIndex gone) {
  for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
    const auto node = static_cast<NodeIndex>(n);
    for (std::size_t i = 0; node != gone && i < at(node).links.size();) {
      if (at(node).links[i].to == gone) {
        takeOut(node, i);
      } else {
        ++i;
      }
    }
  }
  leftovers(gone).clear();
  leftovers_.erase(leftovers_.begin() + gone);
  graph_.remove(gone);
}

// ncclTopoSort: puts the link to the parent last in every node of the PCI tree.
bool PciTree::sortBelow(NodeIndex node, NodeIndex up) {
  if (up != kNoNode && !(leftovers(node).empty() ? moveLast(node, up) : moveLastAmongLeftovers(node, up))) {
    error_.text = file_ + ": NCCL loses the links of the PCIe switch " + at(node).busid +
                  " when it merges the two levels of a Broadcom switch, and fails its init or crashes: "
                  "leave the inner "
                  "switches without devices out of the file";
    return false;
  }
  for (std::size_t i = 0; i < at(node).links.size(); ++i) {
    const Link link = at(node).links[i];
    if (link.type == LinkType::kPci && link.to != up && !sortBelow(link.to, node)) return false;
  }
  return true;
}

bool PciTree::moveLast(NodeIndex node, NodeIndex up) {
  auto& links = at(node).links;
  const auto way_up =
      std::find_if(links.begin(), links.end(), [up](const Link& link) { return link.to == up; });
  if (way_up == links.end()) return false;
  std::rotate(way_up, way_up + 1, links.end());
  return true;
}

// NCCL looks for the empty place behind the array and does not use the number of links. So the link to the
// parent ends up behind the leftovers, and leftovers become links of the node. They lead to the nodes that
// are now at their places.
bool PciTree::moveLastAmongLeftovers(NodeIndex node, NodeIndex up) {
  std::vector<Leftover> all;
  for (const Link& link : at(node).links) all.push_back(leftoverOf(link));
  const auto& left = leftovers(node);
  all.insert(all.end(), left.begin(), left.end());
  const auto way_up = std::find_if(all.begin(), all.end(), [&](const Leftover& entry) {
    return entry.type == at(up).type && entry.place == at(up).index;
  });
  if (way_up == all.end()) return false;
  std::rotate(way_up, way_up + 1, all.end());
  for (std::size_t i = 0; i < at(node).links.size(); ++i) {
    const auto& places = graph_.of(all[i].type);
    if (all[i].place >= static_cast<int>(places.size())) return false;
    at(node).links[i] = all[i].link;
    at(node).links[i].to = places[static_cast<std::size_t>(all[i].place)];
  }
  return true;
}

bool PciTree::sortLinks() {
  for (const NodeIndex cpu : graph_.of(NodeType::kCpu))
    if (!sortBelow(cpu, kNoNode)) return false;
  return true;
}

}  // namespace railwise::topo
