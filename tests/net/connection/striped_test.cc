// Messages that are striped over several rails (SendConnection::sendStriped()): faults between their parts,
// and a peer whose counted immediates are wrong.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/loop_traffic.h"
#include "tests/ok.h"
#include "tests/said.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

class StripedFault : public testing::TestWithParam<const char*> {};

// One fault at one place after the other; %d is its place.
TEST_P(StripedFault, LosesNothing) {
  constexpr int kRails = 3;
  int failed_over = 0;
  for (const char* link : {"roce", "ib"}) {
    for (const char* place : {"2", "7", "11", "19"}) {
      std::string rule = GetParam();
      rule.replace(rule.find("%d"), 2, place);
      LoopConnection loop(2 * kHalf, "count=4,link=" + std::string(link) + ";fault " + rule, kRails);
      Traffic traffic(loop);
      EXPECT_TRUE(traffic.run(30, 100'000, 10)) << link << ", " << rule;
      failed_over += loop.sender().epoch() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(failed_over, 0) << "the faults must strike";
}

INSTANTIATE_TEST_SUITE_P(Faults, StripedFault,
                         testing::Values("opcode=write_imm nth=%d status=general_err",
                                         "opcode=write_imm nth=%d qp_fatal",
                                         "device=soft1 opcode=any nth=%d device_fatal",
                                         "verb=post_send nth=%d errno=ENOMEM"));

// A write without an immediate fails. Its completion names the queue pair that failed.
TEST(Striped, APartAheadOfItsImmediateNamesItsOwnQueuePair) {
  LoopConnection loop(2 * kHalf, "count=2,link=ib", 2);
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(8, 100'000));
  const std::string number = std::to_string(queuePairOf(loop.sender(), 1).qp->qp_num);
  const test::Said said;
  test::addFault("qp=" + number + " opcode=write nth=1 status=general_err");
  EXPECT_TRUE(traffic.run(8, 100'000));
  EXPECT_HAS(said.all(), "soft1 port 1 qp " + number + ": a send failed");
}

// What a receive of `group` buffers of 1,000 bytes each makes of these immediates: "completed", "open", or
// what was logged as it failed.
std::string receive(int group, const std::vector<uint32_t>& immediates) {
  LoopConnection loop(2 * kHalf, "count=2", 2);
  loop.usesDevicesItself();
  Request* const receive = loop.receive(group, kHalf, 1000);
  const test::Said said;
  for (const uint32_t value : immediates) {
    ibv_send_wr work = {};
    ibv_send_wr* bad = nullptr;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.imm_data = htonl(value);
    EXPECT_EQ(ibv_post_send(queuePairOf(loop.sender(), 0).qp, &work, &bad), 0);
  }
  bool done = false;
  Status status;
  for (int look = 0; look < 2000 && !done && status.ok(); ++look)
    status = receive->connection->test(*receive, &done, nullptr);
  if (!status.ok()) return said.all();
  return done ? "completed" : "open";
}

TEST(CountedImmediates, CompleteAReceiveWithTheirLastPart) {
  EXPECT_EQ(receive(1, {countedImmediate(1, 2, 600)}), "open");
  EXPECT_EQ(receive(1, {countedImmediate(1, 2, 600), countedImmediate(1, 2, 400)}), "completed");
  EXPECT_EQ(receive(1, {countedImmediate(1, 1, 1000)}), "completed");
}

TEST(CountedImmediates, OfAWrongPeerFailTheConnection) {
  constexpr uint32_t kMost = kImmediatePartLimit - 1;
  const char* const not_open = "data for receive slot 1, which is not open";
  const char* const too_long = "bytes for a buffer of 1000";
  const auto said = [](const std::string& log, const char* what) { EXPECT_HAS(log, what); };
  said(receive(1, {countedImmediate(1, 2, 600), countedImmediate(1, 2, 401)}), too_long);
  said(receive(1, std::vector(8, countedImmediate(1, 8, kMost))), too_long);
  said(receive(1, {countedImmediate(1, 2, 600), wholeImmediate(1, 10)}), not_open);
  said(receive(1, {countedImmediate(1, 2, 600), segmentImmediate(false, 1, 1, 1)}), not_open);
  said(receive(1, {segmentImmediate(false, 1, 0, 1), countedImmediate(1, 2, 600)}), not_open);
  said(receive(1, {countedImmediate(1, 2, 600), countedImmediate(1, 3, 100)}), not_open);
  said(receive(1, {countedImmediate(1, 2, 6), packedImmediate(1, 8)}), not_open);
  said(receive(2, {countedImmediate(1, 1, 600)}), not_open);
  said(receive(1, {countedImmediate(5, 2, 600)}), "data for receive slot 5");
}

}  // namespace
}  // namespace railwise::net
