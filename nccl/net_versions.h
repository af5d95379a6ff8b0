// The seven versions of NCCL's net plugin API by their number, for templates.
#pragma once

#include "nccl/net_v10.h"
#include "nccl/net_v11.h"
#include "nccl/net_v12.h"
#include "nccl/net_v6.h"
#include "nccl/net_v7.h"
#include "nccl/net_v8.h"
#include "nccl/net_v9.h"
#include "nccl/versions.h"

namespace railwise {

template <int kVersion>
struct Abi;

#define RAILWISE_ABI(version)                            \
  template <>                                            \
  struct Abi<version> {                                  \
    using Net = ncclNet_v##version##_t;                  \
    using Properties = ncclNetProperties_v##version##_t; \
  };
RAILWISE_NET_VERSIONS(RAILWISE_ABI)
#undef RAILWISE_ABI

}  // namespace railwise
