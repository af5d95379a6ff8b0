// Address handles for the sender of a received datagram (ibv_create_ah_from_wc(3)), and the link-layer
// address of an address handle.
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "softdev/drop_in/front.h"

namespace railwise::drop_in {
namespace {

constexpr uint8_t kNextHeaderIb = 0x1b;  // in the GRH of InfiniBand and RoCE v1; RoCE v2 has UDP there
constexpr size_t kIpv4Offset = 20;       // an IPv4 header is in the second half of the 40 bytes
constexpr uint8_t kVersion4HeaderOf20Bytes = 0x45;

// Is there an IPv4 header, where a RoCE v2 GRH of IPv4 has it? Checks version, length and checksum.
bool holdsIpv4(const uint8_t* header) {
  if (header[0] != kVersion4HeaderOf20Bytes) return false;
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

ibv_gid mapped(const uint8_t* ipv4) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  std::memcpy(gid.raw + 12, ipv4, 4);
  return gid;
}

int fail(int error) {
  errno = error;
  return -1;
}

// Index of this GID among the RoCE v2 entries, or among the other entries. Negative: there is no such entry.
int findGid(ibv_context* context, uint8_t port, const ibv_gid& gid, bool roce_v2) {
  ibv_gid_entry entry;
  for (uint32_t i = 0; _ibv_query_gid_ex(context, port, i, &entry, 0, sizeof entry) != EINVAL; ++i)
    if (std::memcmp(entry.gid.raw, gid.raw, sizeof gid.raw) == 0 &&
        (entry.gid_type == IBV_GID_TYPE_ROCE_V2) == roce_v2)
      return static_cast<int>(i);
  return -1;
}

int fromIpv4(ibv_context* context, uint8_t port, const uint8_t* header, ibv_ah_attr* attr) {
  const uint8_t* source = header + 12;
  const uint8_t* destination = header + 16;
  if ((destination[0] & 0xf0) == 0xe0) return fail(EINVAL);  // a multicast address has no entry in the table
  const int index = findGid(context, port, mapped(destination), true);
  if (index < 0) return fail(ENOENT);
  attr->grh.dgid = mapped(source);
  attr->grh.sgid_index = static_cast<uint8_t>(index);
  attr->grh.hop_limit = header[8];
  attr->grh.traffic_class = header[1];
  return 0;
}

int fromIpv6(ibv_context* context, uint8_t port, const ibv_grh& grh, ibv_ah_attr* attr) {
  if (grh.dgid.raw[0] == 0xff) return fail(EINVAL);
  if (grh.next_hdr != IPPROTO_UDP && grh.next_hdr != kNextHeaderIb) return fail(EPROTONOSUPPORT);
  const int index = findGid(context, port, grh.dgid, grh.next_hdr == IPPROTO_UDP);
  if (index < 0) return fail(ENOENT);
  attr->grh.dgid = grh.sgid;
  attr->grh.sgid_index = static_cast<uint8_t>(index);
  attr->grh.hop_limit = grh.hop_limit;
  attr->grh.traffic_class = static_cast<uint8_t>(be32toh(grh.version_tclass_flow) >> 20);
  return 0;
}

}  // namespace
}  // namespace railwise::drop_in

RAILWISE_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                                        ibv_ah_attr* attr) {
  using namespace railwise::drop_in;
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port_num;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  attr->is_global = 1;
  attr->grh.flow_label = be32toh(grh->version_tclass_flow) & 0xfffff;
  const uint8_t* ipv4 = reinterpret_cast<const uint8_t*>(grh) + kIpv4Offset;
  if (holdsIpv4(ipv4)) return fromIpv4(context, port_num, ipv4, attr);
  if (be32toh(grh->version_tclass_flow) >> 28 != 6) return fail(EPROTONOSUPPORT);
  return fromIpv6(context, port_num, *grh, attr);
}

RAILWISE_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port_num) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

// The software device has no Ethernet below it. So this returns the address that the peer's GID implies (the
// inverse of EUI-64 for link-local GIDs, otherwise a locally administered address from its last bytes),
// without a VLAN.
RAILWISE_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr, uint8_t* mac,
                                                uint16_t* vlan) {
  constexpr uint16_t kNoVlan = 0xffff;
  ibv_gid own;
  if (const int error = ibv_query_gid(context, attr->port_num, attr->grh.sgid_index, &own); error != 0)
    return error;
  const uint8_t* gid = attr->grh.dgid.raw;
  if (gid[0] == 0xfe && gid[1] == 0x80 && gid[11] == 0xff && gid[12] == 0xfe) {
    mac[0] = gid[8] ^ 2;
    mac[1] = gid[9];
    mac[2] = gid[10];
  } else {
    mac[0] = 2;
    mac[1] = gid[11];
    mac[2] = gid[12];
  }
  std::memcpy(mac + 3, gid + 13, 3);
  if (vlan != nullptr) *vlan = kNoVlan;
  return 0;
}
