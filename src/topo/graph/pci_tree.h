// What NCCL does to the PCI tree of a graph after all nodes exist: it merges the two levels of Broadcom
// switches, and it puts the link to the parent last in every node. Both steps change NCCL's arrays in a way
// that can lose links. This class models that too, because NCCL's answers for such a machine, or its failing
// init, result from it. Used by builder.cc only; one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/graph/graph.h"

namespace railwise::topo {

class PciTree {
 public:
  // `file` is for messages. `gen5`: NCCL also knows Broadcom's Gen5 switches.
  PciTree(Graph& graph, const std::string& file, bool gen5) : graph_(graph), file_(file), gen5_(gen5) {}

  // Does what ncclTopoFlattenBcmSwitches does. False: see error().
  bool flattenSwitches();
  // Does what ncclTopoSortSystem does; call it after flattenSwitches(). False: NCCL's init would fail or NCCL
  // would crash; see error().
  bool sortLinks();
  const Error& error() const { return error_; }

 private:
  // A link that NCCL removed from a node's array of links. NCCL only shortens the array, so the entry stays
  // behind the end until another link overwrites it. In NCCL the entry is a pointer to a place in the array
  // of all nodes of a type, so `place` may hold another node by now.
  struct Leftover {
    NodeType type;
    int place;
    Link link;
  };

  Node& at(NodeIndex i) { return graph_.mutableNodes()[static_cast<std::size_t>(i)]; }
  NodeIndex switchOf(int64_t id) const;
  bool flattenSwitch(NodeIndex top, int generation);
  void moveLinks(NodeIndex sub, NodeIndex top);
  void takeOut(NodeIndex node, std::size_t link);
  void removeSwitch(NodeIndex gone);
  std::vector<Leftover>& leftovers(NodeIndex node);
  Leftover leftoverOf(const Link& link) { return {at(link.to).type, at(link.to).index, link}; }
  bool sortBelow(NodeIndex node, NodeIndex up);
  bool moveLast(NodeIndex node, NodeIndex up);
  bool moveLastAmongLeftovers(NodeIndex node, NodeIndex up);

  Graph& graph_;
  const std::string& file_;
  const bool gen5_;
  std::vector<std::vector<Leftover>> leftovers_;  // by NodeIndex
  Error error_;
};

}  // namespace railwise::topo
