// The work request that proves arrival, by a write and by a read, without a device.
#include "net/paths/transport_rules.h"

#include <gtest/gtest.h>

#include "record/writer.h"

namespace railwise::net {
namespace {

constexpr uint64_t kPeerWindow = 0x7000;

class ArrivalProofTest : public testing::Test {
 protected:
  ArrivalProofTest() : memory_(record::PageMemory::allocate(QueuePairs::kBytes)), queue_pairs_(memory_) {
    queue_pairs_.add();
    queue_pair().window_key = 11;
    queue_pair().peer_window_key = 22;
  }
  ~ArrivalProofTest() override {
    { const QueuePairs gone = std::move(queue_pairs_); }
    record::PageMemory::free(memory_, QueuePairs::kBytes);
  }
  LaneQueuePair& queue_pair() { return queue_pairs_[0]; }

 private:
  void* const memory_;
  QueuePairs queue_pairs_;
};

TEST_F(ArrivalProofTest, IsASignalledWriteOfNothing) {
  ibv_sge sge;
  const ibv_send_wr work = ArrivalProof(false).workRequest(queue_pair(), kPeerWindow, sge);
  EXPECT_EQ(work.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(work.send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(work.num_sge, 0);
  EXPECT_EQ(work.wr.rdma.remote_addr, kPeerWindow);
  EXPECT_EQ(work.wr.rdma.rkey, 22U);
  EXPECT_EQ(queue_pair().counts().control_extra, 0U);
}

TEST_F(ArrivalProofTest, IsAReadWhereACompletedWriteSaysNothing) {
  ibv_sge sge = {};
  const ibv_send_wr work = ArrivalProof(true).workRequest(queue_pair(), kPeerWindow, sge);
  EXPECT_EQ(work.opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(work.send_flags, unsigned{IBV_SEND_SIGNALED});
  ASSERT_EQ(work.num_sge, 1);
  EXPECT_EQ(work.sg_list, &sge);
  EXPECT_EQ(sge.length, sizeof(uint64_t));
  EXPECT_EQ(sge.lkey, 11U);
  EXPECT_EQ(work.wr.rdma.remote_addr, kPeerWindow);
  EXPECT_EQ(work.wr.rdma.rkey, 22U);
  EXPECT_EQ(queue_pair().counts().control_extra, sizeof(uint64_t)) << "what is read is no payload";
}

}  // namespace
}  // namespace railwise::net
