// Completion channels: who is told of which completions, and that nobody sleeps through one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

#include "softdev/endpoint.h"
#include "softdev/peer_process.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/reclaim.h"
#include "tests/wait.h"

namespace railwise::softdev::test {
namespace {

const Options kWithChannel{.with_channel = true};

bool readable(const ibv_comp_channel* channel) {
  pollfd poller{channel->fd, POLLIN, 0};
  return poll(&poller, 1, 0) == 1;
}

void makeNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Takes the one event there is and acknowledges it.
void takeEvent(Endpoint& end) {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(getCqEvent(end.channel, &cq, &cq_context), 0);
  EXPECT_EQ(cq, end.cq);
  EXPECT_EQ(cq_context, &end);
  ackCqEvents(cq, 1);
}

TEST(CompletionChannel, TellsOfTheNextCompletionOnce) {
  const OpenDevice device;
  Pair pair(device, device, {}, kWithChannel);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.b.receive(8), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);
  EXPECT_FALSE(readable(pair.b.channel));  // nobody had asked
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
  EXPECT_FALSE(readable(pair.b.channel));
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);
  EXPECT_TRUE(readable(pair.b.channel));
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);
  takeEvent(pair.b);
  EXPECT_FALSE(readable(pair.b.channel));
}

TEST(CompletionChannel, SolicitedOnly) {
  const OpenDevice device;
  Pair pair(device, device, {}, kWithChannel);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.b.receive(8), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 1), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);
  EXPECT_FALSE(readable(pair.b.channel));
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .flags = IBV_SEND_SOLICITED}), 0);
  EXPECT_TRUE(readable(pair.b.channel));
  takeEvent(pair.b);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(pair.b.wait().wc_flags & ~unsigned{IBV_WC_WITH_IMM}, 0U);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 1), 0);
  ASSERT_EQ(pair.b.toState(IBV_QPS_ERR), 0);  // an error counts as solicited
  EXPECT_TRUE(readable(pair.b.channel));
  takeEvent(pair.b);
}

TEST(CompletionChannel, AskingForLessDoesNotWeaken) {
  const OpenDevice device;
  Pair pair(device, device, {}, kWithChannel);
  ASSERT_EQ(pair.b.receive(8), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 1), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);
  EXPECT_TRUE(readable(pair.b.channel));
  takeEvent(pair.b);
}

// The dead may have published a completion, or disarmed the queue, without ringing.
TEST(CompletionChannel, WhoeverTakesTheLockFromTheDeadRings) {
  const OpenDevice device;
  Pair pair(device, device, {}, kWithChannel);
  ASSERT_EQ(pair.b.receive(8), 0);
  {
    PeerProcess peer(device.fabric());
    peer.lockCq(as<Cq>(pair.b.cq).index);
  }
  EXPECT_FALSE(readable(pair.b.channel));
  reclaimDead(*as<Context>(static_cast<ibv_context*>(device)).fabric);
  EXPECT_TRUE(readable(pair.b.channel));
  takeEvent(pair.b);
  {
    PeerProcess peer(device.fabric());
    peer.lockCq(as<Cq>(pair.b.cq).index);
  }
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);  // not armed: the lock alone is the reason
  EXPECT_TRUE(readable(pair.b.channel));
  takeEvent(pair.b);
  EXPECT_EQ(pair.b.wait().wr_id, 8U);
}

TEST(CompletionChannel, NonBlockingGivesEagain) {
  const OpenDevice device;
  Endpoint end(device, kWithChannel);
  makeNonBlocking(end.channel->fd);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(getCqEvent(end.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(CompletionChannel, ManyQueuesShareOne) {
  const OpenDevice device;
  ibv_comp_channel* channel = createCompChannel(device);
  ASSERT_NE(channel, nullptr);
  Pair pair(device);
  constexpr int kQueues = 40;  // more than a socket holds rings
  ibv_cq* queues[kQueues];
  ibv_qp* qps[kQueues];
  for (int i = 0; i < kQueues; ++i) {
    queues[i] = createCq(device, 4, &queues[i], channel, 0);
    ASSERT_NE(queues[i], nullptr);
    ASSERT_EQ(ibv_req_notify_cq(queues[i], 0), 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queues[i];
    init.qp_type = IBV_QPT_RC;
    init.cap = {1, 1, 1, 1, 0};
    qps[i] = createQp(pair.a.pd, &init);
    ASSERT_NE(qps[i], nullptr);
    ibv_qp_attr attr = pair.a.initAttr();
    ASSERT_EQ(modifyQp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qps[i], &wr, &bad), 0);
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(modifyQp(qps[i], &attr, IBV_QP_STATE), 0);  // flushes the receive
  }
  EXPECT_EQ(destroyCompChannel(channel), EBUSY);
  bool seen[kQueues] = {};
  for (int i = 0; i < kQueues; ++i) {
    ASSERT_TRUE(readable(channel)) << i;
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(getCqEvent(channel, &cq, &cq_context), 0);
    const auto index = static_cast<ibv_cq**>(cq_context) - queues;
    EXPECT_FALSE(seen[index]);
    seen[index] = true;
    ackCqEvents(cq, 1);
  }
  EXPECT_FALSE(readable(channel));
  for (ibv_qp* qp : qps) destroyQp(qp);
  for (ibv_cq* cq : queues) EXPECT_EQ(destroyCq(cq), 0);
  EXPECT_EQ(destroyCompChannel(channel), 0);
}

TEST(CompletionChannel, AnotherProcessWakesTheSleeper) {
  const OpenDevice device;
  PeerProcess peer(device.fabric());
  Endpoint end(device, kWithChannel);
  connectEnds(end, peer);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(end.receive(7), 0);
    ASSERT_EQ(ibv_req_notify_cq(end.cq, 0), 0);
    std::thread sender([&] { peer.send({.opcode = IBV_WR_SEND}); });
    takeEvent(end);
    sender.join();
    EXPECT_EQ(end.wait().wr_id, 7U);
    EXPECT_EQ(peer.wait().status, IBV_WC_SUCCESS);
  }
}

// The usual loop (ask, poll until empty, sleep) against a sender that never waits.
TEST(CompletionChannel, NoWakeUpIsLost) {
  const OpenDevice device;
  Options sender_options;
  sender_options.max_send_wr = 256;
  sender_options.cqe = 512;
  Options receiver_options = kWithChannel;
  receiver_options.max_recv_wr = 256;
  receiver_options.cqe = 512;
  Pair pair(device, device, sender_options, receiver_options);
  constexpr int kMessages = 20000;
  for (int i = 0; i < 256; ++i) ASSERT_EQ(pair.b.receive(8), 0);
  std::thread sender([&] {
    for (int sent = 0; sent < kMessages; ++sent) {
      for (railwise::test::Patience patience; pair.a.send({.opcode = IBV_WR_SEND}) != 0; patience.again())
        pair.a.wait();
    }
  });
  unsigned unacknowledged = 0;
  for (int received = 0; received < kMessages;) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
    bool polled = false;
    for (ibv_wc wc; pair.b.poll(&wc) == 1; ++received) {
      polled = true;
      ASSERT_EQ(pair.b.receive(8), 0);
    }
    if (polled) continue;
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(getCqEvent(pair.b.channel, &cq, &cq_context), 0);
    ++unacknowledged;
  }
  sender.join();
  ackCqEvents(pair.b.cq, unacknowledged);
}

TEST(CompletionChannel, DestroyWaitsForAcknowledgements) {
  const OpenDevice device;
  auto end = std::make_unique<Endpoint>(device, kWithChannel);
  end->connect(end->address());
  ASSERT_EQ(ibv_req_notify_cq(end->cq, 0), 0);
  ASSERT_EQ(end->receive(1), 0);
  ASSERT_EQ(end->send({.opcode = IBV_WR_SEND}), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ASSERT_EQ(getCqEvent(end->channel, &cq, &cq_context), 0);
  std::atomic<bool> acknowledged{false};
  std::thread later([&] {
    acknowledged.store(true);
    ackCqEvents(cq, 1);
  });
  end.reset();
  EXPECT_TRUE(acknowledged.load());
  later.join();
}

TEST(CompletionChannel, ResizeKeepsWhatIsInTheQueue) {
  const OpenDevice device;
  Pair pair(device, device, {.cqe = 4}, {});
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(pair.a.send({.wr_id = i}), 0);
  EXPECT_EQ(resizeCq(pair.a.cq, 2), EINVAL);
  EXPECT_EQ(pair.a.cq->cqe, 4);
  ASSERT_EQ(resizeCq(pair.a.cq, 16), 0);
  EXPECT_EQ(pair.a.cq->cqe, 16);
  for (uint64_t i = 4; i < 16; ++i) ASSERT_EQ(pair.a.send({.wr_id = i}), 0);
  for (uint64_t i = 0; i < 13; ++i) EXPECT_EQ(pair.a.wait().wr_id, i);
  ASSERT_EQ(resizeCq(pair.a.cq, 4), 0);
  for (uint64_t i = 13; i < 16; ++i) EXPECT_EQ(pair.a.wait().wr_id, i);
}

}  // namespace
}  // namespace railwise::softdev::test
