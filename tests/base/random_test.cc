#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/secrets.h"

namespace railwise {
namespace {

// More than the 256 bytes that getrandom gives in one piece at least: every part is filled.
TEST(Random, FillsEveryByte) {
  std::vector<std::byte> bytes(1000);
  fillRandom(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 50)
    EXPECT_TRUE(std::any_of(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                            bytes.begin() + static_cast<std::ptrdiff_t>(at + 50),
                            [](std::byte byte) { return byte != std::byte{0}; }))
        << at;
}

TEST(Random, HexHas32DigitsAndNeverRepeats) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = randomHex();
    EXPECT_EQ(text.size(), 32U);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
    EXPECT_TRUE(seen.insert(text).second) << text;
  }
}

}  // namespace
}  // namespace railwise
