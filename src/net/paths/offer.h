// What an end of a connection says of itself: which rails it can use now, by which addresses and keys the
// peer reaches them, and its queue pairs. The handshake carries this, and so does each recovery. These
// functions keep no state. Call them from the thread that drives the connection.
#pragma once

#include <vector>

#include "base/settings/config.h"
#include "base/status.h"
#include "net/device/device.h"
#include "net/device/memory.h"
#include "net/device/window_arena.h"
#include "net/paths/connection_options.h"
#include "net/paths/endpoint.h"
#include "net/paths/joiner.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

// The end that makes an offer.
struct OfferingEnd {
  const Device& device;
  const ConnectionOptions& options;
  const Joiner& joiner;
  bool out_of_order = false;  // the queue pairs take messages in any order (NCCL_IB_OOO_RQ)
};

// Can the queue pairs of this device take messages in any order (NCCL_IB_OOO_RQ)? A connection takes them so
// only if the devices of both ends can.
bool offersOutOfOrder(const Device& device, const Config& config);
// Has no device of the rails failed, and is at least one port up?
bool railsWork(const std::vector<Rail>& rails);
// The rails that this end can use now, rails of the connection's own device first; `native` receives the
// number of those.
std::vector<Rail> usableRails(const OfferingEnd& own, int* native);

// Describes this end for the handshake: `rails`, with the keys of the window, and the settings, but not the
// queue pairs (describeQueuePairs()). Errors, logged: kSystem, kInvalidUsage (no usable GID).
Status describe(const OfferingEnd& own, const std::vector<Rail>& rails, const Window& window, EndInfo& end);
// Writes the queue pairs and lanes of the endpoint into `end`.
void describeQueuePairs(const Endpoint& endpoint, const Config& config, EndInfo& end);
// Writes the ECE (enhanced connection establishment) options into `end`: what the devices offer, or what they
// have agreed on.
void describeEce(const Endpoint& endpoint, const Config& config, EndInfo& end);
// Describes any rails, without the keys of the window. The rest is as in `end`, the description in the
// handshake.
EndInfo describeOffer(const OfferingEnd& own, const std::vector<Rail>& rails, const EndInfo& end);
// Describes the rails of an epoch in `end`, with the keys of the window, which all of them know.
void describeEpoch(const OfferingEnd& own, const std::vector<Rail>& rails, const Window& window,
                   EndInfo& end);

// The window's keys through a rail; registers the window there, if a standby or a device that has refused it
// before does not know it. Errors: kSystem, logged.
Result<MemoryKeys> windowKeysOn(const Device& device, const Window& window, const Rail& rail);
// Keys of memory through any rail. Errors: kSystem, logged.
Result<MemoryKeys> keysOn(const Device& device, const MemoryHandle& memory, const Rail& rail);
// Keys of memory through a rail of the epoch. Errors: kSystem, logged.
Result<MemoryKeys> keysOf(const Device& device, const Endpoint& endpoint, const MemoryHandle& memory,
                          uint8_t rail);

}  // namespace railwise::net
