// Which way the queue pairs of a connection get connected.
#pragma once

#include <memory>

#include "base/settings/config.h"
#include "net/device/device.h"
#include "net/paths/joiner.h"
#include "net/wireup/authentication.h"
#include "net/wireup/side_channel.h"

namespace railwise::net {

// `session` must outlive the joiner. `by_manager`: the connection manager connects.
std::unique_ptr<Joiner> makeJoiner(Direction direction, const Device& device, const Config& config,
                                   const Session& session, bool by_manager);
// Must the connection manager connect the queue pairs of a sender on this device? On iWARP always; elsewhere
// if RAILWISE_CONNECT=cm.
bool wantsConnectionManager(const Device& device, const Config& config);

}  // namespace railwise::net
