// The thread that reads the events of devices. A test waits for what the thread does by looking again and
// again; one that never sees it ends by ctest's time limit.
#include "net/device/event_watcher.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>

#include "net/in_child.h"
#include "port_control.h"
#include "said.h"
#include "software_device.h"
#include "tests/ok.h"
#include "tests/wait.h"
#include "verbs/queue_pair.h"

namespace railwise::net {
namespace {

class EventWatcherTest : public testing::Test {
 protected:
  EventWatcherTest() { EXPECT_OK(watcher_->watch(state_)); }
  verbs::Port port() const { return *verbs::queryPort(context_.get(), 1); }

  const test::SoftwareDevice device_{"gid=10.9.0.1/v2"};
  const verbs::Context context_ = device_.open();
  DeviceState state_{context_.get(), {port()}};
  std::unique_ptr<EventWatcher> watcher_ = std::move(*EventWatcher::start());
};

TEST_F(EventWatcherTest, KeepsTheStateOfAPort) {
  EXPECT_TRUE(state_.active(1));
  EXPECT_FALSE(state_.active(2)) << "there is none";
  test::changePort("soft0:1", "down");
  test::waitUntil([&] { return !state_.active(1); });
  test::changePort("soft0:1", "up");
  test::waitUntil([&] { return state_.active(1); });
  EXPECT_FALSE(state_.fatal());
}

TEST_F(EventWatcherTest, ReadsTheAttributesAgain) {
  const uint32_t before = state_.changes(1);
  test::changePort("soft0:1", "speed=25000");
  test::changePort("soft0:1", "event=lid_change");
  test::waitUntil([&] { return state_.port(1)->speed_mbps == 25000; });
  test::waitUntil([&] { return state_.changes(1) != before; });
}

TEST_F(EventWatcherTest, APortStaysABond) {
  verbs::Port bond = port();
  bond.lag_ports = 2;
  DeviceState state(context_.get(), {bond});
  state.refresh();
  EXPECT_EQ(state.port(1)->lag_ports, 2);
}

TEST_F(EventWatcherTest, AGidTableIsReadAgain) {
  verbs::GidTable gids(context_.get(), port(), device_.config());
  state_.setGids(1, &gids);
  EXPECT_EQ(gids.get()->size(), 1U);
  test::changePort("soft0:1", "gid=1=10.9.0.2/v2");
  test::waitUntil([&] { return gids.get()->size() == 2; });
  watcher_->unwatch(state_);
}

TEST_F(EventWatcherTest, AFailedDeviceHasNoActivePort) {
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return state_.fatal(); });
  EXPECT_FALSE(state_.active(1));
  EXPECT_EQ(state_.fatalEvent(), IBV_EVENT_DEVICE_FATAL);
}

TEST_F(EventWatcherTest, ADeviceThatTheKernelHasDroppedHasFailed) {
  watcher_->unwatch(state_);
  EXPECT_TRUE(state_.serve(false)) << "there is no event";
  EXPECT_FALSE(state_.fatal());
  EXPECT_FALSE(state_.serve(true));
  EXPECT_TRUE(state_.fatal());
}

// A queue pair that is connected to itself. Its first write is struck by `event`.
class LostQueuePairTest : public testing::TestWithParam<const char*> {
 protected:
  LostQueuePairTest() {
    const verbs::Port port = *verbs::queryPort(context_.get(), 1);
    const Config& config = device_.config();
    verbs::QueuePair made = std::move(*verbs::createQueuePair(pd_.get(), cq_.get(), port, config, {4, 4, 0}));
    qp_ = std::move(made.qp);
    qp_->qp_context = &qp_flag_;
    const verbs::Gid gid = *verbs::chooseGid(context_.get(), port, config);
    const verbs::PathAddress self = {.qp_number = qp_->qp_num,
                                     .lid = port.lid,
                                     .ethernet = port.ethernet,
                                     .mtu = port.mtu,
                                     .gid = gid.value};
    EXPECT_OK(verbs::readyToReceive(qp_.get(), port, self, {.local_gid = gid}));
    EXPECT_OK(verbs::readyToSend(qp_.get(), port, config));
  }

  void write() {
    ibv_sge sge = {reinterpret_cast<uint64_t>(bytes_.data()), 8, memory_->lkey};
    ibv_send_wr request = {};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma = {.remote_addr = sge.addr + 8, .rkey = memory_->rkey};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp_.get(), &request, &bad), 0);
  }

  const test::SoftwareDevice device_{std::string("gid=10.9.0.1/v2;fault opcode=write ") + GetParam()};
  const verbs::Context context_ = device_.open();
  verbs::FatalFlag cq_flag_;
  verbs::FatalFlag qp_flag_;
  std::array<char, 64> bytes_ = {};
  const verbs::Pd pd_{verbs::library().alloc_pd(context_.get())};
  const verbs::Mr memory_{verbs::library().reg_mr(pd_.get(), bytes_.data(), bytes_.size(),
                                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)};
  const verbs::Cq cq_{verbs::library().create_cq(context_.get(), 16, &cq_flag_, nullptr, 0)};
  verbs::Qp qp_;
};

TEST_P(LostQueuePairTest, RaisesTheFlagOfItsOwner) {
  DeviceState state(context_.get(), {*verbs::queryPort(context_.get(), 1)});
  const auto watcher = std::move(*EventWatcher::start());
  EXPECT_OK(watcher->watch(state));
  EXPECT_FALSE(qp_flag_.raised() || cq_flag_.raised());
  write();
  const bool of_queue = std::string(GetParam()) == "event=cq_err";
  test::waitUntil([&] { return (of_queue ? cq_flag_ : qp_flag_).raised(); });
  EXPECT_FALSE((of_queue ? qp_flag_ : cq_flag_).raised());
  EXPECT_FALSE(state.fatal()) << "the others go on";
  watcher->unwatch(state);
}

INSTANTIATE_TEST_SUITE_P(Events, LostQueuePairTest,
                         testing::Values("qp_fatal", "event=qp_access_err", "event=qp_req_err",
                                         "event=cq_err"));

TEST_F(EventWatcherTest, WhatHappenedBeforeItWatchedIsSeen) {
  watcher_->unwatch(state_);
  test::changePort("soft0:1", "speed=25000");
  EXPECT_NE(state_.port(1)->speed_mbps, 25000);
  EXPECT_OK(watcher_->watch(state_));
  EXPECT_EQ(state_.port(1)->speed_mbps, 25000);
}

TEST_F(EventWatcherTest, NothingIsTouchedAfterUnwatch) {
  watcher_->unwatch(state_);
  const uint32_t before = state_.changes(1);
  test::changePort("soft0:1", "down");
  // Another device of the same watcher has its turn after this one would have had it.
  const verbs::Context other = device_.open();
  DeviceState second(other.get(), {port()});
  EXPECT_OK(watcher_->watch(second));
  test::changePort("soft0:1", "up");
  test::waitUntil([&] { return second.active(1) && second.changes(1) > 1; });
  watcher_->unwatch(second);
  EXPECT_EQ(state_.changes(1), before);
}

TEST_F(EventWatcherTest, AForkedChildEndsWithoutTheThread) {
  EXPECT_EQ("", inChild([&]() -> std::string {
              watcher_->unwatch(state_);
              (void)watcher_->watch(state_);
              watcher_.reset();
              return "";
            }));
  test::changePort("soft0:1", "down");
  test::waitUntil([&] { return !state_.active(1); });  // the parent's thread goes on
}

// The process stops, and somebody lets it go on.
bool seesAPortComeUpAfterAStop() {
  const test::SoftwareDevice device("gid=10.9.0.1/v2");
  const verbs::Context context = device.open();
  DeviceState state(context.get(), {*verbs::queryPort(context.get(), 1)});
  const auto watcher = std::move(*EventWatcher::start());
  const bool watched = watcher->watch(state).ok();
  test::changePort("soft0:1", "down");
  test::waitUntil([&] { return !state.active(1); });  // the thread waits for the next event, or is about to
  raise(SIGSTOP);
  test::changePort("soft0:1", "up");
  test::waitUntil([&] { return state.active(1); });
  return watched;
}

// After a stop epoll_wait() fails with EINTR, also in a thread that takes no signal. A child is stopped,
// because a shell would notice that the test is.
TEST(EventWatcher, GoesOnAfterItsProcessWasStopped) {
  const pid_t child = fork();
  if (child == 0) {
    test::endInTwoMinutes();
    try {
      _exit(seesAPortComeUpAfterAStop() ? 0 : 1);
    } catch (const std::exception&) {
      _exit(2);
    }
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  ASSERT_EQ(kill(child, SIGCONT), 0);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(EventWatcherTest, SaysEachEventOnceInWords) {
  const test::Said said;
  test::changePort("soft0:1", "down");
  test::waitUntil([&] { return !state_.active(1); });
  watcher_.reset();
  std::string text = said.all();
  // changePort() is a process of its own to the fabric.
  if (text.starts_with("software device: attached")) text.erase(0, text.find('\n') + 1);
  EXPECT_EQ(text, "soft0 port 1: link down: check the cable, the switch port and `ibstat`\n");
}

// Soft-RoCE reports a link that comes up twice.
TEST_F(EventWatcherTest, SaysAStateOfTheLinkOnce) {
  const test::Said said;
  test::changePort("soft0:1", "down");
  test::changePort("soft0:1", "up");
  test::changePort("soft0:1", "event=port_active");
  test::changePort("soft0:1", "event=port_active");
  test::changePort("soft0:1", "fatal");
  test::waitUntil([&] { return state_.fatal(); });
  watcher_.reset();
  const std::string up = "soft0 port 1: link up\n";
  const std::size_t first = said.all().find(up);
  ASSERT_NE(first, std::string::npos) << said.all();
  EXPECT_EQ(said.all().find(up, first + 1), std::string::npos) << said.all();
}

}  // namespace
}  // namespace railwise::net
