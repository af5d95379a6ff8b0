// Listens, connects, accepts and disconnects (rdma_listen(3), rdma_connect(3), rdma_accept(3)).
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "softdev/cm/objects.h"
#include "softdev/fabric/ports.h"
#include "softdev/faults/verb_faults.h"

namespace railwise::softdev::cm {
namespace {

constexpr int kMaxBacklog = 1024;  // the kernel's limit

uint8_t limited(uint8_t wanted) { return std::min<uint8_t>(wanted, kMaxRdAtomic); }

// The parameters that each end sends to its peer.
rdma_conn_param describe(Id& id, const rdma_conn_param* parameters) {
  rdma_conn_param conn{};
  conn.responder_resources = RDMA_MAX_RESP_RES;
  conn.initiator_depth = RDMA_MAX_INIT_DEPTH;
  conn.retry_count = conn.rnr_retry_count = 7;
  if (parameters != nullptr) conn = *parameters;
  if (id.qp != nullptr) {
    conn.qp_num = id.qp->qp_num;
    conn.srq = id.qp->srq != nullptr ? 1 : 0;
  }
  id.qp_num = conn.qp_num;
  id.responder_resources = limited(conn.responder_resources);
  id.initiator_depth = limited(conn.initiator_depth);
  return conn;
}

// Ends an attempt before it has begun. The program gets an event about that.
int fails(Id& id, rdma_cm_event_type type, int status) {
  bringDown(id);
  id.state = State::kOver;
  closeSockets(id);
  raise(id, type, status);
  return 0;
}

// Fault rules for verbs do not apply to an id without a device.
int fault(const Id& id, Verb verb) {
  return id.verbs != nullptr ? verbFault(as<Context>(id.verbs), verb) : 0;
}

}  // namespace

int listen(rdma_cm_id* base, int backlog) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.state != State::kBound) return answer(EINVAL);
  if (const int error = fault(id, Verb::kRdmaListen); error != 0) return answer(error);
  // The kernel's queue is longer than ours, so that a caller that finds our queue full gets a rejection.
  for (const int fd : id.sockets) {
    if (::listen(fd, SOMAXCONN) != 0) return -1;
  }
  id.backlog = backlog <= 0 || backlog > kMaxBacklog ? kMaxBacklog : backlog;
  id.state = State::kListening;
  watch(id);
  return 0;
}

int connect(rdma_cm_id* base, rdma_conn_param* parameters) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.state != State::kRouteResolved) return answer(EINVAL);
  const rdma_conn_param conn = describe(id, parameters);
  if (conn.private_data_len > kRequestBytes) return answer(EINVAL);
  if (const int error = fault(id, Verb::kRdmaConnect); error != 0) return answer(error);
  const PortRecord* there = findAddress(*as<Context>(id.verbs).fabric->segment, id.destination.ip);
  if (there == nullptr || !active(*there) || !active(portOf(id)))
    return fails(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  id.retry_count = std::min<uint8_t>(conn.retry_count, 7);
  const int error = dial(id.sockets[0], id.device->fabric.name, id.destination);
  if (error == ECONNREFUSED) return fails(id, RDMA_CM_EVENT_REJECTED, refusedStatus(id, kReasonNobody));
  if (error == EAGAIN) return fails(id, RDMA_CM_EVENT_REJECTED, refusedStatus(id, kReasonConsumer));
  if (error != 0) return answer(error);
  id.state = State::kConnecting;
  if (!sendMessage(id, Kind::kRequest, &conn, conn.private_data, conn.private_data_len))
    return fails(id, RDMA_CM_EVENT_REJECTED, refusedStatus(id, kReasonConsumer));
  watch(id);
  return 0;
}

int accept(rdma_cm_id* base, rdma_conn_param* parameters) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.state != State::kRequested) return answer(id.state == State::kOver ? ECONNRESET : EINVAL);
  const rdma_conn_param conn = describe(id, parameters);
  if (conn.private_data_len > kReplyBytes) return answer(EINVAL);
  id.initiator_depth = std::min(id.initiator_depth, id.remote.responder_resources);
  id.responder_resources = std::min(id.responder_resources, id.remote.initiator_depth);
  if (const int error = bringUp(id); error != 0) return answer(error);
  countAnswered(id);
  if (!sendMessage(id, Kind::kReply, &conn, conn.private_data, conn.private_data_len)) {
    bringDown(id);
    return answer(ECONNRESET);
  }
  id.state = State::kAccepted;
  if (!id.iwarp()) return 0;
  id.state = State::kUp;  // iWARP has no third message
  raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
  return 0;
}

int reject(rdma_cm_id* base, const void* private_data, uint8_t bytes) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (bytes > kRejectBytes || (bytes > 0 && private_data == nullptr)) return answer(EINVAL);
  if (id.state != State::kRequested && id.state != State::kResponded) return answer(EINVAL);
  (void)sendMessage(id, Kind::kReject, nullptr, private_data, bytes, kReasonConsumer);
  closeSockets(id);
  countAnswered(id);
  id.state = State::kOver;
  return 0;
}

int establish(rdma_cm_id* base) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.qp != nullptr || id.state != State::kResponded) return answer(EINVAL);
  id.state = State::kUp;
  // The result does not matter: if the peer is gone, an event will report that.
  (void)sendMessage(id, Kind::kReady, nullptr, nullptr, 0);
  return 0;
}

int disconnect(rdma_cm_id* base) {
  Id& id = *static_cast<Id*>(base);
  std::lock_guard lock(manager().mutex);
  if (id.state == State::kOver) {  // the peer has disconnected first
    bringDown(id);
    return 0;
  }
  if (id.state != State::kUp && id.state != State::kAccepted && id.state != State::kResponded)
    return answer(EINVAL);
  bringDown(id);
  (void)sendMessage(id, Kind::kDisconnect, nullptr, nullptr, 0);
  closeSockets(id);
  id.state = State::kOver;
  try {
    raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
  } catch (const std::bad_alloc&) {  // destructors call this
    return answer(ENOMEM);
  }
  return 0;
}

}  // namespace railwise::softdev::cm
