#include "base/text/printable.h"

#include <gtest/gtest.h>

namespace railwise {
namespace {

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

TEST(CleanUtf8, ReplacesEveryByteThatIsNoCharacter) {
  EXPECT_EQ(cleanUtf8("a\xff"
                      "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(cleanUtf8("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(cleanUtf8("\xed\xa0\x80\xc0\xaf"),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(cleanUtf8("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(PrintableAscii, ReplacesAllElse) {
  EXPECT_EQ(printableAscii("a ~\x1b\x7f\n\xc3\xa9"), "a ~?????");
  EXPECT_EQ(printableAscii(std::string_view("a\0b", 3)), "a?b");
}

}  // namespace
}  // namespace railwise
