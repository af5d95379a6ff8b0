#include "base/text/words.h"

#include <gtest/gtest.h>

#include <set>

namespace railwise {
namespace {

using Texts = std::vector<std::string>;

TEST(Words, OneIsSingular) {
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(uint64_t{2}, "process", "processes"), "2 processes");
  EXPECT_EQ(counted(std::size_t{1}, "process", "processes"), "1 process");
}

TEST(Words, JoinedTextsHaveASeparatorBetweenThem) {
  EXPECT_EQ(joined(Texts{}), "");
  EXPECT_EQ(joined(Texts{"a"}), "a");
  EXPECT_EQ(joined(Texts{"a", "b"}), "a, b");
  EXPECT_EQ(joined(std::set<std::string>{"b", "a"}, " and "), "a and b");
  EXPECT_EQ(joined(std::vector{1, 2}, "-", [](int number) { return std::to_string(number); }), "1-2");
  EXPECT_EQ(joined(Texts{"", "a", "", "b"}), "a, , b");
}

TEST(Words, AListEndsWithAnd) {
  EXPECT_EQ(listText({}), "");
  EXPECT_EQ(listText({"a"}), "a");
  EXPECT_EQ(listText({"a", "b"}), "a and b");
  EXPECT_EQ(listText({"a", "b", "c"}), "a, b and c");
}

TEST(Words, SizesAreExact) {
  EXPECT_EQ(sizeText(0), "0 B");
  EXPECT_EQ(sizeText(1000), "1000 B");
  EXPECT_EQ(sizeText(4096), "4 KiB");
  EXPECT_EQ(sizeText(uint64_t{8} << 30), "8 GiB");
  EXPECT_EQ(sizeText(uint64_t{2048} << 40), "2048 TiB");
}

}  // namespace
}  // namespace railwise
