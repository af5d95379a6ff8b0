// railwise bench: what a message costs, with one plugin or several side by side.
#include <array>
#include <fstream>
#include <utility>

#include "tools/bench_measure.h"
#include "tools/bench_plot.h"
#include "tools/bench_report.h"
#include "tools/bench_worker.h"
#include "tools/commands.h"
#include "tools/machine_options.h"
#include "tools/message.h"

namespace railwise::tools {
namespace {

constexpr const char* kHelp =
    "usage: railwise bench [options]\n\n"
    "Measures what a message costs: CPU time of the thread that has both ends of a connection, and the work "
    "requests,\ncompletions and calls that the software device has counted. With --vs other plugins do the "
    "same in turn, on the same\nlibibverbs.so.1 and a software device of their own.\n\n"
    "  railwise bench --size 8 --window 8 --vs /path/to/libnccl-net-other.so\n"
    "  railwise bench --instructions --latency --raw\n"
    "  railwise bench --vs /path/to/libnccl-net-other.so --plot cost.svg\n\n"
    "Exit status: 0 all right, 1 a plugin failed, 2 a mistake on the command line.\n\n";

// Powers of four, and the size of a flag.
constexpr std::array<std::size_t, 9> kPlottedSizes = {8,        64,       256,       1 << 10, 4 << 10,
                                                      16 << 10, 64 << 10, 256 << 10, 1 << 20};

std::vector<std::size_t> sizesOf(const BenchOptions& options) {
  if (options.plot.empty()) return {options.task.shape.size};
  return {kPlottedSizes.begin(), kPlottedSizes.end()};
}

// Nothing: the reason was said.
std::optional<std::vector<Costs>> measureAll(const BenchOptions& options) {
  auto costs = measureCosts(options);
  if (!costs || (options.instructions && !addInstructions(options, *costs)) ||
      (options.latency && !addLatency(options, *costs)) ||
      (options.connections > 0 && !addSetUp(options, *costs)))
    return std::nullopt;
  return costs;
}

int sayCannotWrite(const std::string& file) {
  say("bench: cannot write %s", file.c_str());
  return kExitFailed;
}

}  // namespace

int benchCommand(Args args) {
  if (!args.empty() && std::string_view(args[0]) == kBenchWorker) return benchWorker(args.subspan(1));
  BenchOptions options;
  const std::vector<Option> table = benchOptionTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("bench", table, args, kHelp, 0, &status);
  if (!arguments) return status;
  std::ofstream plot;
  if (!options.plot.empty()) plot.open(options.plot);
  if (!options.plot.empty() && !plot) return sayCannotWrite(options.plot);
  std::vector<std::vector<Costs>> by_size;
  for (const std::size_t size : sizesOf(options)) {
    BenchOptions of_size = options;
    of_size.task.shape.size = size;
    auto costs = measureAll(of_size);
    if (!costs) return kExitFailed;
    by_size.push_back(std::move(*costs));
  }
  if (!options.plot.empty() && !(plot << plotCosts(options, by_size)).flush())
    return sayCannotWrite(options.plot);
  options.json ? printBenchJson(options, by_size) : printBenchText(options, by_size);
  return kExitOk;
}

}  // namespace railwise::tools
