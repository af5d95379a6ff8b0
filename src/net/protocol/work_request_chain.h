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
  void clear() { length_ = 0; }
  // Posts all work requests by `post` and empties the chain. The chain must not be empty.
  template <typename Post>
  auto post(Post post) {
    return postUpTo(works_.data(), works_[std::exchange(length_, 0) - 1], post);
  }
  // Gives `post` the list of the linked work requests from `first` to `last`, and returns what it returns.
  // They stay linked to the work requests behind them.
  template <typename Post>
  static auto postUpTo(ibv_send_wr* first, ibv_send_wr& last, Post post) {
    ibv_send_wr* const next = std::exchange(last.next, nullptr);
    const auto result = post(first);
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
