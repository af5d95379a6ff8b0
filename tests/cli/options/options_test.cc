#include "cli/options/options.h"

#include <gtest/gtest.h>

namespace railwise::cli {
namespace {

TEST(ParseSize, TakesSuffixesInPowersOf1024) {
  EXPECT_EQ(parseSize("0"), 0u);
  EXPECT_EQ(parseSize("8"), 8u);
  EXPECT_EQ(parseSize("64K"), 65536u);
  EXPECT_EQ(parseSize("32m"), 32u << 20);
  EXPECT_EQ(parseSize("1G"), 1u << 30);
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", "K", "-1", "+1", "1.5M", "8 ", " 8", "12Q", "1KB", "99999999999999999999",
                           "18446744073709551615K"})
    EXPECT_FALSE(parseSize(text)) << text;
}

TEST(ParseArguments, TheLastFormGivenCounts) {
  bool json = false;
  const std::vector<Option> table = {jsonOption(&json)};
  const std::pair<std::vector<const char*>, bool> kCases[] = {{{"--json", "--format", "text"}, false},
                                                              {{"-j", "--format=text", "-j"}, true},
                                                              {{"--format", "text", "--json"}, true}};
  for (const auto& [words, expected] : kCases) {
    json = false;
    ASSERT_TRUE(parseArguments(table, words).ok());
    EXPECT_EQ(json, expected) << words[1];
  }
}

TEST(ParseInt, ChecksTheRange) {
  EXPECT_EQ(parseInt("7", 1, 7), 7);
  EXPECT_FALSE(parseInt("8", 1, 7));
  EXPECT_FALSE(parseInt("0", 1, 7));
  EXPECT_FALSE(parseInt("7x", 1, 7));
  EXPECT_FALSE(parseInt("", 1, 7));
}

}  // namespace
}  // namespace railwise::cli
