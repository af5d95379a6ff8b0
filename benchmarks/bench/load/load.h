// What a worker of `railwise bench` runs: messages of a plugin whose two ends are in one thread, in two
// threads or in two processes, or bare RDMA writes. One thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "benchmarks/bench/load/traffic.h"
#include "cli/options/options.h"
#include "cli/plugin/net_api.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {

struct BenchPlugin {
  std::string plugin;  // as in --plugin; empty: Railwise's own
  int api = 0;         // API version; 0: the newest that the plugin has
  bool raw = false;    // no plugin: bare RDMA writes
};

enum class BenchEnds : uint8_t { kOneThread, kTwoThreads, kTwoProcesses };

struct BenchTask {
  BenchPlugin plugin;
  BenchShape shape;
  BenchEnds ends = BenchEnds::kOneThread;
  // One message at a time, back and forth. Not possible in one thread.
  bool ping_pong = false;
  // How many connections to set up and measure, instead of messages. Both ends are in one thread.
  int set_ups = 0;
  int device = 0;
  // Number of devices, from `device` on, that the plugin merges into one.
  int rails = 1;
  bool verbose = false;
};

std::vector<std::string> wordsOf(const BenchTask& task);
// Null: the words do not describe a task.
std::optional<BenchTask> readTask(Args words);

// The cost of one connection, both ends together.
struct BenchSetUp {
  double cpu_ns;   // CPU time of all threads of the process
  double wall_ns;  // elapsed time; the connections are set up one after the other
  // By how much the process has grown: proportional set size, including the device's memory.
  double bytes;
  double close_cpu_ns;     // CPU time to close it, of all threads of the process
  double register_cpu_ns;  // CPU time of a regMr of new memory and its deregMr
};

struct BenchRan {
  uint64_t cpu_ns = 0;  // CPU time of both ends
  uint64_t wall_ns = 0;
  // Latency of a ping-pong in one direction: half of the round-trip time.
  struct Latency {
    double min_ns, p50_ns, p90_ns, p99_ns;
  };
  std::optional<Latency> latency = {};
};

// What moves the messages: a plugin, or bare RDMA writes.
struct BenchOrigin {
  std::string name;
  std::string file;  // the file whose instructions count as the plugin's
  int api = 0;       // API version; 0: no plugin
};
template <typename Api>
BenchOrigin originOf(const Loaded<Api>& plugin) {
  return {plugin.api->name(), plugin.path, plugin.api->version()};
}

class BenchLoad {
 public:
  static std::unique_ptr<BenchLoad> create(const BenchTask& task);
  virtual ~BenchLoad() = default;
  BenchLoad(const BenchLoad&) = delete;
  BenchLoad& operator=(const BenchLoad&) = delete;

  // Loads the plugin and connects. False, here and below: see error().
  virtual bool start() = 0;
  // Moves messages before the first run and checks every byte of them.
  virtual bool check() = 0;
  virtual std::optional<BenchRan> run(uint64_t messages) = 0;
  // As run(), for the instructions to be counted.
  std::optional<BenchRan> count(uint64_t messages) {
    counted_ = true;
    const auto ran = run(messages);
    counted_ = false;
    return ran;
  }
  // Opens `connections` more connections and measures that, instead of messages.
  virtual std::optional<BenchSetUp> connectMore(int connections);
  virtual bool close() = 0;

  const BenchOrigin& origin() const { return origin_; }  // valid after start()
  const std::string& error() const { return error_; }

 protected:
  BenchLoad() = default;
  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  BenchOrigin origin_;
  std::string error_;
  bool counted_ = false;  // this run is count()'s
};

// Bare RDMA writes: a window of signalled writes, both ends in one thread.
std::unique_ptr<BenchLoad> makeRawWrites(const BenchTask& task);

// One-sided communication, all ranks in one thread.
std::unique_ptr<BenchLoad> makeOneSided(const BenchTask& task);

// How many messages check() moves. In a ping-pong: one window. Otherwise as many as make 16 MiB, but at least
// 16 and at most 256, and never less than a window; the number is rounded up to whole units of the pattern.
uint64_t checkedMessages(const BenchTask& task);

// Measures this thread's CPU time and the elapsed time since the clock was made.
class BenchClock {
 public:
  BenchRan ran() const { return {now(CLOCK_THREAD_CPUTIME_ID) - cpu_, now(CLOCK_MONOTONIC) - wall_}; }

 private:
  static uint64_t now(clockid_t clock) {
    timespec time = {};
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  }

  const uint64_t wall_ = now(CLOCK_MONOTONIC);
  const uint64_t cpu_ = now(CLOCK_THREAD_CPUTIME_ID);
};

// Makes both kinds of device usable with RAILWISE_DEVICE=software. The libibverbs in front of the system's
// library takes its software devices from this variable, but Railwise's own plugin would load
// librailwise-device.so because of it. So this function lets libibverbs read the variable first, and then
// sets it to "verbs" for the plugin. Call it before the first plugin is loaded.
void settleDevices();

// The options to load the task's plugin with.
PluginOptions optionsOf(const BenchTask& task);

// Loads and starts the task's plugin. If the task has several rails, they are merged into one device, which
// becomes task.device.
Outcome<LoadedPlugin> loadForBench(BenchTask& task);

}  // namespace railwise::cli
