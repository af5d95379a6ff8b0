// Link diagnosis: what is wrong with the device, the port or the address of a queue pair, and what the status
// of a failed completion says. Functions without state; any thread.
#pragma once

#include <string>

#include "net/device/device.h"
#include "net/paths/lane.h"
#include "record/layout.h"

namespace railwise::net {

// Says in words that the device has failed, the port is down or the address is gone, as far as events have
// told.
// "": none of these. `rail`: that of the queue pair.
std::string diagnoseByEvents(const Rail& rail, const LaneQueuePair& queue_pair);
// As diagnoseByEvents(), but asks the device too: the device's event may not have arrived yet. The driver of
// a dying device may take long to answer.
std::string diagnoseByDevice(const Rail& rail, const LaneQueuePair& queue_pair);

// What the user can do about a completion that has failed with this status and has no other diagnosis.
const char* adviceFor(ibv_wc_status status);
record::ErrorKind errorKindOf(ibv_wc_status status);
// Local or remote memory was refused.
bool refusesMemory(ibv_wc_status status);
// iWARP: the TCP connection has ended, and the device knows no more than that.
bool endsTcp(ibv_wc_status status);

}  // namespace railwise::net
