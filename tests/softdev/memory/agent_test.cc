// Copies by the agent in the owner of the memory.
#include "softdev/memory/agent.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "softdev/fabric/doorbell.h"
#include "softdev/fabric/joining/membership.h"
#include "softdev/peer_process.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev::test {
namespace {

constexpr const char* kAgents = "mover=agent";

TEST(Agent, WritesReadsAndSends) {
  Processes two({}, {}, kAgents);
  for (size_t i = 0; i < 64; ++i) *two.end.word(8 * i) = 100 + i;
  EXPECT_EQ(sendAndWait(two.end, {.length = 512, .remote_offset = 64}), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(two.peer.word(64 + 8 * i), 100 + i);
  two.peer.setWord(4096, 7);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_RDMA_READ, .offset = 8192, .length = 8, .remote_offset = 4096}),
            0);
  EXPECT_EQ(two.end.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*two.end.word(8192), 7U);
  ASSERT_EQ(two.peer.receive(3, 16384, 1024), 0);
  ASSERT_EQ(two.end.send({.opcode = IBV_WR_SEND_WITH_IMM, .length = 512, .imm = 8}), 0);
  const ibv_wc wc = two.peer.wait();
  EXPECT_EQ(wc.byte_len, 512U);
  EXPECT_EQ(wc.imm_data, 8U);
  EXPECT_EQ(two.peer.word(16384 + 504), 163U);
  // And towards us.
  ASSERT_EQ(two.end.receive(4), 0);
  ASSERT_EQ(two.peer.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .offset = 64, .length = 8, .imm = 9}), 0);
  EXPECT_EQ(two.end.wait().opcode, IBV_WC_SEND);
  EXPECT_EQ(two.end.wait().imm_data, 9U);
  EXPECT_EQ(*two.end.word(0), 100U);
}

TEST(Agent, MoreThanItsBouncePagesHold) {
  constexpr size_t kBytes = 3 * kAgentBounceBytes + 4096;
  Processes two({.buffer_bytes = kBytes}, {.buffer_bytes = kBytes}, kAgents);
  for (size_t i = 0; i < kBytes / 8; ++i) *two.end.word(8 * i) = i * i;
  const auto length = static_cast<uint32_t>(kBytes - 24);
  EXPECT_EQ(sendAndWait(two.end, {.length = length, .remote_offset = 16}), IBV_WC_SUCCESS);
  for (size_t i = 0; i < length / 8; i += 511) ASSERT_EQ(two.peer.word(16 + 8 * i), i * i);
  std::fill(two.end.buffer.begin(), two.end.buffer.end(), std::byte{0});
  EXPECT_EQ(sendAndWait(two.end, {.opcode = IBV_WR_RDMA_READ, .length = length, .remote_offset = 16}),
            IBV_WC_SUCCESS);
  for (size_t i = 0; i < length / 8; ++i) ASSERT_EQ(*two.end.word(8 * i), i * i);
}

// What a GPU's driver pins for NCCL may be such: the kernel moves nothing there, whoever asks.
TEST(Agent, ReachesMemoryThatOnlyItsOwnerMayTouch) {
  if (!haveSecretMemory()) GTEST_SKIP() << "this kernel has no memfd_secret";
  constexpr size_t kBytes = 1 << 16;
  const Options secret{.memory = Memory::kSecret, .buffer_bytes = kBytes};
  Processes two(secret, secret, "mover=vm");
  for (size_t i = 0; i < kBytes / 8; ++i) *two.end.word(8 * i) = i * i + 1;
  EXPECT_EQ(sendAndWait(two.end, {.length = kBytes / 2, .remote_offset = 16}), IBV_WC_SUCCESS);
  for (size_t i = 0; i < kBytes / 16; ++i) ASSERT_EQ(two.peer.word(16 + 8 * i), i * i + 1);
  std::fill(two.end.buffer.begin(), two.end.buffer.end(), std::byte{0});
  EXPECT_EQ(sendAndWait(two.end, {.opcode = IBV_WR_RDMA_READ, .length = kBytes / 2, .remote_offset = 16}),
            IBV_WC_SUCCESS);
  for (size_t i = 0; i < kBytes / 16; ++i) ASSERT_EQ(*two.end.word(8 * i), i * i + 1);
  two.peer.unmapBuffer();
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
}

TEST(Agent, MemoryThatThePeerUnmapped) {
  Processes two({}, {}, kAgents);
  two.peer.unmapBuffer();
  two.end.peer = two.peer.address();
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
}

// As the poster leaves it that has waited long enough for a stopped process.
TEST(Agent, DoesNotExecuteWhatWasWithdrawn) {
  Processes two({}, {}, kAgents);
  EXPECT_EQ(sendAndWait(two.end, {.offset = 64, .length = 8}), IBV_WC_SUCCESS);
  Fabric& fabric = *as<Context>(static_cast<ibv_context*>(two.device)).fabric;
  const QpRecord& qp = fabric.segment->qps[qpIndexOf(two.peer.address().qp_num)];
  AgentRecord& agent = fabric.segment->agents[slotOf(qp.owner.load())];
  *arenaAt<uint64_t>(*fabric.segment, agent.bounce) = 7;
  agent.pieces[0] = {two.peer.address().memory, 8};
  agent.count = 1;
  agent.write = 1;
  agent.claim = kWithdrawn;
  agent.posted.fetch_add(1);
  ring(fabric, qp.owner.load(), agent.doorbell);
  *two.end.word(0) = 5;  // the next request has to wait for that one
  EXPECT_EQ(sendAndWait(two.end, {.length = 8, .remote_offset = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(two.peer.word(0), 0U);
  EXPECT_EQ(two.peer.word(8), 5U);
}

TEST(Agent, ServesWhereItsCountsWrap) {
  Processes two({}, {}, kAgents);
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_SUCCESS);
  Fabric& fabric = *as<Context>(static_cast<ibv_context*>(two.device)).fabric;
  const QpRecord& qp = fabric.segment->qps[qpIndexOf(two.peer.address().qp_num)];
  AgentRecord& agent = fabric.segment->agents[slotOf(qp.owner.load())];
  agent.done = agent.posted = UINT32_MAX - 1;
  for (uint64_t i = 1; i <= 4; ++i) {
    *two.end.word(0) = i;
    EXPECT_EQ(sendAndWait(two.end, {.length = 8, .remote_offset = 8 * i}), IBV_WC_SUCCESS);
    EXPECT_EQ(two.peer.word(8 * i), i);
  }
  EXPECT_EQ(agent.posted.load(), 2U);
}

TEST(Agent, KilledPeer) {
  Processes two({}, {}, kAgents);
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_SUCCESS);
  two.peer.kill();
  EXPECT_EQ(sendAndWait(two.end, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
}

// Two processes that the kernel lets nobody reach: neither the segment nor memory.
TEST(Agent, ServesProcessesThatAreNotDumpable) {
  const std::string fabric = uniqueFabric();
  PeerProcess one(fabric, {.hidden = true});
  PeerProcess other(fabric, {.hidden = true});
  connectEnds(one, other);
  for (uint64_t i = 0; i < 8; ++i) one.setWord(8 * i, 40 + i);
  ASSERT_EQ(other.receive(3), 0);
  ASSERT_EQ(one.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 64, .remote_offset = 128, .imm = 5}),
            0);
  EXPECT_EQ(other.wait().imm_data, 5U);
  EXPECT_EQ(one.wait().status, IBV_WC_SUCCESS);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(other.word(128 + 8 * i), 40 + i);
  EXPECT_EQ(sendAndWait(other, {.opcode = IBV_WR_RDMA_READ, .offset = 1024, .length = 64}), IBV_WC_SUCCESS);
  EXPECT_EQ(other.word(1024 + 56), 47U);
}

// A profiler's signals come while the process that is asked does not answer yet.
TEST(Agent, HandsTheSegmentOutDespiteSignals) {
  const std::string fabric = uniqueFabric();
  const PeerProcess member(fabric, {}, kAgents);
  struct sigaction handler = {};
  struct sigaction before = {};
  handler.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &handler, &before), 0);
  ASSERT_EQ(kill(member.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(member.pid(), &status, WUNTRACED), member.pid());
  std::thread profiler([asking = pthread_self(), pid = member.pid()] {
    for (int i = 0; i < 30; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pthread_kill(asking, SIGUSR1);
    }
    kill(pid, SIGCONT);
  });
  const int fd = fetchSegment(fabricPrefix(fabric), member.pid());
  profiler.join();
  EXPECT_GE(fd, 0);
  if (fd >= 0) close(fd);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(Agent, ServesUnderASystemCallFilter) {
  const std::string fabric = uniqueFabric();
  PeerProcess one(fabric, {.filtered = true});
  PeerProcess other(fabric, {.filtered = true});
  connectEnds(one, other);
  for (uint64_t i = 0; i < 8; ++i) one.setWord(8 * i, 40 + i);
  EXPECT_EQ(sendAndWait(one, {.length = 64, .remote_offset = 128}), IBV_WC_SUCCESS);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(other.word(128 + 8 * i), 40 + i);
  EXPECT_EQ(sendAndWait(other, {.opcode = IBV_WR_RDMA_READ, .offset = 1024, .length = 64}), IBV_WC_SUCCESS);
  EXPECT_EQ(other.word(1024 + 56), 47U);
}

// The second may reach the first, but not the other way round, and learns only when it polls that it is asked
// for its agent.
TEST(Agent, IsStartedWhenAPeerAsksForIt) {
  const std::string fabric = uniqueFabric();
  PeerProcess hidden(fabric, {.hidden = true});
  PeerProcess open(fabric);
  connectEnds(open, hidden);
  open.setWord(0, 6);
  EXPECT_EQ(sendAndWait(open, {.length = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(hidden.word(0), 6U);
  ASSERT_EQ(open.receive(3), 0);
  ASSERT_EQ(hidden.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .length = 8, .remote_offset = 8, .imm = 4}),
            0);
  EXPECT_EQ(open.wait().imm_data, 4U);
  EXPECT_EQ(hidden.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(open.word(8), 6U);
}

}  // namespace
}  // namespace railwise::softdev::test
