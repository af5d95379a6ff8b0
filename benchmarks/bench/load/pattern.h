// The order in which `railwise bench` calls a plugin. NCCL uses every pattern except batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railwise::cli {

enum class BenchPattern : uint8_t {
  kProxy,  // one operation of many steps: each pass of the proxy thread makes one call on a receiver and two
           // on a sender
  kOps,  // like kProxy, in operations of a few steps; the next operation begins when the last one is complete
  kLone,      // one receive and one send; then waits for both
  kRing,      // two processes; a step is sent when the previous step has been received
  kAlltoall,  // operations of one step on all connections; then waits for all
  kBatch,     // windows of receives, then windows of sends, then tests; NCCL never does this
  kGrouped,   // like kProxy, with eight buffers in a receive
  kIdle,      // calls that find nothing to do: test of a receive, and isend without a clear-to-send
  // One-sided communication. The first rank puts to all others, or gets from them. Every rank calls
  // rmaProgress() in each pass of its thread.
  kPutSignal,  // host RMA: each put has a signal; the oldest is tested, and the window is filled again
  kGroup,      // collectives without a CTA: groups of puts with signals; all of a group are tested
  kGin,        // kernels behind the GIN proxy: puts, the last one of an operation with a signal
  kGet,        // kernels that get
};

constexpr bool isOneSided(BenchPattern pattern) { return pattern >= BenchPattern::kPutSignal; }

struct BenchShape {
  std::size_t size = 8;  // bytes of a message
  int window = 8;        // largest number of receives, or of one-sided operations of a peer, under way
  int grouped = 1;       // number of buffers of a receive
  BenchPattern pattern = BenchPattern::kProxy;
  int connections = 1;  // one-sided: number of peers
  int steps = 1;        // number of steps of an operation of kOps, kGroup and kGin
  int gpu_delay = 0;    // passes until the GPU has seen received data, or has refilled a sent slot
  // Receives have the hint NCCL_NET_OPTIONAL_RECV_COMPLETION, as in the protocols LL and LL128.
  bool optional_completion = false;

  // As NCCL has it: 8 steps of a proxy's operation, or 32 x maxRecvs operations of a context and peer.
  int usualWindow() const { return isOneSided(pattern) ? 256 : 8; }
  // The number of messages of one operation on all connections. A run moves a multiple of it.
  uint64_t unit() const {
    const bool ops =
        pattern == BenchPattern::kOps || pattern == BenchPattern::kGroup || pattern == BenchPattern::kGin;
    return static_cast<uint64_t>(grouped) * static_cast<uint64_t>(connections) *
           static_cast<uint64_t>(ops ? steps : 1);
  }
};

const char* nameOf(BenchPattern pattern);

}  // namespace railwise::cli
