#include "verbs/port.h"

#include <cstddef>
#include <cstring>

#include "sysfs/rdma_devices.h"
#include "verbs/drivers/mlx5.h"

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

// The fields of rdma-core 28 (2020), and room for the fields that newer headers add behind them. libibverbs
// fills the bytes that it knows, up to the given size, and clears the rest.
struct PortAttributes {
  ibv_port_attr known = {};
  uint32_t more[16] = {};

  // ibv_port_attr.active_speed_ex, rdma-core 49: the speed if it is XDR or above, which does not fit the old
  // 8 bits (they then report NDR). Otherwise 0.
  uint32_t extendedSpeed() const {
    constexpr std::size_t kOffset = offsetof(ibv_port_attr, port_cap_flags2) + 2 * sizeof(uint16_t);
    static_assert(kOffset % alignof(uint32_t) == 0 && kOffset == 52);
    uint32_t speed = 0;
    std::memcpy(&speed, reinterpret_cast<const std::byte*>(this) + kOffset, sizeof speed);
    return speed;
  }
};

// The exported function fills only the port attributes of 2008. Newer fields come through the context's
// extension, as in rdma-core's own inline ibv_query_port.
int queryAttributes(ibv_context* context, uint8_t number, PortAttributes& attributes) {
  if (verbs_context* extended = verbs_get_ctx_op(context, query_port); extended != nullptr) {
    return extended->query_port(context, number, &attributes.known, sizeof attributes);
  }
  return library().query_port(context, number, &attributes.known);
}

}  // namespace

int linkSpeedMbps(unsigned active_speed, unsigned active_width) {
  return laneSpeedMbps(active_speed) * lanes(active_width);
}

Result<Port> queryPort(ibv_context* context, uint8_t number, bool ask_speed) {
  PortAttributes answer;
  const ibv_port_attr& attributes = answer.known;
  if (const int error = queryAttributes(context, number, answer); error != 0)
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
  port.max_mtu = attributes.max_mtu;
  port.grh_required = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port.gid_entries = attributes.gid_tbl_len;
  port.pkey_entries = attributes.pkey_tbl_len;
  port.max_message_bytes = attributes.max_msg_sz;
  const uint32_t extended_speed = answer.extendedSpeed();
  port.speed_mbps =
      linkSpeedMbps(extended_speed != 0 ? extended_speed : attributes.active_speed, attributes.active_width);
  uint64_t hundreds = 0;
  if (ask_speed && library().query_port_speed != nullptr &&
      library().query_port_speed(context, number, &hundreds) == 0) {
    port.speed_mbps = static_cast<int>(hundreds * 100);
  }
  return port;
}

uint8_t lagPorts(ibv_context* context, const Port& port, const sysfs::FileTree& tree) {
  if (!port.ethernet) return 1;
  const uint8_t ports = mlx5LagPorts(context);
  if (ports < 2) return 1;
  // A port's first GID is that of the bond's own interface.
  const std::string interface = sysfs::firstLine(
      tree, std::string("/sys/class/infiniband/") + library().get_device_name(context->device) + "/ports/" +
                std::to_string(port.number) + "/gid_attrs/ndevs/0");
  return !interface.empty() && tree.exists("/sys/class/net/" + interface + "/bonding") ? ports : 1;
}

PciPlace pciPlace(const ibv_device* device, bool merge_virtual_functions) {
  const sysfs::FileTree& tree = sysfs::liveTree();
  PciPlace place;
  if (library().pci_path != nullptr) {
    place.path = library().pci_path(device);
  } else {
    sysfs::RdmaPlace found = sysfs::rdmaPlace(tree, device->name);
    place.path = std::move(found.path);
    place.software = found.software;
  }
  place.function0_path = sysfs::cardOf(tree, place.path, merge_virtual_functions);
  return place;
}

}  // namespace railwise::verbs
