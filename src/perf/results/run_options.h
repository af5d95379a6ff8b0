// The options of a run of `railwise perf`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "cli/plugin/plugin_loader.h"
#include "perf/algorithm/contents.h"

namespace railwise::cli {

inline constexpr int kMaxChannels = 16;

// Between which iterations the ranks wait for each other (-z/--blocking).
enum class Barriers { kNone, kTimed, kNotTimed };
// Which number stands for all ranks (-a/--average).
enum class AverageOver { kRankZero, kMean, kLeast, kLargest };

struct PerfOptions {
  Collective collective = Collective::kAllReduce;
  PluginOptions plugin;
  uint64_t min_bytes = uint64_t{32} << 20;
  uint64_t max_bytes = uint64_t{32} << 20;
  uint64_t step_bytes = uint64_t{1} << 20;
  int step_factor = 1;  // used instead of step_bytes if it is above 1
  int iters = 20;
  int warmup_iters = 1;
  int aggregated = 1;       // operations of an iteration
  int skipped_samples = 0;  // the first samples of a measurement that figures of single iterations leave out
  int cycles = 1;           // how often all sizes are measured; 0: until the run is ended
  int duration_s = 0;       // if above 0, all sizes are measured again until so many seconds have passed
  bool every_row = false;   // print every measurement of a size, not only what all of them say together
  int check = 1;            // number of iterations per size in which every element is verified
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  bool all_types = false;
  bool all_ops = false;
  bool all_roots = false;
  Barriers barriers = Barriers::kNone;
  AverageOver average = AverageOver::kLargest;
  int ranks = 0;  // 0: not given
  int gpus = 1;   // with `threads`: another way to give `ranks`
  int threads = 1;
  int channels = 2;
  bool fuse = false;  // fuse all devices of a rank into one virtual device
  std::string address;
  bool json = false;
  std::string json_file;  // if it is empty and `json` is set, JSON goes to stdout
  bool csv = false;
  std::string csv_file;             // likewise
  bool iteration_columns = false;   // columns of single iterations in the table (-I)
  bool timestamps = false;          // a column with the time of day
  std::vector<std::string> notes;   // options that have no effect here, a sentence for each
  std::optional<double> min_busbw;  // GB/s that the average bus bandwidth must reach
  std::string against;              // a saved run to compare with; empty: none
  int timeout_s = 60;
  std::string timeline;  // file for the timeline; empty: none
  // The launcher judges the run (tests/campaign): it compares counts while ranks stand still, says when
  // enough is measured and when connections may close, and writes the document.
  bool judged = false;
};

// nccl-tests' names.
inline constexpr Choice<DataType> kDataTypes[] = {
    {"int8", DataType::kInt8},        {"uint8", DataType::kUint8}, {"int32", DataType::kInt32},
    {"uint32", DataType::kUint32},    {"int64", DataType::kInt64}, {"uint64", DataType::kUint64},
    {"half", DataType::kHalf},        {"float", DataType::kFloat}, {"double", DataType::kDouble},
    {"bfloat16", DataType::kBFloat16}};
inline constexpr Choice<ReduceOp> kReduceOps[] = {{"sum", ReduceOp::kSum},
                                                  {"prod", ReduceOp::kProd},
                                                  {"max", ReduceOp::kMax},
                                                  {"min", ReduceOp::kMin},
                                                  {"avg", ReduceOp::kAvg}};

// The options to try the plugin's devices with, which is done through its net table.
PluginOptions deviceOptions(const PerfOptions& options);
// An error if the collective, or its root, is impossible with that many ranks.
Outcome<void> checkRanks(const PerfOptions& options, int ranks);
// Every type, operation and root of a run, in the order of the table.
std::vector<Variant> variantsOf(const PerfOptions& options, int ranks);
// The table is printed to stdout, and not a document.
bool tableOnStdout(const PerfOptions& options);
// All sizes of a run, in bytes, ascending.
std::vector<uint64_t> perfSizes(const PerfOptions& options);
// A text of the options that must be equal in all ranks of a job.
std::string agreementText(const PerfOptions& options);

}  // namespace railwise::cli
