// The two ends of a channel as NCCL's proxy drives them: at most kSteps steps on their way, requests tested
// in their order. Made by the rank's service thread, then given to its progress thread.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "plugin/api.h"
#include "plugin/random_transfers/slab.h"
#include "plugin/stress/plan.h"
#include "plugin/stress/watch.h"

namespace railwise::test {

// Thrown in the progress thread when a call fails: NCCL's thread ends then.
struct CallFailed {
  const char* call;
  ncclResult_t result;
};

inline void tryCall(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw CallFailed{call, result};
}

// A closed connection's buffers, kept for a while to see that nothing writes into them any more.
struct Relic {
  std::unique_ptr<Pages> pages;
  static constexpr char kByte = 0x3c;
  explicit Relic(std::unique_ptr<Pages> of) : pages(std::move(of)) {
    std::memset(pages->data(), kByte, pages->bytes());
  }
  void check() const {
    const char* const data = pages->data();
    if (data[0] != kByte || std::memcmp(data, data + 1, pages->bytes() - 1) != 0)
      fail("memory was written to after its connection was closed");
  }
};

template <typename A>
class SendEnd {
 public:
  SendEnd(const ChannelPlan& plan, const Pages& source, Totals& totals)
      : plan_(plan), source_(source), totals_(totals) {}

  void* comm = nullptr;
  void* handle = nullptr;  // of the source

  bool over() const {
    for (int sub = 0; sub < plan_.subs; ++sub)
      if (done_[at(sub)] < plan_.steps) return false;
    return true;
  }
  bool progress(Watched& watched) {
    bool moved = false;
    for (int sub = 0; sub < plan_.subs; ++sub) {
      if (posted_[at(sub)] < plan_.steps && posted_[at(sub)] < done_[at(sub)] + kSteps) moved |= post(sub);
      if (done_[at(sub)] < posted_[at(sub)]) moved |= finish(sub);
    }
    if (moved) watched.moved();
    return moved;
  }
  uint64_t steps() const { return done_[0]; }
  std::string state() const {
    return "sends " + std::to_string(done_[0]) + " done of " + std::to_string(posted_[0]) + " posted of " +
           std::to_string(plan_.steps);
  }

 private:
  static std::size_t at(int sub) { return static_cast<std::size_t>(sub); }
  void*& request(int sub, uint64_t step) { return requests_[at(sub)][step % kSteps]; }

  bool post(int sub) {
    const uint64_t step = posted_[at(sub)];
    const ChannelPlan::Piece piece = plan_.piece(sub, step);
    void*& slot = request(sub, step);  // holds the request of eight steps before
    tryCall(A::isend(comm, source_.data() + piece.source, piece.bytes, sub, handle, &slot), "isend");
    if (slot == nullptr) return false;
    ++posted_[at(sub)];
    return true;
  }
  bool finish(int sub) {
    const uint64_t step = done_[at(sub)];
    int done = kUnwritten;
    int size = kUnwritten;
    tryCall(A::table().test(request(sub, step), &done, &size), "test of a send");
    if (done == 0) return false;
    if (size != static_cast<int>(plan_.piece(sub, step).bytes)) fail("a send reports a wrong size");
    ++done_[at(sub)];
    totals_.messages.fetch_add(1, std::memory_order_relaxed);
    totals_.bytes.fetch_add(static_cast<uint64_t>(size), std::memory_order_relaxed);
    return true;
  }

  const ChannelPlan& plan_;
  const Pages& source_;
  Totals& totals_;
  std::array<uint64_t, 8> posted_ = {};
  std::array<uint64_t, 8> done_ = {};
  std::array<std::array<void*, kSteps>, 8> requests_ = {};
};

template <typename A>
class ReceiveEnd {
 public:
  ReceiveEnd(const ChannelPlan& plan, const Pages& source, Totals& totals)
      : plan_(plan),
        source_(source),
        totals_(totals),
        stride_(plan.slot_bytes + 2 * Slab::kGuard + 1),
        memory_(std::make_unique<Pages>(stride_ * kSteps * static_cast<std::size_t>(plan.subs))) {}

  void* comm = nullptr;
  void* handle = nullptr;  // of the memory
  const Pages& memory() const { return *memory_; }
  std::unique_ptr<Pages> takeMemory() { return std::move(memory_); }
  int memoryType() const { return plan_.device_memory ? NCCL_PTR_CUDA : NCCL_PTR_HOST; }

  bool over() const { return consumed_ == plan_.steps; }
  bool progress(Watched& watched) {
    bool moved = false;
    if (posted_ < plan_.steps && posted_ < consumed_ + kSteps) moved |= post();
    if (received_ < posted_) moved |= finish();
    if (consumed_ < received_) moved |= consume();
    if (moved) watched.moved();
    return moved;
  }
  uint64_t steps() const { return consumed_; }
  std::string state() const {
    return "receives " + std::to_string(consumed_) + " consumed, " + std::to_string(received_) + " done of " +
           std::to_string(posted_) + " posted of " + std::to_string(plan_.steps);
  }

 private:
  char* place(int sub, uint64_t step) const {
    const auto slot = static_cast<std::size_t>(sub) * kSteps + step % kSteps;
    return memory_->data() + slot * stride_ + Slab::kGuard;
  }
  const char* expected(const ChannelPlan::Piece& piece) const { return source_.data() + piece.source; }

  bool post() {
    std::vector<typename A::Buffer> buffers;
    for (int sub = 0; sub < plan_.subs; ++sub) {
      char* const to = place(sub, posted_);
      const ChannelPlan::Piece piece = plan_.piece(sub, posted_);
      if (!prepared_) Slab::prepare(to, plan_.slot_bytes, piece.bytes, expected(piece));
      buffers.push_back({to, plan_.slot_bytes, sub, handle});
    }
    prepared_ = true;
    void* request = plan_.silent ? reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION) : kStale;
    tryCall(A::irecv(comm, buffers, &request), "irecv");
    if (request == nullptr) return false;
    requests_[posted_ % kSteps] = request;
    ++posted_;
    prepared_ = false;
    return true;
  }

  bool finish() {
    std::array<int, 9> sizes;
    sizes.fill(kUnwritten);
    int done = kUnwritten;
    void*& request = requests_[received_ % kSteps];
    tryCall(A::table().test(request, &done, sizes.data()), "test of a receive");
    if (done == 0) return false;
    if (!plan_.silent) check(sizes);
    request = nullptr;
    if (plan_.device_memory) flush(sizes);
    ++received_;
    return true;
  }

  void check(const std::array<int, 9>& sizes) const {
    for (int sub = 0; sub < plan_.subs; ++sub) {
      const ChannelPlan::Piece piece = plan_.piece(sub, received_);
      if (sizes[static_cast<std::size_t>(sub)] != static_cast<int>(piece.bytes))
        fail("a receive reports " + std::to_string(sizes[static_cast<std::size_t>(sub)]) + " instead of " +
             std::to_string(piece.bytes) + " bytes");
      const std::string wrong =
          Slab::check(place(sub, received_), plan_.slot_bytes, piece.bytes, expected(piece));
      if (!wrong.empty())
        fail("step " + std::to_string(received_) + ", receive " + std::to_string(sub) + ": " + wrong);
    }
  }

  void flush(std::array<int, 9>& sizes) {
    std::vector<void*> data;
    std::vector<void*> handles(static_cast<std::size_t>(plan_.subs), handle);
    for (int sub = 0; sub < plan_.subs; ++sub) data.push_back(place(sub, received_));
    void* request = kStale;
    tryCall(A::table().iflush(comm, plan_.subs, data.data(), sizes.data(), handles.data(), &request),
            "iflush");
    requests_[received_ % kSteps] = request;
    if (request != nullptr) totals_.flushes.fetch_add(1, std::memory_order_relaxed);
  }

  // The step's flush is over, or a silent receive's data are there.
  bool consume() {
    if (plan_.silent) {
      const ChannelPlan::Piece piece = plan_.piece(0, consumed_);
      if (!Slab::check(place(0, consumed_), plan_.slot_bytes, piece.bytes, expected(piece)).empty())
        return false;
    } else if (void* const request = requests_[consumed_ % kSteps]; request != nullptr) {
      int done = kUnwritten;
      tryCall(A::table().test(request, &done, nullptr), "test of a flush");
      if (done == 0) return false;
      requests_[consumed_ % kSteps] = nullptr;
    }
    ++consumed_;
    return true;
  }

  const ChannelPlan& plan_;
  const Pages& source_;
  Totals& totals_;
  const std::size_t stride_;
  std::unique_ptr<Pages> memory_;
  uint64_t posted_ = 0;
  uint64_t received_ = 0;
  uint64_t consumed_ = 0;
  bool prepared_ = false;
  std::array<void*, kSteps> requests_ = {};
};

}  // namespace railwise::test
