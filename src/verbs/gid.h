// Choice of the GID that names this end of a connection.
#pragma once

#include "base/config.h"
#include "verbs/port.h"

namespace railwise::verbs {

struct Gid {
  int index = 0;
  ibv_gid value = {};
};

// InfiniBand: index 0. RoCE: NCCL_IB_GID_INDEX when set, else the best entry: RoCE v2 before v1, an
// IPv4-mapped address before a routable IPv6 one before a link-local one, then the lowest index (NCCL's
// default preferences, applied to the whole table). Errors: kInvalidUsage (index beyond the table), kSystem
// (no entry can be read); logged.
Result<Gid> chooseGid(ibv_context* context, const Port& port, const Config& config);

// "fe80::1" as inet_ntop writes it.
std::string gidText(const ibv_gid& gid);

}  // namespace railwise::verbs
