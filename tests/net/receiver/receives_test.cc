// Which receives are complete, and what both ends may rely on after a failure, without a connection.
#include "net/receiver/receives.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

// The receives up to `last` are open, each of one buffer.
class ReceivesTest : public testing::Test {
 protected:
  void openUpTo(uint64_t last) {
    for (; next_ <= last; ++next_) {
      Receive& receive = receives_.of(next_);
      receive.open(next_, 1, static_cast<uint32_t>(100 * next_));
      receive.addresses[0] = 0x1000 * next_;
    }
  }
  void complete(uint64_t number) { receives_.of(number).arrived = Receive::kAllArrived; }

  Receives receives_{nullptr};
  uint64_t next_ = 1;
};

TEST_F(ReceivesTest, AreCompleteUpToTheFirstThatIsNot) {
  openUpTo(4);
  EXPECT_EQ(receives_.completeUpTo(0, 0), 0U);
  complete(2);
  complete(4);
  EXPECT_EQ(receives_.completeUpTo(0, 4), 0U) << "1 is open";
  complete(1);
  EXPECT_EQ(receives_.completeUpTo(0, 4), 2U);
  complete(3);
  EXPECT_EQ(receives_.completeUpTo(2, 4), 4U);
}

TEST_F(ReceivesTest, ASilentOneIsOverOnceALaterOneIsMatched) {
  openUpTo(3);
  receives_.of(1).completeSilently();
  receives_.of(2).completeSilently();
  EXPECT_EQ(receives_.completeUpTo(0, 0), 0U) << "the sender has not matched it";
  complete(3);
  EXPECT_EQ(receives_.completeUpTo(0, 3), 3U);
  EXPECT_EQ(receives_.of(2).size(0), 200U) << "a silent receive has the size of its buffer";
}

TEST_F(ReceivesTest, WordsNameEachCompleteReceiveBehindTheFirstOpenOne) {
  openUpTo(6);
  complete(1);
  complete(3);
  complete(6);
  const Words words = receives_.words(1, next_);
  ASSERT_EQ(words.count, 2U);
  EXPECT_EQ(words.word[0], 1U);
  EXPECT_EQ(words.word[1], 0b10010U) << "3 and 6";
}

TEST_F(ReceivesTest, OfPartsNothingIsKeptAndOfCompleteOnesOnlyTheRails) {
  openUpTo(2);
  complete(1);
  receives_.of(1).rails = 1;
  receives_.of(2).rails = 3;
  receives_.of(2).arrived = 0b101;
  receives_.of(2).segments = 4;
  receives_.forgetSegments();
  EXPECT_TRUE(receives_.of(1).complete());
  EXPECT_EQ(receives_.of(1).rails, 0U);
  EXPECT_EQ(receives_.of(2).arrived, 0U);
  EXPECT_EQ(receives_.of(2).segments, 0U);
  EXPECT_EQ(receives_.of(2).rails, 0U);
}

TEST_F(ReceivesTest, TheOldestOpenOneIsUnderWay) {
  EXPECT_EQ(receives_.underWay(0, next_).oldest, 0U);
  EXPECT_FALSE(receives_.isOpen());
  openUpTo(3);
  complete(1);
  EXPECT_EQ(receives_.underWay(0, next_).oldest, 2U);
  EXPECT_EQ(receives_.underWay(0, next_).bytes, 200U);
  EXPECT_EQ(receives_.largestUnderWay(), 300U);
  EXPECT_TRUE(receives_.isOpen());
}

TEST_F(ReceivesTest, OfTwoAtOneAddressTheLatestCompleteOneIsFound) {
  openUpTo(40);  // the first eight are not known any more
  for (uint64_t number = 9; number <= 40; ++number) complete(number);
  receives_.of(20).addresses[0] = receives_.of(30).addresses[0] = 0x77;
  ASSERT_NE(receives_.latestAt(0x77, next_), nullptr);
  EXPECT_EQ(receives_.latestAt(0x77, next_)->number, 30U);
  receives_.of(30).arrived = 0;
  EXPECT_EQ(receives_.latestAt(0x77, next_)->number, 20U);
  EXPECT_EQ(receives_.latestAt(0x8000, next_), nullptr);
}

TEST(Receive, OfSeveralBuffersHasARoomForEach) {
  Receive receive;
  receive.open(1, 3, 10);
  receive.rooms = {10, 20, 30};
  EXPECT_EQ(receive.room(2), 30U);
  EXPECT_EQ(receive.allRoom(), 60U);
  receive.sizes = {1, 2, 3};
  EXPECT_EQ(receive.size(1), 2U);
  receive.alike = true;
  receive.bytes = 7;
  EXPECT_EQ(receive.size(1), 7U);
}

}  // namespace
}  // namespace railwise::net
