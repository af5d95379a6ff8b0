#include <gtest/gtest.h>

#include "cli/options/command_line.h"

namespace railwise::cli {
namespace {

TEST(OutputTerminal, AChoiceIsObeyed) {
  EXPECT_TRUE(outputHasColor(ColorChoice::kAlways));
  EXPECT_FALSE(outputHasColor(ColorChoice::kNever));
}

TEST(OutputTerminal, TheOptionTakesTheThreeChoices) {
  std::vector<Option> table;
  ColorChoice choice = ColorChoice::kAuto;
  addColorOption(table, choice);
  const char* const always[] = {"--color=always"};
  EXPECT_TRUE(parseArguments(table, always).ok());
  EXPECT_EQ(choice, ColorChoice::kAlways);
  const char* const wrong[] = {"--color=blue"};
  EXPECT_FALSE(parseArguments(table, wrong).ok());
}

}  // namespace
}  // namespace railwise::cli
