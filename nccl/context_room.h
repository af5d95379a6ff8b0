// The first bytes of the context that a network's init hands to NCCL. They belong to NCCL.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "nccl/types.h"

// NCCL hands the context of the network in use to the one-sided table too, whichever library that table is
// from (NCCL 2.30.7, src/rma/rma_proxy.cc:430: connect gets comm->netContext; from 2.29.7 on).
// If it is the table of NCCL's own IB network, that network takes the context for its own, a
// ncclNetCommConfig: it reads the traffic class of its queue pairs at offset 0 (src/transport/net_ib/
// connect.cc:994), and from 2.30.3 on stores one there (connect.cc:789, called by gin.cc:370). So a context
// begins with room for that struct. The room holds the communicator's traffic class until NCCL stores another
// one. Railwise never reads the room. The room is a cache line, because NCCL's struct may grow.
struct ncclContextRoom {
  int traffic_class = NCCL_NET_ID_UNDEF;
  std::array<std::byte, 60> unused = {};
};
static_assert(sizeof(ncclContextRoom) == 64 && std::is_standard_layout_v<ncclContextRoom>);
static_assert(offsetof(ncclContextRoom, traffic_class) == offsetof(ncclNetCommConfig_v12_t, trafficClass));
