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

// A terminal would take colours, titles and cursors from it.
TEST(WithoutControls, ReplacesWhatATerminalObeys) {
  EXPECT_EQ(withoutControls("gpu\x1b[31m2\x07\x7f\r\n"), "gpu?[31m2????");
  EXPECT_EQ(withoutControls("a\nb\tc\x1b", "\n\t"), "a\nb\tc?");
  EXPECT_EQ(withoutControls(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(withoutControls("\xc2\x9b"
                            "31m"),
            "?31m");  // CSI as one character
  EXPECT_EQ(withoutControls("\xc3\x9b \xc2\xa0 \xc2"),
            "\xc3\x9b \xc2\xa0 \xc2");  // text, and a cut character
}

}  // namespace
}  // namespace railwise
