#include "lines.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device.h"  // NCCL's

namespace kernels {
namespace {

class Lines : public testing::TestWithParam<int> {};

TEST_P(Lines, WhatWasWrittenIsReadWithItsFlagOnly) {
  const LineFormat& format = lineFormat(GetParam());
  std::vector<uint64_t> line(format.line_bytes / sizeof(uint64_t), ~uint64_t{0});
  char data[kMaxLineData];
  for (size_t i = 0; i < sizeof data; ++i) data[i] = static_cast<char>(i + 1);
  char found[kMaxLineData] = {};
  format.write(reinterpret_cast<char*>(line.data()), 7, data);
  EXPECT_FALSE(format.read(reinterpret_cast<const char*>(line.data()), 6, found));
  ASSERT_TRUE(format.read(reinterpret_cast<const char*>(line.data()), 7, found));
  EXPECT_EQ(std::memcmp(data, found, format.data_bytes), 0);
}

TEST_P(Lines, AMessageHasWholeGroups) {
  const LineFormat& format = lineFormat(GetParam());
  EXPECT_EQ(format.linesOf(0), 0u);
  EXPECT_EQ(format.linesOf(1), format.lines_per_group);
  EXPECT_EQ(format.linesOf(format.data_bytes * format.lines_per_group), format.lines_per_group);
  EXPECT_EQ(format.linesOf(format.data_bytes * format.lines_per_group + 1), 2 * format.lines_per_group);
}

INSTANTIATE_TEST_SUITE_P(All, Lines, testing::Values(NCCL_PROTO_LL, NCCL_PROTO_LL128));

// A line of LL of which only half has arrived.
TEST(LinesOfLl, BothWordsNeedTheFlag) {
  const LineFormat& format = lineFormat(NCCL_PROTO_LL);
  uint64_t line[2];
  const char data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  char found[8];
  format.write(reinterpret_cast<char*>(line), 5, data);
  line[1] = 0;
  EXPECT_FALSE(format.read(reinterpret_cast<const char*>(line), 5, found));
}

}  // namespace
}  // namespace kernels
