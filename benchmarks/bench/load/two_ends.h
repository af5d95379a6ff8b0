// A load whose two ends each have a thread or a process of their own. Each end of a plugin has its own
// context of the plugin, as each rank of NCCL has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bench/load/channel.h"
#include "benchmarks/bench/load/load.h"

namespace railwise::cli {

// One end of the load. Functions that return false leave the reason in error().
class BenchOneEnd {
 public:
  enum class Side : uint8_t { kNear, kFar };  // the near end sends, and begins a ping-pong

  virtual ~BenchOneEnd() = default;
  BenchOneEnd(const BenchOneEnd&) = delete;
  BenchOneEnd& operator=(const BenchOneEnd&) = delete;

  virtual bool load() = 0;
  // Connects to the other end, which calls join() at the same time.
  virtual bool join(Side side) = 0;
  virtual void verify(bool on) = 0;
  // `round_trips_ns`: only at the near end of a ping-pong; otherwise null.
  virtual bool run(uint64_t messages, std::vector<uint64_t>* round_trips_ns) = 0;
  virtual bool close() = 0;

  const BenchOrigin& origin() const { return origin_; }
  const std::string& error() const { return error_; }

 protected:
  BenchOneEnd() = default;
  bool fail(const std::string& why) {
    if (error_.empty()) error_ = why;
    return false;
  }

  BenchOrigin origin_;
  std::string error_;
};

using MakeBenchEnd = std::unique_ptr<BenchOneEnd> (*)(const BenchTask& task, const BenchChannel& channel);
std::unique_ptr<BenchOneEnd> makePluginEnd(const BenchTask& task, const BenchChannel& channel);
// An end for bare RDMA writes: the near end writes, and the far end does nothing. In a ping-pong each end
// waits until the last byte of a write is in its memory.
std::unique_ptr<BenchOneEnd> makeRawEnd(const BenchTask& task, const BenchChannel& channel);

// Starts the second process here, if the task has two processes. Call it before any plugin is loaded and any
// thread is started.
std::unique_ptr<BenchLoad> makeTwoEnds(const BenchTask& task, MakeBenchEnd make);

}  // namespace railwise::cli
