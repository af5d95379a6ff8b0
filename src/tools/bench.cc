// railwise bench: what a message costs, with one plugin or several side by side.
#include "tools/bench_measure.h"
#include "tools/bench_report.h"
#include "tools/bench_worker.h"
#include "tools/commands.h"
#include "tools/machine_options.h"

namespace railwise::tools {
namespace {

constexpr const char* kHelp =
    "usage: railwise bench [options]\n\n"
    "Measures what a message costs: CPU time of the thread that has both ends of a connection, and the work "
    "requests,\ncompletions and calls that the software device has counted. With --vs other plugins do the "
    "same in "
    "turn, on the same\nlibibverbs.so.1 and a software device of their own.\n\n"
    "  railwise bench --size 8 --window 8 --vs /path/to/libnccl-net-other.so\n\n"
    "Exit status: 0 all right, 1 a plugin failed, 2 a mistake on the command line.\n\n";

}  // namespace

int benchCommand(Args args) {
  if (!args.empty() && std::string_view(args[0]) == kBenchWorker) return benchWorker(args.subspan(1));
  BenchOptions options;
  const std::vector<Option> table = benchOptionTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("bench", table, args, kHelp, 0, &status);
  if (!arguments) return status;
  auto costs = measureCosts(options);
  if (!costs || (options.instructions && !addInstructions(options, *costs)) ||
      (options.latency && !addLatency(options, *costs)) ||
      (options.connections > 0 && !addSetUp(options, *costs)))
    return kExitFailed;
  options.json ? printBenchJson(options, *costs) : printBenchText(options, *costs);
  return kExitOk;
}

}  // namespace railwise::tools
