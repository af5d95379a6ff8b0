// A load whose two ends have a thread or a process each. Those of a plugin have a context of the plugin each,
// as ranks of NCCL have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/bench/load/channel.h"
#include "benchmarks/bench/load/load.h"

namespace railwise::tools {

// One of them. False, everywhere: error().
class BenchOneEnd {
 public:
  enum class Side : uint8_t { kNear, kFar };  // the near one sends, and begins a ping-pong

  virtual ~BenchOneEnd() = default;
  BenchOneEnd(const BenchOneEnd&) = delete;
  BenchOneEnd& operator=(const BenchOneEnd&) = delete;

  virtual bool load() = 0;
  // The other end does the same meanwhile.
  virtual bool join(Side side) = 0;
  virtual void verify(bool on) = 0;
  // `round_trips_ns`: at the near end of a ping-pong.
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

// Starts the other process here, if it is to be one: before any plugin and any thread.
std::unique_ptr<BenchLoad> makeTwoEnds(const BenchTask& task, MakeBenchEnd make);

}  // namespace railwise::tools
