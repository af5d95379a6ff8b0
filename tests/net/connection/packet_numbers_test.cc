// The packet numbers with which the queue pairs of a connection begin.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "loop_connection.h"
#include "net/loop_traffic.h"
#include "net/paths/self_queue_pair.h"
#include "port_control.h"
#include "tests/ok.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

// What this process has told its devices of its queue pairs, by number.
struct Begun {
  uint32_t peer = 0;
  uint32_t sends = 0;
  uint32_t receives = 0;
};
std::mutex g_mutex;  // threads of the devices stop queue pairs
std::map<uint32_t, Begun> g_begun;
int (*g_modify)(ibv_qp*, ibv_qp_attr*, int) = nullptr;

int noteAndModify(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  {
    const std::lock_guard lock(g_mutex);
    Begun& begun = g_begun[qp->qp_num];
    if ((mask & IBV_QP_DEST_QPN) != 0) begun.peer = attributes->dest_qp_num;
    if ((mask & IBV_QP_RQ_PSN) != 0) begun.receives = attributes->rq_psn;
    if ((mask & IBV_QP_SQ_PSN) != 0) begun.sends = attributes->sq_psn;
  }
  return g_modify(qp, attributes, mask);
}

// While it lives, what the devices are told is noted.
struct Noted {
  Noted() {
    g_begun.clear();
    g_modify = std::exchange(library().modify_qp, noteAndModify);
  }
  ~Noted() { library().modify_qp = g_modify; }
  static verbs::Library& library() { return const_cast<verbs::Library&>(verbs::library()); }
};

// Checks that both ends agree. How far the queue pairs begin from where a session of zeros would.
std::vector<uint32_t> distances(uint64_t epoch) {
  const std::lock_guard lock(g_mutex);
  std::vector<uint32_t> all;
  for (const auto& [number, begun] : g_begun) {
    if (begun.peer == 0) continue;
    const auto peer = g_begun.find(begun.peer);
    EXPECT_NE(peer, g_begun.end());
    if (peer == g_begun.end() || peer->second.peer != number) continue;
    EXPECT_EQ(begun.sends, peer->second.receives);
    all.push_back((begun.sends - Session().firstPacket(epoch, number ^ begun.peer)) & 0xffffff);
  }
  return all;
}

TEST(PacketNumbers, BothEndsAgreeAndEachConnectionHasItsOwn) {
  LoopConnection loop(2 * kHalf, "count=2");
  std::set<uint32_t> sessions;
  for (int connection = 0; connection < 8; ++connection) {
    const Noted noted;
    loop.useAnother();
    const std::vector<uint32_t> all = distances(1);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0], all[1]);
    sessions.insert(all[0]);
  }
  EXPECT_GE(sessions.size(), 7U);  // two of them are alike once in 600,000 times
  // So it is in a later epoch.
  const Noted noted;
  test::changePort("soft0:1", "down");
  ASSERT_TRUE(Traffic(loop).run(16, 512));
  const std::vector<uint32_t> later = distances(loop.sender().epoch());
  ASSERT_EQ(later.size(), 2U);
  EXPECT_EQ(later[0], later[1]);
  test::changePort("soft0:1", "up");
}

// Nobody tells a queue pair that is connected to itself where to begin.
TEST(PacketNumbers, AQueuePairToItselfBeginsAnywhere) {
  LoopConnection loop(2 * kHalf);
  std::set<uint32_t> begins;
  for (int i = 0; i < 8; ++i) {
    const Noted noted;
    const Result<SelfQueuePair> made = SelfQueuePair::open(loop.device().rails().front(), loop.net().config(),
                                                           1, 0, verbs::PeerMay::kRead, "this test");
    ASSERT_OK(made);
    const Begun& begun = g_begun.at(made->qp->qp_num);
    EXPECT_EQ(begun.sends, begun.receives);
    begins.insert(begun.sends);
  }
  EXPECT_GE(begins.size(), 7U);
}

}  // namespace
}  // namespace railwise::net
