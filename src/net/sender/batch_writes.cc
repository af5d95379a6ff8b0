#include "net/sender/batch_writes.h"

#include <arpa/inet.h>

#include "net/protocol/work_request_chain.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

// The group goes in `work_requests` work requests.
inline void BatchWrites::count(Group& group, LaneQueuePair& queue_pair, uint32_t work_requests) {
  queue_pair.posted() += work_requests;
  queue_pair.counts().bytes += group.batchBytes();
  group.postWith(queue_pair);
}

inline void BatchWrites::signal(const Posting& to, ibv_send_wr& last, const Group& group) {
  makeSignalled(last, to.queue_pair);
  if (to.measures != nullptr) [[unlikely]]
    to.measures->begin(last, group.number, group.batchBytes());
}

Status BatchWrites::postBatch(const Posting& to, Group& group, uint64_t then_immediate) {
  LaneQueuePair& queue_pair = to.queue_pair;
  const bool apart = group.batchBytes() > then_immediate;
  const uint32_t requests = group.count + (apart ? 1U : 0U);
  count(group, queue_pair, requests);
  ibv_send_wr& last = works_[requests - 1];
  if (apart) {
    last.num_sge = 0;
    last.send_flags = 0;
    last.wr = works_[requests - 2].wr;
    last.wr_id = works_[requests - 2].wr_id;
  }
  last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  last.imm_data = htonl(wholeImmediate(group.slot(), group.each));
  if (to.asks || queue_pair.posted() > queue_pair.unsignalled_until) signal(to, last, group);
  const Status result = WorkRequestChain::postUpTo(
      works_.data(), last, [&](ibv_send_wr* first) { return to.link.post(queue_pair, first); });
  last.opcode = IBV_WR_RDMA_WRITE;
  last.num_sge = 1;
  return result;
}

Status BatchWrites::postPack(const Posting& to, Group& group, ibv_send_wr& work) {
  LaneQueuePair& queue_pair = to.queue_pair;
  count(group, queue_pair, 1);
  const uint32_t slot = group.slot();
  work.wr_id = sendWorkId(0, 0, queue_pair.index);
  *work.sg_list = {reinterpret_cast<uint64_t>(pack_.bytes), group.each * group.count, 0};
  work.send_flags = IBV_SEND_INLINE;
  work.imm_data = htonl(packedImmediate(slot, group.each));
  work.wr.rdma.remote_addr = to.link.peer_window + kPacksAt + slot * sizeof(Pack);
  work.wr.rdma.rkey = queue_pair.peer_window_key;
  if (to.asks) signal(to, work, group);
  return to.link.post(queue_pair, &work);
}

}  // namespace railwise::net
