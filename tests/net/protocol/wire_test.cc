#include "net/protocol/wire.h"

#include <gtest/gtest.h>

#include <set>

namespace railwise::net {
namespace {

TEST(Stamp, KeepsNumberFlagAndCount) {
  for (const uint64_t number : {uint64_t{1}, uint64_t{33}, (uint64_t{1} << 48) - 1}) {
    for (int i = 0; i < 2 * kMaxReceives; ++i) {
      const int count = i / 2 + 1;
      const bool silent = i % 2 == 1;
      const uint64_t stamp = makeStamp(number, count, silent ? kStampSilent : 0);
      EXPECT_EQ(stampNumber(stamp), number);
      EXPECT_EQ(stampSilent(stamp), silent);
      EXPECT_EQ(stampCount(stamp), count);
    }
  }
}

TEST(Ring, HasRoomForTheEntriesOfAllOpenReceives) {
  for (uint64_t first = 1; first < 100; ++first) {
    std::set<uint32_t> entries;
    for (uint64_t number = first; number < first + kSlots; ++number) {
      for (uint32_t i = 0; i < kMaxReceives; ++i) {
        EXPECT_LT(ringPlace(number) + i, kRingEntries);
        EXPECT_TRUE(entries.insert(ringPlace(number) + i).second)
            << "receive " << number << " over another's";
      }
    }
  }
}

TEST(Immediate, OfAWholeMessageKeepsSlotAndSize) {
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    for (const uint32_t size : {0U, 1U, kImmediateSizeLimit - 1}) {
      const uint32_t value = wholeImmediate(slot, size);
      EXPECT_EQ(immediateForm(value), ImmediateForm::kWhole);
      EXPECT_EQ(immediateSlot(value), slot);
      EXPECT_EQ(immediateSize(value), size);
    }
  }
}

TEST(Immediate, OfASegmentKeepsSlotSegmentAndLowBitsOfTheNumber) {
  for (const bool record : {false, true}) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      for (uint32_t segment = 0; segment < kMaxLanes; ++segment) {
        const uint64_t number = (uint64_t{7} << 20 | 0x55555) + slot;
        const uint32_t value = segmentImmediate(record, slot, segment, number);
        EXPECT_EQ(immediateForm(value), ImmediateForm::kSegment);
        EXPECT_EQ(immediateBringsRecord(value), record);
        EXPECT_EQ(immediateSlot(value), slot);
        EXPECT_EQ(immediateSegment(value), segment);
        EXPECT_EQ(immediateNumber(value), 0x55555 + slot);
      }
    }
  }
}

TEST(Immediate, OfACountedSegmentKeepsSlotPartsAndBytes) {
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    for (uint32_t parts = 1; parts <= kMostCountedParts; ++parts) {
      for (const uint32_t bytes : {0U, 1U, kImmediatePartLimit - 1}) {
        const uint32_t value = countedImmediate(slot, parts, bytes);
        EXPECT_EQ(immediateForm(value), ImmediateForm::kCounted);
        EXPECT_EQ(immediateSlot(value), slot);
        EXPECT_EQ(immediateParts(value), parts);
        EXPECT_EQ(immediatePartBytes(value), bytes);
      }
    }
  }
}

}  // namespace
}  // namespace railwise::net
