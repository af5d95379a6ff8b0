// Sizes of the drawing in pixels, one set for machines with few GPUs and one for machines with many. Internal
// to outputs/.
#pragma once

namespace railwise::topo {

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

}  // namespace railwise::topo
