// What a failure means for receives: which have arrived, and which clear-to-sends are written again. The
// floor of paths says when (paths/link_user.h). docs/transport.md has the protocol.
#include <algorithm>

#include "net/receiver/receive_connection.h"

namespace railwise::net {

void ReceiveConnection::onFenced() {
  keepRailsForFlush();
  flusher_.drop();
  forgetSegments();
  reply_queue_pair_ = 0;
}

// NCCL may ask for the flush of a receive after its epoch has ended.
void ReceiveConnection::keepRailsForFlush() {
  if (matched_ > earlier_.up_to + kSlots) earlier_.rails.clear();  // nobody knows those any more
  if (!link_.endpoint.anyUsed()) return;
  for (const Rail& rail : link_.endpoint.rails) {
    if (placeOf(rail, earlier_.rails) < 0) earlier_.rails.push_back(rail);
  }
  earlier_.up_to = matched_;
}

// A message of which only some segments have arrived is sent again as a whole.
void ReceiveConnection::forgetSegments() {
  for (Receive& receive : receives_) {
    receive.rails = 0;  // whatever they meant
    if (receive.isOpen()) receive.arrived = receive.segments = 0;
  }
}

// All receives up to the first number are complete. Bit i of the second: so is receive first + 1 + i.
Words ReceiveConnection::words() const {
  Words words = {arrivedUpTo(), 0};
  for (uint64_t number = arrivedUpTo() + 1; number < numbers().next; ++number) {
    if (receives_[number % kSlots].complete()) words.second |= 1U << (number - arrivedUpTo() - 1);
  }
  return words;
}

bool ReceiveConnection::isOpen() {
  return std::any_of(receives_.begin(), receives_.end(),
                     [](const Receive& receive) { return receive.isOpen(); });
}

// Writes the keys of this epoch's rails into the clear-to-sends of all open receives.
bool ReceiveConnection::takeRails() {
  for (uint64_t number = arrivedUpTo() + 1; number < numbers().next; ++number) {
    Receive& receive = receives_[number % kSlots];
    if (!receive.complete() && !writeKeys(receive)) return false;
  }
  return true;
}

// Writes the keys of this epoch's rails into the clear-to-send of a receive. False: the memory of the receive
// cannot be registered with one of the rails.
bool ReceiveConnection::writeKeys(const Receive& receive) {
  for (uint32_t i = 0; i < receive.count; ++i) {
    std::byte* const at = stagingOf(receive.number, i);
    auto& entry = *reinterpret_cast<ClearToSend*>(at + entry_bytes_ - sizeof(ClearToSend));
    const MemoryHandle* const memory = memories_[i][receive.number % kSlots];
    if (memory == nullptr) continue;
    for (uint8_t rail = 0; rail < link_.endpoint.rails.size(); ++rail) {
      const Result<MemoryKeys> keys = keysOf(link_.device, link_.endpoint, *memory, rail);
      if (!keys.ok()) return false;
      if (rail == 0) {
        entry.remote_key = keys->remote;
      } else {
        reinterpret_cast<MoreKeys*>(at)->remote_key[rail] = keys->remote;
      }
    }
  }
  return true;
}

// All open clear-to-sends are written once more.
Status ReceiveConnection::onBegun() {
  numbers().posted = arrivedUpTo() + 1;
  fast_path_open_ = plain_ && link_.endpoint.native;
  needs_slow_test_ = true;
  return postPending();
}

}  // namespace railwise::net
