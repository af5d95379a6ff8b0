// Which message is measured, and where its time goes.
#include "net/sender/message_times.h"

#include <gtest/gtest.h>

#include "net/sender/send_work_id.h"

namespace railwise::net {
namespace {

uint32_t countedIn(const uint32_t (&histogram)[record::kBuckets]) {
  uint32_t sum = 0;
  for (const uint32_t count : histogram) sum += count;
  return sum;
}

TEST(MessageTimes, OneMessageIsMeasuredAndThenOneInMany) {
  MessageTimes times;
  EXPECT_FALSE(times.isDue(63)) << "a short connection measures nothing";
  ASSERT_TRUE(times.isDue(64));
  ibv_send_wr work = {};
  work.wr_id = sendWorkId(3, 1, 2);
  times.begin(work, 64, 4096);
  EXPECT_EQ(work.wr_id, sendWorkId(3, 1, 2) | kSampled);
  EXPECT_FALSE(times.isDue(64 + record::kSample)) << "the last one is not complete";
  record::ConnectionRecord shown = {};
  times.end(shown);
  EXPECT_EQ(countedIn(shown.latency), 1U);
  EXPECT_EQ(shown.size[12], 1U);
  EXPECT_FALSE(times.isDue(63 + record::kSample));
  EXPECT_TRUE(times.isDue(64 + record::kSample));
}

TEST(MessageTimes, ACompletionThatIsLostIsNotWaitedFor) {
  MessageTimes times;
  ibv_send_wr work = {};
  times.begin(work, 64, 1);
  times.restart(70);
  EXPECT_FALSE(times.isDue(69));
  EXPECT_TRUE(times.isDue(70));
}

}  // namespace
}  // namespace railwise::net
