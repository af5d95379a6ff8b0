// What `railwise gpus pick` has in common for one machine and for many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "cli/gpus/gpu_table.h"
#include "cli/options/options.h"
#include "cli/topo/machine_options.h"

namespace railwise::cli {

inline constexpr const char* kPick = "gpus pick";

struct PickOptions {
  MachineOptions machine;
  std::vector<std::string> machines;  // of --machine, each time that it was given
  std::string of;
  std::string exclude;
  std::string nic;
  std::string hosts;  // file of switch groups
  int nodes = 0;      // 0: not given
  bool occupied = false;
  bool json = false;
  bool env = false;
  bool cgroup = false;
};

std::string mbpsText(int64_t mbps);  // "370.8 GB/s"

// The question, or what is wrong with the lists. Fills `left_out` with the ranks of GPUs that a process uses.
Outcome<gpu::ChoiceQuestion> makeQuestion(const topo::Machine& machine, const GpuTable& table,
                                          const PickOptions& options, std::vector<int>* left_out);

// Chooses `count` GPUs of each of options.nodes (1) machines of options.machines, and prints them. Returns
// the exit status.
int pickOfNodes(int count, const PickOptions& options);

}  // namespace railwise::cli
