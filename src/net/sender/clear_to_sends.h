// The clear-to-sends that come to a sender, and which of them it believes. The receiver's device writes them
// into the ring. On iWARP they come as messages; this class posts the receives for them, and copies them into
// the ring. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/paths/link.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/protocol/message_buffers.h"

namespace railwise::net {

class ClearToSends {
 public:
  // The entries of `ring` have their size before its memory is used.
  ClearToSends(Link& link, ClearToSendRing& ring) : link_(link), ring_(ring) {}

  // Looks for clear-to-sends that are in the ring since the last look. Errors: kRemote, logged.
  Status look();
  // A clear-to-send makes no sense: fails the link.
  Status refuse(uint64_t stamp);

  // iWARP: they come as messages.
  bool areMessages() const { return !link_.rules.has_immediates; }
  // `memory`: in the link's window, with bytesFor() for the receives.
  std::size_t bytesFor(int queue_pairs) const {
    return MessageBuffers::bytesFor(link_.rules, groupBytes(ring_.entryBytes()), queue_pairs);
  }
  void use(std::byte* memory) { buffers_.use(memory, groupBytes(ring_.entryBytes())); }
  // Posts the receives of a new queue pair. Returns what ibv_post_recv returns.
  int postFirst(std::size_t queue_pair);
  // The receive with this id has got so many bytes. Errors: kRemote, kSystem, logged.
  Status onCompletion(uint64_t id, uint32_t bytes);

 private:
  // Returns what ibv_post_recv returns.
  int post(LaneQueuePair& queue_pair, std::size_t index, uint32_t buffer);

  Link& link_;
  ClearToSendRing& ring_;
  MessageBuffers buffers_;
};

}  // namespace railwise::net
