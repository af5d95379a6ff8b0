#include "net/sender/batch_writes.h"

#include <arpa/inet.h>

#include "net/protocol/work_request_chain.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

// The group goes in `work_requests` work requests.
inline void BatchWrites::count(Group& group, LaneQueuePair& queue_pair, uint32_t work_requests) {
  queue_pair.posted() += work_requests;
  queue_pair.counts().bytes += uint64_t{group.each} * group.count;
  group.postWith(queue_pair);
}

Status BatchWrites::postBatch(Link& link, Group& group, LaneQueuePair& queue_pair, bool asks) {
  count(group, queue_pair, group.count);
  const uint32_t slot = group.slot();
  for (uint32_t i = 0; i < group.count; ++i) works_[i].wr_id = sendWorkId(slot, 0, queue_pair.index);
  ibv_send_wr& last = works_[group.count - 1U];
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  last.imm_data = htonl(wholeImmediate(slot, group.each));
  if (asks || queue_pair.posted() > queue_pair.unsignalled_until) makeSignalled(last, queue_pair);
  const Status result = WorkRequestChain::postUpTo(
      works_.data(), last, [&](ibv_send_wr* first) { return link.post(queue_pair, first); });
  last.opcode = IBV_WR_RDMA_WRITE;
  return result;
}

Status BatchWrites::postPack(Link& link, Group& group, LaneQueuePair& queue_pair, bool asks,
                             ibv_send_wr& work) {
  count(group, queue_pair, 1);
  const uint32_t slot = group.slot();
  work.wr_id = sendWorkId(0, 0, queue_pair.index);
  *work.sg_list = {reinterpret_cast<uint64_t>(pack_.bytes), group.each * group.count, 0};
  work.send_flags = IBV_SEND_INLINE;
  work.imm_data = htonl(packedImmediate(slot, group.each));
  work.wr.rdma.remote_addr = link.peer_window + kPacksAt + slot * sizeof(Pack);
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  if (asks) makeSignalled(work, queue_pair);
  return link.post(queue_pair, &work);
}

}  // namespace railwise::net
