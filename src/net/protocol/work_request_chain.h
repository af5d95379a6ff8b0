// Work requests of a sender that are linked once, filled in one after the other, and posted together. One
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
      works_[i].sg_list = &segments_[i];
    }
  }
  WorkRequestChain(const WorkRequestChain&) = delete;
  WorkRequestChain& operator=(const WorkRequestChain&) = delete;

  bool empty() const { return length_ == 0; }
  bool full() const { return length_ == kLength; }
  // A work request at the end, with a segment of its own and without flags. Not of a full chain.
  ibv_send_wr& add() {
    ibv_send_wr& work = works_[length_++];
    work.send_flags = 0;
    return work;
  }
  // What was filled in goes nowhere.
  void clear() { length_ = 0; }
  // Posts all, and the chain is empty again. Not of an empty chain. Returns what ibv_post_send returned.
  int post(ibv_qp* qp) {
    ibv_send_wr& last = works_[length_ - 1];
    length_ = 0;
    return postUpTo(qp, works_.data(), last);
  }
  // Posts linked work requests from `first` to `last`, which stay linked to those behind.
  static int postUpTo(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr& last) {
    ibv_send_wr* const next = std::exchange(last.next, nullptr);
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, first, &bad);
    last.next = next;
    return error;
  }

 private:
  static constexpr std::size_t kLength = 16;

  std::size_t length_ = 0;
  std::array<ibv_send_wr, kLength> works_ = {};
  std::array<ibv_sge, kLength> segments_ = {};
};

}  // namespace railwise::net
