// What a worker of `railwise bench` runs, whatever it is that it measures: messages of a plugin whose ends
// are in one thread, in two threads or in two processes, or bare RDMA writes. One thread.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/load/set_up.h"
#include "benchmarks/bench/load/task.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::tools {

struct BenchRan {
  uint64_t cpu_ns = 0;  // of both ends
  uint64_t wall_ns = 0;
  // One way, of a ping-pong: half the time to and fro.
  struct Latency {
    double min_ns, p50_ns, p90_ns, p99_ns;
  };
  std::optional<Latency> latency = {};
};

// Who moves the messages.
struct BenchOrigin {
  std::string name;
  std::string file;  // whose instructions are the plugin's
  int api = 0;       // 0: none
};
BenchOrigin originOf(const LoadedPlugin& plugin);

class BenchLoad {
 public:
  static std::unique_ptr<BenchLoad> create(const BenchTask& task);
  virtual ~BenchLoad() = default;
  BenchLoad(const BenchLoad&) = delete;
  BenchLoad& operator=(const BenchLoad&) = delete;

  // Loads and connects. False, here and below: error().
  virtual bool start() = 0;
  // Messages of which every byte is checked, before the first run. Both on a thread of their own, as NCCL's
  // contract has it.
  virtual bool check() = 0;
  virtual std::optional<BenchRan> run(uint64_t messages) = 0;
  // So many connections more, instead of messages.
  virtual std::optional<BenchSetUp> connectMore(int connections);
  virtual bool close() = 0;

  const BenchOrigin& origin() const { return origin_; }  // once started
  const std::string& error() const { return error_; }

 protected:
  BenchLoad() = default;
  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  BenchOrigin origin_;
  std::string error_;
};

// How many are checked: a window at least, else fewer of large ones, in whole groups; a few of a ping-pong.
uint64_t checkedMessages(const BenchTask& task);

// CPU and elapsed time since its beginning.
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

// The libibverbs in front of the system's takes its devices from RAILWISE_DEVICE, by which Railwise's own
// plugin would choose its built-in device instead of any libibverbs. This lets the one look first, and the
// other find any libibverbs. Before the first plugin is loaded.
void settleDevices();

// The task's plugin, started. Several rails are one device now, the task's. Nothing: `error` says why.
std::optional<LoadedPlugin> loadForBench(BenchTask& task, std::string* error);

}  // namespace railwise::tools
