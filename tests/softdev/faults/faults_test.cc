// What fault rules do to sends and receives: each action, each selector, and that chance repeats.
#include "softdev/faults/faults.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "softdev/endpoint.h"
#include "softdev/fault_helpers.h"
#include "softdev/faults/actions.h"
#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

constexpr Options kQuickToGiveUp = {.timeout = 1, .retry_cnt = 2, .rnr_retry = 2};

// The statuses of `count` writes, one after the other, each on a new pair when the last one failed.
void expectWrite(Endpoint& end, ibv_wc_status status, uint64_t wr_id = 1) {
  ASSERT_EQ(end.send({.length = 8, .wr_id = wr_id}), 0);
  const ibv_wc wc = end.wait();
  EXPECT_EQ(wc.status, status) << wcStatusStr(wc.status);
  EXPECT_EQ(wc.wr_id, wr_id);
}

void expectNothing(Endpoint& end) {
  ibv_wc wc{};
  for (int i = 0; i < 100; ++i) ASSERT_EQ(end.poll(&wc), 0);
}

TEST(Faults, NothingIsArmedWithoutRules) {
  const OpenDevice device;
  EXPECT_EQ(faultsArmed(fabricOf(device)), 0U);
  const uint32_t id = addRule(device, "opcode=write nth=1 drop");
  EXPECT_EQ(faultsArmed(fabricOf(device)), static_cast<uint32_t>(kArmedWork));
  EXPECT_TRUE(removeFault(fabricOf(device), id));
  EXPECT_FALSE(removeFault(fabricOf(device), id));
  EXPECT_EQ(faultsArmed(fabricOf(device)), 0U);
}

TEST(Faults, LocalStatusFailsTheSenderOnly) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write nth=2 status=loc_prot_err");
  *pair.a.word(0) = 7;
  expectWrite(pair.a, IBV_WC_SUCCESS);
  *pair.a.word(0) = 8;
  ASSERT_EQ(pair.a.receive(5), 0);
  expectWrite(pair.a, IBV_WC_LOC_PROT_ERR, 2);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(*pair.b.word(0), 7U);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  EXPECT_EQ(faultsArmed(fabricOf(device)), 0U) << "a rule with nth= alone strikes once";
}

TEST(Faults, RemoteStatusFailsBothEnds) {
  const OpenDevice device;
  for (const char* status : {"rem_access_err", "rem_op_err", "rem_inv_req_err"}) {
    Pair pair(device);
    ASSERT_EQ(pair.b.receive(9), 0);
    addRule(device, std::string("opcode=write count=1 status=") + status);
    ASSERT_EQ(pair.a.send({.length = 8}), 0);
    EXPECT_GE(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(pair.b.wait().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }
}

TEST(Faults, RefusedSendFailsItsReceive) {
  const OpenDevice device;
  Pair pair(device);
  ASSERT_EQ(pair.b.receive(9, 0, 64), 0);
  addRule(device, "opcode=send status=rem_inv_req_err");
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_SEND, .length = 8}), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_LOC_LEN_ERR);
}

TEST(Faults, ReceiveFailsWithItsOwnStatus) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=recv nth=2 status=loc_prot_err");
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_SEND, .length = 8, .wr_id = 1}), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  // The second arrives before its receive: it waits, and fails when that is posted.
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 8, .wr_id = 2}), 0);
  expectNothing(pair.b);
  ASSERT_EQ(pair.b.receive(2, 0, 64), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_OP_ERR);
  const ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 2U);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

// The end with a queue pair of another kind in place of its own.
void replaceQp(Endpoint& end, ibv_qp_type type, ibv_srq* srq) {
  ASSERT_EQ(destroyQp(end.qp), 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = type;
  init.srq = srq;
  init.cap = {8, 8, 1, 1, 0};
  end.qp = createQp(end.pd, &init);
  ASSERT_NE(end.qp, nullptr);
}

TEST(Faults, ReceiveOfASharedQueueFails) {
  const OpenDevice device;
  Endpoint a(device);
  Endpoint b(device);
  ibv_srq_init_attr init{};
  init.attr.max_wr = 4;
  init.attr.max_sge = 1;
  ibv_srq* srq = createSrq(b.pd, &init);
  ASSERT_NE(srq, nullptr);
  replaceQp(b, IBV_QPT_RC, srq);
  connectEnds(a, b);
  addRule(device, "opcode=recv status=loc_prot_err");
  ASSERT_EQ(a.send({.opcode = IBV_WR_SEND}), 0);
  expectNothing(a);  // there is no receive to fail yet
  ibv_recv_wr receive{77, nullptr, nullptr, 0};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &receive, &bad), 0);
  EXPECT_EQ(a.wait().status, IBV_WC_REM_OP_ERR);
  const ibv_wc wc = b.wait();
  EXPECT_EQ(wc.wr_id, 77U);
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  replaceQp(b, IBV_QPT_RC, nullptr);
  EXPECT_EQ(destroySrq(srq), 0);
}

TEST(Faults, DatagramsAreLost) {
  const OpenDevice device("link=ib");
  Endpoint a(device);
  Endpoint b(device);
  constexpr uint32_t kKey = 0x11;
  for (Endpoint* end : {&a, &b}) {
    replaceQp(*end, IBV_QPT_UD, nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kKey;
    ASSERT_EQ(modifyQp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(modifyQp(end->qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(modifyQp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  ibv_ah_attr address{};
  address.dlid = b.address().lid;
  address.port_num = 1;
  ibv_ah* ah = createAh(a.pd, &address);
  ASSERT_NE(ah, nullptr);
  for (uint64_t wr_id : {1U, 2U}) ASSERT_EQ(b.receive(wr_id, 0, 256), 0);
  addRule(device, "opcode=send nth=2 drop");
  addRule(device, "opcode=send nth=3 rnr");
  for (uint64_t wr_id = 1; wr_id <= 4; ++wr_id) {
    ibv_sge sge;
    ibv_send_wr wr;
    ibv_send_wr* bad = nullptr;
    a.fill({.opcode = IBV_WR_SEND, .length = 8, .wr_id = wr_id}, &wr, &sge);
    wr.wr.ud = {ah, b.qp->qp_num, kKey};
    ASSERT_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
    EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
  }
  for (uint64_t wr_id : {1U, 2U}) EXPECT_EQ(b.wait().wr_id, wr_id);
  expectNothing(b);
  EXPECT_EQ(destroyAh(ah), 0);
}

TEST(Faults, DroppedForEverExceedsTheRetries) {
  const OpenDevice device;
  Pair pair(device, kQuickToGiveUp);
  addRule(device, "opcode=write drop");
  const auto before = Clock::now();
  *pair.a.word(0) = 1;
  expectWrite(pair.a, IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(Clock::now() - before, std::chrono::nanoseconds(4096 * 2 * 3));
  EXPECT_EQ(*pair.b.word(0), 0U);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(Faults, DroppedLessOftenThanTheRetriesArrives) {
  const OpenDevice device;
  Pair pair(device, kQuickToGiveUp);
  addRule(device, "opcode=write nth=1 drop=2");
  const auto before = Clock::now();
  *pair.a.word(0) = 1;
  expectWrite(pair.a, IBV_WC_SUCCESS);
  EXPECT_GE(Clock::now() - before, std::chrono::nanoseconds(4096 * 2 * 2));
  EXPECT_EQ(*pair.b.word(0), 1U);
  addRule(device, "opcode=write nth=1 drop=3");
  expectWrite(pair.a, IBV_WC_RETRY_EXC_ERR);
}

TEST(Faults, DroppedWithoutATimeoutHangs) {
  const OpenDevice device;
  Pair pair(device, {.timeout = 0});
  addRule(device, "opcode=write nth=1 drop=1");
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  expectNothing(pair.a);
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Faults, ReceiverNotReady) {
  const OpenDevice device;
  Pair pair(device, kQuickToGiveUp);
  ASSERT_EQ(pair.b.receive(1), 0);
  addRule(device, "opcode=write_imm nth=1 rnr=2");
  addRule(device, "opcode=write_imm nth=2 rnr=3");
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(pair.b.receive(2), 0);
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
}

TEST(Faults, ReceiverNeverReadyAndRetriesWithoutEnd) {
  const OpenDevice device;
  Pair pair(device, {.rnr_retry = 7});
  addRule(device, "opcode=send rnr");
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND}), 0);
  expectNothing(pair.a);
}

TEST(Faults, DelayKeepsTheOrder) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write nth=1 delay=2ms");
  const auto before = Clock::now();
  *pair.a.word(0) = 1;
  *pair.a.word(8) = 2;
  ASSERT_EQ(pair.a.send({.length = 8, .wr_id = 1}), 0);
  ASSERT_EQ(pair.a.send({.offset = 8, .length = 8, .wr_id = 2}), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 1U);
  EXPECT_EQ(pair.a.wait().wr_id, 2U);
  EXPECT_GE(Clock::now() - before, std::chrono::milliseconds(2));
  EXPECT_EQ(*pair.b.word(0), 2U);
}

TEST(Faults, AChainMeetsItsFaultInTheMiddle) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write nth=2 status=rem_access_err");
  ibv_sge sges[3];
  ibv_send_wr wrs[3];
  ibv_send_wr* bad = nullptr;
  for (unsigned i = 0; i < 3; ++i) pair.a.fill({.length = 8, .wr_id = i}, &wrs[i], &sges[i]);
  wrs[0].next = &wrs[1];
  wrs[1].next = &wrs[2];
  ASSERT_EQ(ibv_post_send(pair.a.qp, wrs, &bad), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Faults, StuckQueuePair) {
  const OpenDevice device;
  Pair pair(device, kQuickToGiveUp);
  addRule(device, "opcode=write nth=2 stuck");
  expectWrite(pair.a, IBV_WC_SUCCESS);
  for (uint64_t wr_id : {2U, 3U}) ASSERT_EQ(pair.a.send({.length = 8, .wr_id = wr_id}), 0);
  expectNothing(pair.a);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  expectWrite(pair.b, IBV_WC_SUCCESS);  // the other direction lives
  ASSERT_EQ(pair.a.toState(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.wait().wr_id, 3U);
}

TEST(Faults, QueuePairFatal) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write qp_fatal");
  ASSERT_EQ(pair.a.receive(5), 0);
  ASSERT_EQ(pair.a.send({.length = 8}), 0);
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_QP_FATAL));
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(Faults, QueuePairFatalAtTheReceiver) {
  const OpenDevice device;
  Pair pair(device, kQuickToGiveUp);
  addRule(device, "opcode=recv qp_fatal");
  ASSERT_EQ(pair.b.receive(5, 0, 8), 0);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
  EXPECT_EQ(nextEvent(device), eventTypeStr(IBV_EVENT_QP_FATAL));
  EXPECT_EQ(pair.b.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Faults, AnyEvent) {
  const OpenDevice device;
  Pair pair(device);
  for (const char* event : {"lid_change", "sm_change", "cq_err", "sq_drained", "path_mig", "device_fatal"}) {
    addRule(device, std::string("opcode=write nth=1 event=") + event);
    expectWrite(pair.a, IBV_WC_SUCCESS);
    EXPECT_NE(nextEvent(device), "") << event;
    EXPECT_EQ(nextEvent(device), "") << event;
  }
}

TEST(Faults, SelectorsLeaveOthersAlone) {
  const OpenDevice device("name=one;name=two");
  const OpenSecond second("two");
  Pair pair(device, second, {}, {});
  Pair other(device);
  const std::string number = std::to_string(pair.a.qp->qp_num);
  for (const std::string& missed :
       {std::string("device=two"), std::string("device=onx"), std::string("port=2"),
        "qp=" + std::to_string(other.a.qp->qp_num), std::string("process=4000000"),
        std::string("host=nobody"), std::string("peer=nobody"), std::string("peer_device=one"),
        std::string("opcode=read"), std::string("opcode=send+atomic"), std::string("after=17"),
        std::string("verb=modify_qp")}) {
    const uint32_t id = addRule(device, missed + (missed[0] == 'v' ? " errno=EIO" : " status=fatal_err"));
    ASSERT_NE(id, 0U);
    expectWrite(pair.a, IBV_WC_SUCCESS);
    expectWrite(pair.a, IBV_WC_SUCCESS);
    EXPECT_TRUE(logLines(device).empty()) << missed;
    ASSERT_TRUE(removeFault(fabricOf(device), id));
  }
}

TEST(Faults, SelectorsFindTheirs) {
  const OpenDevice device("host=alpha,name=one0");
  const std::string process = std::to_string(getpid());
  for (const std::string& hit :
       {std::string("device=one0"), std::string("device=on*"), std::string("device=*"), std::string("port=1"),
        std::string("qp="), "process=" + process, std::string("host=alpha"), std::string("peer=al*"),
        std::string("peer_device=one*"), std::string("opcode=any"), std::string("opcode=read+write"),
        std::string("after=8 nth=1")}) {
    Pair pair(device);
    const std::string text = hit == "qp=" ? hit + std::to_string(pair.a.qp->qp_num) : hit;
    const uint32_t id = addRule(device, text + " status=fatal_err");
    if (hit.starts_with("after")) expectWrite(pair.a, IBV_WC_SUCCESS);
    expectWrite(pair.a, IBV_WC_FATAL_ERR);
    ASSERT_TRUE(removeFault(fabricOf(device), id));
  }
}

// Which of 40 writes are delayed by a rule.
std::vector<int> hitsOf(const std::string& when) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write " + when + " delay=1ns");
  for (uint64_t i = 1; i <= 40; ++i) expectWrite(pair.a, IBV_WC_SUCCESS, i);
  std::vector<int> hits;
  for (const FaultLogEntry& entry : readFaultLog(fabricOf(device)))
    hits.push_back(static_cast<int>(entry.wr_id));
  return hits;
}

TEST(Faults, WhenARuleStrikes) {
  EXPECT_EQ(hitsOf("nth=3"), (std::vector<int>{3}));
  EXPECT_EQ(hitsOf("nth=3 every=12"), (std::vector<int>{3, 15, 27, 39}));
  EXPECT_EQ(hitsOf("every=16"), (std::vector<int>{1, 17, 33}));
  EXPECT_EQ(hitsOf("count=2"), (std::vector<int>{1, 2}));
  EXPECT_EQ(hitsOf("after=304"), (std::vector<int>{39, 40}));
  EXPECT_EQ(hitsOf("probability=1").size(), 40U);
}

TEST(Faults, ChanceRepeatsWithItsSeed) {
  const std::vector<int> first = hitsOf("probability=0.3 seed=5");
  EXPECT_GT(first.size(), 3U);
  EXPECT_LT(first.size(), 25U);
  EXPECT_EQ(hitsOf("probability=0.3 seed=5"), first);
  EXPECT_NE(hitsOf("probability=0.3 seed=6"), first);
}

// A connection that chance has ended is made anew: its successor must not meet the same end for ever.
TEST(Faults, ChanceIsDrawnAnewForTheSuccessorOfAQueuePair) {
  const OpenDevice device;
  addRule(device, "probability=0.3 seed=5 delay=1ns");
  std::vector<std::vector<std::string>> lives;
  for (int life = 0; life < 3; ++life) {
    const size_t before = logLines(device).size();
    Pair pair(device);
    for (uint64_t i = 1; i <= 40; ++i) {
      ASSERT_EQ(pair.a.send({.length = 8, .wr_id = i}), 0);
      ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    }
    const std::vector<FaultLogEntry> log = readFaultLog(fabricOf(device), before);
    std::vector<std::string>& hits = lives.emplace_back();
    for (const FaultLogEntry& entry : log) hits.push_back(std::to_string(entry.wr_id));
    EXPECT_GT(hits.size(), 3U);
  }
  EXPECT_NE(lives[0], lives[1]);
  EXPECT_NE(lives[1], lives[2]);
}

// The log of random traffic over several queue pairs with several rules.
std::vector<std::string> randomRun(uint64_t order) {
  const OpenDevice device("name=d");
  Pair pairs[] = {Pair(device), Pair(device), Pair(device)};
  addRule(device, "opcode=write probability=0.2 seed=3 delay=1us");
  addRule(device, "opcode=read probability=0.1 seed=4 delay=2us");
  addRule(device, "opcode=any nth=50 event=sm_change");
  for (uint64_t i = 0; i < 60; ++i) {
    for (uint64_t k = 0; k < 3; ++k) {
      Endpoint& end = pairs[(k + order) % 3].a;
      EXPECT_EQ(
          end.send({.opcode = i % 3 == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, .length = 16, .wr_id = i}),
          0);
      EXPECT_EQ(end.wait().status, IBV_WC_SUCCESS);
    }
  }
  return logLines(device);
}

TEST(Faults, TwoRunsLogTheSame) {
  const std::vector<std::string> first = randomRun(0);
  EXPECT_GT(first.size(), 20U);
  EXPECT_EQ(randomRun(0), first);
}

TEST(Faults, ChanceDoesNotDependOnOtherQueuePairs) {
  const auto chancesOf = [](std::vector<std::string> lines) {
    std::erase_if(lines, [](const std::string& line) { return line.find("event=") != std::string::npos; });
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(chancesOf(randomRun(1)), chancesOf(randomRun(0)));
}

TEST(Faults, TheLogSaysWhatHappened) {
  const OpenDevice device("host=alpha,name=d0");
  Pair pair(device);
  const uint32_t id = addRule(device, "opcode=write nth=2 status=loc_qp_op_err");
  expectWrite(pair.a, IBV_WC_SUCCESS, 10);
  expectWrite(pair.a, IBV_WC_LOC_QP_OP_ERR, 11);
  const std::vector<FaultLogEntry> log = readFaultLog(fabricOf(device));
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(log[0].sequence, 1U);
  EXPECT_EQ(log[0].rule, id);
  EXPECT_EQ(log[0].match, 2U);
  EXPECT_EQ(log[0].wr_id, 11U);
  EXPECT_EQ(log[0].process, static_cast<uint32_t>(getpid()));
  EXPECT_EQ(log[0].qp, pair.a.qp->qp_num);
  EXPECT_EQ(log[0].operation, static_cast<uint32_t>(kFaultWrite));
  EXPECT_EQ(log[0].port, 1U);
  EXPECT_GT(log[0].time_ns, 0U);
  EXPECT_STREQ(log[0].host, "alpha");
  EXPECT_STREQ(log[0].device, "d0");
  EXPECT_STREQ(log[0].action, "status=loc_qp_op_err");
  EXPECT_TRUE(readFaultLog(fabricOf(device), 1).empty());
}

TEST(Faults, TheLogKeepsTheLatest) {
  const OpenDevice device;
  FaultSite site;
  for (uint64_t i = 1; i <= kFaultLogEntries + 10; ++i) logCommand(fabricOf(device), site, "x");
  const std::vector<FaultLogEntry> log = readFaultLog(fabricOf(device));
  ASSERT_EQ(log.size(), kFaultLogEntries);
  EXPECT_EQ(log.front().sequence, 11U);
  EXPECT_EQ(readFaultLog(fabricOf(device), kFaultLogEntries + 9).size(), 1U);
}

TEST(Faults, RulesOfTheConfigurationAreArmedOnce) {
  const OpenDevice device(
      "count=2;fault opcode=write nth=1 status=fatal_err;fault verb=alloc_pd nth=1 errno=ENOSPC");
  const OpenSecond second("soft1");
  EXPECT_EQ(listFaults(fabricOf(device)).size(), 2U);
  EXPECT_EQ(allocPd(second), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  Pair pair(device);
  expectWrite(pair.a, IBV_WC_FATAL_ERR);
  EXPECT_EQ(clearFaults(fabricOf(device)), 2U);
  const OpenSecond again("soft1");  // a configuration does not bring back what was removed
  EXPECT_TRUE(listFaults(fabricOf(device)).empty());
}

TEST(Faults, TheTableIsFullAtSomePoint) {
  const OpenDevice device;
  for (uint32_t i = 0; i < kMaxFaultRules; ++i) ASSERT_NE(addRule(device, "opcode=write nth=1 stuck"), 0U);
  EXPECT_EQ(addRule(device, "opcode=write stuck"), 0U);
  EXPECT_EQ(clearFaults(fabricOf(device)), kMaxFaultRules);
  EXPECT_NE(addRule(device, "opcode=write stuck"), 0U);
}

TEST(Faults, AQueuePairThatIsGoneDoesNotFail) {
  const OpenDevice device;
  Endpoint end(device);
  end.connect(end.address());
  ASSERT_EQ(end.receive(1), 0);
  QpRecord& record = *as<Qp>(end.qp).record;
  const uint32_t number = end.qp->qp_num;
  failQp(fabricOf(device), record, number ^ 1U << 16);  // another that had the record before
  EXPECT_EQ(end.state(), IBV_QPS_RTS);
  replaceQp(end, IBV_QPT_RC, nullptr);
  EXPECT_EQ(as<Qp>(end.qp).record, &record);
  failQp(fabricOf(device), record, number);
  failQp(fabricOf(device), record, end.qp->qp_num);
  EXPECT_EQ(end.state(), IBV_QPS_RESET) << "the new one is not connected yet";
  ASSERT_EQ(end.toInit(), 0);
  ASSERT_EQ(end.receive(2), 0);
  ASSERT_EQ(destroyQp(end.qp), 0);
  EXPECT_EQ(record.rq_head, record.rq_tail.load()) << "nothing to flush";
  failQp(fabricOf(device), record, 0);
  EXPECT_EQ(record.state.load(), static_cast<uint32_t>(IBV_QPS_RESET));
  expectNothing(end);
  EXPECT_EQ(nextEvent(device), "");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  end.qp = createQp(end.pd, &init);
}

// Rule `i` of configurations that all differ.
std::string configured(uint32_t i) { return "verb=query_gid nth=1 errno=EIO count=" + std::to_string(i + 1); }

TEST(Faults, RemovedRulesAreRememberedWhileThereIsRoom) {
  const OpenDevice device;
  Fabric& fabric = fabricOf(device);
  for (uint32_t i = 0; i < kMaxFaultRules; ++i) {
    ASSERT_OK(addConfiguredFaults(fabric, {configured(i)}, 1));
    EXPECT_EQ(clearFaults(fabric), 1U);
  }
  ASSERT_OK(addConfiguredFaults(fabric, {configured(0)}, 1));
  EXPECT_TRUE(listFaults(fabric).empty());
  ASSERT_OK(addConfiguredFaults(fabric, {configured(kMaxFaultRules), configured(0)}, 1));
  EXPECT_EQ(listFaults(fabric).size(), 1U) << "of one configuration no rule makes another forgotten";
  ASSERT_OK(addConfiguredFaults(fabric, {configured(2)}, 1));
  EXPECT_EQ(listFaults(fabric).size(), 1U);
  ASSERT_OK(addConfiguredFaults(fabric, {configured(1)}, 1));
  EXPECT_EQ(listFaults(fabric).size(), 2U) << "this was the oldest";
}

TEST(Faults, SpentRulesOfConfigurationsMakeRoom) {
  const OpenDevice device;
  Fabric& fabric = fabricOf(device);
  std::vector<std::string> texts;
  for (uint32_t i = 0; i < kMaxFaultRules; ++i) texts.push_back(configured(i));
  ASSERT_OK(addConfiguredFaults(fabric, texts, 1));
  EXPECT_FALSE(addConfiguredFaults(fabric, {configured(kMaxFaultRules)}, 1).ok()) << "all are armed";
  ibv_gid gid{};
  EXPECT_EQ(queryGid(device, 1, 0, &gid), -1);
  EXPECT_EQ(faultsArmed(fabric), 0U);
  ASSERT_OK(addConfiguredFaults(fabric, {configured(kMaxFaultRules)}, 1));
  EXPECT_EQ(listFaults(fabric).size(), kMaxFaultRules);
  EXPECT_EQ(listFaults(fabric).back().state, FaultState::kArmed);
  EXPECT_EQ(listFaults(fabric).front().id, 2U);
}

}  // namespace
}  // namespace railwise::softdev::test
