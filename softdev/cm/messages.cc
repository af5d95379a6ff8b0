// Handles the messages that arrive at the sockets of the connection manager.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/cm/objects.h"
#include "softdev/fabric/joining/membership.h"
#include "softdev/fabric/ports.h"
#include "softdev/verbs/iwarp.h"

namespace railwise::softdev::cm {
namespace {

void end(Id& id, rdma_cm_event_type type, int status, const Message* message = nullptr) {
  countAnswered(id);
  id.state = State::kOver;
  closeSockets(id);
  raise(id, type, status, message);
}

void answerCalls(Id& listener) {
  for (const int fd : listener.sockets) {
    int call = -1;
    while ((call = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
      if (!peerIsOurs(call)) {
        close(call);
        continue;
      }
      Id& id = *newId(listener.events(), listener.context, listener.ps);
      id.state = State::kCalled;
      id.listener = listener.serial;
      id.sockets = {call};
      watch(id);
    }
  }
}

// False if the id was deleted.
bool handleRequest(Id& id, const Message& message) {
  const auto listener = manager().ids.find(id.listener);
  uint8_t port = 0;
  Device* device = findLocal(message.to, &port);
  if (listener == manager().ids.end() || message.kind != Kind::kRequest || device == nullptr ||
      useDevice(id, *device, port) != 0) {
    deleteId(id);
    return false;
  }
  id.remote = message;
  id.source = message.to;
  id.destination = message.from;
  writeAddress(id.source, &id.route.addr.src_storage);
  writeAddress(id.destination, &id.route.addr.dst_storage);
  id.retry_count = message.retry_count;
  id.rnr_retry_count = message.rnr_retry_count;
  if (listener->second->unanswered >= listener->second->backlog) {
    (void)sendMessage(id, Kind::kReject, nullptr, nullptr, 0, kReasonConsumer);
    deleteId(id);
    return false;
  }
  id.state = State::kRequested;
  ++listener->second->unanswered;
  raiseRequest(*listener->second, id);
  return true;
}

void handleReply(Id& id, const Message& message) {
  id.remote = message;
  id.rnr_retry_count = message.rnr_retry_count;
  id.initiator_depth = std::min(id.initiator_depth, message.responder_resources);
  if (id.qp == nullptr && !id.iwarp()) {  // the program brings its queue pair up and then calls establish()
    id.state = State::kResponded;
    return raise(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &id.remote);
  }
  if (const int error = bringUp(id); error != 0) {
    bringDown(id);
    (void)sendMessage(id, Kind::kReject, nullptr, nullptr, 0, kReasonConsumer);
    return end(id, RDMA_CM_EVENT_CONNECT_ERROR, -error);
  }
  id.state = State::kUp;
  (void)sendMessage(id, Kind::kReady, nullptr, nullptr, 0);
  raise(id, RDMA_CM_EVENT_ESTABLISHED, 0, &id.remote);
}

void handleReject(Id& id, const Message& message) {
  bringDown(id);
  end(id, RDMA_CM_EVENT_REJECTED, refusedStatus(id, message.reason), &message);
}

void handleDisconnect(Id& id) {
  if (id.iwarp()) bringDown(id);
  end(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

// False if the id was deleted.
bool handle(Id& id, const Message& message) {
  if (id.state == State::kCalled) return handleRequest(id, message);
  switch (message.kind) {
    case Kind::kReply:
      if (id.state == State::kConnecting) handleReply(id, message);
      break;
    case Kind::kReady:
      if (id.state != State::kAccepted) break;
      id.state = State::kUp;
      raise(id, RDMA_CM_EVENT_ESTABLISHED, 0, &message);
      break;
    case Kind::kReject:
      handleReject(id, message);
      break;
    case Kind::kDisconnect:
      handleDisconnect(id);
      break;
    default:
      break;
  }
  return true;
}

// The peer has closed the socket without a message, or has died.
void handleEnd(Id& id) {
  if (id.state == State::kCalled) return deleteId(id);
  if (id.state == State::kUp) return handleDisconnect(id);
  if (id.state == State::kOver) return closeSockets(id);
  bringDown(id);
  end(id, RDMA_CM_EVENT_REJECTED, refusedStatus(id, kReasonConsumer));
}

}  // namespace

void countAnswered(Id& id) {
  const auto listener = manager().ids.find(id.listener);
  if (id.state == State::kRequested && listener != manager().ids.end()) --listener->second->unanswered;
  id.listener = 0;
}

int refusedStatus(const Id& id, int reason) { return id.iwarp() ? -ECONNREFUSED : reason; }

void readSockets(Id& id) {
  if (id.state == State::kListening) return answerCalls(id);
  while (!id.sockets.empty()) {
    Message message{};
    const ssize_t bytes = recv(id.sockets[0], &message, sizeof message, MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) return;
    const bool whole = bytes == sizeof message && message.magic == kMessageMagic &&
                       message.bytes <= sizeof message.private_data;
    if (!whole) return handleEnd(id);
    if (!handle(id, message)) return;
  }
}

bool sendMessage(Id& id, Kind kind, const rdma_conn_param* parameters, const void* private_data,
                 uint8_t bytes, uint8_t reason) {
  if (id.sockets.empty()) return false;
  const PortRecord& port = portOf(id);
  Message message{};
  message.magic = kMessageMagic;
  message.kind = kind;
  message.qp_num = id.qp_num;
  message.from = id.source;
  message.to = id.destination;
  std::memcpy(message.gid, port.gids[0].raw, sizeof message.gid);
  message.lid = lidOf(*as<Context>(id.verbs).fabric->segment, port);
  message.mtu = id.device->config.port(id.port_num)->mtu;
  message.responder_resources = id.responder_resources;
  message.initiator_depth = id.initiator_depth;
  message.reason = reason;
  message.bytes = bytes;
  if (bytes > 0) std::memcpy(message.private_data, private_data, bytes);
  if (parameters != nullptr) {
    message.flow_control = parameters->flow_control;
    message.retry_count = std::min<uint8_t>(parameters->retry_count, 7);
    message.rnr_retry_count = std::min<uint8_t>(parameters->rnr_retry_count, 7);
    message.srq = parameters->srq;
  }
  return ::send(id.sockets[0], &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof message;
}

}  // namespace railwise::softdev::cm
