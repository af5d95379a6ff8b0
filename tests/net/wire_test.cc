#include "net/wire.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

TEST(Stamp, KeepsNumberAndCount) {
  for (const uint64_t number : {uint64_t{1}, uint64_t{33}, (uint64_t{1} << 56) - 1}) {
    for (int count = 1; count <= kMaxReceives; ++count) {
      const uint64_t stamp = makeStamp(number, count);
      EXPECT_EQ(stampNumber(stamp), number);
      EXPECT_EQ(stampCount(stamp), count);
    }
  }
}

TEST(Immediate, KeepsSlotSizeAndRecordFlag) {
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    for (const uint32_t size : {0U, 1U, kImmediateSizeLimit - 1}) {
      const uint32_t value = immediate(slot, size);
      EXPECT_EQ(immediateSlot(value), slot);
      EXPECT_EQ(immediateSize(value), size);
      EXPECT_EQ(value & kSizesInRecord, 0U);
      EXPECT_EQ(immediateSlot(value | kSizesInRecord), slot);
    }
  }
}

}  // namespace
}  // namespace railwise::net
