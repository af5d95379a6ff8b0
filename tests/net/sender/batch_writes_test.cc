// The work requests of a small group, as they are prepared.
#include "net/sender/batch_writes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace railwise::net {
namespace {

class BatchOfWrites : public testing::Test {
 protected:
  BatchOfWrites() {
    group_.open(5, makeStamp(5, 2, 0));
    memory_.keys[1] = MemoryKeys{7, 8};
    queue_pair_.rail = 1;
    queue_pair_.inline_bytes = 16;
  }
  void add(SendPath form, uint32_t index, const void* from, uint32_t bytes) {
    group_.form = form;
    Message message;
    message.begin(5, reinterpret_cast<uint64_t>(from), bytes, &memory_);
    const ClearToSend entry = {0, 9, 0x1000 * (index + 1U), 0, bytes, 0};
    writes_.add(group_, index, message, entry, queue_pair_);
  }

  MemoryHandle memory_ = {{}, MemoryKind::kHost};
  Group group_;
  LaneQueuePair queue_pair_;
  BatchWrites writes_;
};

TEST_F(BatchOfWrites, EachMessageHasAWriteLinkedToTheNext) {
  char bytes[17] = {};
  add(SendPath::kBatch, 0, bytes, 16);
  add(SendPath::kBatch, 1, bytes, 17);
  EXPECT_EQ(writes_[0].next, &writes_[1]);
  EXPECT_EQ(writes_[kMaxReceives].next, nullptr) << "one more for an immediate alone";
  EXPECT_EQ(writes_[0].opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(writes_[0].sg_list->addr, reinterpret_cast<uint64_t>(bytes));
  EXPECT_EQ(writes_[0].sg_list->length, 16U);
  EXPECT_EQ(writes_[0].sg_list->lkey, 7U);
  EXPECT_EQ(writes_[0].send_flags, static_cast<unsigned>(IBV_SEND_INLINE));
  EXPECT_EQ(writes_[1].send_flags, 0U) << "it does not fit into the work request";
  EXPECT_EQ(writes_[1].wr.rdma.remote_addr, 0x2000U);
  EXPECT_EQ(writes_[1].wr.rdma.rkey, 9U);
}

TEST_F(BatchOfWrites, BytesOfAGpuAreNeverInline) {
  char bytes[8] = {};
  memory_.kind = MemoryKind::kDevice;
  add(SendPath::kBatch, 0, bytes, 8);
  EXPECT_EQ(writes_[0].send_flags, 0U);
}

TEST_F(BatchOfWrites, APackHasTheMessagesOneBehindTheOther) {
  add(SendPath::kPacked, 1, "defg", 3);
  add(SendPath::kPacked, 0, "abcd", 3);
  EXPECT_EQ(std::memcmp(writes_.packed().bytes, "abcdef", 6), 0);
}

}  // namespace
}  // namespace railwise::net
