// Fault rules between processes: every process obeys them, whoever made them, and whoever dies.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <stdexcept>

#include "softdev/control/control.h"
#include "softdev/endpoint.h"
#include "softdev/fault_helpers.h"
#include "softdev/faults/actions.h"
#include "softdev/faults/port_control.h"
#include "softdev/peer_process.h"

namespace railwise::softdev::test {
namespace {

constexpr Options kImpatient = {.timeout = 10, .retry_cnt = 1};

// Our end, and one in another process that is connected to it.
struct TwoEnds {
  explicit TwoEnds(const Options& options = {}, const std::string& devices = "")
      : device(devices), here(device, options), there(device.fabric(), options, devices) {
    connectEnds(here, there);
  }
  OpenDevice device;
  Endpoint here;
  PeerProcess there;
};

void expectKilled(pid_t pid) {
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ended.si_code, CLD_KILLED);
}

TEST(FaultProcesses, TheOtherProcessObeysToo) {
  TwoEnds ends;
  addRule(ends.device, "process=" + std::to_string(ends.there.pid()) + " opcode=write status=loc_prot_err");
  EXPECT_EQ(sendAndWait(ends.here, {.length = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(sendAndWait(ends.there, {.length = 8}), IBV_WC_LOC_PROT_ERR);
  const std::vector<FaultLogEntry> log = readFaultLog(fabricOf(ends.device));
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(log[0].process, static_cast<uint32_t>(ends.there.pid()));
}

TEST(FaultProcesses, RemoteStatusReachesTheOtherProcess) {
  TwoEnds ends;
  ASSERT_EQ(ends.there.receive(4), 0);
  addRule(ends.device, "opcode=write nth=1 status=rem_access_err");
  EXPECT_EQ(sendAndWait(ends.here, {.length = 8}), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ends.there.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ends.there.state(), IBV_QPS_ERR);
}

TEST(FaultProcesses, ReceiveOfTheOtherProcessFails) {
  TwoEnds ends;
  addRule(ends.device, "opcode=recv process=" + std::to_string(ends.there.pid()) + " status=loc_len_err");
  ASSERT_EQ(ends.there.receive(4, 0, 64), 0);
  EXPECT_EQ(sendAndWait(ends.here, {.opcode = IBV_WR_SEND, .length = 8}), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(ends.there.wait().status, IBV_WC_LOC_LEN_ERR);
}

TEST(FaultProcesses, PeerKilled) {
  TwoEnds ends(kImpatient);
  addRule(ends.device, "opcode=write nth=3 kill=peer");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sendAndWait(ends.here, {.length = 8}), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(sendAndWait(ends.here, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
  expectKilled(ends.there.pid());
}

TEST(FaultProcesses, ReceiverKillsItself) {
  TwoEnds ends(kImpatient);
  addRule(ends.device, "opcode=recv nth=1 kill");
  ASSERT_EQ(ends.there.receive(4, 0, 64), 0);
  EXPECT_EQ(sendAndWait(ends.here, {.opcode = IBV_WR_SEND, .length = 8}), IBV_WC_RETRY_EXC_ERR);
  expectKilled(ends.there.pid());
}

TEST(FaultProcesses, ReceiverKillsTheSender) {
  TwoEnds ends(kImpatient);
  addRule(ends.device, "opcode=recv nth=1 kill=peer");
  ASSERT_EQ(ends.here.receive(4, 0, 64), 0);
  EXPECT_THROW(ends.there.send({.opcode = IBV_WR_SEND, .length = 8}), std::runtime_error);
  expectKilled(ends.there.pid());
}

TEST(FaultProcesses, NobodyIsKilledForAQueuePairThatIsGone) {
  const OpenDevice device;
  Endpoint end(device);
  QpRecord record{};
  FaultRule rule{};
  for (const FaultAction action : {FaultAction::kKillSelf, FaultAction::kKillPeer}) {
    rule.action = action;
    EXPECT_TRUE(act({fabricOf(device), 0, kMaxPorts, &record, &record}, rule));
  }
}

TEST(FaultProcesses, KillsItself) {
  TwoEnds ends(kImpatient);
  addRule(ends.device, "opcode=write process=" + std::to_string(ends.there.pid()) + " nth=2 kill");
  EXPECT_EQ(sendAndWait(ends.there, {.length = 8}), IBV_WC_SUCCESS);
  EXPECT_THROW(ends.there.send({.length = 8}), std::runtime_error) << "it is gone in the middle of the call";
  EXPECT_EQ(sendAndWait(ends.here, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(readFaultLog(fabricOf(ends.device)).size(), 1U);
  EXPECT_NE(addRule(ends.device, "opcode=write stuck"), 0U) << "the table is as it was";
}

TEST(FaultProcesses, PortDownReachesBoth) {
  TwoEnds ends(kImpatient, "name=one;name=two");
  setPortState(fabricOf(ends.device), portOf(ends.device), false);
  EXPECT_EQ(nextEvent(ends.device), eventTypeStr(IBV_EVENT_PORT_ERR));
  EXPECT_EQ(sendAndWait(ends.there, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(sendAndWait(ends.here, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
}

TEST(FaultProcesses, DeviceFatalFailsEveryProcess) {
  TwoEnds ends(kImpatient);
  addRule(ends.device, "opcode=write device_fatal");
  ASSERT_EQ(ends.here.receive(6), 0);
  ASSERT_EQ(ends.here.send({.length = 8}), 0);
  EXPECT_EQ(nextEvent(ends.device), eventTypeStr(IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(ends.here.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ends.here.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ends.here.send({.length = 8}), EIO);
  const std::vector<CountsRow> queue_pairs = listCounts(fabricOf(ends.device), CountsBy::kQp);
  ASSERT_EQ(queue_pairs.size(), 2U);
  for (const CountsRow& row : queue_pairs) EXPECT_STREQ(row.state, "ERR") << row.process;
  // The other process finds its device dead at its next call, which its program does not survive.
  EXPECT_THROW(ends.there.state(), std::runtime_error);
}

TEST(FaultProcesses, HostsCanBeTakenApart) {
  const OpenDevice device("host=A");
  Endpoint here(device, kImpatient);
  PeerProcess same(device.fabric(), kImpatient, "host=A");
  PeerProcess other(device.fabric(), kImpatient, "host=B,name=b0");
  Endpoint second(device, kImpatient);
  connectEnds(here, same);
  connectEnds(second, other);
  addRule(device, "host=A peer=B drop");
  EXPECT_EQ(sendAndWait(here, {.length = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(sendAndWait(second, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
}

// Each block of 128 bytes is seen either old or new up to its last 8 bytes, which come last; here the end
// state is what counts, and that unmatched writes go the usual way.
TEST(FaultProcesses, AdversarialPlacementArrivesWhole) {
  TwoEnds ends;
  addRule(ends.device, "opcode=write every=2 place=adversarial");
  constexpr uint32_t kBytes = 4096 - 24;
  for (uint64_t round = 1; round <= 6; ++round) {
    for (size_t at = 0; at < kBytes; at += 8) *ends.here.word(at) = round << 32 | at;
    EXPECT_EQ(sendAndWait(ends.here, {.length = kBytes, .remote_offset = 16}), IBV_WC_SUCCESS);
    for (size_t at = 0; at < kBytes; at += 504) EXPECT_EQ(ends.there.word(16 + at), round << 32 | at);
  }
  EXPECT_EQ(readFaultLog(fabricOf(ends.device)).size(), 3U);
}

TEST(FaultProcesses, WritesOfARuleInOneProcessAreScrambled) {
  const OpenDevice device;
  Pair pair(device);
  addRule(device, "opcode=write place=adversarial");
  for (size_t at = 0; at < 4096; at += 8) *pair.a.word(at) = at + 1;
  EXPECT_EQ(sendAndWait(pair.a, {.length = 4096, .remote_offset = 64}), IBV_WC_SUCCESS);
  for (size_t at = 0; at < 4096; at += 8) ASSERT_EQ(*pair.b.word(64 + at), at + 1);
  EXPECT_EQ(as<Qp>(pair.a.qp).special, 0U) << "the queue pair itself is as it was";
}

TEST(FaultProcesses, EngineModeObeys) {
  const OpenDevice device("engine=on");
  Pair pair(device, kImpatient);
  addRule(device, "opcode=write nth=2 delay=1ms");
  addRule(device, "opcode=write nth=4 status=rem_access_err");
  for (uint64_t i = 1; i <= 5; ++i) ASSERT_EQ(pair.a.send({.length = 8, .wr_id = i}), 0);
  for (uint64_t i = 1; i <= 5; ++i) {
    const ibv_wc wc = pair.a.wait();
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_EQ(wc.status, i < 4 ? IBV_WC_SUCCESS : i == 4 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
  }
}

}  // namespace
}  // namespace railwise::softdev::test
