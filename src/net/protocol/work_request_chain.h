// A sender's work requests, which are linked once, filled in one after the other, and posted together. One
// thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "verbs/handles.h"

namespace railwise::net {

class WorkRequestChain {
 public:
  WorkRequestChain() {
    for (std::size_t i = 0; i < kLength; ++i) {
      works_[i].next = i + 1 < kLength ? &works_[i + 1] : nullptr;
      works_[i].sg_list = &sges_[i];
    }
  }
  WorkRequestChain(const WorkRequestChain&) = delete;
  WorkRequestChain& operator=(const WorkRequestChain&) = delete;

  bool empty() const { return length_ == 0; }
  bool full() const { return length_ == kLength; }
  // Adds a work request at the end, with a scatter-gather entry of its own and without flags. The chain must
  // not be full.
  ibv_send_wr& add() {
    ibv_send_wr& work = works_[length_++];
    work.send_flags = 0;
    return work;
  }
  // Drops the work requests without posting them. `drop` is called with the list of them, if there are any.
  template <typename Drop>
  void clear(Drop drop) {
    if (length_ == 0) return;
    ibv_send_wr& last = works_[std::exchange(length_, 0) - 1];
    ibv_send_wr* const next = std::exchange(last.next, nullptr);
    drop(works_.data());
    last.next = next;
  }
  void clear() { length_ = 0; }
  // Posts all work requests and empties the chain. The chain must not be empty. `check` is as in postUpTo().
  template <typename Check>
  auto post(ibv_qp* qp, Check check) {
    ibv_send_wr& last = works_[length_ - 1];
    length_ = 0;
    return postUpTo(qp, works_.data(), last, check);
  }
  // Posts the linked work requests from `first` to `last`. They stay linked to the work requests behind them.
  // Returns what `check` makes of the result of ibv_post_send and of the list of work requests that were not
  // accepted.
  template <typename Check>
  static auto postUpTo(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr& last, Check check) {
    ibv_send_wr* const next = std::exchange(last.next, nullptr);
    ibv_send_wr* bad = first;
    const int error = ibv_post_send(qp, first, &bad);
    const auto result = check(error, bad);
    last.next = next;
    return result;
  }

 private:
  static constexpr std::size_t kLength = 16;

  std::size_t length_ = 0;
  std::array<ibv_send_wr, kLength> works_ = {};
  std::array<ibv_sge, kLength> sges_ = {};
};

}  // namespace railwise::net
