#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/text/words.h"
#include "benchmarks/bench/measure.h"

namespace railwise::cli {
namespace {

constexpr uint64_t kLargestSize = 1ULL << 30;
// Messages of one repeat: enough to make the clock's error small, but not too much memory traffic.
constexpr uint64_t kMostMessages = 20'000;
constexpr uint64_t kLeastMessages = 200;
constexpr uint64_t kBytesOfRepeat = 256 << 20;

constexpr int kMostRails = 8;  // as in NCCL's virtual devices

constexpr std::array<Choice<BenchEnds>, 3> kEnds = {{{"one-thread", BenchEnds::kOneThread},
                                                     {"two-threads", BenchEnds::kTwoThreads},
                                                     {"two-processes", BenchEnds::kTwoProcesses}}};

constexpr int kGroup = 8;  // buffers in a receive of the pattern "grouped"

constexpr int kOperation = 8;  // steps of an operation of the patterns "group" and "gin"

constexpr std::array<Choice<BenchPattern>, 12> kPatterns = {{{"proxy", BenchPattern::kProxy},
                                                             {"ops", BenchPattern::kOps},
                                                             {"lone", BenchPattern::kLone},
                                                             {"ring", BenchPattern::kRing},
                                                             {"alltoall", BenchPattern::kAlltoall},
                                                             {"batch", BenchPattern::kBatch},
                                                             {"grouped", BenchPattern::kGrouped},
                                                             {"idle", BenchPattern::kIdle},
                                                             {"put-signal", BenchPattern::kPutSignal},
                                                             {"group", BenchPattern::kGroup},
                                                             {"gin", BenchPattern::kGin},
                                                             {"get", BenchPattern::kGet}}};

constexpr std::array<Choice<bool>, 2> kHints = {{{"none", false}, {"ll", true}}};

// "a, b or c"
template <typename Choices>
std::string orText(const Choices& choices) {
  std::vector<std::string> names = namesOf(choices);
  const std::string last = names.back();
  names.pop_back();
  return joined(names) + " or " + last;
}

bool acceptDevice(std::string_view value, BenchPlace* place) {
  constexpr std::string_view kSoftware = "software";
  place->real = value == "verbs";
  if (place->real || value == kSoftware) return true;
  if (!value.starts_with("software:")) return false;
  place->software = value.substr(kSoftware.size() + 1);
  return true;
}

}  // namespace

const char* nameOf(BenchPattern pattern) { return nameOf(kPatterns, pattern); }

const char* nameOf(BenchEnds ends) { return nameOf(kEnds, ends); }

uint64_t BenchOptions::messagesOfRepeat() const {
  const uint64_t wanted = messages > 0 ? static_cast<uint64_t>(messages)
                                       : std::clamp(kBytesOfRepeat / std::max<uint64_t>(task.shape.size, 1),
                                                    kLeastMessages, kMostMessages);
  return roundUp(wanted, task.shape.unit());
}

void BenchOptions::settlePattern() {
  BenchShape& shape = task.shape;
  if (shape.pattern == BenchPattern::kGrouped && shape.grouped == 1) shape.grouped = kGroup;
  if (shape.window == 0) shape.window = shape.usualWindow();
  if ((shape.pattern == BenchPattern::kGroup || shape.pattern == BenchPattern::kGin) && shape.steps == 1)
    shape.steps = kOperation;
  if (shape.pattern == BenchPattern::kIdle) shape.connections += shape.connections % 2;
  task.ping_pong = shape.pattern == BenchPattern::kRing;
  if (task.ping_pong && task.ends == BenchEnds::kOneThread) task.ends = BenchEnds::kTwoProcesses;
}

std::string BenchOptions::conflict() const {
  const BenchShape& shape = task.shape;
  const bool one_thread = task.ends == BenchEnds::kOneThread;
  if (shape.pattern == BenchPattern::kRing && shape.connections > 1)
    return "--pattern ring has one connection each way";
  if (shape.pattern == BenchPattern::kRing && instructions)
    return "--instructions are counted with both ends in one thread, which --pattern ring does not have";
  if (isOneSided(shape.pattern) && (!one_thread || raw || latency || set_ups > 0))
    return "one-sided patterns have all ranks in one thread; --raw, --latency and --set-up are for messages";
  if (isOneSided(shape.pattern) && shape.steps > shape.window)
    return "an operation of a one-sided pattern has no more --steps than the --window";
  if (shape.pattern == BenchPattern::kIdle && !one_thread)
    return "--pattern idle has both ends in one thread";
  if (shape.optional_completion && !one_thread) return "--hint ll has both ends in one thread";
  if (shape.optional_completion &&
      (shape.pattern == BenchPattern::kBatch || shape.pattern == BenchPattern::kIdle || shape.grouped > 1))
    return "--hint ll goes with the patterns proxy, ops, lone and alltoall";
  if (all && one_sided) return "--all and --one-sided are two tables";
  if ((all || one_sided) && all_sizes) return "--all and --all-sizes are two tables";
  return "";
}

std::vector<Option> benchOptionTable(BenchOptions& fields) {
  return {
      choiceOption<BenchPattern>('p', "pattern", kPatterns, &fields.task.shape.pattern,
                                 "the order of the calls, " + orText(kPatterns) +
                                     " (default: proxy, as NCCL's proxy thread makes them)"),
      intOption('c', "connections", &fields.task.shape.connections, 1, 4096,
                "connections that have traffic, or peers of a one-sided pattern (default: 1)"),
      intOption(0, "steps", &fields.task.shape.steps, 1, 1'000'000,
                "of an operation of the patterns ops (default: 1), group and gin (8)"),
      intOption(0, "gpu-delay", &fields.task.shape.gpu_delay, 0, 1'000'000,
                "passes of the thread until the GPU has consumed, or refilled, a slot (default: 0)"),
      choiceOption<bool>(0, "hint", kHints, &fields.task.shape.optional_completion,
                         "none (default), or ll: receives say NCCL_NET_OPTIONAL_RECV_COMPLETION, as those of "
                         "LL and LL128 do"),
      flagOption('a', "all", &fields.all,
                 "measure the table of patterns: a line each with ratios to the last --vs, worst last"),
      flagOption(0, "one-sided", &fields.one_sided, "measure the table of the one-sided patterns"),
      sizeOption('s', "size", &fields.task.shape.size, kLargestSize, "bytes of a message (default: 8)"),
      intOption('w', "window", &fields.task.shape.window, 1, 256,
                "receives under way at most (default: 8), or one-sided operations of a peer (256)"),
      intOption('g', "grouped", &fields.task.shape.grouped, 1, static_cast<int>(kMaxGroup),
                "buffers of a receive (default: 1)"),
      intOption('n', "messages", &fields.messages, 1, 1'000'000'000,
                "messages of a repeat (default: 20000, fewer of large ones)"),
      intOption('r', "repeats", &fields.repeats, 1, 1000, "repeats, the plugins in turn (default: 11)"),
      intOption('T', "timeout", &fields.place.timeout_s, 1, 86'400,
                "seconds that a plugin may take for a repeat, or to connect (default: 300)"),
      textOption(0, "plugin", "NAME", &fields.task.plugin.plugin,
                 "the first plugin, as NCCL_NET_PLUGIN=NAME finds it (default: railwise's own)"),
      valueOption(0, "vs", "NAME",
                  "another plugin to measure side by side, behind Railwise's libibverbs.so.1; "
                  "railwise is our own; may be given several times",
                  "a plugin",
                  [&fields](std::string_view value) {
                    fields.others.push_back({std::string(value)});
                    return !value.empty();
                  }),
      apiOption("v6 to v12: the API version of the first plugin; v13 to v16 for one-sided patterns (default: "
                "its newest)",
                &fields.task.plugin.api, kNewestRmaApi),
      valueOption(0, "device", "KIND",
                  "software[:CONFIG], or verbs for the machine's own RDMA devices (default: software)",
                  "software, software:CONFIG or verbs",
                  [&fields](std::string_view value) { return acceptDevice(value, &fields.place); }),
      intOption(0, "index", &fields.task.device, 0, 1023, "device of the plugin (default: 0)"),
      intOption(
          0, "rails", &fields.task.rails, 1, kMostRails,
          "devices from --index on that the plugins make one of; bare writes take the first (default: 1)"),
      intOption(0, "queue-pairs", &fields.place.queue_pairs, 1, 128,
                "sets NCCL_IB_QPS_PER_CONNECTION for the plugins"),
      flagOption(0, "sysfs", &fields.place.sysfs,
                 "show all plugins a /sys of the software machine (default: plugins of others, "
                 "where the devices are not InfiniBand)"),
      choiceOption<BenchEnds>(0, "ends", kEnds, &fields.task.ends,
                              "what drives the two ends of a connection, " + orText(kEnds) +
                                  "; with two of them CPU time is the sum (default: one-thread)"),
      flagOption(0, "raw", &fields.raw,
                 "measure bare RDMA writes side by side, as perftest's ib_write_bw and ib_write_lat do"),
      flagOption(0, "instructions", &fields.instructions,
                 "also count instructions per message (needs valgrind)"),
      textOption(0, "profile", "FILE", &fields.profile,
                 "with --instructions: keep the first plugin's profile, for callgrind_annotate FILE"),
      flagOption(0, "latency", &fields.latency,
                 "also measure the latency of a ping-pong, between two processes or, with "
                 "--ends two-threads, two threads"),
      intOption(0, "set-up", &fields.set_ups, 1, 4096,
                "also measure the time to set up a connection and the memory it takes, over that many"),
      flagOption(0, "all-sizes", &fields.all_sizes, "measure sizes from 8 bytes to 1 MiB instead of --size"),
      flagOption(0, "json", &fields.json, "print JSON: an object, or an array when there are several"),
      flagOption('v', "verbose", &fields.task.verbose, "also show what the plugins log at INFO")};
}

}  // namespace railwise::cli
