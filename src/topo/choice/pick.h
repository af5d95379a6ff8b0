// Which GPUs of a machine a job should take: the question that the model asks src/gpu/choose, and the answer
// as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "topo/choice/gpu_table.h"

namespace railwise::topo {

// What the user asks for besides the number of GPUs. Lists as rowsOf() and netsOf() read them; "": all.
struct PickWishes {
  std::string of;
  std::string exclude;
  std::string nic;
  bool occupied = false;  // also GPUs on which a process has memory
};

struct PickQuestion {
  gpu::ChoiceQuestion choice;
  std::vector<int> left_out;  // ranks of GPUs that a process uses
};
// An error begins with the name of the wish: "of: there is no GPU 9; the machine has 0-7".
Outcome<PickQuestion> makePickQuestion(const Machine& machine, const GpuTable& table,
                                       const PickWishes& wishes);

struct Pick {
  gpu::ChoiceAnswer answer;
  std::vector<int> left_out;  // ranks of GPUs that a process uses
  std::vector<int> ring;      // rows
  double intra = 0;           // fitness
};
// An error says how many GPUs there are, and which of them are in use.
Outcome<Pick> pickGpus(const PickQuestion& question, int count);

// The kind of path of the slowest pair.
PathType slowestType(const GpuTable& table, const gpu::GpuSet& set);
// The NIC `net` as the GPU of that row sees it; `net` is among the row's NICs.
const NearNic& nicOf(const GpuTable& table, int row, int net);

// "schema": "railwise-gpus-pick".
std::string pickJson(const Machine& machine, const GpuTable& table, const Pick& pick);

}  // namespace railwise::topo
