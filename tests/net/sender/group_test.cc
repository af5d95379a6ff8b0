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
  group_.silent = group_.profiled = true;
  open({8});
  EXPECT_EQ(group_.matched, 0);
  EXPECT_FALSE(group_.silent || group_.profiled);
  EXPECT_EQ(match(8), 0);
}

// A group of two messages, all given to isend.
class GroupStates : public testing::Test {
 protected:
  GroupStates() {
    group_.open(kReceive, makeStamp(kReceive, 2, 0));
    for (std::size_t i = 0; i < 2; ++i) {
      messages_[i].kind = Request::Kind::kSend;
      messages_[i].number = kReceive;
      group_.messages[i] = &messages_[i];
      ++group_.matched;
    }
  }
  void complete(int segments) {
    group_.segments_done = static_cast<uint8_t>(group_.segments_done + segments);
  }

  static constexpr uint64_t kReceive = 5;
  Group group_;
  std::array<Message, 2> messages_;
};

TEST_F(GroupStates, SegmentsKeepTheSlotUntilTheLastIsComplete) {
  EXPECT_EQ(group_.state, SlotState::kMatching);
  EXPECT_FALSE(group_.holds(kReceive)) << "a receive may still go without the group";
  group_.cut(3, 0);
  EXPECT_EQ(group_.state, SlotState::kWaiting);
  EXPECT_TRUE(group_.holds(kReceive));
  complete(2);
  group_.finish();
  EXPECT_EQ(group_.state, SlotState::kPosted);
  EXPECT_TRUE(group_.underWay());
  EXPECT_FALSE(group_.isFree());
  complete(1);
  EXPECT_FALSE(group_.underWay());
  EXPECT_TRUE(group_.isFree());
  EXPECT_FALSE(group_.holds(kReceive + 32));
}

TEST_F(GroupStates, ABatchKeepsNoSlot) {
  group_.form = SendPath::kBatch;
  group_.finish();
  EXPECT_EQ(group_.state, SlotState::kPosted);
  EXPECT_TRUE(group_.isFree());
  EXPECT_TRUE(group_.holds(kReceive));
}

TEST_F(GroupStates, WhatIsRepeatedIsCutOnceMoreFromTheFirstByte) {
  group_.form = SendPath::kPacked;
  group_.finish();
  group_.repeat();
  EXPECT_EQ(group_.state, SlotState::kRepeat);
  EXPECT_FALSE(group_.isFree()) << "its messages must not be forgotten";
  EXPECT_FALSE(group_.small());
  group_.cut(2, Group::kNoRecord);
  group_.cursor = {1, true, 100};
  group_.repeat();  // that epoch is lost, too
  group_.cut(1, Group::kNoRecord);
  EXPECT_EQ(group_.state, SlotState::kWaiting);
  EXPECT_EQ(group_.cursor.segment, 0);
  EXPECT_EQ(group_.cursor.bytes, 0U);
  EXPECT_FALSE(group_.cursor.tail);
}

TEST_F(GroupStates, WhatHasArrivedFreesTheSlot) {
  group_.cut(3, 0);
  group_.arrive();
  EXPECT_EQ(group_.state, SlotState::kArrived);
  EXPECT_TRUE(group_.isFree());
  EXPECT_FALSE(group_.underWay());
}

TEST(Group, AMessageOfTheFastPathGetsAGroupWhenItIsRepeated) {
  Message message;
  message.bytes = 77;
  Group group;
  group.repeatAlone(9, message);
  EXPECT_TRUE(group.holds(9));
  EXPECT_EQ(group.state, SlotState::kRepeat);
  EXPECT_EQ(group.bytes(), 77U);
  EXPECT_TRUE(group.alike);
}

TEST(SendGroups, EachSlotHasSegmentsForAllLanes) {
  SendGroups groups;
  groups.setLanes(3);
  EXPECT_EQ(groups.segmentsOf(1), groups.segmentsOf(0) + 3);
  EXPECT_EQ(&groups.of(kSlots + 1), &groups.at(1));
}

}  // namespace
}  // namespace railwise::net
