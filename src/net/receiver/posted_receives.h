// The receives that are posted to the queue pairs, kPostedReceives to each. Each takes in what reports a
// segment or a message: an immediate, which needs no buffer, or on iWARP a record in a buffer of its own. No
// other file of the receiver knows these buffers. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "net/paths/lane.h"
#include "net/protocol/message_buffers.h"
#include "net/protocol/wire.h"

namespace railwise::net {

class PostedReceives {
 public:
  // Receives are posted in lists of so many. A list is posted when so many are used up.
  static constexpr uint32_t kList = kOutstandingReceives;
  static_assert(kPostedReceives == 2 * kList);

  explicit PostedReceives(const TransportRules& rules);
  // Bytes of the window that the buffers for so many queue pairs need.
  std::size_t bytesFor(int queue_pairs) const {
    return MessageBuffers::bytesFor(rules_, sizeof(Record), queue_pairs);
  }
  void use(std::byte* window) { notices_.use(window, sizeof(Record)); }

  // Posts all receives of a new queue pair. Returns what ibv_post_recv returns.
  int postFirst(LaneQueuePair& queue_pair);
  // Counts a receive that was used up. Every kList times it posts receives; else it returns 0.
  int renew(LaneQueuePair& queue_pair) {
    if (++queue_pair.consumed % kList != 0) [[likely]]
      return 0;
    // Posted receives complete in order, so the buffers of the older half are free.
    return post(queue_pair, queue_pair.consumed % kPostedReceives == 0 ? kList : 0);
  }
  // iWARP: the record that a completed receive has brought.
  const Record& notice(std::size_t queue_pair, const ibv_wc& completion) const {
    return *reinterpret_cast<const Record*>(notices_.at(queue_pair, workBuffer(completion.wr_id)));
  }

 private:
  // `first`: number of the first buffer.
  int post(LaneQueuePair& queue_pair, uint32_t first);

  const TransportRules& rules_;
  MessageBuffers notices_;
  std::array<ibv_recv_wr, kList> works_ = {};
  std::array<ibv_sge, kList> sges_ = {};
};

}  // namespace railwise::net
