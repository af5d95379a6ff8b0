#include <gtest/gtest.h>

#include "base/settings/config.h"

namespace railwise {
namespace {

TEST(StrictMode, EmptyAndZeroAreOff) {
  EXPECT_FALSE(parseStrictMode("")->any());
  EXPECT_FALSE(parseStrictMode("0")->any());
}

TEST(StrictMode, OneIsEverything) {
  EXPECT_EQ(parseStrictMode("1"), (StrictMode{true, true, true, true, true}));
  EXPECT_EQ(parseStrictMode("gdr,speed,topology,version"), parseStrictMode("1"));
}

TEST(StrictMode, AListHasItsWordsAndTheDevice) {
  EXPECT_EQ(parseStrictMode("speed"), (StrictMode{.device = true, .speed = true}));
  EXPECT_EQ(parseStrictMode("version,gdr"), (StrictMode{.device = true, .gdr = true, .version = true}));
}

TEST(StrictMode, OtherWordsAreRefused) {
  for (const char* bad : {"gdrr", "speed,", ",speed", "speed, gdr", "2", "yes", "GDR"})
    EXPECT_EQ(parseStrictMode(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace railwise
