// The two ends of a connection as `railwise bench` calls them: sends fill receives in order, a window of each
// is under way at most, and the oldest request is the one that is tested. benchmarks/bench/load/drive.h says
// when. Each end belongs to one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "benchmarks/bench/load/pattern.h"
#include "cli/plugin/net_api.h"
#include "perf/measuring/page_memory.h"

namespace railwise::tools {

// Tells when nothing moves any more. Who waits for long lets others run: the other end may need this core.
class Patience {
 public:
  static constexpr auto kLimit = std::chrono::seconds(30);

  // For each round; true: it has been too long since anything moved.
  bool lost(bool moved) {
    idle_ = moved ? 0 : idle_ + 1;
    return idle_ != 0 && idle_ % kYieldRounds == 0 && tooLong();
  }

 private:
  static constexpr uint64_t kYieldRounds = 1 << 12;  // 10 us to 100 us, by what a look costs
  static constexpr uint64_t kIdleRounds = 1 << 14;   // between two looks at the clock

  bool tooLong() {
    std::this_thread::yield();
    if (idle_ % kIdleRounds != 0) return false;
    if (idle_ == kIdleRounds) deadline_ = Deadline::after(kLimit);
    return deadline_.passed();
  }

  uint64_t idle_ = 0;
  Deadline deadline_ = Deadline::after(kLimit);
};

// What both ends have: memory for a window of messages, registered, and errors.
class BenchEnd {
 public:
  BenchEnd(const BenchEnd&) = delete;
  BenchEnd& operator=(const BenchEnd&) = delete;

  bool connected() const { return comm_ != nullptr; }
  // Of a window of messages, once it is connected. False: failed.
  bool registerMemory();
  // The first error; empty: none.
  const std::string& error() const { return error_; }
  // Every byte of the messages from now on is written, or checked, if `on`.
  void verify(bool on) { verifying_ = on; }
  uint64_t posted() const { return posted_; }
  uint64_t done() const { return done_; }

  // The next operation has so many messages.
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
  // Does the operation go on, and has the GPU a slot for it?
  bool ready() const { return posted_ < operation_end_ && posted_ - consumed_ < slots_; }
  void noteDone(uint64_t messages) {
    if (shape_.gpu_delay > 0) done_at_[(done_ / group_) % done_at_.size()] = pass_;
    done_ += messages;
    if (!late_) consumed_ = done_;
  }
  // At each pass: the GPU sees what was done `gpu_delay` passes ago.
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
  const uint64_t slots_;  // messages under way at most: whole groups
  void* comm_ = nullptr;
  void* mhandle_ = nullptr;
  bool verifying_ = false;
  std::vector<void*> requests_;             // by slot; of a group that of its first message
  uint64_t posted_ = 0, done_ = 0;          // messages since the beginning
  uint64_t post_slot_ = 0, test_slot_ = 0;  // theirs
  uint64_t operation_end_ = 0;              // messages since the beginning
  uint64_t consumed_ = 0;                   // by the GPU: their slots are free
  std::string error_;

 private:
  uint64_t pass_ = 0;
  std::vector<uint64_t> done_at_;  // in which pass, by receive
  const std::size_t stride_;
  const std::size_t bytes_;
  PageMemory memory_;
};

class BenchSender : public BenchEnd {
 public:
  BenchSender(NetApi& api, BenchShape shape);

  // One try to connect. False: failed.
  bool connect(int device, void* handle);
  using BenchEnd::room;
  bool post();  // one message, if there is room; false: not now, or failed
  bool test();  // the oldest; false: not done, or failed
  // What NCCL's proxy thread does for a connection when it comes by (sendProxyProgress): sends if the GPU has
  // data, and tests the oldest send. False: nothing moved.
  bool pass();
  bool operationDone() const { return done_ == operation_end_; }
  // Posts and tests what can be until `end` messages since the beginning. False: nothing moved.
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

  // Fills `handle`, NCCL_NET_HANDLE_MAXSIZE bytes.
  bool listen(int device, void* handle);
  bool accept();  // one try; false: failed
  // As the sender's, but by groups.
  bool post();
  bool test();
  // recvProxyProgress: posts one receive if there is a slot, else tests the oldest.
  bool pass();
  bool operationDone() const { return consumed_ == operation_end_; }
  // With the hint that completions are optional the plugin does not say that data are there; `sender`, the
  // other end, knows when they are.
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

// Both ends in this thread. False: `error` says why it failed.
bool connectEnds(BenchSender& sender, BenchReceiver& receiver, int device, std::string* error);

}  // namespace railwise::tools
