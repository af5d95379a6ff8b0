// The work requests of a batch or pack (SendPath::kBatch and kPacked): a write for each message, or the bytes
// of all of them for one write. They are prepared while the sends come. Plain values of one sender; one
// thread at a time.
#pragma once

#include <array>
#include <cstddef>

#include "net/paths/link.h"
#include "net/protocol/wire.h"
#include "net/sender/group.h"
#include "net/sender/message_times.h"
#include "net/sender/send_work_id.h"

namespace railwise::net {

class BatchWrites {
 public:
  BatchWrites() {
    for (std::size_t i = 0; i < works_.size(); ++i) {
      works_[i].next = i + 1 < works_.size() ? &works_[i + 1] : nullptr;
      works_[i].sg_list = &sges_[i];
      works_[i].num_sge = 1;
      works_[i].opcode = IBV_WR_RDMA_WRITE;
    }
  }
  BatchWrites(const BatchWrites&) = delete;
  BatchWrites& operator=(const BatchWrites&) = delete;

  // Prepares message `index` of the group.
  void add(const Group& group, uint32_t index, const Message& message, const ClearToSend& entry,
           const LaneQueuePair& queue_pair) {
    if (group.form == SendPath::kPacked) pack(message, index);
    else prepare(works_[index], message, entry, queue_pair);
  }
  // What both ways to post a group need. `asks`: the group is signalled for the sake of its messages.
  // `measures`: if not null, the time of the group is measured. Null unless `asks`.
  struct Posting {
    Link& link;
    LaneQueuePair& queue_pair;
    bool asks;
    MessageTimes* measures;
  };
  // Posts the group: a write for each message. The last one has the immediate; if the group has more than
  // `then_immediate` bytes, an empty write behind them has it.
  Status postBatch(const Posting& to, Group& group, uint64_t then_immediate);
  // Posts the group: one write, by `work`, into the receiver's window.
  Status postPack(const Posting& to, Group& group, ibv_send_wr& work);

  const ibv_send_wr& operator[](std::size_t index) const { return works_[index]; }
  const Pack& packed() const { return pack_; }

 private:
  static void prepare(ibv_send_wr& work, const Message& message, const ClearToSend& entry,
                      const LaneQueuePair& queue_pair) {
    *work.sg_list = {message.address, message.bytes, message.memory->keys[queue_pair.rail].local()};
    const bool inlined =
        message.bytes <= queue_pair.inline_bytes && message.memory->kind == MemoryKind::kHost;
    work.send_flags = inlined ? IBV_SEND_INLINE : 0;
    work.wr.rdma.remote_addr = entry.address;
    work.wr.rdma.rkey = keyOfRail(entry, queue_pair.peer_rail);
    work.wr_id = sendWorkId(0, 0, queue_pair.index);
  }
  // The receiver copies the message once more; both copies cost less than a write.
  void pack(const Message& message, uint32_t index) {
    copyShort(pack_.bytes + std::size_t{index} * message.bytes,
              reinterpret_cast<const void*>(message.address),  // NOLINT(performance-no-int-to-ptr)
              message.bytes);
  }
  static void count(Group& group, LaneQueuePair& queue_pair, uint32_t work_requests);
  static void signal(const Posting& to, ibv_send_wr& last, const Group& group);

  std::array<ibv_send_wr, kMaxReceives + 1> works_ = {};  // one more for an immediate alone
  std::array<ibv_sge, kMaxReceives + 1> sges_ = {};
  Pack pack_ = {};
};

}  // namespace railwise::net
