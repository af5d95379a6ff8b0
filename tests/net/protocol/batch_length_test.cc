// Which of the sends of a batch ask for a completion.
#include "net/protocol/batch_length.h"

#include <gtest/gtest.h>

#include <string>

namespace railwise::net {
namespace {

// "a" for each send that asks for a completion, "." for each that does not.
std::string send(BatchLength& batch, int sends, bool regular = true) {
  batch.begin(regular);
  std::string asks;
  for (int i = 0; i < sends; ++i) asks += batch.add() ? 'a' : '.';
  return asks;
}

TEST(BatchLength, EachSendAsksWhileNothingCanBeForeseen) {
  BatchLength batch;
  EXPECT_EQ(send(batch, 4), "aaaa");
  EXPECT_EQ(send(batch, 4), "aaaa");
}

TEST(BatchLength, AfterTwoOfOneLengthTheLastSendAsks) {
  BatchLength batch;
  (void)send(batch, 4);
  (void)send(batch, 4);
  EXPECT_EQ(send(batch, 4), "...a");
  EXPECT_EQ(send(batch, 4), "...a");
}

TEST(BatchLength, AShorterOneIsShortAndALongerOneAsksForTheRest) {
  BatchLength batch;
  for (int i = 0; i < 3; ++i) (void)send(batch, 4);
  EXPECT_EQ(send(batch, 6), "...aaa");
  for (int i = 0; i < 3; ++i) (void)send(batch, 4);
  EXPECT_FALSE(batch.isShort());
  EXPECT_EQ(send(batch, 3), "...");
  EXPECT_TRUE(batch.isShort());
  batch.expectNone();
  EXPECT_FALSE(batch.isShort());
}

TEST(BatchLength, ADroppedBatchIsNotShort) {
  BatchLength batch;
  for (int i = 0; i < 2; ++i) (void)send(batch, 4);
  (void)send(batch, 2);
  batch.drop();
  EXPECT_FALSE(batch.isShort());
}

TEST(BatchLength, WhatIsNotRegularIsNotForeseen) {
  BatchLength batch;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(send(batch, 4, false), "aaaa");
}

TEST(BatchLength, OneSendBetweenTestsAsksEachTime) {
  BatchLength batch;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(send(batch, 1), "a");
}

}  // namespace
}  // namespace railwise::net
