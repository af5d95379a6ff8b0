// What the receiver's words mean for the messages of a sender.
#include "net/sender/send_recovery.h"

#include <memory>
#include <vector>

#include "tests/ok.h"

namespace railwise::net {
namespace {

struct RecoveryNumbers : LinkMemory {};

Words words(uint64_t latest, uint64_t later) { return {.count = 2, .word = {latest, later}}; }

class Recovered : public testing::Test {
 protected:
  Recovered() {
    ring_.use(reinterpret_cast<std::byte*>(entries_.data()), sizeof(ClearToSend));
    groups_.setLanes(1);
    numbers_->numbers().next = 1;
    numbers_->nextPost() = 1;
  }
  // The next message, which took the fast path.
  Message& sendAlone() {
    const uint64_t number = numbers_->numbers().next++;
    numbers_->nextPost() = number + 1;
    Message& message = messages_[number];
    message.begin(number, 0, 8, nullptr);
    message.counter = &kNever;
    return message;
  }
  // The next message, in a group that is posted in one segment.
  Message& sendInGroup() {
    Message& message = sendAlone();
    Group& group = groups_.of(message.number);
    group.open(message.number, makeStamp(message.number, 1, 0));
    group.add(0, message, SendLimits(), false, false);
    group.cut(1, Group::kNoRecord);
    group.finish();
    return message;
  }
  SlotState stateOf(const Message& message) { return groups_.of(message.number).state; }

  std::vector<ClearToSend> entries_ = std::vector<ClearToSend>(kRingEntries);
  ClearToSendRing ring_;
  const std::unique_ptr<RecoveryNumbers> numbers_{new RecoveryNumbers};
  SendMessages messages_{nullptr};
  SendGroups groups_;
  SendRecovery recovery_{*numbers_, messages_, groups_, ring_};
};

TEST_F(Recovered, WhatHasArrivedIsCompleteAndTheRestIsSentAgain) {
  const Message& first = sendAlone();
  const Message& second = sendInGroup();
  const Message& third = sendAlone();
  const Message& fourth = sendInGroup();
  recovery_.onFenced();
  EXPECT_FALSE(first.complete());
  ASSERT_TRUE(recovery_.reconcile(words(1, 0b010)).ok());  // 1 and all before it, and 3
  EXPECT_TRUE(first.complete());
  EXPECT_FALSE(second.complete());
  EXPECT_EQ(stateOf(second), SlotState::kRepeat);
  EXPECT_TRUE(third.complete());
  EXPECT_FALSE(fourth.complete());
  EXPECT_EQ(stateOf(fourth), SlotState::kRepeat);
  EXPECT_EQ(numbers_->nextPost(), 2U);
  EXPECT_EQ(ring_.next(), 2U);
}

TEST_F(Recovered, AMessageOfTheFastPathGetsASlot) {
  const Message& message = sendAlone();
  recovery_.onFenced();
  ASSERT_TRUE(recovery_.reconcile(words(0, 0)).ok());
  EXPECT_EQ(stateOf(message), SlotState::kRepeat);
  EXPECT_EQ(groups_.of(message.number).messages[0], &message);
}

TEST_F(Recovered, AMessageThatNcclHasBackIsLost) {
  sendAlone().kind = Request::Kind::kFree;
  recovery_.onFenced();
  const Outcome<void> done = recovery_.reconcile(words(0, 0));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.failure().code, Code::kRemote);
  EXPECT_HAS(done.error(), "message 1 is lost");
}

TEST_F(Recovered, WordsThatCannotBeAreRefused) {
  (void)sendAlone();
  recovery_.onFenced();
  EXPECT_FALSE(recovery_.reconcile(words(2, 0)).ok()) << "2 was never sent";
  const Outcome<void> three = recovery_.reconcile({.count = 3, .word = {0, 0, 0}});
  ASSERT_FALSE(three.ok());
  EXPECT_HAS(three.error(), "3 numbers");
}

TEST_F(Recovered, NewsCompleteWhatIsPostedAndAfterTheFenceFreeItsSlot) {
  const Message& message = sendInGroup();
  recovery_.onArrived(1, false);
  EXPECT_TRUE(message.complete());
  EXPECT_EQ(stateOf(message), SlotState::kPosted) << "its segment may still be on the wire";
  recovery_.onArrived(1, true);
  EXPECT_EQ(stateOf(message), SlotState::kArrived);
  recovery_.onArrived(99, true);
  EXPECT_EQ(numbers_->arrivedUpTo(), 1U) << "the peer cannot report more than was sent";
}

TEST_F(Recovered, AGroupInMatchingGoesInSegments) {
  Group& open = groups_.of(1);
  open.open(1, makeStamp(1, 2, 0));
  open.form = SendPath::kBatch;
  recovery_.onFenced();
  ASSERT_TRUE(recovery_.reconcile(words(0, 0)).ok());
  EXPECT_EQ(open.form, SendPath::kSegments);
  EXPECT_EQ(open.state, SlotState::kMatching);
}

}  // namespace
}  // namespace railwise::net
