// Sizes of the drawing in pixels, for machines of a few GPUs and of many. Internal to outputs/.
#pragma once

namespace railwise::topo {

struct Metrics {
  double gpu_width, gpu_height;
  double nic_width, nic_height;  // the least width; long names make it wider
  double cpu_height, pci_height;
  double gap;        // between leaves
  double numa_gap;   // between NUMA nodes
  double level_gap;  // between a parent and its children: room for the label of the link
  double margin;     // inside a frame
  double host_gap;   // between hosts
};

inline constexpr Metrics kFewGpus = {88, 62, 88, 62, 36, 30, 12, 34, 40, 16, 30};
inline constexpr Metrics kManyGpus = {70, 44, 70, 44, 28, 22, 8, 18, 30, 12, 22};
inline constexpr int kMany = 20;               // GPUs from which on the small sizes are taken
inline constexpr double kCharacter = 6.6;      // width of a character of the monospaced face
inline constexpr double kNameCharacter = 8.3;  // of the bold face
inline constexpr double kMostNicWidth = 150;   // longer names are cut
inline constexpr int kStack = 4;               // NICs one below the other
inline constexpr double kSpine = 12;           // left of a stack, for the line that feeds it
inline constexpr double kSwitchOverhang = 22;  // of a switch beyond the middle of its outer children
inline constexpr double kTitle = 20;           // height of a frame's title
inline constexpr double kBusHeight = 34;       // above the CPUs, for the line between them
inline constexpr double kNvsHeight = 26;
inline constexpr double kArcUnit = 16;  // depth of an NVLink arc for each GPU that it spans

}  // namespace railwise::topo
