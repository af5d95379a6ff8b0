// The calls of ibv_context.ops. Thread-safe; see ibv_post_send, ibv_post_recv and ibv_poll_cq.
#pragma once

#include <infiniband/verbs.h>

namespace railwise::softdev {

// EINVAL: state, opcode, or more SGEs or inline bytes than the QP has; ENOMEM: the send queue is full.
int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
// EINVAL: the QP is in RESET, or too many SGEs; ENOMEM: the receive queue is full.
int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int reqNotifyCq(ibv_cq* cq, int solicited_only);
// Completions taken; -EIO once a queue that overflowed is empty.
int pollCq(ibv_cq* cq, int num_entries, ibv_wc* wc);

}  // namespace railwise::softdev
