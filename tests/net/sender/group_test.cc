// The messages of a group: matched to the entries of a clear-to-send, their path, and the states of the
// group.
#include "net/sender/group.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace railwise::net {
namespace {

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

// Messages that come one after the other into a group of three.
class GroupPath : public testing::Test {
 protected:
  GroupPath() {
    limits_.whole = 4096;
    limits_.packed = 64;
    group_.open(1, makeStamp(1, 3, 0));
  }
  // The path of the group after one more message.
  SendPath add(uint32_t bytes) {
    Message& message = messages_[group_.matched];
    message.begin(1, 0, bytes, &memory_);
    group_.add(group_.matched, message, limits_, open_, peer_has_host_);
    return group_.form;
  }

  SendLimits limits_;
  bool open_ = true;  // the fast path
  bool peer_has_host_ = true;
  MemoryHandle memory_ = {{}, MemoryKind::kHost};
  Group group_;
  std::array<Message, 3> messages_;
};

TEST_F(GroupPath, SmallMessagesOfOneSizeArePacked) {
  EXPECT_EQ(add(8), SendPath::kPacked);
  EXPECT_EQ(add(8), SendPath::kPacked);
  EXPECT_EQ(add(8), SendPath::kPacked);
  EXPECT_EQ(group_.matched, 3);
  EXPECT_EQ(group_.bytes(), 24U);
  EXPECT_EQ(group_.each, 8U);
}

TEST_F(GroupPath, LargerOnesOrThoseOfAGpuAreABatch) {
  EXPECT_EQ(add(100), SendPath::kBatch);
  group_.open(1, makeStamp(1, 3, 0));
  peer_has_host_ = false;
  EXPECT_EQ(add(8), SendPath::kBatch);
  group_.open(1, makeStamp(1, 3, 0));
  peer_has_host_ = true;
  memory_.kind = MemoryKind::kDevice;
  EXPECT_EQ(add(8), SendPath::kBatch);
}

TEST_F(GroupPath, ABatchIsLeftWhenAMessageIsOfAnotherSizeOrTheFastPathCloses) {
  EXPECT_EQ(add(100), SendPath::kBatch);
  EXPECT_EQ(add(101), SendPath::kSegments);
  EXPECT_EQ(add(100), SendPath::kSegments);
  EXPECT_FALSE(group_.alike);
  group_.open(1, makeStamp(1, 3, 0));
  EXPECT_EQ(add(100), SendPath::kBatch);
  open_ = false;
  EXPECT_EQ(add(100), SendPath::kSegments);
  EXPECT_TRUE(group_.alike);
}

TEST_F(GroupPath, APackIsLeftWhenAMessageIsGpuMemory) {
  EXPECT_EQ(add(8), SendPath::kPacked);
  memory_.kind = MemoryKind::kDevice;
  EXPECT_EQ(add(8), SendPath::kSegments);
}

TEST_F(GroupPath, EventsAndSilentReceivesNeedSegments) {
  int event = 0;
  messages_[1].profiler = &event;
  EXPECT_EQ(add(8), SendPath::kPacked);
  EXPECT_EQ(add(8), SendPath::kSegments);
  EXPECT_TRUE(group_.profiled);
  group_.open(1, makeStamp(1, 3, kStampSilent));
  EXPECT_EQ(add(8), SendPath::kSegments);
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
  bool complete() const { return messages_[0].complete() && messages_[1].complete(); }
  bool open() const { return !messages_[0].complete() && !messages_[1].complete(); }

  static constexpr uint64_t kReceive = 5;
  Group group_;
  std::array<Message, 2> messages_;
  // As in a connection: a page in front of the queue pairs.
  std::unique_ptr<void, void (*)(void*)> memory_{
      record::PageMemory::allocate(QueuePairs::kBytes),
      [](void* memory) { record::PageMemory::free(memory, QueuePairs::kBytes); }};
  QueuePairs queue_pairs_{memory_.get()};
};

TEST_F(GroupStates, SegmentsKeepTheSlotUntilTheLastIsComplete) {
  EXPECT_EQ(group_.state, SlotState::kMatching);
  EXPECT_FALSE(group_.holds(kReceive)) << "the receive may still go without the group";
  group_.cut(3, 0);
  EXPECT_EQ(group_.state, SlotState::kWaiting);
  EXPECT_TRUE(group_.holds(kReceive));
  group_.segments_done += 2;
  group_.finish();
  EXPECT_EQ(group_.state, SlotState::kPosted);
  EXPECT_TRUE(group_.underWay());
  EXPECT_FALSE(group_.mayOpen());
  EXPECT_TRUE(open());
  ++group_.segments_done;
  EXPECT_FALSE(group_.underWay());
  EXPECT_TRUE(group_.mayOpen());
  EXPECT_TRUE(complete());
}

// NCCL may have 32 later receives before it asks about a message.
TEST_F(GroupStates, WhatIsCompleteStaysSoWhenAnotherReceiveTakesTheSlot) {
  group_.cut(3, 0);
  group_.finish();
  group_.segments_done += 3;
  ASSERT_TRUE(complete());
  constexpr uint64_t kNext = kReceive + kSlots;
  group_.open(kNext, makeStamp(kNext, 1, 0));
  Message next;
  next.kind = Request::Kind::kSend;
  next.number = kNext;
  group_.messages[0] = &next;
  group_.cut(4, 0);
  EXPECT_TRUE(complete());
  group_.segments_done += 3;
  EXPECT_FALSE(next.complete());
  ++group_.segments_done;
  EXPECT_TRUE(next.complete());
}

TEST_F(GroupStates, ABatchCountsByItsQueuePairAndKeepsNoSlot) {
  LaneQueuePair& queue_pair = queue_pairs_.add();
  queue_pair.setSendSize(16);
  queue_pair.posted() = 2;
  group_.form = SendPath::kBatch;
  group_.each = 100;
  EXPECT_EQ(group_.bytesUnderWay(), 0U);
  group_.postWith(queue_pair);
  EXPECT_EQ(group_.state, SlotState::kPosted);
  EXPECT_EQ(group_.bytesUnderWay(), 200U);
  EXPECT_TRUE(group_.mayOpen());
  EXPECT_TRUE(group_.holds(kReceive));
  queue_pair.retire(1);
  EXPECT_TRUE(open());
  queue_pair.retire(1);
  EXPECT_TRUE(complete());
  EXPECT_EQ(group_.bytesUnderWay(), 0U);
}

TEST_F(GroupStates, WhatIsRepeatedIsCutOnceMoreFromTheFirstByte) {
  group_.cut(2, 0);
  group_.cursor = {1, true, 100};
  ++group_.segments_done;  // of the lost epoch
  ASSERT_TRUE(group_.repeat());
  EXPECT_EQ(group_.state, SlotState::kRepeat);
  EXPECT_FALSE(group_.mayOpen()) << "its messages must not be forgotten";
  ASSERT_TRUE(group_.repeat()) << "a second epoch is lost before the group could go";
  group_.cut(2, Group::kNoRecord);
  EXPECT_EQ(group_.state, SlotState::kWaiting);
  EXPECT_EQ(group_.cursor.segment, 0);
  EXPECT_EQ(group_.cursor.bytes, 0U);
  EXPECT_FALSE(group_.cursor.tail);
  ++group_.segments_done;
  EXPECT_TRUE(open());
  ++group_.segments_done;
  EXPECT_TRUE(complete());
}

TEST_F(GroupStates, WhatNcclHasBackIsNotRepeated) {
  group_.cut(1, 0);
  group_.finish();
  ++group_.segments_done;
  messages_[1].kind = Request::Kind::kFree;  // test() has said "done"
  EXPECT_FALSE(group_.repeat());
  messages_[1].kind = Request::Kind::kSend;  // and it is a message again, of another receive
  messages_[1].number = kReceive + 1;
  EXPECT_FALSE(group_.repeat());
}

TEST_F(GroupStates, WhatIsCompleteIsRepeatedAsLongAsNcclHasNotAsked) {
  group_.cut(1, 0);
  group_.finish();
  ++group_.segments_done;
  EXPECT_TRUE(group_.repeat());
  EXPECT_TRUE(open());
}

TEST_F(GroupStates, WhatHasArrivedIsCompleteAndFreesTheSlot) {
  group_.cut(3, 0);
  messages_[1].number = kReceive + 1;  // not of this group any more
  messages_[1].counter = &kNever;
  group_.arrive();
  EXPECT_EQ(group_.state, SlotState::kArrived);
  EXPECT_TRUE(group_.mayOpen());
  EXPECT_TRUE(messages_[0].complete());
  EXPECT_FALSE(messages_[1].complete());
  EXPECT_FALSE(group_.repeat()) << "the receiver contradicts itself";
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
  EXPECT_EQ(groups.at(1).lane_segments, groups.at(0).lane_segments + 3);
  EXPECT_EQ(&groups.of(kSlots + 1), &groups.at(1));
}

}  // namespace
}  // namespace railwise::net
