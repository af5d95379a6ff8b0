// What a sender sees of clear-to-sends that its peer's device writes at any time, in any pieces.
#include "net/protocol/clear_to_send_ring.h"

#include <gtest/gtest.h>

#include <vector>

namespace railwise::net {
namespace {

class ClearToSendRingTest : public testing::TestWithParam<int> {  // rails of the receiver
 protected:
  void SetUp() override { ring_.use(reinterpret_cast<std::byte*>(memory_.data()), entry_bytes_); }
  ClearToSend& entry(uint64_t number, uint32_t i) { return const_cast<ClearToSend&>(ring_.entry(number, i)); }
  // The device writes entries `from` to `to` of a receive with `count` entries.
  void write(uint64_t number, uint32_t count, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i)
      entry(number, i).stamp = makeStamp(number, static_cast<int>(count), 0);
  }
  bool look() {
    const ClearToSendRing::Seen seen = ring_.look();
    EXPECT_NE(seen, ClearToSendRing::Seen::kInvalid);
    return seen == ClearToSendRing::Seen::kMore;
  }

  uint32_t entry_bytes_ = entryBytes(GetParam());
  std::vector<ClearToSend> memory_ =
      std::vector<ClearToSend>(ClearToSendRing::bytesFor(entry_bytes_) / sizeof(ClearToSend));
  ClearToSendRing ring_;
};

INSTANTIATE_TEST_SUITE_P(Rails, ClearToSendRingTest, testing::Values(1, 2, kMaxRails));

TEST_P(ClearToSendRingTest, SeesAReceiveOnceAllItsEntriesAreThere) {
  EXPECT_FALSE(look());
  write(1, 3, 0, 1);
  EXPECT_FALSE(look());
  write(1, 3, 2, 3);  // the last one overtakes the second
  EXPECT_FALSE(look());
  EXPECT_FALSE(ring_.has(1));
  write(1, 3, 1, 2);
  EXPECT_TRUE(look());
  EXPECT_TRUE(ring_.has(1));
  EXPECT_FALSE(ring_.has(2));
  EXPECT_FALSE(look()) << "it is known already";
}

TEST_P(ClearToSendRingTest, SeesReceivesInTheirOrder) {
  write(2, 1, 0, 1);
  EXPECT_FALSE(look()) << "receive 1 has not come";
  write(1, 1, 0, 1);
  EXPECT_TRUE(look());
  EXPECT_EQ(ring_.next(), 3U);
}

TEST_P(ClearToSendRingTest, TheLastTurnOfTheRingIsNotTheNextOne) {
  for (uint64_t number = 1; number <= kSlots; ++number) write(number, 1, 0, 1);
  EXPECT_TRUE(look());
  EXPECT_EQ(ring_.next(), kSlots + 1U) << "slot 1 has the stamp of receive 1";
  write(kSlots + 1, 2, 0, 2);
  EXPECT_TRUE(look());
}

// PCIe promises no size in which a stamp becomes visible. The high half changes once in 65536 receives.
TEST_P(ClearToSendRingTest, HalfAStampIsNotSeen) {
  constexpr uint64_t kNumber = 1 << 16;
  constexpr uint64_t kLow = UINT32_MAX;
  const uint64_t before = makeStamp(kNumber - kSlots, 1, 0);
  const uint64_t after = makeStamp(kNumber, 1, 0);
  ring_.lookFrom(kNumber);
  for (const uint64_t half : {before, (before & ~kLow) | (after & kLow), (after & ~kLow) | (before & kLow)}) {
    entry(kNumber, 0).stamp = half;
    EXPECT_FALSE(look()) << std::hex << half;
  }
  entry(kNumber, 0).stamp = after;
  EXPECT_TRUE(look());
}

TEST_P(ClearToSendRingTest, AStampWithTheRightNumberAndAnImpossibleCountIsAnError) {
  for (const uint32_t count : {0U, uint32_t{kMaxReceives} + 1, 15U}) {
    entry(1, 0).stamp = makeStamp(1, 0, 0) | count;
    EXPECT_EQ(ring_.look(), ClearToSendRing::Seen::kInvalid) << count;
    EXPECT_FALSE(ring_.has(1));
  }
}

TEST_P(ClearToSendRingTest, ASenderThatSawAnEntryItselfSkipsIt) {
  ring_.skipTo(3);
  EXPECT_TRUE(ring_.has(2));
  ring_.skipTo(2);
  EXPECT_EQ(ring_.next(), 3U) << "never back";
}

TEST_P(ClearToSendRingTest, AfterAFailureTheReceiverWritesAllOnceMore) {
  write(1, 1, 0, 1);
  write(2, 1, 0, 1);
  EXPECT_TRUE(look());
  ring_.clear();
  ring_.lookFrom(2);
  EXPECT_FALSE(look());
  EXPECT_FALSE(ring_.has(2));
  write(2, 1, 0, 1);
  EXPECT_TRUE(look());
}

TEST_P(ClearToSendRingTest, TakesInAMessage) {
  std::vector<ClearToSend> message(entry_bytes_ / sizeof(ClearToSend) * 2);
  for (std::size_t i = 1; i <= 2; ++i) {
    ClearToSend& last = message[i * entry_bytes_ / sizeof(ClearToSend) - 1];
    last.stamp = makeStamp(1, 2, 0);
    last.tag = static_cast<uint32_t>(i);
  }
  ring_.put(1, reinterpret_cast<const std::byte*>(message.data()), 2);
  EXPECT_TRUE(look());
  EXPECT_EQ(ring_.entry(1, 0).tag, 1U);
  EXPECT_EQ(ring_.entry(1, 1).tag, 2U);
}

}  // namespace
}  // namespace railwise::net
