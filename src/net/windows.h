// The registered memory of each end of a connection.
#pragma once

#include "net/connection.h"

namespace railwise::net {

struct SendConnection::Window {
  SlotEntries ring[kSlots];  // written by the receiver: clear to send
  SlotSizes sizes[kSlots];   // source of the size records, where inline is not to be had
};

struct ReceiveConnection::Window {
  SlotSizes records[kSlots];    // written by the sender: sizes of a group
  SlotEntries staging[kSlots];  // source of the clear-to-send writes
  uint64_t flush_target;        // where flush reads land
};

}  // namespace railwise::net
