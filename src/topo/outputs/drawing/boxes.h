// Makes the boxes of the drawing and their texts, without their positions. Internal to outputs/.
#pragma once

#include <set>

#include "topo/explain/explain.h"
#include "topo/outputs/drawing/drawing.h"

namespace railwise::topo {

class BoxMaker {
 public:
  BoxMaker(const Machine& machine, const MachineExplanation& all);

  const Metrics& metrics() const { return metrics_; }
  const Graph& graph() const { return graph_; }
  bool many() const { return many_; }
  // One box for each rank on the device.
  std::vector<Box> gpuBoxes(NodeIndex device) const;
  // A box for the NIC, and boxes for its devices if it has several. Positions are relative to (0, 0).
  std::vector<Box> nicBoxes(NodeIndex nic) const;
  Box cpuBox(NodeIndex cpu) const;
  Box switchBox(NodeIndex pci) const;
  Box nvswitchBox(NodeIndex nvs) const;
  Box c2cBox(NodeIndex cxb) const;
  bool isSlow(NodeIndex a, NodeIndex b) const;

 private:
  Box netBox(NodeIndex net) const;
  std::string pciTip(const Node& node) const;

  const Graph& graph_;
  const MachineExplanation& all_;
  const bool many_;
  const Metrics metrics_;
  double nic_width_;
  std::set<std::pair<NodeIndex, NodeIndex>> slow_;
};

// Cuts `text` to fit into `width` pixels if a character is `character` pixels wide, and ends it with an
// ellipsis.
std::string fittedText(const std::string& text, double width, double character);

}  // namespace railwise::topo
