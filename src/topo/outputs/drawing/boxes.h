// What stands in the boxes of the drawing, without their places. Internal to outputs/.
#pragma once

#include <set>

#include "topo/explain/explain.h"
#include "topo/outputs/drawing/drawing.h"
#include "topo/outputs/drawing/metrics.h"

namespace railwise::topo {

class BoxMaker {
 public:
  BoxMaker(const Machine& machine, const MachineExplanation& all);

  const Metrics& metrics() const { return metrics_; }
  const Graph& graph() const { return graph_; }
  bool many() const { return many_; }
  // One for each rank on the device.
  std::vector<Box> gpuBoxes(NodeIndex device) const;
  // The NIC, and its devices when it has several; placed relative to (0, 0).
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

// `text` cut to what `width` pixels hold at `character` pixels each, with an ellipsis.
std::string fittedText(const std::string& text, double width, double character);

}  // namespace railwise::topo
