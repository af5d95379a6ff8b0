// When a sender looks for better paths, and which it tries: without a device, in simulated time where that
// matters.
#include "net/paths/failback.h"

#include <gtest/gtest.h>

#include "net/paths/ends.h"

namespace railwise::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Clock::time_point kBegin{seconds(1000)};

// A connection with two rails of its own that can make no queue pair for a trial.
struct FakeHost final : Failback::Host {
  std::vector<Rail> railsToOffer(int* native) const override {
    *native = 2;
    return std::vector<Rail>(2);
  }
  EndInfo offerOf(const std::vector<Rail>& rails) const override {
    return makeEnd("a", static_cast<int>(rails.size()));
  }
  void askForRails() override { ++asked; }
  void sendTrial(const TrialFrame&) override { ADD_FAILURE() << "no trial can be sent"; }
  Result<TrialQueuePair> openTrialOn(const Rail&) const override {
    ++trials;
    return Status{Code::kSystem, ENOMEM};
  }
  bool connectTrial(TrialQueuePair&, const EndInfo&, std::size_t, std::size_t, const TrialReplyFrame&,
                    std::size_t) override {
    return false;
  }
  Result<bool> readThrough(TrialQueuePair&, uint32_t) override { return false; }
  void goBack() override { ++went_back; }

  int asked = 0;
  mutable int trials = 0;
  int went_back = 0;
};

struct FailbackPlan : testing::Test {
  void offer(int rails, int native) {
    RailsFrame frame = {};
    frame.native = static_cast<uint8_t>(native);
    frame.end = makeEnd("b", rails);
    failback.onRails(frame, kMaxRails);
  }
  // Calls look() every 10 ms; how often the receiver was asked.
  int lookFor(Clock::duration time) {
    for (const auto end = now + time; now < end; now += milliseconds(10)) failback.look(now);
    return host.asked;
  }

  FakeHost host;
  PathMemory paths{Patience(60)};
  Failback failback{host, paths, 64};
  Clock::time_point now = kBegin;
};

TEST_F(FailbackPlan, AWholeConnectionNeverAsks) {
  failback.use({path(0, 0), path(1, 1)}, true);
  failback.resume(now);
  EXPECT_FALSE(failback.reduced());
  EXPECT_EQ(lookFor(seconds(30)), 0);
}

TEST_F(FailbackPlan, AReducedConnectionAsksSoonAndThenLessAndLessOften) {
  failback.use({path(0, 0), path(1, 1)}, true);
  failback.use({path(0, 0)}, false);
  failback.resume(now);
  EXPECT_TRUE(failback.reduced());
  EXPECT_EQ(lookFor(milliseconds(250)), 0);
  EXPECT_EQ(lookFor(milliseconds(10)), 1);
  EXPECT_EQ(lookFor(milliseconds(490)), 1);
  EXPECT_EQ(lookFor(milliseconds(20)), 2);
  EXPECT_LE(lookFor(seconds(100)), 17);  // every 10 s in the end
}

TEST_F(FailbackPlan, ChangedPortsAreLookedAtAtOnce) {
  failback.use({path(0, 0), path(1, 1)}, true);
  failback.use({path(0, 0)}, false);
  failback.resume(now);
  failback.lookSoon();
  EXPECT_EQ(lookFor(milliseconds(10)), 1);
}

TEST_F(FailbackPlan, NothingBetterIsNothingToTry) {
  failback.use({path(0, 0), path(1, 1)}, true);
  offer(2, 2);
  EXPECT_EQ(host.trials, 0);
  EXPECT_EQ(host.went_back, 0);
}

TEST_F(FailbackPlan, APathThatIsNewIsTriedBeforeItIsUsed) {
  failback.use({path(0, 0), path(1, 1)}, true);
  failback.use({path(0, 0)}, false);
  offer(2, 2);
  EXPECT_EQ(host.trials, 1);
  EXPECT_EQ(host.went_back, 0);
}

TEST_F(FailbackPlan, ATrialThatCannotBeMadeCountsAsAFailureOfItsPath) {
  failback.use({path(0, 0), path(1, 1)}, true);
  failback.use({path(0, 0)}, false);
  offer(2, 2);
  EXPECT_FALSE(failback.trying());
  EXPECT_TRUE(paths.doubtful(path(1, 1), Clock::now()));
  EXPECT_FALSE(paths.doubtful(path(0, 0), Clock::now()));
}

// The same rails, crossed: they are all in use, but not as at first.
TEST_F(FailbackPlan, PathsAsAtFirstAreBetterThanCrossedOnes) {
  failback.use({path(0, 0), path(1, 1)}, true);
  failback.use({path(0, 1), path(1, 0)}, false);
  offer(2, 2);
  EXPECT_EQ(host.trials, 1);
}

TEST_F(FailbackPlan, QueuePairsThatAreNotUsedHaveNoPath) {
  failback.use({path(0, 0), RailPath()}, true);
  failback.use({path(0, 0)}, false);
  EXPECT_FALSE(failback.reduced());
}

}  // namespace
}  // namespace railwise::net
