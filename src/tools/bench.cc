// railwise bench: what a message costs, with one plugin or several side by side.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "softdev/control.h"
#include "tools/bench_child.h"
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

constexpr uint64_t kLargestSize = 1ULL << 30;
// Of one repeat: enough that the clock does not matter, and not too much memory traffic.
constexpr uint64_t kMostMessages = 20'000;
constexpr uint64_t kLeastMessages = 200;
constexpr uint64_t kBytesOfRepeat = 256 << 20;

struct BenchOptions {
  BenchPlugin own;
  std::vector<BenchPlugin> others;
  BenchPlace place;
  uint64_t size = 8;
  int window = 8;
  int grouped = 1;
  int repeats = 11;
  int messages = 0;  // 0: by the size
  bool json = false;
};

// What one plugin's messages cost.
struct Costs {
  const BenchChild* child;
  double cpu_ns_min;
  double cpu_ns_median;
  double wall_ns_min;
  std::optional<softdev::Counters> counts;  // of all repeats
  uint64_t messages;                        // of all repeats
};

bool acceptApi(std::string_view value, int* api) {
  const auto version =
      value.starts_with('v') ? parseInt(value.substr(1), kOldestApi, kNewestApi) : std::nullopt;
  if (version) *api = *version;
  return version.has_value();
}

bool acceptDevice(std::string_view value, BenchPlace* place) {
  constexpr std::string_view kSoftware = "software";
  place->real = value == "verbs";
  if (place->real || value == kSoftware) return true;
  if (!value.starts_with("software:")) return false;
  place->software = value.substr(kSoftware.size() + 1);
  return true;
}

std::vector<Option> optionTable(BenchOptions& fields) {
  std::vector<Option> options = {
      sizeOption('s', "size", &fields.size, kLargestSize, "bytes of a message (default: 8)"),
      intOption('w', "window", &fields.window, 1, 256, "messages under way at most (default: 8)"),
      intOption('g', "grouped", &fields.grouped, 1, static_cast<int>(kMaxGroup),
                "buffers of a receive (default: 1)"),
      intOption('n', "messages", &fields.messages, 1, 1'000'000'000,
                "messages of a repeat (default: 20000, fewer of large ones)"),
      intOption('r', "repeats", &fields.repeats, 1, 1000, "repeats, the plugins in turn (default: 11)"),
      textOption(0, "plugin", "NAME", &fields.own.plugin,
                 "the first plugin, as NCCL_NET_PLUGIN=NAME finds it (default: railwise's\nown)")};
  options.push_back({.long_name = "vs",
                     .value = Option::kRequired,
                     .value_name = "NAME",
                     .text = "another plugin to measure side by side; may be given several times",
                     .accepted = "a plugin",
                     .accept = [&fields](std::string_view value) {
                       fields.others.push_back({std::string(value)});
                       return !value.empty();
                     }});
  options.push_back(
      {.long_name = "api",
       .value = Option::kRequired,
       .value_name = "VERSION",
       .text = "v6 to v12: the API version of the first plugin (default: its newest)",
       .accepted = "an API version from v6 to v12",
       .accept = [&fields](std::string_view value) { return acceptApi(value, &fields.own.api); }});
  options.push_back(
      {.long_name = "device",
       .value = Option::kRequired,
       .value_name = "KIND",
       .text = "software[:CONFIG], or verbs for the machine's own RDMA devices\n(default: software)",
       .accepted = "software, software:CONFIG or verbs",
       .accept = [&fields](std::string_view value) { return acceptDevice(value, &fields.place); }});
  options.push_back(
      intOption(0, "index", &fields.place.device, 0, 1023, "device of the plugin (default: 0)"));
  options.push_back(flagOption(0, "sysfs", &fields.place.sysfs,
                               "show the plugins a /sys of the software machine: for those that cannot do\n"
                               "without"));
  options.push_back(flagOption(0, "json", &fields.json, "print JSON: an object, or an array with --vs"));
  options.push_back(
      flagOption('v', "verbose", &fields.place.verbose, "also show what the plugins log at INFO"));
  return options;
}

uint64_t messagesOf(const BenchOptions& options) {
  if (options.messages > 0) return static_cast<uint64_t>(options.messages);
  return std::clamp(kBytesOfRepeat / std::max<uint64_t>(options.size, 1), kLeastMessages, kMostMessages);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Nothing: the reason was said.
std::optional<std::vector<Costs>> measure(const BenchOptions& options,
                                          std::vector<std::unique_ptr<BenchChild>>& children) {
  const auto failed = [](const BenchChild& child) {
    say("bench: %s: %s", child.file().empty() ? "railwise's plugin" : child.file().c_str(),
        child.error().c_str());
    return std::nullopt;
  };
  const auto group = static_cast<uint64_t>(options.grouped);
  const uint64_t messages = (messagesOf(options) + group - 1) / group * group;
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

uint64_t workRequests(const softdev::Counters& counts) {
  return counts.writes + counts.writes_with_imm + counts.reads + counts.sends + counts.atomics;
}

// Per message, with the names of the JSON output.
std::vector<std::pair<const char*, double>> perMessage(const Costs& costs) {
  const auto each = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(costs.messages);
  };
  const softdev::Counters& counts = *costs.counts;
  return {{"work_requests", each(workRequests(counts))},     {"receive_work_requests", each(counts.receives)},
          {"completions", each(counts.completions)},         {"doorbells_send", each(counts.post_send_calls)},
          {"post_recv_calls", each(counts.post_recv_calls)}, {"poll_calls", each(counts.poll_calls)},
          {"system_calls", each(counts.system_calls)}};
}

void printJson(const BenchOptions& options, const std::vector<Costs>& all) {
  JsonWriter json;
  if (all.size() > 1) json.beginArray();
  for (const Costs& costs : all) {
    json.beginObject();
    json.key("plugin").value(costs.child->name());
    json.key("file").value(costs.child->file());
    json.key("api").value("v" + std::to_string(costs.child->api()));
    json.key("size").value(options.size);
    json.key("window").value(options.window);
    json.key("grouped").value(options.grouped);
    json.key("messages").value(costs.messages);
    json.key("repeats").value(options.repeats);
    json.key("cpu_ns_min").value(costs.cpu_ns_min);
    json.key("cpu_ns_median").value(costs.cpu_ns_median);
    json.key("wall_ns_min").value(costs.wall_ns_min);
    if (costs.counts) {
      for (const auto& [name, value] : perMessage(costs)) json.key(name).value(value);
    }
    json.key("instructions_plugin").null();
    if (&costs != &all[0]) json.key("cpu_ratio").value(all[0].cpu_ns_min / costs.cpu_ns_min);
    json.endObject();
  }
  if (all.size() > 1) json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

void printText(const BenchOptions& options, const std::vector<Costs>& all) {
  std::printf(
      "# railwise bench: %llu bytes, window %d, %d buffer(s) in a receive, %d repeats of %llu messages\n",
      static_cast<unsigned long long>(options.size), options.window, options.grouped, options.repeats,
      static_cast<unsigned long long>(all[0].messages / static_cast<uint64_t>(options.repeats)));
  std::printf("# per message; both ends in one thread; posts: calls of ibv_post_send and ibv_post_recv\n");
  std::printf("%-24s %4s %9s %9s %9s %8s %8s %8s %8s %8s\n", "plugin", "API", "cpu min", "median", "bench/it",
              "send WR", "recv WR", "CQE", "sends", "recvs");
  for (const Costs& costs : all) {
    std::printf("%-24s %4s %6.1f ns %6.1f ns", costs.child->name().c_str(),
                ("v" + std::to_string(costs.child->api())).c_str(), costs.cpu_ns_min, costs.cpu_ns_median);
    std::printf(" %9s",
                &costs == &all[0] ? "-" : textOf("%.2f", all[0].cpu_ns_min / costs.cpu_ns_min).c_str());
    if (costs.counts) {
      const auto values = perMessage(costs);
      for (std::size_t i = 0; i < 5; ++i) std::printf(" %8.3f", values[i].second);
    }
    std::printf("\n");
  }
}

}  // namespace

int benchCommand(Args args) {
  if (!args.empty() && std::string_view(args[0]) == kBenchWorker) return benchWorker(args.subspan(1));
  BenchOptions options;
  const std::vector<Option> table = optionTable(options);
  int status = kExitOk;
  const auto arguments = parseOrLeave("bench", table, args, kHelp, 0, &status);
  if (!arguments) return status;
  std::vector<std::unique_ptr<BenchChild>> children;
  const BenchShape shape = {options.size, options.window, options.grouped};
  children.push_back(std::make_unique<BenchChild>(options.own, options.place, shape));
  for (const BenchPlugin& other : options.others)
    children.push_back(std::make_unique<BenchChild>(other, options.place, shape));
  const auto costs = measure(options, children);
  if (!costs) return kExitFailed;
  options.json ? printJson(options, *costs) : printText(options, *costs);
  return kExitOk;
}

}  // namespace railwise::tools
