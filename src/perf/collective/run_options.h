// The options of a run of `railwise perf`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/collective/data.h"

namespace railwise::cli {

enum class Collective { kAllReduce, kSendRecv, kAllToAll };
const char* collectiveName(Collective collective);

inline constexpr int kMaxChannels = 16;

struct PerfOptions {
  Collective collective = Collective::kAllReduce;
  PluginOptions plugin;
  uint64_t min_bytes = uint64_t{32} << 20;
  uint64_t max_bytes = uint64_t{32} << 20;
  uint64_t step_bytes = uint64_t{1} << 20;
  int step_factor = 1;  // used instead of step_bytes if it is above 1
  int iters = 20;
  int warmup_iters = 1;
  int duration_s = 0;  // if above 0, all sizes are measured again until so many seconds have passed
  int check = 1;       // number of iterations per size in which every element is verified
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 0;  // 0: not given
  int channels = 2;
  bool fuse = false;  // fuse all devices of a rank into one virtual device
  std::string address;
  bool json = false;
  std::string json_file;  // if it is empty and `json` is set, JSON goes to stdout
  int timeout_s = 60;
  std::string timeline;  // file for the timeline; empty: none
  // The seed of a schedule of faults (perf/faults/schedule.h).
  std::optional<uint64_t> faults;
  bool dry_run = false;
  // With `faults`: the fabric of the ranks of another program. Empty: not requested.
  std::string conduct;
};

// The names of the collectives on the command line.
inline constexpr Choice<Collective> kCollectives[] = {{"all_reduce", Collective::kAllReduce},
                                                      {"sendrecv", Collective::kSendRecv},
                                                      {"alltoall", Collective::kAllToAll}};
inline constexpr Choice<DataType> kDataTypes[] = {{"int8", DataType::kInt8},
                                                  {"int32", DataType::kInt32},
                                                  {"int64", DataType::kInt64},
                                                  {"float", DataType::kFloat},
                                                  {"double", DataType::kDouble}};
inline constexpr Choice<ReduceOp> kReduceOps[] = {
    {"sum", ReduceOp::kSum}, {"prod", ReduceOp::kProd}, {"max", ReduceOp::kMax}, {"min", ReduceOp::kMin}};

// All sizes of a run, in bytes, ascending.
std::vector<uint64_t> perfSizes(const PerfOptions& options);
// A text of the options that must be equal in all ranks of a job.
std::string agreementText(const PerfOptions& options);

}  // namespace railwise::cli
