// Which GPUs of a machine a job should take: the question that the model asks src/gpu/choose, and the answer
// as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/outcome.h"
#include "gpu/choose/choose.h"
#include "topo/explain/gpu_topology.h"
#include "topo/machine/machine.h"

namespace railwise::topo {

// The GPUs of a machine as rows of numbers: what the list prints and what the choice is made from. Pure;
// thread-safe.

// A physical GPU. Several ranks on it make one row.
struct GpuRow {
  int gpu = -1;            // index in the machine's graph, of the lowest rank
  std::vector<int> ranks;  // ascending
  int dev = -1;            // NVML's index, or RCCL's
  int host = 0;
  std::string busid;
  std::string kind;  // "sm_90", "gfx942"
  int numa = -1;     // -1: unknown

  int rank() const { return ranks[0]; }
};

struct PairLink {
  PathType type = PathType::kDis;  // the farther of the two directions
  double gb_per_s = 0;             // the slower of the two; 0: no link
};

struct GpuTable {
  std::vector<GpuRow> rows;
  std::vector<PairLink> pairs;             // rows x rows
  std::vector<std::vector<NearNic>> nics;  // of each row, as nearNics() has them
  // Likewise, without paths by way of a third GPU (NVB, PXN): it need not be among the chosen ones.
  std::vector<PairLink> direct_pairs;
  std::vector<std::vector<NearNic>> direct_nics;

  const PairLink& pair(std::size_t a, std::size_t b) const { return pairs[a * rows.size() + b]; }
  const PairLink& directPair(std::size_t a, std::size_t b) const { return direct_pairs[a * rows.size() + b]; }
  // The rows as the choice wants them. `only_nets`: the NICs that count; empty: all.
  gpu::ChoiceQuestion question(const std::vector<int>& only_nets) const;
  std::vector<int> ranks() const;  // the lowest rank of each row
};

GpuTable gpuTable(const Machine& machine);

// "0-3,7": the rows of these ranks. An error says what is wrong and which ranks there are.
Outcome<std::vector<int>> rowsOf(const GpuTable& table, const std::string& list);
// "mlx5_0,mlx5_1": indices of NICs of the graph. An error says which there are.
Outcome<std::vector<int>> netsOf(const Graph& graph, const std::string& list);

// "NVL", or "xGMI" for the links between AMD's GPUs.
std::string typeText(const Graph& graph, PathType type);

// What the user asks for besides the number of GPUs. Lists as rowsOf() and netsOf() read them; "": all.
struct PickWishes {
  std::string of;
  std::string exclude;
  std::string nic;
  bool occupied = false;  // also GPUs on which a process has memory
};

struct PickQuestion {
  gpu::ChoiceQuestion choice;
  std::vector<int> nets;      // indices of the NICs that count; empty: all
  std::vector<int> left_out;  // ranks of GPUs that a process uses
};
// An error begins with the name of the wish: "of: there is no GPU 9; the machine has 0-7".
Outcome<PickQuestion> makePickQuestion(const Machine& machine, const GpuTable& table,
                                       const PickWishes& wishes);

struct Pick {
  gpu::ChoiceAnswer answer;
  // Of each GPU of answer.best and of answer.second: the NICs that NCCL gives it on a machine that has only
  // the GPUs of the set, and only the NICs that count. PXN goes through GPUs of the job alone.
  std::vector<std::vector<NearNic>> best_nics;
  std::vector<std::vector<NearNic>> second_nics;
  std::vector<int> left_out;  // ranks of GPUs that a process uses
  std::vector<int> ring;      // rows
  double intra = 0;           // fitness
};
// An error says how many GPUs there are, and which of them are in use.
Outcome<Pick> pickGpus(const Machine& machine, const GpuTable& table, const PickQuestion& question,
                       int count);

// The kind of path of the slowest pair.
PathType slowestType(const GpuTable& table, const gpu::GpuSet& set);
// "mlx5_0 and mlx5_1 (PIX, 48 GB/s)": NICs that are equally near and fast; "none".
std::string nicsText(const Graph& graph, const std::vector<NearNic>& nics);

// "schema": "railwise-gpus-pick".
std::string pickJson(const Machine& machine, const GpuTable& table, const Pick& pick);

}  // namespace railwise::topo
