// Messages of a sender in turn, and the messages of a group matched to the entries of a clear-to-send.
#include "net/sender/group.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace railwise::net {
namespace {

TEST(MessageTurn, TakesFewMessagesInTurnWhileTheyBecomeFree) {
  std::array<Message, 64> messages;
  MessageTurn turn;
  for (int i = 0; i < 100; ++i) {
    Message* const message = turn.findFree(messages);
    ASSERT_EQ(message, &messages[static_cast<std::size_t>(i) % 16]);
    ++turn.next;
  }
}

TEST(MessageTurn, SkipsWhatIsInUseAndGrowsWhenAllAre) {
  std::array<Message, 64> messages;
  MessageTurn turn;
  messages[0].kind = Request::Kind::kSend;
  EXPECT_EQ(turn.findFree(messages), &messages[1]);
  turn.next = 0;
  for (std::size_t i = 0; i < 16; ++i) messages[i].kind = Request::Kind::kSend;
  EXPECT_EQ(turn.findFree(messages), &messages[16]);
  for (Message& message : messages) message.kind = Request::Kind::kSend;
  EXPECT_EQ(turn.findFree(messages), nullptr);
  messages[63].kind = Request::Kind::kFree;
  EXPECT_EQ(turn.findFree(messages), &messages[63]);
}

// A group of entries with these tags, opened for receive 1.
class GroupMatch : public testing::Test {
 protected:
  void open(const std::vector<uint32_t>& tags) {
    ring_.use(reinterpret_cast<std::byte*>(entries_.data()), sizeof(ClearToSend));
    const uint64_t stamp = makeStamp(1, static_cast<int>(tags.size()), 0);
    for (std::size_t i = 0; i < tags.size(); ++i) {
      entries_[ringPlace(1) + i].tag = tags[i];
      entries_[ringPlace(1) + i].stamp = stamp;
    }
    group_.open(1, stamp);
  }
  int match(int tag) {
    const int found = group_.match(tag, ring_);
    if (found >= 0) {
      group_.messages[static_cast<std::size_t>(found)] = &message_;
      ++group_.matched;
    }
    return found;
  }

  std::vector<ClearToSend> entries_ = std::vector<ClearToSend>(kRingEntries);
  ClearToSendRing ring_;
  Group group_;
  Message message_;
};

TEST_F(GroupMatch, SendsInOrderMatchTheEntriesInOrder) {
  open({5, 6, 7});
  EXPECT_EQ(match(5), 0);
  EXPECT_EQ(match(6), 1);
  EXPECT_EQ(match(7), 2);
  EXPECT_TRUE(group_.in_order);
}

TEST_F(GroupMatch, SendsInAnyOrderFindTheirTag) {
  open({5, 6, 7});
  EXPECT_EQ(match(7), 2);
  EXPECT_EQ(match(5), 0);
  EXPECT_EQ(match(6), 1);
  EXPECT_FALSE(group_.in_order);
}

TEST_F(GroupMatch, ATagThatStandsTwiceMatchesTwice) {
  open({5, 5, 6});
  EXPECT_EQ(match(6), 2);
  EXPECT_EQ(match(5), 0);
  EXPECT_EQ(match(5), 1);
  EXPECT_EQ(match(5), -1);
}

TEST_F(GroupMatch, AnUnknownTagMatchesNothingAndLeavesTheRest) {
  open({5, 6});
  EXPECT_EQ(match(9), -1);
  EXPECT_EQ(match(6), 1);
  EXPECT_EQ(match(5), 0);
}

TEST_F(GroupMatch, OpeningForgetsTheGroupBefore) {
  open({5, 6});
  (void)match(5);
  group_.segments = 3;
  group_.segments_done = 1;
  group_.again = true;
  open({8});
  EXPECT_EQ(group_.matched, 0);
  EXPECT_TRUE(group_.free());
  EXPECT_FALSE(group_.again);
  EXPECT_EQ(match(8), 0);
}

TEST(SendGroups, EachSlotHasSegmentsForAllLanes) {
  SendGroups groups;
  groups.setLanes(3);
  EXPECT_EQ(groups.segmentsOf(1), groups.segmentsOf(0) + 3);
  EXPECT_EQ(&groups.of(kSlots + 1), &groups.at(1));
}

}  // namespace
}  // namespace railwise::net
