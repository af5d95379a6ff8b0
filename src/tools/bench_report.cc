#include "tools/bench_report.h"

#include <cstdio>
#include <string>
#include <utility>

#include "base/json.h"
#include "tools/message.h"

namespace railwise::tools {
namespace {

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

void writeInstructions(JsonWriter& json, const Costs& costs, const Costs& first) {
  if (!costs.instructions) {
    json.key("instructions_plugin").null();
    return;
  }
  json.key("instructions_plugin").value(costs.instructions->plugin);
  json.key("instructions_device").value(costs.instructions->device);
  json.key("instructions_bench").value(costs.instructions->bench);
  json.key("instructions_libc").value(costs.instructions->rest);
  if (&costs != &first)
    json.key("instructions_ratio").value(first.instructions->plugin / costs.instructions->plugin);
}

void printInstructions(const std::vector<Costs>& all) {
  std::printf("# instructions per message\n%-24s %9s %9s %9s %9s\n", "plugin", "plugin", "device", "bench",
              "libc");
  for (const Costs& costs : all) {
    std::printf("%-24s %9.1f %9.1f %9.1f %9.1f\n", costs.child->name().c_str(), costs.instructions->plugin,
                costs.instructions->device, costs.instructions->bench, costs.instructions->rest);
  }
}

}  // namespace

void printBenchJson(const BenchOptions& options, const std::vector<Costs>& all) {
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
    writeInstructions(json, costs, all[0]);
    if (&costs != &all[0]) json.key("cpu_ratio").value(all[0].cpu_ns_min / costs.cpu_ns_min);
    json.endObject();
  }
  if (all.size() > 1) json.endArray();
  std::fputs(json.text().c_str(), stdout);
}

void printBenchText(const BenchOptions& options, const std::vector<Costs>& all) {
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
  if (all[0].instructions) printInstructions(all);
}

}  // namespace railwise::tools
