// Which receives are posted, and in which buffers, with a queue pair that only notes them.
#include "net/receiver/posted_receives.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace railwise::net {
namespace {

struct PostedReceive {
  uint64_t id;
  uint64_t buffer;  // 0: it has none
};
std::vector<PostedReceive> g_receives;
int g_refusal = 0;

int notePosted(ibv_qp* /*qp*/, ibv_recv_wr* work, ibv_recv_wr** /*bad*/) {
  for (; work != nullptr && g_refusal == 0; work = work->next)
    g_receives.push_back({work->wr_id, work->num_sge > 0 ? work->sg_list->addr : 0});
  return g_refusal;
}

class PostedReceivesTest : public testing::Test {
 protected:
  PostedReceivesTest() {
    context_.ops.post_recv = notePosted;
    qp_.context = &context_;
    queue_pair_.qp = &qp_;
    queue_pair_.index = 3;
    g_receives.clear();
    g_refusal = 0;
  }
  uint64_t bufferOf(uint32_t buffer) const {
    return reinterpret_cast<uint64_t>(window_.data()) + (3 * kPostedReceives + buffer) * sizeof(Record);
  }

  ibv_context context_ = {};
  ibv_qp qp_ = {};
  LaneQueuePair queue_pair_;
  std::vector<std::byte> window_ = std::vector<std::byte>(4 * kPostedReceives * sizeof(Record));
};

TEST_F(PostedReceivesTest, NeedNoBufferWhereThereAreImmediates) {
  PostedReceives receives(kRdmaRules);
  EXPECT_EQ(receives.bytesFor(4), 0U);
  ASSERT_EQ(receives.postFirst(queue_pair_), 0);
  ASSERT_EQ(g_receives.size(), kPostedReceives);
  for (const PostedReceive& posted : g_receives) {
    EXPECT_EQ(posted.buffer, 0U);
    EXPECT_EQ(posted.id, receiveWorkId(0, 3));
  }
  EXPECT_EQ(queue_pair_.rest->receives_posted, kPostedReceives);
}

TEST_F(PostedReceivesTest, AListIsPostedWhenItIsUsedUp) {
  PostedReceives receives(kRdmaRules);
  for (uint32_t used = 1; used < PostedReceives::kList; ++used) ASSERT_EQ(receives.renew(queue_pair_), 0);
  EXPECT_TRUE(g_receives.empty());
  ASSERT_EQ(receives.renew(queue_pair_), 0);
  EXPECT_EQ(g_receives.size(), PostedReceives::kList);
}

TEST_F(PostedReceivesTest, EachListNamesItsQueuePair) {
  PostedReceives receives(kRdmaRules);
  ASSERT_EQ(receives.postFirst(queue_pair_), 0);
  queue_pair_.index = 4;
  ASSERT_EQ(receives.postFirst(queue_pair_), 0);
  EXPECT_EQ(g_receives.front().id, receiveWorkId(0, 3));
  EXPECT_EQ(g_receives.back().id, receiveWorkId(0, 4));
}

TEST_F(PostedReceivesTest, OnIwarpTheHalfThatIsUsedUpIsPostedAgain) {
  PostedReceives receives(kIwarpRules);
  ASSERT_EQ(receives.bytesFor(4), window_.size());
  receives.use(window_.data());
  ASSERT_EQ(receives.postFirst(queue_pair_), 0);
  ASSERT_EQ(g_receives.size(), kPostedReceives);
  for (uint32_t i = 0; i < kPostedReceives; ++i) EXPECT_EQ(g_receives[i].buffer, bufferOf(i));
  for (const uint32_t half : {0U, PostedReceives::kList, 0U}) {
    g_receives.clear();
    for (uint32_t used = 0; used < PostedReceives::kList; ++used) ASSERT_EQ(receives.renew(queue_pair_), 0);
    ASSERT_EQ(g_receives.size(), PostedReceives::kList);
    for (uint32_t i = 0; i < PostedReceives::kList; ++i) {
      EXPECT_EQ(g_receives[i].buffer, bufferOf(half + i));
      EXPECT_EQ(g_receives[i].id, receiveWorkId(half + i, 3));
    }
  }
}

TEST_F(PostedReceivesTest, ACompletionLeadsToItsRecord) {
  PostedReceives receives(kIwarpRules);
  receives.use(window_.data());
  ibv_wc completion = {};
  completion.wr_id = receiveWorkId(5, 3);
  EXPECT_EQ(reinterpret_cast<uint64_t>(&receives.notice(3, completion)), bufferOf(5));
}

TEST_F(PostedReceivesTest, WhatTheDeviceRefusesDoesNotCount) {
  PostedReceives receives(kRdmaRules);
  g_refusal = ENOMEM;
  EXPECT_EQ(receives.postFirst(queue_pair_), ENOMEM);
  EXPECT_EQ(queue_pair_.rest->receives_posted, 0U);
}

}  // namespace
}  // namespace railwise::net
