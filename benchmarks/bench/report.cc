#include "benchmarks/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/text/json.h"
#include "cli/options/message.h"
#include "softdev/control/control.h"

namespace railwise::cli {
namespace {

uint64_t workRequests(const softdev::Counters& counts) {
  return counts.writes + counts.writes_with_imm + counts.reads + counts.sends + counts.atomics;
}

using Named = std::vector<std::pair<const char*, double>>;

// Counters per message, with the names used in the JSON output.
Named perMessage(const Costs& costs, const softdev::Counters& counts) {
  const auto each = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(costs.messages);
  };
  return {{"work_requests", each(workRequests(counts))},     {"receive_work_requests", each(counts.receives)},
          {"completions", each(counts.completions)},         {"doorbells_send", each(counts.post_send_calls)},
          {"post_recv_calls", each(counts.post_recv_calls)}, {"poll_calls", each(counts.poll_calls)},
          {"system_calls", each(counts.system_calls)}};
}

Named perMessage(const Costs& costs) { return perMessage(costs, costs.counts->all); }

// Per message, what the ranks that are put to have posted and seen: all but the first device.
softdev::Counters targetsOf(const BenchChild::Counts& counts) {
  softdev::Counters targets;
  for (const softdev::NamedCount& count : softdev::kNamedCounts)
    targets.*count.field = counts.all.*count.field - counts.first.*count.field;
  return targets;
}

Named latencies(const BenchRan::Latency& way) {
  return {{"latency_ns_min", way.min_ns},
          {"latency_ns_p50", way.p50_ns},
          {"latency_ns_p90", way.p90_ns},
          {"latency_ns_p99", way.p99_ns}};
}

// The cost of one connection, both ends together.
Named setUps(const BenchSetUp& each) {
  return {{"set_up_cpu_us", each.cpu_ns / 1000},
          {"set_up_wall_us", each.wall_ns / 1000},
          {"bytes_per_connection", each.bytes},
          {"close_cpu_us", each.close_cpu_ns / 1000},
          {"register_cpu_us", each.register_cpu_ns / 1000}};
}

std::string apiOf(const Costs& costs) { return costs.api != 0 ? "v" + std::to_string(costs.api) : "-"; }

void writeAll(JsonWriter& json, const Named& values) {
  for (const auto& [name, value] : values) json.key(name).value(value);
}

void writeInstructions(JsonWriter& json, const Costs& costs) {
  if (!costs.instructions) {
    json.key("instructions_plugin").null();
    return;
  }
  writeAll(json, {{"instructions_plugin", costs.instructions->plugin},
                  {"instructions_device", costs.instructions->device},
                  {"instructions_bench", costs.instructions->bench},
                  {"instructions_libc", costs.instructions->rest}});
}

// One-sided patterns: what of it the ranks spend that are only put to.
void writeTargets(JsonWriter& json, const Costs& costs) {
  if (costs.counts) {
    const softdev::Counters targets = targetsOf(*costs.counts);
    for (const auto& [name, value] : perMessage(costs, targets))
      json.key(std::string("target_") + name).value(value);
  }
  if (costs.instructions) json.key("target_instructions_plugin").value(costs.instructions->targets);
}

// The ratios of the first plugin's costs to those of this plugin.
void writeRatios(JsonWriter& json, const Costs& costs, const Costs& first) {
  json.key("cpu_ratio").value(first.cpu_ns_min / costs.cpu_ns_min);
  if (costs.instructions)
    json.key("instructions_ratio").value(first.instructions->plugin / costs.instructions->plugin);
  if (costs.set_up) json.key("set_up_ratio").value(first.set_up->cpu_ns / costs.set_up->cpu_ns);
  if (costs.latency) json.key("latency_ratio").value(first.latency->p50_ns / costs.latency->p50_ns);
}

void printInstructions(const std::vector<Costs>& all) {
  std::printf("# instructions per message\n%-24s %9s %9s %9s %9s\n", "plugin", "plugin", "device", "bench",
              "libc");
  for (const Costs& costs : all) {
    std::printf("%-24s %9.1f %9.1f %9.1f %9.1f\n", costs.label.c_str(), costs.instructions->plugin,
                costs.instructions->device, costs.instructions->bench, costs.instructions->rest);
  }
}

void printTargets(const std::vector<Costs>& all) {
  std::printf("# of these, ranks that are put to\n%-24s %9s %9s %9s %9s %9s %9s\n", "plugin", "send WR",
              "recv WR", "CQE", "sends", "recvs", "instr.");
  for (const Costs& costs : all) {
    std::printf("%-24s", costs.label.c_str());
    const Named values = perMessage(costs, targetsOf(*costs.counts));
    for (std::size_t i = 0; i < 5; ++i) std::printf(" %9.3f", values[i].second);
    std::printf(" %9s\n", costs.instructions ? textOf("%.1f", costs.instructions->targets).c_str() : "-");
  }
}

void printLatency(const std::vector<Costs>& all) {
  std::printf("# latency, one way, in ns: half the time to and fro\n%-24s %9s %9s %9s %9s\n", "plugin", "min",
              "p50", "p90", "p99");
  for (const Costs& costs : all) {
    std::printf("%-24s", costs.label.c_str());
    for (const auto& [name, value] : latencies(*costs.latency)) std::printf(" %9.0f", value);
    std::printf("\n");
  }
}

void printSetUp(const std::vector<Costs>& all, int connections) {
  std::printf(
      "# of one connection out of %d, both ends; regMr: of new memory, and deregMr\n"
      "%-24s %12s %12s %12s %12s %12s\n",
      connections, "plugin", "cpu us", "wall us", "KiB", "close us", "regMr us");
  for (const Costs& costs : all) {
    if (!costs.set_up) continue;
    std::printf("%-24s %12.1f %12.1f %12.1f %12.1f %12.2f\n", costs.label.c_str(),
                costs.set_up->cpu_ns / 1000, costs.set_up->wall_ns / 1000, costs.set_up->bytes / 1024,
                costs.set_up->close_cpu_ns / 1000, costs.set_up->register_cpu_ns / 1000);
  }
}

void writeCosts(JsonWriter& json, const BenchOptions& options, const Costs& costs, const Costs& first) {
  json.beginObject();
  json.key("plugin").value(costs.name);
  json.key("file").value(costs.plugin.plugin);
  json.key("api").value(apiOf(costs));
  json.key("size").value(costs.size);
  json.key("window").value(options.task.shape.window);
  json.key("grouped").value(options.task.shape.grouped);
  json.key("pattern").value(nameOf(options.task.shape.pattern));
  json.key("connections").value(options.task.shape.connections);
  json.key("steps").value(options.task.shape.steps);
  json.key("gpu_delay").value(options.task.shape.gpu_delay);
  json.key("hint").value(options.task.shape.optional_completion ? "ll" : "none");
  json.key("ends").value(nameOf(options.task.ends));
  json.key("rails").value(options.task.rails);
  if (options.place.queue_pairs > 0) json.key("queue_pairs").value(options.place.queue_pairs);
  json.key("messages").value(costs.messages);
  json.key("repeats").value(options.repeats);
  writeAll(json, {{"cpu_ns_min", costs.cpu_ns_min},
                  {"cpu_ns_median", costs.cpu_ns_median},
                  {"wall_ns_min", costs.wall_ns_min},
                  {"bandwidth_gbps", costs.bandwidthGbps()}});
  if (costs.counts) writeAll(json, perMessage(costs));
  writeInstructions(json, costs);
  if (isOneSided(options.task.shape.pattern)) writeTargets(json, costs);
  if (costs.latency) writeAll(json, latencies(*costs.latency));
  if (costs.set_up) {
    json.key("set_up_connections").value(options.set_ups);
    writeAll(json, setUps(*costs.set_up));
  }
  if (&costs != &first) writeRatios(json, costs, first);
  if (costs.others)
    writeAll(json, {{"others_cpu", costs.others->processes}, {"hypervisor_cpu", costs.others->hypervisor}});
  json.endObject();
}

}  // namespace

std::string patternText(const BenchOptions& options) {
  const BenchShape& shape = options.task.shape;
  std::string text = nameOf(shape.pattern);
  if (shape.pattern == BenchPattern::kGrouped) text += " by " + std::to_string(shape.grouped);
  if (shape.pattern == BenchPattern::kOps || shape.steps > 1) text += " of " + std::to_string(shape.steps);
  if (shape.connections > 1) text += " x" + std::to_string(shape.connections);
  if (shape.window != shape.usualWindow()) text += ", window " + std::to_string(shape.window);
  if (shape.gpu_delay > 0) text += ", delay " + std::to_string(shape.gpu_delay);
  if (shape.optional_completion) text += ", LL";
  if (options.task.rails > 1) text += ", " + std::to_string(options.task.rails) + " rails";
  if (options.place.queue_pairs > 0)
    text += ", " + std::to_string(options.place.queue_pairs) + " queue pairs";
  return text;
}

namespace {

void sayBusy(const std::optional<OthersUse>& others) {
  if (others && others->worthSaying()) std::printf("# this machine was busy: %s\n", others->text().c_str());
}

void printCosts(const BenchOptions& options, const std::vector<Costs>& all) {
  const BenchShape& shape = options.task.shape;
  std::printf(
      "# railwise bench: %s, %d connection(s), %zu bytes, window %d, %d buffer(s) in a receive, %d repeats "
      "of %llu messages\n"
      "# per message; ends: %s; posts: calls of ibv_post_send and ibv_post_recv\n",
      nameOf(shape.pattern), shape.connections, all[0].size, shape.window, shape.grouped, options.repeats,
      static_cast<unsigned long long>(all[0].messages) / static_cast<unsigned>(options.repeats),
      nameOf(options.task.ends));
  std::printf("%-24s %4s %9s %9s %9s %8s %8s %8s %8s %8s %8s\n", "plugin", "API", "cpu min", "median",
              "bench/it", "Gbit/s", "send WR", "recv WR", "CQE", "sends", "recvs");
  for (const Costs& costs : all) {
    std::printf("%-24s %4s %6.1f ns %6.1f ns %9s %8.2f", costs.label.c_str(), apiOf(costs).c_str(),
                costs.cpu_ns_min, costs.cpu_ns_median,
                &costs == &all[0] ? "-" : textOf("%.2f", all[0].cpu_ns_min / costs.cpu_ns_min).c_str(),
                costs.bandwidthGbps());
    const Named values = costs.counts ? perMessage(costs) : Named();
    for (std::size_t i = 0; i < 5; ++i)
      std::printf(" %8s", costs.counts ? textOf("%.3f", values[i].second).c_str() : "-");
    std::printf("\n");
  }
  if (std::ranges::any_of(all, [](const Costs& costs) { return !costs.counts; }))
    std::printf("# -: not counted: this plugin uses no software device, so its messages take another way\n");
  if (all[0].counts && isOneSided(shape.pattern)) printTargets(all);
  if (all[0].instructions) printInstructions(all);
  if (all[0].latency) printLatency(all);
  if (all[0].set_up) printSetUp(all, options.set_ups);
  sayBusy(all[0].others);
}

}  // namespace

void printBenchJson(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size) {
  JsonWriter json;
  const bool several = by_size.size() * by_size[0].size() > 1;
  if (several) json.beginArray();
  for (const std::vector<Costs>& all : by_size) {
    for (const Costs& costs : all) writeCosts(json, options, costs, all[0]);
  }
  if (several) json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

void printBenchRowsJson(const std::vector<BenchRow>& rows) {
  JsonWriter json;
  json.beginArray();
  for (const BenchRow& row : rows) {
    for (const Costs& costs : row.costs) writeCosts(json, row.options, costs, row.costs[0]);
  }
  json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

void printBenchRows(std::vector<BenchRow> rows) {
  const bool several = rows[0].costs.size() > 1;
  const auto ratio = [&](const BenchRow& row, double Costs::*field) {
    return row.costs.front().*field / (several ? row.costs.back().*field : 1);
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const BenchRow& a, const BenchRow& b) {
    return ratio(a, &Costs::cpu_ns_min) < ratio(b, &Costs::cpu_ns_min);
  });
  std::printf(
      "# railwise bench: what a message costs with %s, by pattern%s\n", rows[0].costs[0].label.c_str(),
      several ? textOf("; ratios to %s in the same run", rows[0].costs.back().label.c_str()).c_str() : "");
  std::printf("%-24s %8s %6s %6s %6s %9s %6s %9s %6s\n", "pattern", "size", "WR", "posts", "CQE", "instr.",
              "ratio", "cpu ns", "ratio");
  for (const BenchRow& row : rows) {
    const Costs& costs = row.costs.front();
    std::printf("%-24s %8zu", patternText(row.options).c_str(), costs.size);
    if (costs.counts) {
      const auto values = perMessage(costs);
      std::printf(" %6.3f %6.3f %6.3f", values[0].second, values[3].second, values[2].second);
    } else {
      std::printf(" %6s %6s %6s", "-", "-", "-");
    }
    const auto& mine = costs.instructions;
    const auto& theirs = row.costs.back().instructions;
    std::printf(" %9s %6s %9.1f %6s\n", mine ? textOf("%.1f", mine->plugin).c_str() : "-",
                several && mine ? textOf("%.2f", mine->plugin / theirs->plugin).c_str() : "-",
                costs.cpu_ns_min, several ? textOf("%.2f", ratio(row, &Costs::cpu_ns_min)).c_str() : "-");
  }
  OthersUse most;
  for (const BenchRow& row : rows) {
    const OthersUse its = row.costs.front().others.value_or(OthersUse{});
    if (its.processes + its.hypervisor > most.processes + most.hypervisor) most = its;
  }
  sayBusy(most);
}

void printBenchText(const BenchOptions& options, const std::vector<std::vector<Costs>>& by_size) {
  for (const std::vector<Costs>& all : by_size) printCosts(options, all);
}

}  // namespace railwise::cli
