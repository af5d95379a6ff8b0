#include "base/text/text_layout.h"

#include <gtest/gtest.h>

namespace railwise {
namespace {

TEST(WrappedText, BreaksBetweenWords) {
  EXPECT_EQ(wrappedText("one two three", "", "", 7), "one two\nthree\n");
}

TEST(WrappedText, OtherLinesBeginBelowTheFirstWord) {
  EXPECT_EQ(wrappedText("one two three", "why  ", 12), "why  one two\n     three\n");
}

TEST(WrappedText, OtherLinesHaveTheirOwnBeginning) {
  EXPECT_EQ(wrappedText("one two three", "  note: ", "    ", 12), "  note: one\n    two\n    three\n");
}

TEST(WrappedText, ALongWordHasALineOfItsOwn) {
  EXPECT_EQ(wrappedText("a /a/long/path b", "- ", 8), "- a\n  /a/long/path\n  b\n");
}

TEST(WrappedText, CountsCharactersNotBytes) {
  EXPECT_EQ(wrappedText("\u00fc\u00fc\u00fc \u00fc\u00fc\u00fc", "", "", 7),
            "\u00fc\u00fc\u00fc \u00fc\u00fc\u00fc\n");
}

TEST(WrappedText, SeveralBlanksAreOne) { EXPECT_EQ(wrappedText(" one   two "), "one two\n"); }

TEST(WrappedText, NothingIsOneLine) { EXPECT_EQ(wrappedText("", "note:"), "note:\n"); }

TEST(TableText, ColumnsAreAsWideAsTheirWidestText) {
  EXPECT_EQ(tableText({{"GPU", "NIC"}, {"0", "mlx5_0"}, {"10"}}), "GPU  NIC\n0    mlx5_0\n10\n");
}

}  // namespace
}  // namespace railwise
