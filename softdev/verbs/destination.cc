#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>

#include "base/log.h"
#include "softdev/fabric/ports.h"
#include "softdev/verbs/transitions.h"

namespace railwise::softdev {

int checkDestination(const Qp& qp, const PortRecord& here, const ibv_ah_attr& path) {
  const Segment& segment = *qp.fabric->segment;
  const bool infiniband = here.link_layer == IBV_LINK_LAYER_INFINIBAND;
  if (path.is_global != 0 && findGid(segment, path.grh.dgid.raw, kAnyGidType) != nullptr) return 0;
  if (infiniband && path.dlid >= 1 && path.dlid <= kMaxPorts &&
      segment.ports[path.dlid - 1].guid.load(std::memory_order_acquire) != 0)
    return 0;
  char address[INET6_ADDRSTRLEN + 16] = "?";
  if (path.is_global != 0) {
    inet_ntop(AF_INET6, path.grh.dgid.raw, address, sizeof address);
  } else {
    std::snprintf(address, sizeof address, "LID %u", static_cast<unsigned>(path.dlid));
  }
  RAILWISE_WARN(
      "software device: %s port %u on host %s: the peer's address %s is not on the fabric %s: software "
      "devices reach only processes of this machine, with the same user and fabric name",
      here.device, here.number, here.host, address, qp.fabric->prefix.c_str());
  return EHOSTUNREACH;
}

}  // namespace railwise::softdev
