// What the listener and the connections of the communication manager are made with.
#pragma once

#include "verbs/cm_library.h"
#include "verbs/connection_manager.h"

namespace railwise::verbs {

// On iWARP the manager's ports are TCP's too, where somebody else may have one; only listening or connecting
// tells (EADDRINUSE). Another is taken then, so many times.
constexpr int kPortTries = 16;

// An event channel that never waits, and an id on it; null with errno.
CmChannel makeCmChannel(const CmLibrary& cm);
CmId makeCmId(const CmLibrary& cm, rdma_event_channel* channel);

CmPrivateData copyOf(const rdma_cm_event& event);

// As the manager takes addresses.
sockaddr_storage storageOf(const SocketAddress& address);
inline sockaddr* raw(sockaddr_storage& storage) { return reinterpret_cast<sockaddr*>(&storage); }

inline const char* deviceName(const ibv_context* context) {
  return library().get_device_name(context->device);
}

}  // namespace railwise::verbs
