// The messages of a sender: which one is taken next, and which are open.
#include "net/sender/message.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

TEST(MessageTurn, TakesFewMessagesInTurnWhileTheyBecomeFree) {
  SendMessages messages(nullptr);
  MessageTurn turn;
  for (int i = 0; i < 100; ++i) {
    Message* const message = turn.findFree(messages);
    ASSERT_EQ(message, &messages[static_cast<std::size_t>(i) % 16]);
    ++turn.next;
  }
}

TEST(MessageTurn, SkipsWhatIsInUseAndGrowsWhenAllAre) {
  SendMessages messages(nullptr);
  MessageTurn turn;
  messages[0].kind = Request::Kind::kSend;
  EXPECT_EQ(turn.findFree(messages), &messages[1]);
  turn.next = 0;
  for (std::size_t i = 0; i < 16; ++i) messages[i].kind = Request::Kind::kSend;
  EXPECT_EQ(turn.findFree(messages), &messages[16]);
  messages.makeUpTo(SendMessages::kCount);
  for (std::size_t i = 0; i < SendMessages::kCount; ++i) messages[i].kind = Request::Kind::kSend;
  EXPECT_EQ(turn.findFree(messages), nullptr);
  messages[SendMessages::kCount - 1].kind = Request::Kind::kFree;
  EXPECT_EQ(turn.findFree(messages), &messages[SendMessages::kCount - 1]);
}

// Message `index` goes to a receive, and is not complete.
void sendOne(SendMessages& messages, std::size_t index, uint64_t receive, uint32_t bytes) {
  messages[index].begin(receive, 0, bytes, nullptr);
  messages[index].counter = &kNever;
}

TEST(SendMessages, WhatIsUnderWayIsTheOldestReceiveWithAllItsMessages) {
  SendMessages messages(nullptr);
  EXPECT_EQ(messages.underWay(9).oldest, 0U);
  sendOne(messages, 0, 7, 10);
  sendOne(messages, 1, 6, 20);
  sendOne(messages, 2, 6, 30);
  sendOne(messages, 3, 5, 40);
  messages[3].counter = &kAlways;
  EXPECT_EQ(messages.underWay(9).oldest, 6U);
  EXPECT_EQ(messages.underWay(9).bytes, 50U);
  EXPECT_EQ(messages.largestOpen(), 30U);
  EXPECT_EQ(messages.underWay(6).oldest, 0U) << "NCCL has not sent all of receive 6";
}

TEST(SendMessages, TheReceiversWordCompletesWhatNcclHasNotBack) {
  SendMessages messages(nullptr);
  sendOne(messages, 0, 5, 8);
  sendOne(messages, 1, 6, 8);
  EXPECT_TRUE(messages.anyOpen());
  messages.completeUpTo(5);
  EXPECT_TRUE(messages[0].complete());
  EXPECT_FALSE(messages[1].complete());
  messages.forgetCounters();
  EXPECT_FALSE(messages[0].complete());
  messages.completeUpTo(6);
  EXPECT_FALSE(messages.anyOpen());
  EXPECT_EQ(messages.find(6), &messages[1]);
  messages[1].kind = Request::Kind::kFree;
  EXPECT_EQ(messages.find(6), nullptr);
}

}  // namespace
}  // namespace railwise::net
