#include "verbs/connection_manager.h"

namespace railwise::verbs {

void CmRelease::operator()(rdma_event_channel*) const {}
void CmRelease::operator()(rdma_cm_id*) const {}
CmConnection::~CmConnection() = default;
Result<std::vector<SocketAddress>> cmAddresses(ibv_context*, const Port&) {
  return Status{Code::kNoDevice, 0};
}
ibv_gid cmAddressBytes(const SocketAddress&) { return {}; }
SocketAddress cmAddressOf(const ibv_gid&, uint16_t, uint32_t) { return {}; }
Result<CmListener> CmListener::create(ibv_context*, const Port&, const SocketAddress&, int) {
  return Status{Code::kNoDevice, 0};
}
Result<std::optional<CmRequest>> CmListener::poll() { return Status{Code::kNoDevice, 0}; }
Result<std::unique_ptr<CmConnection>> CmConnection::connect(QueuePair, const Port&, const SocketAddress&,
                                                            const SocketAddress&, const Config&,
                                                            const CmPath&, std::span<const std::byte>) {
  return Status{Code::kNoDevice, 0};
}
Result<std::unique_ptr<CmConnection>> CmConnection::accept(CmRequest, QueuePair, const Port&, const Config&,
                                                           const CmPath&, std::span<const std::byte>) {
  return Status{Code::kNoDevice, 0};
}
Result<bool> CmConnection::advance() { return Status{Code::kNoDevice, 0}; }

}  // namespace railwise::verbs
