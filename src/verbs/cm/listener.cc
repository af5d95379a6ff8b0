// The listener of the communication manager (connection_manager.h), and functions that it shares with the
// connections.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/cm/connection_manager.h"

namespace railwise::verbs {
namespace {

Status managerFailed(const ibv_context* context, const Port& port, const std::string& what, int error,
                     bool quiet) {
  const std::string line =
      std::string(deviceName(context)) + " port " + std::to_string(port.number) + ": RDMA CM: " + what +
      ": " + std::strerror(error) +
      (error == ENODEV || error == ENOENT ? " (is the kernel module rdma_ucm loaded?)" : "");
  if (quiet) RAILWISE_INFO(log::kNet, "%s", line.c_str());
  else RAILWISE_WARN("%s", line.c_str());
  return {Code::kSystem, error};
}

}  // namespace

CmChannel makeCmChannel(const CmLibrary& cm) {
  CmChannel channel(cm.create_event_channel());
  if (channel == nullptr) return channel;
  const int flags = fcntl(channel->fd, F_GETFL);
  if (flags >= 0 && fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) == 0) return channel;
  return nullptr;
}

CmId makeCmId(const CmLibrary& cm, rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  if (channel == nullptr || cm.create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return nullptr;
  return CmId(id);
}

sockaddr_storage storageOf(const SocketAddress& address) {
  sockaddr_storage storage = {};
  std::memcpy(&storage, address.raw(), address.rawSize());
  return storage;
}
CmPrivateData copyOf(const rdma_cm_event& event) {
  CmPrivateData data;
  const rdma_conn_param& conn = event.param.conn;
  if (conn.private_data == nullptr) return data;
  data.size = std::min<size_t>(conn.private_data_len, data.bytes.size());
  std::memcpy(data.bytes.data(), conn.private_data, data.size);
  return data;
}

void CmRelease::operator()(rdma_event_channel* channel) const {
  cmLibraryInUse().destroy_event_channel(channel);
}

void CmRelease::operator()(rdma_cm_id* id) const {
  if (cmLibraryInUse().destroy_id(id) != 0)
    RAILWISE_INFO(log::kNet, "rdma_destroy_id failed: %s", std::strerror(errno));
}

void CmRelease::operator()(rdma_cm_event* event) const { (void)cmLibraryInUse().ack_cm_event(event); }

SocketAddress CmRequest::peer() const { return SocketAddress(id_->route.addr.dst_addr); }

void CmRequest::reject(std::span<const std::byte> reason) {
  constexpr size_t kRejectBytes = 148;
  if (id_ == nullptr) return;
  (void)cmLibraryInUse().reject(id_.get(), reason.data(),
                                static_cast<uint8_t>(std::min(reason.size(), kRejectBytes)));
  id_.reset();
}

Result<CmListener> CmListener::create(ibv_context* context, const Port& port, const SocketAddress& address,
                                      int backlog, bool quiet) {
  const Result<const CmLibrary*> library = cmLibrary();
  if (!library.ok()) return library.status();
  const CmLibrary& cm = **library;
  CmListener made;
  made.device_ = deviceName(context);
  made.channel_ = makeCmChannel(cm);
  int error = EADDRINUSE;
  for (int tries = 0; tries < kPortTries && error == EADDRINUSE; ++tries) {
    made.id_ = makeCmId(cm, made.channel_.get());
    if (made.id_ == nullptr) return managerFailed(context, port, "no event channel or id", errno, quiet);
    sockaddr_storage local = storageOf(address);
    const bool listens =
        cm.bind_addr(made.id_.get(), raw(local)) == 0 && cm.listen(made.id_.get(), backlog) == 0;
    error = listens ? 0 : errno;
  }
  if (error != 0) return managerFailed(context, port, "listening on " + address.text(), error, quiet);
  made.address_ = SocketAddress(address.family(), address.bytes(), ntohs(cm.get_src_port(made.id_.get())),
                                address.scopeId());
  return made;
}

Result<std::optional<CmRequest>> CmListener::poll() {
  const CmLibrary& cm = cmLibraryInUse();
  rdma_cm_event* event = nullptr;
  while (cm.get_cm_event(channel_.get(), &event) == 0) {
    const rdma_cm_event_type type = event->event;
    CmRequest request;
    {
      const CmEvent acknowledged(event);
      if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        request.id_.reset(event->id);
        request.private_data_ = copyOf(*event);
      }
    }
    if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      RAILWISE_WARN("%s: RDMA CM: the device of the listener %s was removed", device_.c_str(),
                    address_.text().c_str());
      return Status{Code::kSystem, ENODEV};
    }
    if (type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    // The request gets its own channel, because the listener may be destroyed before the connection.
    request.channel_ = makeCmChannel(cm);
    if (request.channel_ != nullptr && cm.migrate_id(request.id_.get(), request.channel_.get()) == 0)
      return std::optional<CmRequest>(std::move(request));
    RAILWISE_WARN("%s: RDMA CM: a connection to %s is refused: no event channel for it: %s", device_.c_str(),
                  address_.text().c_str(), std::strerror(errno));
    request.id_.reset();  // before its channel is destroyed
  }
  const int error = errno;
  if (error == EAGAIN || error == EINTR) return std::optional<CmRequest>();
  RAILWISE_WARN("%s: RDMA CM: the listener on %s failed: %s", device_.c_str(), address_.text().c_str(),
                std::strerror(error));
  return Status{Code::kSystem, error};
}

}  // namespace railwise::verbs
