// The drop-in libibverbs.so.1: rdma-core's exported functions, forwarded to the software device. Each
// function has the exact name, signature and error convention of ibv_*(3); exports.map (generated) gives it
// its version. Inline functions of <infiniband/verbs.h> reach the device through ibv_context.ops and
// verbs_context. Thread-safe as verbs promises.
#pragma once

#include <infiniband/verbs.h>

// The header's macros of these names, which choose a function by the caller's compiler.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#include "softdev/softdev.h"

#define RAILWISE_EXPORT extern "C" __attribute__((visibility("default")))

namespace railwise::verbs_front {

// Sets the software device up from RAILWISE_DROP_IN_DEVICE or, where that is empty, RAILWISE_DEVICE, once;
// later calls return at once after a success. Without either (or with "verbs", which only the plugin can
// mean): an InfiniBand device soft0 and a RoCE device soft1. False after one warning, with errno EINVAL.
bool configureOnce();

// Warns once that the program was linked to a libibverbs before 1.1.
void warnObsoleteProgram();

}  // namespace railwise::verbs_front
