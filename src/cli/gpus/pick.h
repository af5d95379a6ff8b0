// What `railwise gpus pick` has in common for one machine and for many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/options/command_line.h"
#include "cli/options/options.h"
#include "cli/topo/machine_options.h"
#include "topo/choice/pick.h"

namespace railwise::cli {

inline constexpr const char* kPick = "gpus pick";

struct PickOptions {
  MachineOptions machine;
  std::vector<std::string> machines;  // of --machine, each time that it was given
  topo::PickWishes wishes;
  std::string hosts;  // file of switch groups
  int nodes = 0;      // 0: not given
  Output output;
  bool env = false;
  bool cgroup = false;
};

std::string mbpsText(int64_t mbps);  // "370.8 GB/s"

// Chooses `count` GPUs of each of options.nodes (1) machines of options.machines, and prints them. Returns
// the exit status.
int pickOfNodes(int count, const PickOptions& options);

}  // namespace railwise::cli
