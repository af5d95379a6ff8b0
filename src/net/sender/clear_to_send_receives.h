// iWARP: a clear-to-send comes as a message. These are the receives that the sender posts for them. Elsewhere
// the receiver's device writes into the ring by itself, and nothing is posted here. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/paths/link.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/protocol/transport_rules.h"

namespace railwise::net {

class ClearToSendReceives {
 public:
  // Clear-to-sends go into `ring`, whose entries then have their size.
  ClearToSendReceives(Link& link, ClearToSendRing& ring) : link_(link), ring_(ring) {}
  std::size_t bytesFor(int queue_pairs) const {
    return MessageBuffers::bytesFor(link_.rules, groupBytes(ring_.entryBytes()), queue_pairs);
  }
  // `memory`: in the link's window, with bytesFor().
  void use(std::byte* memory) { buffers_.use(memory, groupBytes(ring_.entryBytes())); }
  // Are there any?
  bool used() const { return !link_.rules.has_immediates; }
  // Posts all receives of a new queue pair. Returns what ibv_post_recv returns.
  int postFirst(std::size_t queue_pair);
  // A receive has completed with this id and so many bytes. Errors: kRemote, kSystem, logged.
  Status onCompletion(uint64_t id, uint32_t bytes);

 private:
  int post(LaneQueuePair& queue_pair, std::size_t index, uint32_t buffer);

  Link& link_;
  ClearToSendRing& ring_;
  MessageBuffers buffers_;
};

}  // namespace railwise::net
