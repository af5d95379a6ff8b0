// The thread that reads the events of devices. A test waits for what the thread does by looking again and
// again; one that never sees it ends by ctest's time limit.
#include "net/event_watcher.h"

#include <sys/wait.h>

#include <cstdarg>

#include "base/log.h"
#include "port_control.h"
#include "software_device.h"
#include "verbs/queue_pair.h"

namespace railwise::net {
namespace {

void until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

class EventWatcherTest : public testing::Test {
 protected:
  EventWatcherTest() { EXPECT_TRUE(watcher_->watch(state_).ok()); }
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
  until([&] { return !state_.active(1); });
  test::changePort("soft0:1", "up");
  until([&] { return state_.active(1); });
  EXPECT_FALSE(state_.fatal());
}

TEST_F(EventWatcherTest, ReadsTheAttributesAgain) {
  const uint32_t before = state_.changes(1);
  test::changePort("soft0:1", "speed=25000");
  test::changePort("soft0:1", "event=lid_change");
  until([&] { return state_.port(1)->speed_mbps == 25000; });
  until([&] { return state_.changes(1) != before; });
}

TEST_F(EventWatcherTest, AGidTableIsReadAgain) {
  verbs::GidTable gids(context_.get(), port(), device_.config());
  state_.setGids(1, &gids);
  EXPECT_EQ(gids.get()->size(), 1U);
  test::changePort("soft0:1", "gid=1=10.9.0.2/v2");
  until([&] { return gids.get()->size() == 2; });
  watcher_->unwatch(state_);
}

TEST_F(EventWatcherTest, AFailedDeviceHasNoActivePort) {
  test::changePort("soft0:1", "fatal");
  until([&] { return state_.fatal(); });
  EXPECT_FALSE(state_.active(1));
  EXPECT_EQ(state_.fatalEvent(), IBV_EVENT_DEVICE_FATAL);
}

TEST_F(EventWatcherTest, ALostQueuePairRaisesItsOwnersFlag) {
  verbs::FatalFlag flag;
  const verbs::Pd pd(verbs::library().alloc_pd(context_.get()));
  const verbs::Cq cq(verbs::library().create_cq(context_.get(), 16, nullptr, nullptr, 0));
  ibv_qp_init_attr attributes = {};
  attributes.qp_context = &flag;
  attributes.send_cq = cq.get();
  attributes.recv_cq = cq.get();
  attributes.cap = {
      .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  const verbs::Qp qp(verbs::library().create_qp(pd.get(), &attributes));
  verbs::AsyncEvent event;
  event.type = IBV_EVENT_QP_ACCESS_ERR;
  event.of = verbs::AsyncEvent::Of::kQueuePair;
  event.qp_number = qp->qp_num;
  event.flag = static_cast<verbs::FatalFlag*>(qp->qp_context);
  state_.handle(event);
  EXPECT_EQ(flag.event(), IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_FALSE(state_.fatal()) << "the others go on";
}

TEST_F(EventWatcherTest, WhatHappenedBeforeItWatchedIsSeen) {
  watcher_->unwatch(state_);
  test::changePort("soft0:1", "speed=25000");
  EXPECT_NE(state_.port(1)->speed_mbps, 25000);
  EXPECT_TRUE(watcher_->watch(state_).ok());
  EXPECT_EQ(state_.port(1)->speed_mbps, 25000);
}

TEST_F(EventWatcherTest, NothingIsTouchedAfterUnwatch) {
  watcher_->unwatch(state_);
  const uint32_t before = state_.changes(1);
  test::changePort("soft0:1", "down");
  // Another device of the same watcher has its turn after this one would have had it.
  const verbs::Context other = device_.open();
  DeviceState second(other.get(), {port()});
  EXPECT_TRUE(watcher_->watch(second).ok());
  test::changePort("soft0:1", "up");
  until([&] { return second.active(1) && second.changes(1) > 1; });
  watcher_->unwatch(second);
  EXPECT_EQ(state_.changes(1), before);
}

TEST_F(EventWatcherTest, AForkedChildEndsWithoutTheThread) {
  const pid_t child = fork();
  if (child == 0) {
    watcher_->unwatch(state_);
    (void)watcher_->watch(state_);
    watcher_.reset();
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  test::changePort("soft0:1", "down");
  until([&] { return !state_.active(1); });  // the parent's thread goes on
}

std::mutex g_mutex;
std::string g_said;

[[gnu::format(printf, 5, 6)]] void keep(int, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const std::lock_guard lock(g_mutex);
  g_said += std::string(text) + "\n";
}

TEST_F(EventWatcherTest, SaysEachEventOnceInWords) {
  log::setSink(keep);
  test::changePort("soft0:1", "down");
  until([&] { return !state_.active(1); });
  watcher_.reset();
  log::setSink(nullptr);
  EXPECT_EQ(g_said, "soft0 port 1: link down: check the cable, the switch port and `ibstat`\n");
}

}  // namespace
}  // namespace railwise::net
