// Shared by the listener and the connections of the communication manager: how they make their objects.
#pragma once

#include "verbs/cm/connection_manager.h"
#include "verbs/cm/library.h"

namespace railwise::verbs {

// On iWARP the manager's port numbers are also TCP's, so another socket may have one. Only listening or
// connecting shows that (EADDRINUSE). Then another port number is tried, at most this many times.
constexpr int kPortTries = 16;

// Make an event channel that never waits, and an id on it. Null with errno on failure.
CmChannel makeCmChannel(const CmLibrary& cm);
CmId makeCmId(const CmLibrary& cm, rdma_event_channel* channel);

CmPrivateData copyOf(const rdma_cm_event& event);

// The address in the form that the manager takes.
sockaddr_storage storageOf(const SocketAddress& address);
inline sockaddr* raw(sockaddr_storage& storage) { return reinterpret_cast<sockaddr*>(&storage); }

inline const char* deviceName(const ibv_context* context) {
  return library().get_device_name(context->device);
}

}  // namespace railwise::verbs
