// `railwise demo`, with as little time for each step as it takes.

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "process.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

ProcessResult demo(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"demo"};
  args.insert(args.end(), more.begin(), more.end());
  return runProcess(RAILWISE_CLI, args);
}

TEST(Demo, ShowsAllStepsAndSurvivesTheFailingPort) {
  const auto result = succeeded(demo({"--seconds", "3", "--machine", "dgx"}));
  for (const char* part : {"== 1. Devices\n", "$ railwise devices\n", "== 2. Which NIC serves a GPU\n",
                           "$ railwise explain --gpu 3 --machine dgx\n", "mlx5_3", "== 3. all_reduce\n",
                           "# Out of bounds values : 0 OK", "== 4. A port fails\n",
                           "railwise device port soft0 down", "all      |", "soft0    |", "soft1    |",
                           "port of soft0 down\n", "all data right:\n", "== What next\n"})
    EXPECT_HAS(result.out, part) << part << "\n" << result.err;
}

// The lines of the failing port work where they are pasted.
TEST(Demo, ItsLinesCanBePasted) {
  const auto result = demo({"--seconds", "3", "--machine", "dgx"});
  std::istringstream lines(result.out.substr(std::min(result.out.find("A port fails"), result.out.size())));
  std::string script = "railwise() { " RAILWISE_CLI " \"$@\"; }\n";
  int commands = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("$ ")) ++commands, script += line.substr(2) + "\n";
  EXPECT_EQ(commands, 3) << result.out;
  const auto pasted = succeeded(runProcess("/bin/bash", {"-c", script}, {"RAILWISE_FAILOVER=1"}));
  for (const char* part : {"1 port changed: ", "# Out of bounds values : 0 OK"})
    EXPECT_HAS(pasted.out, part) << part << "\n" << pasted.err;
  EXPECT_HAS(pasted.err, "link down") << "while it ran\n";
}

// A plugin of others is run as the same job behind the drop-in library.
TEST(Demo, ShowsAnotherPluginBesideOurs) {
  const auto result = succeeded(demo({"--seconds", "3", "--plugin", LOOPBACK_PLUGIN}));
  EXPECT_HAS(result.out, "  GPUDirect  ") << "of this machine, or of another where this one has no GPU";
  EXPECT_HAS(result.out, std::string("== 5. The same with the plugin ") + LOOPBACK_PLUGIN);
  // The loopback plugin has no device whose port could fail.
  EXPECT_HAS(result.out, "without a software device: no port of its could fail");
}

// It has two GPUs.
TEST(Demo, ExplainsAGpuOfARecordedMachine) {
  const auto result =
      succeeded(demo({"--seconds", "3", "--machine",
                      RAILWISE_SOURCE_DIR "/tests/topo/machines/recorded/workstation.tar.gz"}));
  EXPECT_HAS(result.out, "$ railwise explain --gpu 0 --machine ");
}

TEST(Demo, AMachineThatCannotBeReadIsToldBeforeTheFirstStep) {
  EXPECT_LACKS(endedWith(2, demo({"--machine", RAILWISE_SOURCE_DIR "/tests/topo/machines/gb200.xml"})).out,
               "== 1.");
}

TEST(Demo, AMissingPluginIsToldBeforeTheFirstStep) {
  const auto result = endedWith(1, demo({"--plugin", "/nowhere/plugin.so"}));
  EXPECT_EQ(result.out, "");
  EXPECT_HAS(result.err, "cannot load plugin /nowhere/plugin.so: ");
}

TEST(Demo, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(demo({"--seconds", "1"}).status, 2);
  EXPECT_EQ(demo({"more"}).status, 2);
}

}  // namespace
}  // namespace railwise::cli
