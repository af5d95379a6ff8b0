#include "benchmarks/bench/measure.h"

#include <algorithm>
#include <map>
#include <memory>

#include "cli/options/message.h"
#include "softdev/control/control.h"

namespace railwise::cli {
namespace {

using Children = std::vector<std::unique_ptr<BenchChild>>;
using Runs = std::vector<BenchRan>;

constexpr uint64_t kMostRounds = 2000;  // rounds per repeat of the ping-pong
constexpr int kMostSetUps = 5;          // processes per plugin that set up connections
constexpr int kLeastWindow = 8;         // receives that a ping-pong posts ahead

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool sayFailed(const BenchPlugin& plugin, const std::string& why) {
  const char* const name = plugin.raw              ? "raw WRITE"
                           : plugin.plugin.empty() ? "railwise's plugin"
                                                   : plugin.plugin.c_str();
  say("bench: %s: %s", name, why.c_str());
  return false;
}

std::vector<BenchPlugin> pluginsOf(const BenchOptions& options) {
  std::vector<BenchPlugin> plugins = {options.task.plugin};
  plugins.insert(plugins.end(), options.others.begin(), options.others.end());
  if (options.raw) plugins.push_back({.raw = true});
  return plugins;
}

// Starts one process for each plugin, and runs it once to warm up.
std::optional<Children> startAll(const BenchOptions& options, BenchTask task, uint64_t messages) {
  Children children;
  for (const BenchPlugin& plugin : pluginsOf(options)) {
    task.plugin = plugin;
    children.push_back(std::make_unique<BenchChild>(task, options.place));
    BenchChild& child = *children.back();
    if (child.start() && child.run(messages)) continue;
    sayFailed(plugin, child.error());
    return std::nullopt;
  }
  return children;
}

// Returns the runs of each child, in the order of the children.
std::optional<std::vector<Runs>> runInTurn(Children& children, uint64_t messages, int repeats) {
  std::vector<Runs> runs(children.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto ran = children[i]->run(messages);
      if (!ran) {
        sayFailed(children[i]->plugin(), children[i]->error());
        return std::nullopt;
      }
      runs[i].push_back(*ran);
    }
  }
  return runs;
}

template <typename Value>
std::vector<double> valuesOf(const Runs& runs, Value value) {
  std::vector<double> values;
  for (const BenchRan& run : runs) values.push_back(static_cast<double>(value(run)));
  return values;
}

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// The child's counters, minus `before`.
std::optional<BenchChild::Counts> countsSince(const BenchChild& child, const BenchChild::Counts& before) {
  auto counts = child.counters();
  if (!counts) return counts;
  for (const softdev::NamedCount& count : softdev::kNamedCounts) {
    counts->all.*count.field -= before.all.*count.field;
    counts->first.*count.field -= before.first.*count.field;
  }
  return counts;
}

// Plugins that call themselves alike get their files' names.
void tellApart(std::vector<Costs>& all) {
  std::map<std::string, int> count;
  for (const Costs& costs : all) ++count[costs.name];
  for (Costs& costs : all) {
    const std::string& file = costs.plugin.plugin;
    if (count[costs.name] > 1 && !file.empty()) costs.name += " (" + file.substr(file.rfind('/') + 1) + ")";
  }
}

}  // namespace

std::optional<std::vector<Costs>> measureCosts(const BenchOptions& options) {
  const uint64_t messages = options.messagesOfRepeat();
  auto children = startAll(options, options.task, messages);
  if (!children) return std::nullopt;
  std::vector<BenchChild::Counts> before;
  for (const auto& child : *children) before.push_back(child->counters().value_or(BenchChild::Counts{}));
  const auto runs = runInTurn(*children, messages, options.repeats);
  if (!runs) return std::nullopt;
  std::vector<Costs> all;
  for (std::size_t i = 0; i < children->size(); ++i) {
    const BenchChild& child = *(*children)[i];
    const auto each = static_cast<double>(messages);
    const std::vector<double> cpu = valuesOf((*runs)[i], [](const BenchRan& run) { return run.cpu_ns; });
    const std::vector<double> wall = valuesOf((*runs)[i], [](const BenchRan& run) { return run.wall_ns; });
    all.push_back({.plugin = child.plugin(),
                   .name = child.name(),
                   .api = child.api(),
                   .size = options.task.shape.size,
                   .messages = messages * static_cast<uint64_t>(options.repeats),
                   .cpu_ns_min = least(cpu) / each,
                   .cpu_ns_median = median(cpu) / each,
                   .wall_ns_min = least(wall) / each,
                   .counts = countsSince(child, before[i])});
  }
  tellApart(all);
  return all;
}

bool addInstructions(const BenchOptions& options, std::vector<Costs>& all) {
  for (Costs& costs : all) {
    BenchTask task = options.task;
    task.plugin = costs.plugin;
    const std::string keep = &costs == &all[0] ? options.profile : "";
    const auto counted = countInstructions(task, options.place, keep);
    if (!counted.ok()) return sayFailed(costs.plugin, counted.error());
    costs.instructions = *counted;
  }
  return true;
}

bool addLatency(const BenchOptions& options, std::vector<Costs>& all) {
  BenchTask task = options.task;
  task.ping_pong = true;
  task.shape.grouped = 1;
  task.shape.connections = 1;
  task.shape.pattern = BenchPattern::kRing;
  task.shape.window = std::max(task.shape.window, kLeastWindow);
  if (task.ends == BenchEnds::kOneThread) task.ends = BenchEnds::kTwoProcesses;
  const uint64_t rounds = std::min(options.messagesOfRepeat(), kMostRounds);
  auto children = startAll(options, task, rounds);
  if (!children) return false;
  const auto runs = runInTurn(*children, rounds, options.repeats);
  if (!runs) return false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    // If other processes used one of the cores, the ends took turns, and that repeat says nothing. So the
    // best repeat counts.
    const Runs& of_one = (*runs)[i];
    all[i].latency = std::min_element(of_one.begin(), of_one.end(), [](const BenchRan& a, const BenchRan& b) {
                       return a.latency->p50_ns < b.latency->p50_ns;
                     })->latency;
  }
  return true;
}

bool addSetUp(const BenchOptions& options, std::vector<Costs>& all) {
  std::vector<std::vector<BenchSetUp>> runs(all.size());
  for (int repeat = 0; repeat < std::min(options.repeats, kMostSetUps); ++repeat) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].plugin.raw) continue;  // bare writes use one queue pair and no handshake
      BenchTask task = options.task;
      task.plugin = all[i].plugin;
      task.ends = BenchEnds::kOneThread;
      task.set_ups = options.set_ups;
      BenchChild child(task, options.place);
      const auto set_up = child.start() ? child.connected() : std::nullopt;
      if (!set_up) return sayFailed(task.plugin, child.error());
      runs[i].push_back(*set_up);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto values = [&](double BenchSetUp::*field) {
      std::vector<double> numbers;
      for (const BenchSetUp& run : runs[i]) numbers.push_back(run.*field);
      return numbers;
    };
    if (runs[i].empty()) continue;
    all[i].set_up = {.cpu_ns = least(values(&BenchSetUp::cpu_ns)),
                     .wall_ns = least(values(&BenchSetUp::wall_ns)),
                     .bytes = median(values(&BenchSetUp::bytes)),
                     .close_cpu_ns = least(values(&BenchSetUp::close_cpu_ns)),
                     .register_cpu_ns = least(values(&BenchSetUp::register_cpu_ns))};
  }
  return true;
}

}  // namespace railwise::cli
