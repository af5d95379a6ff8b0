// What a failure means for messages, at the sender: which have arrived, and which are sent again. The floor
// of paths says when (paths/link_user.h). docs/develop/transport.md has the protocol. One thread at a time.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "net/paths/link_memory.h"
#include "net/paths/link_user.h"
#include "net/protocol/clear_to_send_ring.h"
#include "net/sender/group.h"
#include "net/sender/message.h"

namespace railwise::net {

class SendRecovery {
 public:
  // `numbers`: which receive is the next, and which have arrived.
  SendRecovery(LinkMemory& numbers, SendMessages& messages, SendGroups& groups, ClearToSendRing& ring)
      : numbers_(numbers), messages_(messages), groups_(groups), ring_(ring) {}

  // The queue pairs are gone. From now on only the receiver's word counts, also for what the peer's device
  // has acknowledged: the peer may not have seen it.
  void onFenced();
  // The receiver says that all receives up to `number` are complete. That completes messages that are posted:
  // their acknowledgements may never come. `fenced`: nothing goes over the old queue pairs any more, so it
  // frees the messages' slots, too.
  void onArrived(uint64_t number, bool fenced);
  // Completes the messages that the receiver has. Its words: all receives up to the first number are
  // complete, and of the following ones those whose bit is set in the second one. The other messages will be
  // sent again, in order, when the receiver has written their clear-to-sends once more. Errors (kRemote): the
  // words are impossible, or a message is lost.
  Outcome<void> reconcile(const Words& words);

 private:
  // The peer cannot report more than was sent.
  void noteArrived(uint64_t number);
  // Completes the groups whose receives have arrived, after the queue pairs are torn down.
  void completeArrived();
  Outcome<void> reconcileReceive(uint64_t number, bool arrived);

  LinkMemory& numbers_;
  SendMessages& messages_;
  SendGroups& groups_;
  ClearToSendRing& ring_;
};

}  // namespace railwise::net
