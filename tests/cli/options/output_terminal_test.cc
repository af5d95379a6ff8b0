#include <gtest/gtest.h>

#include <filesystem>

#include "cli/options/command_line.h"
#include "tests/scratch.h"

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

TEST(OutputTerminal, FindingsAreColouredByTheirSeverity) {
  EXPECT_EQ(paintedFindings("node: 1 error\nERROR a: b\n  seen  c\nWARNING d: e\n"),
            "node: 1 error\n\033[31mERROR a: b\033[0m\n  seen  c\n\033[33mWARNING d: e\033[0m\n");
  EXPECT_EQ(paintedFindings("f.xml:1:2: warning: g\n"), "\033[33mf.xml:1:2: warning: g\033[0m\n");
}

// The file that was there stays if the new one cannot be written, and keeps its mode otherwise.
TEST(Output, AFileIsReplacedWhole) {
  const test::Scratch scratch;
  const std::filesystem::path folder = scratch.path();
  const std::string file = folder / "file";
  EXPECT_EQ(writeOutput("test", file, "one"), kExitOk);
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink(file, folder / "link");
  EXPECT_EQ(writeOutput("test", folder / "link", "second"), kExitOk);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(std::filesystem::file_size(file), 6U);
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2) << "nothing is left beside it";
  EXPECT_EQ(writeOutput("test", folder / "none" / "file", "x"), kExitFailed);
  EXPECT_EQ(writeOutput("test", "/dev/full", "x"), kExitFailed);
}

}  // namespace
}  // namespace railwise::cli
