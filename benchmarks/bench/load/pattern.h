// In which order `railwise bench` calls a plugin. NCCL makes all of these but batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railwise::tools {

enum class BenchPattern : uint8_t {
  kProxy,  // one operation of many steps: at each pass of the proxy thread one call at a receiver, two at a
           // sender
  kOps,    // the same in operations of a few steps; the next begins when the last is complete
  kLone,   // one receive, one send, both waited for
  kRing,   // two processes; a step is sent when the step before was received
  kAlltoall,  // operations of one step on all connections, all waited for
  kBatch,     // windows of receives, then windows of sends, then tests: NCCL never does this
  kGrouped,   // proxy, with eight buffers in a receive
  kIdle,      // calls that find nothing: a test of a receive and an isend without clear-to-send
};

struct BenchShape {
  std::size_t size = 8;  // bytes of a message
  int window = 8;        // receives under way at most
  int grouped = 1;       // buffers of a receive
  BenchPattern pattern = BenchPattern::kProxy;
  int connections = 1;
  int steps = 1;      // of an operation of kOps
  int gpu_delay = 0;  // passes until the GPU has seen what was received, or has refilled what was sent
  bool optional_completion =
      false;  // receives with NCCL_NET_OPTIONAL_RECV_COMPLETION, as LL and LL128 have them

  // Messages are counted in whole operations on all connections.
  uint64_t unit() const {
    const bool ops = pattern == BenchPattern::kOps;
    return static_cast<uint64_t>(grouped) * static_cast<uint64_t>(connections) *
           static_cast<uint64_t>(ops ? steps : 1);
  }
};

const char* nameOf(BenchPattern pattern);

}  // namespace railwise::tools
