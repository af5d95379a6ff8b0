#include "verbs/port.h"

namespace railwise::verbs {
namespace {

int laneSpeedMbps(unsigned code) {
  switch (code) {
    case 1:
      return 2500;  // SDR
    case 2:
      return 5000;  // DDR
    case 4:
      return 10000;  // QDR
    case 8:
      return 10000;  // FDR10
    case 16:
      return 14000;  // FDR
    case 32:
      return 25000;  // EDR
    case 64:
      return 50000;  // HDR
    case 128:
      return 100000;  // NDR
    case 256:
      return 200000;  // XDR
    default:
      return 0;
  }
}

int lanes(unsigned code) {
  switch (code) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

// The exported function fills the port attributes of 2008 only; newer fields come through the context's
// extension, as in rdma-core's own inline ibv_query_port.
int queryAttributes(ibv_context* context, uint8_t number, ibv_port_attr& attributes) {
  if (verbs_context* extended = verbs_get_ctx_op(context, query_port); extended != nullptr) {
    return extended->query_port(context, number, &attributes, sizeof attributes);
  }
  return library().query_port(context, number, &attributes);
}

}  // namespace

int linkSpeedMbps(unsigned active_speed, unsigned active_width) {
  return laneSpeedMbps(active_speed) * lanes(active_width);
}

Result<Port> queryPort(ibv_context* context, uint8_t number) {
  ibv_port_attr attributes = {};
  if (const int error = queryAttributes(context, number, attributes); error != 0)
    return Status{Code::kSystem, error};
  Port port;
  port.number = number;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.reliable = context->device->transport_type == IBV_TRANSPORT_IB &&
                  (port.ethernet || attributes.link_layer == IBV_LINK_LAYER_INFINIBAND);
  port.iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  port.lid = attributes.lid;
  port.mtu = attributes.active_mtu;
  port.grh_required = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port.gid_entries = attributes.gid_tbl_len;
  port.max_message_bytes = attributes.max_msg_sz;
  port.speed_mbps = linkSpeedMbps(attributes.active_speed, attributes.active_width);
  uint64_t hundreds = 0;
  if (library().query_port_speed != nullptr && library().query_port_speed(context, number, &hundreds) == 0) {
    port.speed_mbps = static_cast<int>(hundreds * 100);
  }
  return port;
}

}  // namespace railwise::verbs
