// One connection from this process to itself on the software device: CPU time per message (both ends and the
// device) and the work it makes. Run it on a quiet machine, with --benchmark_repetitions=11
// --benchmark_report_aggregates_only=true.
#include <benchmark/benchmark.h>

#include <vector>

#include "loop_connection.h"

namespace railwise::net {
namespace {

// `window` groups of `group` messages in flight, all completed.
bool exchange(LoopConnection& loop, int window, int group, size_t bytes) {
  static std::vector<Request*> requests;
  requests.clear();
  for (int i = 0; i < window; ++i) requests.push_back(loop.receive(group, 8 << 20, bytes));
  for (int i = 0; i < window * group; ++i) requests.push_back(loop.send(0, bytes));
  for (Request* request : requests) {
    if (request == nullptr || !LoopConnection::finish(request)) return false;
  }
  return true;
}

void messages(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const auto group = static_cast<int>(state.range(1));
  constexpr int kWindow = 8;
  LoopConnection loop(16 << 20);
  const softdev::Counters before = loop.counters();
  for (auto _ : state) {
    if (!exchange(loop, kWindow, group, bytes)) {
      state.SkipWithError("a transfer failed");
      break;
    }
  }
  const softdev::Counters after = loop.counters();
  const auto count = static_cast<double>(state.iterations()) * kWindow * group;
  const auto perMessage = [&](uint64_t from, uint64_t to) { return static_cast<double>(to - from) / count; };
  state.SetItemsProcessed(static_cast<int64_t>(count));
  state.SetBytesProcessed(static_cast<int64_t>(count) * static_cast<int64_t>(bytes));
  state.counters["posts"] = perMessage(before.post_send_calls, after.post_send_calls);
  state.counters["sends"] =
      perMessage(before.writes + before.writes_with_imm, after.writes + after.writes_with_imm);
  state.counters["receives"] = perMessage(before.receives, after.receives);
  state.counters["completions"] = perMessage(before.completions, after.completions);
  state.counters["polls"] = perMessage(before.poll_calls, after.poll_calls);
}
BENCHMARK(messages)->ArgNames({"bytes", "group"})->ArgsProduct({{8, 4096, 65536, 1 << 20}, {1, 8}});

}  // namespace
}  // namespace railwise::net
