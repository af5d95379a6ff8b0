// railwise bench measures what a message costs, with one plugin or with several plugins compared.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "benchmarks/bench/load/worker.h"
#include "benchmarks/bench/measure.h"
#include "benchmarks/bench/report.h"
#include "cli/options/command_line.h"
#include "cli/options/commands.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr const char* kHelp =
    "usage: railwise bench [options]\n\n"
    "Measures what a message costs: CPU time of the thread that has both ends of the connections, and the "
    "work requests, completions and calls that the software device has counted. With --vs other plugins do "
    "the same in turn, on the same libibverbs.so.1 and a software device of their own.\n\n"
    "  railwise bench --connections 64 --vs /path/to/libnccl-net-other.so\n"
    "  railwise bench --all --instructions --vs /path/to/libnccl-net-other.so\n"
    "  railwise bench --instructions --latency --raw\n"
    "  railwise bench --vs /path/to/libnccl-net-other.so --all-sizes --json\n\n"
    "Columns, per message: cpu min and median: CPU time; bench/it: the first plugin's over this one's; "
    "Gbit/s at that CPU time; send WR and recv WR: work requests; CQE: completions; sends and recvs, or "
    "posts: calls of ibv_post_send and ibv_post_recv; instr.: instructions; ratio: to the last --vs.\n\n"
    "Exit status: 0 all right, 1 a plugin failed, 2 a mistake on the command line.\n\n";

// Powers of four, and 8 bytes, the size of a flag.
constexpr std::array<std::size_t, 9> kSizes = {8,        64,       256,       1 << 10, 4 << 10,
                                               16 << 10, 64 << 10, 256 << 10, 1 << 20};

std::vector<std::size_t> sizesOf(const BenchOptions& options) {
  if (!options.all_sizes) return {options.task.shape.size};
  return {kSizes.begin(), kSizes.end()};
}

struct TableRow {
  BenchShape shape;
  int rails = 1;
  int queue_pairs = 0;
};

// The table of patterns. Messages up to 32 KiB cost the same, except for the copying.
std::vector<BenchOptions> tableOf(const BenchOptions& options) {
  using enum BenchPattern;
  const std::array<TableRow, 30> table = {{{{.pattern = kProxy}},
                                           {{.pattern = kProxy, .connections = 8}},
                                           {{.pattern = kProxy, .connections = 64}},
                                           {{.pattern = kProxy, .connections = 256}},
                                           {{.size = 4 << 10, .pattern = kProxy}},
                                           {{.size = 64 << 10, .pattern = kProxy}},
                                           {{.window = 1, .pattern = kProxy}},
                                           {{.pattern = kProxy, .gpu_delay = 4}},
                                           {{.pattern = kProxy, .optional_completion = true}},
                                           {.shape = {.pattern = kProxy}, .rails = 2},
                                           {.shape = {.size = 4 << 10, .pattern = kProxy}, .rails = 2},
                                           {.shape = {.size = 32 << 10, .pattern = kProxy}, .rails = 2},
                                           {.shape = {.size = 64 << 10, .pattern = kProxy}, .rails = 2},
                                           {.shape = {.pattern = kProxy}, .rails = 4},
                                           {.shape = {.size = 512 << 10, .pattern = kProxy}, .rails = 4},
                                           {.shape = {.pattern = kProxy}, .queue_pairs = 4},
                                           {{.pattern = kOps, .steps = 1}},
                                           {{.pattern = kOps, .steps = 2}},
                                           {{.pattern = kOps, .steps = 8}},
                                           {{.pattern = kLone}},
                                           {{.pattern = kRing}},
                                           {{.pattern = kAlltoall, .connections = 64}},
                                           {{.pattern = kBatch}},
                                           {{.pattern = kGrouped}},
                                           {{.grouped = 2, .pattern = kGrouped}},
                                           {{.size = 64 << 10, .grouped = 2, .pattern = kGrouped}},
                                           {{.size = 128 << 10, .grouped = 4, .pattern = kGrouped}},
                                           {{.size = 128 << 10, .pattern = kGrouped}},
                                           {{.pattern = kIdle}},
                                           {{.pattern = kIdle, .connections = 256}}}};
  std::vector<BenchOptions> all;
  for (const TableRow& from : table) {
    BenchOptions row = options;
    row.task.shape = from.shape;
    row.task.rails = std::max(from.rails, options.task.rails);
    if (from.queue_pairs > 0) row.place.queue_pairs = from.queue_pairs;
    row.settlePattern();
    if (from.shape.pattern == kRing) row.instructions = false;
    all.push_back(row);
  }
  return all;
}

// A plugin may connect every rank to every other, so there are few peers. Chunks of a group are 64 MiB in
// NCCL; smaller ones cost the plugin as much.
std::vector<BenchOptions> oneSidedTableOf(const BenchOptions& options) {
  using enum BenchPattern;
  const std::array<BenchShape, 12> shapes = {{{.pattern = kPutSignal},
                                              {.pattern = kPutSignal, .connections = 8},
                                              {.size = 4 << 10, .pattern = kPutSignal},
                                              {.size = 32 << 10, .pattern = kPutSignal},
                                              {.size = 32 << 10, .pattern = kPutSignal, .connections = 8},
                                              {.window = 1, .pattern = kPutSignal},
                                              {.size = 64 << 10, .pattern = kGroup},
                                              {.size = 64 << 10, .pattern = kGroup, .connections = 7},
                                              {.pattern = kGin},
                                              {.pattern = kGin, .connections = 8},
                                              {.pattern = kGet},
                                              {.size = 4 << 10, .pattern = kGet, .connections = 8}}};
  std::vector<BenchOptions> all;
  for (BenchShape shape : shapes) {
    BenchOptions row = options;
    if (shape.window == BenchShape{}.window) shape.window = 0;  // the usual
    row.task.shape = shape;
    row.settlePattern();
    all.push_back(row);
  }
  return all;
}

// `row` of `rows` that are measured, from 0 on. Null: the reason was reported to the user.
std::optional<std::vector<Costs>> measureAll(const BenchOptions& options, std::size_t row, std::size_t rows) {
  const auto doing = [&](const char* what) {
    showProgress(textOf("bench: %s (%zu of %zu)", what, row + 1, rows));
    return true;
  };
  const MachineUse machine;
  const double cpu_seconds = ownCpuSeconds();
  doing("CPU time");
  auto costs = measureCosts(options);
  bool good = costs && (!options.latency || (doing("latency") && addLatency(options, *costs)));
  const auto others = machine.since(ownCpuSeconds() - cpu_seconds);
  good = good && (!options.instructions || (doing("instructions") && addInstructions(options, *costs)));
  good = good && (options.set_ups == 0 || (doing("set-up") && addSetUp(options, *costs)));
  clearProgress();
  if (!good) return std::nullopt;
  for (Costs& its : *costs) its.others = others;
  return costs;
}

int benchTable(const BenchOptions& options) {
  std::vector<BenchRow> rows;
  const std::vector<BenchOptions> table = options.all ? tableOf(options) : oneSidedTableOf(options);
  for (const BenchOptions& row : table) {
    const auto number = static_cast<std::size_t>(&row - table.data()) + 1;
    if (isatty(STDERR_FILENO) == 0)  // where showProgress() shows nothing
      say("bench: %zu of %zu: %s, %zu bytes", number, table.size(), patternText(row).c_str(),
          row.task.shape.size);
    auto costs = measureAll(row, number - 1, table.size());
    // The first pattern is every plugin's; another one may be too much for one of them, who has said why.
    if (!costs && rows.empty()) return kExitFailed;
    if (!costs) {
      say("bench: without the pattern %s", patternText(row).c_str());
      continue;
    }
    rows.push_back({row, std::move(*costs)});
  }
  options.json ? printBenchRowsJson(rows) : printBenchRows(std::move(rows));
  return kExitOk;
}

}  // namespace

int benchCommand(Args args) {
  if (!args.empty() && std::string_view(args[0]) == kBenchWorker) return benchWorker(args.subspan(1));
  BenchOptions options;
  const std::vector<Option> table = benchOptionTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("bench", table, args, kHelp, 0, &status);
  if (!arguments) return status;
  options.settlePattern();
  if (const std::string conflict = options.conflict(); !conflict.empty())
    return leave(kExitUsage, "bench: %s", conflict.c_str());
  if (options.all || options.one_sided) return benchTable(options);
  std::vector<std::vector<Costs>> by_size;
  const std::vector<std::size_t> sizes = sizesOf(options);
  for (const std::size_t size : sizes) {
    BenchOptions of_size = options;
    of_size.task.shape.size = size;
    auto costs = measureAll(of_size, by_size.size(), sizes.size());
    if (!costs) return kExitFailed;
    by_size.push_back(std::move(*costs));
  }
  options.json ? printBenchJson(options, by_size) : printBenchText(options, by_size);
  return kExitOk;
}

}  // namespace railwise::cli
