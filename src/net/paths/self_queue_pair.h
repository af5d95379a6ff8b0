// A queue pair that is connected to itself: a NIC reads and writes this process's own memory, without a peer.
// A read makes visible to a GPU what the NIC has written before. Some networks do not let a port reach
// itself. Threads: those of its owner, one at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "base/settings/config.h"
#include "base/status.h"
#include "net/device/device.h"
#include "net/device/fence.h"
#include "verbs/handles.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

struct SelfQueuePair {
  // Makes it, ready to send, with room for `depth` work requests. `may`: what it reads or writes. `purpose`:
  // "flushes", for the log. Errors: kSystem, logged.
  static Result<SelfQueuePair> open(const Rail& rail, const Config& config, uint32_t depth,
                                    uint32_t inline_bytes, verbs::PeerMay may, const char* purpose);
  // Gives it away: `destroy` ends what is left of it. `memory`: what it may still read or write.
  void drop(const std::shared_ptr<const void>& memory,
            void (*destroy)(Hca& hca, const std::shared_ptr<Remains>& remains) noexcept) noexcept;

  Rail rail;
  verbs::Cq cq = {};
  verbs::Qp qp = {};
  uint32_t inline_bytes = 0;
  std::shared_ptr<Remains> remains = Remains::create(1);  // takes the rest at the end
};

}  // namespace railwise::net
