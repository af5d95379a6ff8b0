// What iWARP does otherwise than InfiniBand and RoCE. A link has one of the two constants below. iWARP has
// neither immediate data nor an order in which writes become visible, so an RDMA send reports what was
// written. A write or send is complete when the local TCP has its data, perhaps long before it arrives. So an
// RDMA read follows: the device of the peer answers it only when it has everything that was sent before
// (RFC 5040, section 5.5). The completion of the read is what the completion of the report is elsewhere.
#pragma once

#include "verbs/handles.h"

namespace railwise::net {

struct TransportRules {
  // An RDMA write can have an immediate. False: what reports and asks are sends, which arrive in posted
  // buffers.
  bool has_immediates;
  // A completed write has arrived at the peer. False: only a completed read shows that it has.
  bool completion_means_arrival;
  ibv_wr_opcode report;  // reports what was written
};

inline constexpr TransportRules kRdmaRules = {
    .has_immediates = true, .completion_means_arrival = true, .report = IBV_WR_RDMA_WRITE_WITH_IMM};
inline constexpr TransportRules kIwarpRules = {
    .has_immediates = false, .completion_means_arrival = false, .report = IBV_WR_SEND};

}  // namespace railwise::net
