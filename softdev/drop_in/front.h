// The drop-in libibverbs.so.1, and librailwise-device.so with the same functions: the functions that
// rdma-core exports, forwarded to the software device. Each function has exactly the name, signature and
// error convention of ibv_*(3). exports.map (generated) sets its symbol version. Inline functions of
// <infiniband/verbs.h> reach the device through ibv_context.ops and verbs_context. Thread-safe as verbs
// promises.
#pragma once

#include <infiniband/verbs.h>

// The header defines macros with these names, which choose a function by the caller's compiler.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#include "softdev/softdev.h"
#include "softdev/verbs/border.h"

#define RAILWISE_EXPORT extern "C" __attribute__((visibility("default")))

namespace railwise::drop_in {

// Sets up the software device once, from RAILWISE_DROP_IN_DEVICE or, if that is empty, RAILWISE_DEVICE. After
// a success later calls return at once. If neither is set (or the value is "verbs", which makes sense only
// for the plugin): the machine "default". False after one warning, with errno
// EINVAL.
bool configureOnce();

// Sets up the software device as softdev::configure() does, instead of configureOnce(). Returns 0 or an errno
// (railwise_device_configure).
int configure(const char* devices, const char* host, const char* fabric);

// Warns once that the program was linked against a libibverbs older than 1.1.
void warnObsoleteProgram();

}  // namespace railwise::drop_in
