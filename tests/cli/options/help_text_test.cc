#include <gtest/gtest.h>

#include "cli/options/help_page.h"

namespace railwise::cli {
namespace {

TEST(FitHelp, FillsParagraphsAndKeepsThemApart) {
  EXPECT_EQ(fitHelp("One\ntwo.\n\nThree.\n"), "One two.\n\nThree.\n");
}

TEST(FitHelp, BreaksBetweenWordsAtTheWidth) {
  const std::string word(39, 'w');
  EXPECT_EQ(fitHelp(word + " " + word + "x " + word + "\n"), word + " " + word + "x\n" + word + "\n");
  EXPECT_EQ(fitHelp(word + " " + word + "xx\n"), word + "\n" + word + "xx\n");
}

TEST(FitHelp, AWordThatIsTooLongHasALineOfItsOwn) {
  const std::string word(90, 'w');
  EXPECT_EQ(fitHelp("a " + word + " b\n"), "a\n" + word + "\nb\n");
}

TEST(FitHelp, ARowsTextStaysInItsColumn) {
  const std::string word(66, 'w');
  EXPECT_EQ(fitHelp("  name  " + word + " more words\n  other  text\n"),
            "  name  " + word + " more\n        words\n  other  text\n");
}

TEST(FitHelp, JoinsTheFurtherLinesOfARow) {
  EXPECT_EQ(fitHelp("  name  text\n        of it\n  other  text\n"), "  name  text of it\n  other  text\n");
}

TEST(FitHelp, ExamplesUsageAndExitStatusStandForThemselves) {
  const std::string text =
      "usage: railwise x FILE\n       railwise x --all\n\nWhat it does.\nExit status: 0 all right.\n\n"
      "  railwise x &\n  railwise x localhost\n";
  EXPECT_EQ(fitHelp(text), text);
}

}  // namespace
}  // namespace railwise::cli
