// A machine as rectangles and lines, which the SVG and HTML outputs draw. Coordinates are in CSS pixels; y
// grows downwards. Internal to outputs/.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "topo/explain/explain.h"
#include "topo/graph/graph.h"

namespace railwise::topo {

struct Box {
  std::string kind;              // CSS class: "cpu", "pci", "gpu", "nic", "net", "nvs", "cxb"
  std::vector<NodeIndex> nodes;  // the nodes that the box stands for; the box is named after the first node
  double x = 0, y = 0, width = 0, height = 0;
  std::vector<std::string> lines;  // the first one is the name
  std::string tip;                 // shown when the pointer is over the box: everything known
  bool bad = false;                // something in this box costs speed
};

struct Point {
  double x = 0, y = 0;
};

struct Wire {
  std::string kind;  // "pci", "nvl", "c2c", "sys", "loc", "fabric"
  NodeIndex a = kNoNode;
  NodeIndex b = kNoNode;
  float bandwidth = 0;
  std::vector<Point> points;
  bool curved = false;  // true: the four points are the ends and control points of a Bezier curve
  std::string label;
  double label_x = 0, label_y = 0;
  bool slow = false;
};

struct Frame {
  std::string kind;  // "host", "numa", "part"
  std::string title;
  double x = 0, y = 0, width = 0, height = 0;
};

struct Caption {
  std::string text;
  double x = 0, y = 0;
};

struct Drawing {
  double width = 0, height = 0;
  std::vector<Frame> frames;
  std::vector<Wire> wires;
  std::vector<Box> boxes;
  std::vector<Caption> captions;
};

// Moves everything in `part` by (x, y) and adds it to `whole`.
void addDrawing(Drawing& whole, Drawing part, double x, double y);

// Sizes of the drawing in pixels, one set for machines with few GPUs and one for machines with many.

struct Metrics {
  double gpu_width, gpu_height;
  double nic_width, nic_height;  // minimum size; a long name makes the box wider
  double cpu_height, pci_height;
  double gap;        // between leaves of the tree
  double numa_gap;   // between NUMA nodes
  double level_gap;  // between a parent and its children; the label of the link stands there
  double margin;     // between a frame and its contents
  double host_gap;   // between hosts
};

inline constexpr Metrics kFewGpus = {88, 62, 88, 62, 36, 30, 12, 34, 40, 16, 30};
inline constexpr Metrics kManyGpus = {70, 44, 70, 44, 28, 22, 8, 18, 30, 12, 22};
inline constexpr int kMany = 20;               // from this number of GPUs on, kManyGpus is used
inline constexpr double kCharacter = 6.6;      // width of a character in the monospaced font
inline constexpr double kNameCharacter = 8.3;  // width of a character in the bold font
inline constexpr double kMostNicWidth = 150;   // a longer name is cut
inline constexpr int kStack = 4;               // number of NICs in one stack
inline constexpr double kSpine = 12;           // space left of a stack for the line that connects it
// How far a switch reaches beyond the middle of its outermost children.
inline constexpr double kSwitchOverhang = 22;
inline constexpr double kTitle = 20;      // height of the title of a frame
inline constexpr double kBusHeight = 34;  // space above the CPUs for the line between them
inline constexpr double kNvsHeight = 26;
inline constexpr double kArcUnit = 16;  // depth of an NVLink arc per GPU that the arc spans

// A machine in the form in which people draw it: NUMA nodes with their PCIe trees.

struct Branch {
  NodeIndex node = kNoNode;  // kPci, kNic, kDev, or kGpu if the model has no kDev
  float bandwidth = 0;       // GB/s of the PCIe link to the parent
  std::vector<Branch> children;
};

struct CpuTree {
  NodeIndex cpu = kNoNode;
  std::vector<Branch> children;
};

struct HostTree {
  int host = 0;
  std::vector<CpuTree> cpus;
  std::vector<NodeIndex> loose;  // GPUs and NICs that are connected to no CPU
};

// Sorted by rank: a switch has the position of its first GPU.
std::vector<HostTree> hostTrees(const Graph& graph);

// The NETs of a NIC, in order.
std::vector<NodeIndex> netsOn(const Graph& graph, NodeIndex nic);

// Makes the boxes of the drawing and their texts, without their positions.
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

// A whole machine, with its hosts side by side.
Drawing drawMachine(const Machine& machine, const MachineExplanation& all);

// Add C2C, NVLink, and the links between CPUs or switches to the drawing of the tree. The drawing becomes
// higher.
void addCpuLinks(const BoxMaker& maker, Drawing& drawing);
void addNvlinks(const BoxMaker& maker, Drawing& drawing);

// The box of a node, or null.
const Box* boxOf(const Drawing& drawing, NodeIndex node);

}  // namespace railwise::topo
