#include "verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "verbs/sysfs.h"

namespace railwise::verbs {
namespace {

bool isZero(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

bool isIpv4Mapped(const ibv_gid& gid) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof kPrefix) == 0;
}

bool isLinkLocal(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

// 2 for RoCE v2, 1 for v1, 0 when nobody can tell.
int roceVersion(ibv_context* context, const Port& port, int index) {
  if (library().query_gid_ex != nullptr) {
    ibv_gid_entry entry = {};
    if (library().query_gid_ex(context, port.number, static_cast<uint32_t>(index), &entry, 0, sizeof entry) ==
        0) {
      return entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1;
    }
  }
  const std::string type =
      readSysfs(std::string("/sys/class/infiniband/") + library().get_device_name(context->device) +
                "/ports/" + std::to_string(port.number) + "/gid_attrs/types/" + std::to_string(index));
  if (type == "RoCE v2") return 2;
  return type.empty() ? 0 : 1;
}

int score(int version, const ibv_gid& gid) {
  const int address = isIpv4Mapped(gid) ? 2 : isLinkLocal(gid) ? 0 : 1;
  return version * 3 + address;
}

Result<Gid> readGid(ibv_context* context, const Port& port, int index) {
  Gid gid{.index = index};
  if (library().query_gid(context, port.number, index, &gid.value) != 0) return Status{Code::kSystem, errno};
  return gid;
}

}  // namespace

Result<Gid> chooseGid(ibv_context* context, const Port& port, const Config& config) {
  const char* name = library().get_device_name(context->device);
  if (port.ethernet && config.ib_gid_index >= port.gid_entries) {
    RAILWISE_WARN(
        "%s port %u: NCCL_IB_GID_INDEX=%d is beyond the GID table of %d entries; `ibv_devinfo -v` lists it",
        name, port.number, config.ib_gid_index, port.gid_entries);
    return Status{Code::kInvalidUsage, 0};
  }
  if (!port.ethernet || config.ib_gid_index >= 0) {
    const int index = port.ethernet ? config.ib_gid_index : 0;
    Result<Gid> gid = readGid(context, port, index);
    if (!gid.ok()) RAILWISE_WARN("%s port %u: GID index %d cannot be read", name, port.number, index);
    return gid;
  }
  Gid best;
  int best_score = -1;
  const int entries = std::min(port.gid_entries, 256);  // an address handle has eight bits for the index
  for (int index = 0; index < entries; ++index) {
    const Result<Gid> candidate =
        readGid(context, port, index);  // containers: entries of other namespaces cannot be read
    if (!candidate.ok() || isZero(candidate->value)) continue;
    const int candidate_score = score(roceVersion(context, port, index), candidate->value);
    if (candidate_score <= best_score) continue;
    best = *candidate;
    best_score = candidate_score;
  }
  if (best_score < 0) {
    RAILWISE_WARN("%s port %u: no usable GID: give its network interface an IP address", name, port.number);
    return Status{Code::kSystem, 0};
  }
  return best;
}

std::string gidText(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

}  // namespace railwise::verbs
