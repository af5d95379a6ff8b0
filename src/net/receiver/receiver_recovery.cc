// What a failure means for receives: which have arrived, and which clear-to-sends are written again. The
// floor of paths says when (paths/link_user.h). docs/develop/transport.md has the protocol.
#include "net/receiver/receive_connection.h"

namespace railwise::net {

void ReceiveConnection::onFenced() {
  flusher_.leaveEpoch(matched_);
  receives_.forgetSegments();
  reply_queue_pair_ = 0;
}

bool ReceiveConnection::takeRails() {
  for (uint64_t number = arrivedUpTo() + 1; number < numbers().next; ++number) {
    const Receive& receive = receives_.of(number);
    if (!receive.complete() && !stageKeys(receive)) return false;
  }
  return true;
}

bool ReceiveConnection::stageKeys(const Receive& receive) {
  return clear_to_sends_.stageKeys(receive, link_.endpoint.rails.size(),
                                   [this](const MemoryHandle& memory, uint8_t rail) {
                                     return keysOf(link_.device, link_.endpoint, memory, rail);
                                   });
}

// All open clear-to-sends are written once more.
Status ReceiveConnection::onBegun() {
  numbers().posted = arrivedUpTo() + 1;
  fast_path_ = fastReceive();
  return postPending();
}

}  // namespace railwise::net
