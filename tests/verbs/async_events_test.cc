#include "verbs/async_events.h"

#include "port_control.h"
#include "software_device.h"
#include "tests/ok.h"

namespace railwise::verbs {
namespace {

class AsyncEventsTest : public testing::Test {
 protected:
  AsyncEventsTest() { EXPECT_OK(makeEventsNonBlocking(context_.get())); }
  // In words; "" when there is none.
  std::string next() {
    std::string text;
    const Result<bool> taken = takeEvent(context_.get(), [&](const AsyncEvent& event) {
      text = describeEvent(library().get_device_name(context_->device), event);
      last_ = event;
    });
    EXPECT_OK(taken);
    EXPECT_EQ(*taken, !text.empty());
    return text;
  }

  const test::SoftwareDevice device_;
  const Context context_ = device_.open();
  AsyncEvent last_;
};

TEST_F(AsyncEventsTest, NoneIsNoErrorAndNoWait) { EXPECT_EQ(next(), ""); }

TEST_F(AsyncEventsTest, OfAPort) {
  test::changePort("soft0:1", "down");
  test::changePort("soft0:1", "up");
  EXPECT_EQ(next(), "soft0 port 1: link down: check the cable, the switch port and `ibstat`");
  EXPECT_EQ(effectOf(last_.type), EventEffect::kPortDown);
  EXPECT_EQ(last_.port, 1);
  EXPECT_EQ(next(), "soft0 port 1: link up");
  EXPECT_EQ(effectOf(last_.type), EventEffect::kPortUp);
  EXPECT_EQ(next(), "");
}

TEST_F(AsyncEventsTest, OfAddresses) {
  for (const char* change :
       {"gid=2=10.0.0.7", "event=sm_change", "event=lid_change", "event=client_reregister"}) {
    test::changePort("soft0:1", change);
    EXPECT_NE(next(), "") << change;
    EXPECT_EQ(effectOf(last_.type), EventEffect::kAddresses) << change;
  }
}

TEST_F(AsyncEventsTest, OfTheDevice) {
  test::changePort("soft0:1", "fatal");
  std::string all;
  for (std::string text = next(); !text.empty(); text = next()) all += text + "\n";
  EXPECT_HAS(all, "soft0: the device failed");
}

TEST(FatalFlag, KeepsTheFirstEvent) {
  FatalFlag flag;
  EXPECT_FALSE(flag.raised());
  EXPECT_FALSE(flag.event());
  flag.raise(IBV_EVENT_CQ_ERR);  // number 0
  EXPECT_TRUE(flag.raised());
  flag.raise(IBV_EVENT_QP_FATAL);
  EXPECT_EQ(flag.event(), IBV_EVENT_CQ_ERR);
}

TEST(FatalFlag, TakesTheEventAndIsRaisedAgain) {
  FatalFlag flag;
  flag.raise(IBV_EVENT_QP_FATAL);
  flag.ring();
  EXPECT_EQ(flag.take(), IBV_EVENT_QP_FATAL);
  EXPECT_FALSE(flag.raised());
  flag.ring();
  flag.ring();
  EXPECT_TRUE(flag.raised());
  EXPECT_FALSE(flag.take());
  EXPECT_FALSE(flag.raised());
}

TEST(DescribeEvent, NamesTheNumberOfWhatNobodyKnows) {
  AsyncEvent event;
  event.type = static_cast<ibv_event_type>(30);
  event.of = AsyncEvent::Of::kOther;
  EXPECT_EQ(describeEvent("mlx5_0", event), "mlx5_0: an event that Railwise does not know (30)");
}

}  // namespace
}  // namespace railwise::verbs
