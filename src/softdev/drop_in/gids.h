// GID tables as the exported functions see them.
#pragma once

#include "softdev/drop_in/front.h"

namespace railwise::verbs_front {

// What ibv_query_gid_type, a private function of rdma-core, answers with: the text in /sys.
enum class SysfsGidType : int { kIbOrRoceV1 = 0, kRoceV2 = 1 };

// Index of this GID among those of RoCE v2 (or among the others); negative when there is none.
int findGid(ibv_context* context, uint8_t port, const ibv_gid& gid, bool roce_v2);

}  // namespace railwise::verbs_front
