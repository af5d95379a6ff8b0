// railwise bench: what a message costs, with one plugin or several side by side.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "softdev/control.h"
#include "tools/bench_report.h"
#include "tools/bench_worker.h"
#include "tools/commands.h"
#include "tools/machine_options.h"
#include "tools/message.h"
#include "tools/options.h"

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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void sayFailed(const BenchChild& child, const std::string& why) {
  say("bench: %s: %s", child.file().empty() ? "railwise's plugin" : child.file().c_str(), why.c_str());
}

// Nothing: the reason was said.
std::optional<std::vector<Costs>> measure(const BenchOptions& options,
                                          std::vector<std::unique_ptr<BenchChild>>& children) {
  const auto failed = [](const BenchChild& child) {
    sayFailed(child, child.error());
    return std::nullopt;
  };
  const uint64_t messages = options.messagesOfRepeat();
  std::vector<softdev::Counters> before;
  for (const auto& child : children) {
    if (!child->start() || !child->run(messages)) return failed(*child);  // the first one warms up
    before.push_back(child->counters().value_or(softdev::Counters{}));
  }
  std::vector<std::vector<double>> cpu(children.size());
  std::vector<std::vector<double>> wall(children.size());
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto ran = children[i]->run(messages);
      if (!ran) return failed(*children[i]);
      cpu[i].push_back(static_cast<double>(ran->cpu_ns) / static_cast<double>(messages));
      wall[i].push_back(static_cast<double>(ran->wall_ns) / static_cast<double>(messages));
    }
  }
  std::vector<Costs> costs;
  for (std::size_t i = 0; i < children.size(); ++i) {
    std::optional<softdev::Counters> counts = children[i]->counters();
    if (counts) {
      for (const softdev::NamedCount& count : softdev::kNamedCounts)
        (*counts).*count.field -= before[i].*count.field;
    }
    costs.push_back({children[i].get(), *std::min_element(cpu[i].begin(), cpu[i].end()), median(cpu[i]),
                     *std::min_element(wall[i].begin(), wall[i].end()), counts,
                     messages * static_cast<uint64_t>(options.repeats)});
  }
  return costs;
}

// False: the reason was said.
bool addInstructions(const BenchOptions& options, std::vector<Costs>& all) {
  for (Costs& costs : all) {
    std::string error;
    costs.instructions = countInstructions(costs.child->plugin(), options.place, options.shape(), &error);
    if (!costs.instructions) {
      sayFailed(*costs.child, error);
      return false;
    }
  }
  return true;
}

}  // namespace

int benchCommand(Args args) {
  if (!args.empty() && std::string_view(args[0]) == kBenchWorker) return benchWorker(args.subspan(1));
  BenchOptions options;
  const std::vector<Option> table = benchOptionTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("bench", table, args, kHelp, 0, &status);
  if (!arguments) return status;
  std::vector<std::unique_ptr<BenchChild>> children;
  children.push_back(std::make_unique<BenchChild>(options.own, options.place, options.shape()));
  for (const BenchPlugin& other : options.others)
    children.push_back(std::make_unique<BenchChild>(other, options.place, options.shape()));
  auto costs = measure(options, children);
  if (!costs || (options.instructions && !addInstructions(options, *costs))) return kExitFailed;
  options.json ? printBenchJson(options, *costs) : printBenchText(options, *costs);
  return kExitOk;
}

}  // namespace railwise::tools
