#include "tests/campaign/options.h"

#include <vector>

#include "tests/ok.h"

namespace railwise::cli {
namespace {

FaultOptions optionsOf(const std::vector<const char*>& args) {
  const auto command = parseFaults(args);
  EXPECT_TRUE(command.ok()) << command.error();
  return command.ok() ? command->options : FaultOptions();
}

std::string errorOf(const std::vector<const char*>& args) {
  const auto command = parseFaults(args);
  return command.ok() ? "" : command.error();
}

TEST(FaultCommandLine, HelpListsItsOptionsAndWins) {
  const auto command = parseFaults(std::vector<const char*>{"--help", "--nonsense"});
  ASSERT_TRUE(command.ok()) << command.error();
  EXPECT_TRUE(command->help);
  for (const char* option : {"--faults", "--dry-run", "--transport", "--rails", "--conduct"})
    EXPECT_HAS(faultsHelp().text(), option);
}

TEST(FaultCommandLine, DrawsWhatIsNotGiven) {
  const auto drawn = optionsOf({"sendrecv", "--faults", "7"});
  EXPECT_EQ(drawn.faults, 7u);
  EXPECT_GE(drawn.ranks, 2);
  const auto given = optionsOf(
      {"sendrecv", "--faults", "7", "--ranks", "5", "-e", "1K", "-d", "double", "-T", "99", "--json"});
  EXPECT_EQ(given.ranks, 5);
  EXPECT_EQ(given.max_bytes, 1024u);
  EXPECT_LE(given.min_bytes, 1024u);
  EXPECT_EQ(given.type, DataType::kDouble);
  EXPECT_EQ(given.timeout_s, 99);
  EXPECT_EQ(given.channels, drawn.channels);
}

TEST(FaultCommandLine, AnOldApiIsNotAskedToFuse) {
  for (const char* seed : {"1", "2", "3", "4", "5", "6", "7", "8"})
    EXPECT_FALSE(optionsOf({"sendrecv", "--faults", seed, "--api", "v8"}).fuse);
}

TEST(FaultCommandLine, RefusesWhatContradictsIt) {
  EXPECT_NE(errorOf({"sendrecv", "--faults", "-1"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--faults"}), "");
  EXPECT_NE(errorOf({"sendrecv"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--faults", "1", "--min-busbw", "1"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--faults", "1", "--device", "verbs"}), "");
  EXPECT_NE(errorOf({"sendrecv", "--faults", "1", "--address", "host:1"}), "");
}

TEST(FaultCommandLine, HypercubeGetsAPowerOfTwo) {
  for (int seed = 0; seed < 20; ++seed) {
    const std::string text = std::to_string(seed);
    EXPECT_EQ(
        impossibleWith(Collective::kHypercube, optionsOf({"hypercube", "--faults", text.c_str()}).ranks),
        nullptr);
  }
}

}  // namespace
}  // namespace railwise::cli
