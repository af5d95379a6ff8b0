// Queries of a context about its device and ports (softdev.h). Limits come from the configuration. States,
// speeds and GIDs come from the fabric, where faults may have changed them.
#include <endian.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softdev/fabric/ports.h"
#include "softdev/faults/verb_faults.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {
namespace {

constexpr uint32_t kVendorId = 0x5257;  // "RW"; this is no PCI vendor

Context& contextOf(ibv_context* context) { return as<Context>(context); }

// The record of a port. Null if the device has no such port.
const PortRecord* portOf(ibv_context* base, uint32_t port_num) {
  const Context& context = contextOf(base);
  if (port_num < 1 || port_num > context.record->port_count) return nullptr;
  return &context.fabric->segment->ports[context.record->ports[port_num - 1]];
}

// ibv_port_attr with the fields that newer headers have added.
struct PortAttr {
  ibv_port_attr base;
  uint32_t active_speed_ex;
};

// Sets the current speed. The width is the configured one while the configured speed is current.
void speedOf(const PortRecord& port, const PortConfig& config, PortAttr& attr) {
  const uint32_t mbps = port.speed_mbps.load(std::memory_order_acquire);
  uint8_t width = config.active_width;
  uint16_t speed = config.active_speed;
  if (mbps != config.speed_mbps) (void)speedCodes(mbps, 0, &width, &speed);
  // NDR: the 8-bit field reports this for any higher speed, as the kernel does.
  constexpr uint16_t kFastestOld = 128;
  attr.base.active_width = width;
  attr.base.active_speed = static_cast<uint8_t>(std::min(speed, kFastestOld));
  attr.active_speed_ex = speed;
}

int failGid() {
  errno = EINVAL;
  return -1;  // ibv_query_gid(3) is the only query that does not return an errno
}

uint32_t entryType(uint32_t type) {
  switch (static_cast<GidType>(type)) {
    case GidType::kRoceV1:
      return IBV_GID_TYPE_ROCE_V1;
    case GidType::kRoceV2:
      return IBV_GID_TYPE_ROCE_V2;
    default:
      return IBV_GID_TYPE_IB;
  }
}

ibv_gid_entry entryOf(const PortRecord& port, uint32_t index) {
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, port.gids[index].raw, sizeof entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = port.number;
  entry.gid_type = entryType(port.gids[index].type);
  return entry;  // ndev_ifindex is 0, because there is no network interface
}

bool isZero(const Gid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t byte) { return byte == 0; });
}

// The vendor id of verbs is an Ethernet prefix; PCI has another number.
uint32_t vendorOf(const DeviceConfig& config) {
  constexpr uint32_t kPciMellanox = 0x15b3;
  constexpr uint32_t kPrefixMellanox = 0x02c9;
  if (config.vendor_id == kPciMellanox) return kPrefixMellanox;
  return config.vendor_id != 0 ? config.vendor_id : kVendorId;
}

// IBV_DEVICE_ATOMIC_WRITE, which our headers do not have.
constexpr uint64_t kCapAtomicWrite = uint64_t{1} << 40;
constexpr uint64_t kClockKhz = 1'000'000;  // completions have timestamps in nanoseconds

}  // namespace

int queryDevice(ibv_context* base, ibv_device_attr* attr) {
  const Context& context = contextOf(base);
  if (const int injected = verbFault(context, Verb::kQueryDevice); injected != 0) return injected;
  const DeviceConfig& config = context.config_device->config;
  *attr = {};
  std::strncpy(attr->fw_ver, "railwise-" RAILWISE_VERSION, sizeof attr->fw_ver - 1);
  attr->node_guid = htobe64(config.guid);
  attr->sys_image_guid = htobe64(config.system_guid);
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = kPageBytes;
  attr->vendor_id = vendorOf(config);
  attr->vendor_part_id = config.part_id != 0 ? config.part_id : 1;
  attr->hw_ver = kLayoutVersion;
  attr->max_qp = static_cast<int>(config.max_qp);
  attr->max_qp_wr = static_cast<int>(config.max_qp_wr);
  attr->device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD |
                           IBV_DEVICE_PORT_ACTIVE_EVENT | (config.iwarp() ? 0 : IBV_DEVICE_RC_RNR_NAK_GEN);
  attr->max_sge = static_cast<int>(config.max_sge);
  attr->max_sge_rd = config.iwarp() ? 1 : static_cast<int>(config.max_sge);
  attr->max_cq = kMaxCqs - 1;
  attr->max_cqe = static_cast<int>(config.max_cqe);
  attr->max_mr = kMaxMrs - 1;
  attr->max_pd = INT32_MAX;
  attr->max_qp_rd_atom = kMaxRdAtomic;
  attr->max_qp_init_rd_atom = kMaxRdAtomic;
  attr->max_res_rd_atom = static_cast<int>(config.max_qp * kMaxRdAtomic);
  attr->atomic_cap = config.atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attr->max_srq = kMaxSrqs - 1;
  attr->max_srq_wr = kMaxQpWr;
  attr->max_srq_sge = static_cast<int>(config.max_sge);
  attr->max_ah = config.iwarp() ? 0 : INT32_MAX;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = static_cast<uint8_t>(config.portCount());
  return 0;
}

int queryPortSized(ibv_context* base, uint8_t port_num, ibv_port_attr* attr, size_t attr_size) {
  if (const int injected = verbFault(contextOf(base), Verb::kQueryPort); injected != 0) return injected;
  const PortRecord* port = portOf(base, port_num);
  if (port == nullptr) return EINVAL;
  const DeviceConfig& config = contextOf(base).config_device->config;
  const bool infiniband = port->link_layer == IBV_LINK_LAYER_INFINIBAND;
  const bool active = port->state.load(std::memory_order_acquire) == IBV_PORT_ACTIVE;
  const auto lid = static_cast<uint16_t>(infiniband ? lidOf(*contextOf(base).fabric->segment, *port) : 0);
  PortAttr answer{};
  ibv_port_attr& a = answer.base;
  a.state = static_cast<ibv_port_state>(port->state.load(std::memory_order_acquire));
  a.max_mtu = IBV_MTU_4096;
  a.active_mtu = config.port(port_num)->mtu;
  a.gid_tbl_len = static_cast<int>(port->gid_count.load(std::memory_order_acquire));
  a.port_cap_flags = infiniband || config.iwarp() ? 0 : IBV_PORT_IP_BASED_GIDS;
  a.max_msg_sz = config.max_message_bytes;
  a.pkey_tbl_len = 1;
  a.lid = lid;
  a.sm_lid = lid;
  a.max_vl_num = 1;
  speedOf(*port, *config.port(port_num), answer);
  a.phys_state = active ? 5 : 3;  // LinkUp, Disabled
  a.link_layer = static_cast<uint8_t>(port->link_layer);
  std::memcpy(attr, &answer, std::min(attr_size, sizeof answer));
  return 0;
}

int queryPort(ibv_context* base, uint8_t port_num, ibv_port_attr* attr) {
  return queryPortSized(base, port_num, attr, sizeof *attr);
}

int queryPortSpeed(ibv_context* base, uint32_t port_num, uint64_t* speed) {
  const PortRecord* port = portOf(base, port_num);
  if (port == nullptr) return EINVAL;
  *speed = port->speed_mbps.load(std::memory_order_acquire) / 100;
  return 0;
}

int queryGid(ibv_context* base, uint8_t port_num, int index, ibv_gid* gid) {
  if (verbFails(contextOf(base), Verb::kQueryGid)) return -1;
  const PortRecord* port = portOf(base, port_num);
  if (port == nullptr || index < 0 ||
      static_cast<uint32_t>(index) >= port->gid_count.load(std::memory_order_acquire))
    return failGid();
  std::memcpy(gid->raw, port->gids[index].raw, sizeof gid->raw);
  return 0;
}

int queryGidEx(ibv_context* base, uint32_t port_num, uint32_t index, ibv_gid_entry* entry, uint32_t flags,
               size_t entry_size) {
  if (const int injected = verbFault(contextOf(base), Verb::kQueryGid); injected != 0) return injected;
  const PortRecord* port = portOf(base, port_num);
  if (port == nullptr || flags != 0 || index >= port->gid_count.load(std::memory_order_acquire))
    return EINVAL;
  if (isZero(port->gids[index])) return ENODATA;
  const ibv_gid_entry answer = entryOf(*port, index);
  std::memset(entry, 0, entry_size);
  std::memcpy(entry, &answer, std::min(entry_size, sizeof answer));
  return 0;
}

ssize_t queryGidTable(ibv_context* base, ibv_gid_entry* entries, size_t max_entries, uint32_t flags,
                      size_t entry_size) {
  if (flags != 0) return -EINVAL;
  size_t found = 0;
  for (uint32_t number = 1; number <= contextOf(base).record->port_count; ++number) {
    const PortRecord& port = *portOf(base, number);
    for (uint32_t i = 0; i < port.gid_count.load(std::memory_order_acquire); ++i) {
      if (isZero(port.gids[i])) continue;
      if (found == max_entries) return -EINVAL;
      auto* target = reinterpret_cast<std::byte*>(entries) + found++ * entry_size;
      const ibv_gid_entry answer = entryOf(port, i);
      std::memset(target, 0, entry_size);
      std::memcpy(target, &answer, std::min(entry_size, sizeof answer));
    }
  }
  return static_cast<ssize_t>(found);
}

int queryPkey(ibv_context* base, uint8_t port_num, int index, __be16* pkey) {
  if (verbFails(contextOf(base), Verb::kQueryPkey)) return -1;
  if (portOf(base, port_num) == nullptr || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(0xffff);
  return 0;
}

// The extended attributes of a device, and its clock (softdev.h).
int queryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                  size_t attr_size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (attr_size < sizeof attr->orig_attr) return EINVAL;
  ibv_device_attr_ex answer{};
  if (const int error = queryDevice(context, &answer.orig_attr); error != 0) return error;
  answer.completion_timestamp_mask = UINT64_MAX;
  answer.hca_core_clock = kClockKhz;
  answer.device_cap_flags_ex = answer.orig_attr.device_cap_flags | kCapAtomicWrite;
  answer.phys_port_cnt_ex = answer.orig_attr.phys_port_cnt;
  std::memset(attr, 0, attr_size);
  std::memcpy(attr, &answer, std::min(attr_size, sizeof answer));
  return 0;
}

int queryRealTime(ibv_context*, ibv_values_ex* values) {
  const uint32_t wanted = values->comp_mask;
  values->comp_mask = 0;
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) == 0) return 0;
  clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

}  // namespace railwise::softdev
