#include "softdev/cm_end.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace railwise::softdev::test {
namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

CmChannel::CmChannel() : channel_(cm::createEventChannel()) {
  require(channel_ != nullptr, "event channel");
  require(fcntl(channel_->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

CmChannel::~CmChannel() { cm::destroyEventChannel(channel_); }

CmEvent CmChannel::next() {
  constexpr int kMinuteMs = 60'000;
  rdma_cm_event* event = nullptr;
  while (cm::getEvent(channel_, &event) != 0) {
    require(errno == EAGAIN, "get event");
    pollfd readable{channel_->fd, POLLIN, 0};
    require(poll(&readable, 1, kMinuteMs) == 1, "no event within a minute");
  }
  CmEvent copy{event->event, event->status, event->id, event->listen_id, "", event->param.conn};
  if (event->param.conn.private_data != nullptr)
    copy.private_data.assign(static_cast<const char*>(event->param.conn.private_data),
                             event->param.conn.private_data_len);
  require(cm::ackEvent(event) == 0, "ack event");
  return copy;
}

CmEvent CmChannel::expect(rdma_cm_event_type type) {
  CmEvent event = next();
  if (event.type != type)
    throw std::runtime_error("event " + std::to_string(event.type) + " (status " +
                             std::to_string(event.status) + ") instead of " + std::to_string(type));
  return event;
}

bool CmChannel::empty() {
  rdma_cm_event* event = nullptr;
  if (cm::getEvent(channel_, &event) != 0) return errno == EAGAIN;
  (void)cm::ackEvent(event);
  return false;
}

CmId::CmId(CmChannel& channel) : id_(nullptr) {
  require(cm::createId(channel, &id_, nullptr, RDMA_PS_TCP) == 0, "create id");
}

CmId::CmId(CmId&& other) noexcept : id_(std::exchange(other.id_, nullptr)) {}

CmId::~CmId() {
  if (id_ == nullptr) return;
  cm::destroyQp(id_);
  (void)cm::destroyId(id_);
}

sockaddr_storage cmAddress(ibv_context* context, uint16_t port, uint8_t number) {
  ibv_gid address{};
  require(cm::localAddresses(context, number, &address, 1) == 1, "no address");
  sockaddr_storage storage{};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, address.raw, sizeof address.raw);
  return storage;
}

sockaddr* raw(sockaddr_storage& address) { return reinterpret_cast<sockaddr*>(&address); }

uint16_t portOf(const rdma_cm_id* id) { return ntohs(cm::getSrcPort(const_cast<rdma_cm_id*>(id))); }

rdma_conn_param parameters(std::string_view private_data, uint32_t qp_num) {
  rdma_conn_param conn{};
  conn.private_data = private_data.data();
  conn.private_data_len = static_cast<uint8_t>(private_data.size());
  conn.responder_resources = conn.initiator_depth = 1;
  conn.retry_count = conn.rnr_retry_count = 7;
  conn.qp_num = qp_num;
  return conn;
}

CmId listenOn(CmChannel& channel, ibv_context* context, uint16_t port, int backlog) {
  CmId id(channel);
  sockaddr_storage address = cmAddress(context, port);
  require(cm::bindAddr(id, raw(address)) == 0, "bind");
  require(cm::listen(id, backlog) == 0, "listen");
  return id;
}

CmId resolved(CmChannel& channel, ibv_context* context, sockaddr_storage peer) {
  CmId id(channel);
  sockaddr_storage address = cmAddress(context);
  require(cm::resolveAddr(id, raw(address), raw(peer), 2000) == 0, "resolve address");
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  require(cm::resolveRoute(id, 2000) == 0, "resolve route");
  channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

CmId calling(CmChannel& channel, ibv_context* context, sockaddr_storage peer, rdma_conn_param wanted) {
  CmId id = resolved(channel, context, peer);
  require(cm::connect(id, &wanted) == 0, "connect");
  return id;
}

void bringUp(rdma_cm_id* id, ibv_qp* qp) {
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = state;
    require(cm::initQpAttr(id, &attr, &mask) == 0, "attributes");
    if (mask == 0) continue;  // iWARP
    errno = modifyQp(qp, &attr, mask);
    require(errno == 0, "modify");
  }
}

}  // namespace railwise::softdev::test
