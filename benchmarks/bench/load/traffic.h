// The two ends of a connection as `railwise bench` uses them. Sends fill receives in order, each end has at
// most a window of them under way, and the oldest request is tested first. benchmarks/bench/load/drive.h
// decides when. Each end belongs to one thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/outcome.h"
#include "cli/plugin/net_api.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {

// The order in which `railwise bench` calls a plugin. NCCL uses every pattern except batch.

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

// Byte `i` of a message that is checked.
inline std::byte checkedByte(uint64_t message, std::size_t i) {
  return static_cast<std::byte>(message * 31 + i * 7 + (i >> 8));
}

// Advances the slot in a ring of `slots`. Avoids a division, which would be visible in the cost of a message.
inline void advanceSlot(uint64_t& slot, uint64_t by, uint64_t slots) {
  slot += by;
  if (slot == slots) slot = 0;
}

// Detects that nothing moves any more. After many idle rounds it yields the core, because the other end may
// need it.
class Patience {
 public:
  static constexpr auto kLimit = std::chrono::seconds(30);

  // Call it in each round. True: nothing has moved for longer than kLimit.
  bool lost(bool moved) {
    idle_ = moved ? 0 : idle_ + 1;
    return idle_ != 0 && idle_ % kYieldRounds == 0 && tooLong();
  }

 private:
  // 10 us to 100 us, depending on the cost of a round.
  static constexpr uint64_t kYieldRounds = 1 << 12;
  static constexpr uint64_t kIdleRounds = 1 << 14;  // rounds between two readings of the clock

  bool tooLong() {
    std::this_thread::yield();
    if (idle_ % kIdleRounds != 0) return false;
    if (idle_ == kIdleRounds) deadline_ = Deadline::after(kLimit);
    return deadline_.passed();
  }

  uint64_t idle_ = 0;
  Deadline deadline_ = Deadline::after(kLimit);
};

// The common part of both ends: registered memory for a window of messages, and the first error.
class BenchEnd {
 public:
  BenchEnd(const BenchEnd&) = delete;
  BenchEnd& operator=(const BenchEnd&) = delete;

  bool connected() const { return comm_ != nullptr; }
  // Registers memory for a window of messages; the end must be connected. False: failed.
  bool registerMemory();
  // Registers memory, and deregisters it. False: failed.
  bool registerOnce(std::byte* memory, std::size_t bytes);
  // The first error; empty: none.
  const std::string& error() const { return error_; }
  // `on`: from now on, every byte of a message is written at the sender and checked at the receiver.
  void verify(bool on) { verifying_ = on; }
  uint64_t posted() const { return posted_; }
  uint64_t done() const { return done_; }

  // Begins the next operation, which has `messages` messages.
  void begin(uint64_t messages) { operation_end_ = done_ + messages; }

 protected:
  BenchEnd(NetApi& api, BenchShape shape);
  ~BenchEnd() = default;

  bool check(const char* call, ncclResult_t result) {
    if (result != ncclSuccess) [[unlikely]]
      note(call, result);
    return result == ncclSuccess;
  }
  void note(const char* call, ncclResult_t result);
  bool room() const { return posted_ - done_ < slots_; }
  // Has the operation messages left to post, and has the GPU a free slot?
  bool ready() const { return posted_ < operation_end_ && posted_ - consumed_ < slots_; }
  void noteDone(uint64_t messages) {
    if (shape_.gpu_delay > 0) done_at_[(done_ / group_) % done_at_.size()] = pass_;
    done_ += messages;
    if (!late_) consumed_ = done_;
  }
  // Called in each pass: the GPU now sees what was done `gpu_delay` passes ago.
  void consumeLate();
  const bool late_;
  template <typename End>
  static bool postAllOf(End& of, uint64_t end) {
    const uint64_t before = of.posted_;
    while (of.posted_ < end && of.room() && of.post()) {
    }
    return of.posted_ != before;
  }
  template <typename End>
  static bool testAllOf(End& of) {
    const uint64_t before = of.done_;
    while (of.done_ < of.posted_ && of.test()) {
    }
    return of.done_ != before;
  }
  bool deregisterMemory() { return mhandle_ == nullptr || check("deregMr", api_.deregMr(comm_, mhandle_)); }
  std::byte* at(uint64_t slot) const { return memory_.get() + slot * stride_; }

  NetApi& api_;
  const BenchShape shape_;
  const uint64_t group_;
  const uint64_t slots_;  // largest number of messages under way; a multiple of the group size
  void* comm_ = nullptr;
  void* mhandle_ = nullptr;
  bool verifying_ = false;
  std::vector<void*> requests_;     // by slot; the request of a group is at the slot of its first message
  uint64_t posted_ = 0, done_ = 0;  // messages since the beginning
  uint64_t post_slot_ = 0, test_slot_ = 0;  // slots of the next message to post and to test
  uint64_t operation_end_ = 0;              // messages since the beginning
  uint64_t consumed_ = 0;                   // messages that the GPU has seen; their slots are free
  std::string error_;

 private:
  uint64_t pass_ = 0;
  std::vector<uint64_t> done_at_;  // the pass in which each receive was done
  const std::size_t stride_;
  const std::size_t bytes_;
  PageMemory memory_;
};

class BenchSender : public BenchEnd {
 public:
  BenchSender(NetApi& api, BenchShape shape);

  // Tries once to connect. False: failed.
  bool connect(int device, void* handle);
  using BenchEnd::room;
  bool post();  // posts one message if there is room; false: not now, or failed
  bool test();  // tests the oldest message; false: not done, or failed
  // What NCCL's proxy thread does in each pass for a connection (sendProxyProgress): sends if the GPU has
  // data, and tests the oldest send. False: nothing moved.
  bool pass();
  bool operationDone() const { return done_ == operation_end_; }
  // postAll() posts what is possible until `end` messages were posted since the beginning; testAll() tests
  // what is possible. False: nothing moved.
  bool postAll(uint64_t end) { return postAllOf(*this, end); }
  bool testAll() { return testAllOf(*this); }
  bool close();

 private:
  friend class BenchEnd;
  int post_tag_;
};

class BenchReceiver : public BenchEnd {
 public:
  BenchReceiver(NetApi& api, BenchShape shape);

  // Listens, and fills `handle`, which has NCCL_NET_HANDLE_MAXSIZE bytes.
  bool listen(int device, void* handle);
  bool accept();  // tries once to accept; false: failed
  // Like the sender's post() and test(), but for a group of messages.
  bool post();
  bool test();
  // What NCCL's proxy thread does in each pass (recvProxyProgress): posts one receive if there is a free
  // slot, otherwise tests the oldest receive.
  bool pass();
  bool operationDone() const { return consumed_ == operation_end_; }
  // Uses `sender`, the other end, to learn when data has arrived. With the hint that completions are
  // optional, the plugin does not report that.
  void watch(const BenchSender& sender) { sender_ = &sender; }
  bool postAll(uint64_t end) { return postAllOf(*this, end); }
  bool testAll() { return testAllOf(*this); }
  bool close();

 private:
  friend class BenchEnd;
  bool right(uint64_t message, uint64_t slot);
  void consumeArrived();

  void* listener_ = nullptr;
  const BenchSender* sender_ = nullptr;
};

// Connects both ends in this thread. The Outcome's error says why that failed.
Outcome<void> connectEnds(BenchSender& sender, BenchReceiver& receiver, int device);

}  // namespace railwise::cli
