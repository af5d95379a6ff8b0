// What `railwise perf` was asked to do, and how its command line is read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/perf_data.h"
#include "tools/plugin_loader.h"

namespace railwise::tools {

enum class Collective { kAllReduce, kSendRecv, kAllToAll };
const char* collectiveName(Collective collective);

inline constexpr int kMaxChannels = 16;

struct PerfOptions {
  Collective collective = Collective::kAllReduce;
  PluginOptions plugin;
  uint64_t min_bytes = uint64_t{32} << 20;
  uint64_t max_bytes = uint64_t{32} << 20;
  uint64_t step_bytes = uint64_t{1} << 20;
  int step_factor = 1;  // above 1: used instead of step_bytes
  int iters = 20;
  int warmup_iters = 1;
  int duration_s = 0;  // above 0: all sizes again until so many seconds have passed
  int check = 1;       // iterations of each size whose every element is verified
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 0;  // 0: not given
  int channels = 2;
  bool fuse = false;  // all devices of a rank as one virtual device
  std::string address;
  bool json = false;
  std::string json_file;  // empty with `json`: stdout
  int timeout_s = 60;
  std::string timeline;            // a file; empty: none
  std::optional<uint64_t> faults;  // the seed of a schedule of faults (perf_schedule.h)
  bool dry_run = false;
  std::string conduct;  // with `faults`: the fabric of another program's ranks; empty: not asked for
};

struct PerfCommand {
  PerfOptions options;
  bool help = false;
};
// Nothing and `error` set: a usage error.
std::optional<PerfCommand> parsePerf(std::span<const char* const> args, std::string* error);
std::string perfHelp();

// All sizes of a run, in bytes, ascending.
std::vector<uint64_t> perfSizes(const PerfOptions& options);
// What all ranks of a job must have been asked to do.
std::string agreementText(const PerfOptions& options);

}  // namespace railwise::tools
