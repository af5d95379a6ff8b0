// The built command from outside: what needs no ranks.
#include <gtest/gtest.h>

#include "base/config.h"
#include "process.h"

namespace railwise::tools {
namespace {

ProcessResult railwise(const std::vector<std::string>& args,
                       const std::vector<std::string>& environment = {}) {
  return runProcess(RAILWISE_CLI, args, environment);
}

TEST(Command, VersionAndHelp) {
  EXPECT_EQ(railwise({"version"}).out, "railwise " RAILWISE_VERSION " (NCCL net plugin API v6 to v12)\n");
  EXPECT_EQ(railwise({"--version"}).status, 0);
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"help"},
                                             {"--help"},
                                             {"perf", "--help"},
                                             {"devices", "--help"},
                                             {"config", "--help"},
                                             {"explain", "--help"},
                                             {"topo", "--help"},
                                             {"topo", "show", "--help"},
                                             {"topo", "paths", "--help"},
                                             {"topo", "lint", "--help"},
                                             {"topo", "diff", "--help"},
                                             {"topo", "generate", "--help"},
                                             {"topo", "record", "--help"}}) {
    const auto result = railwise(args);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out.substr(0, 15), "usage: railwise");
    EXPECT_EQ(result.err, "");
  }
}

TEST(Command, MistakesEndWith2AndOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{}, "railwise: which command? perf, devices, topo, device, explain, config, version or help\n"},
      {{"prf"}, "railwise: unknown command 'prf', did you mean 'perf'?\n"},
      {{"evices"}, "railwise: unknown command 'evices', did you mean 'devices'?\n"},
      {{"version", "now"}, "railwise: version takes no arguments\n"},
      {{"devices", "--jsn"},
       "railwise: devices: unknown option --jsn, did you mean --json? (railwise devices --help lists what "
       "there is)\n"},
      {{"config", "all"},
       "railwise: config: unexpected argument 'all' (railwise config --help lists what there is)\n"},
      {{"perf", "all_reduce", "--ranks", "0"},
       "railwise: perf: option --ranks: '0' is not a number from 1 to 1024 (railwise perf --help lists what "
       "there "
       "is)\n"}};
  for (const auto& [args, message] : mistakes) {
    const auto result = railwise(args);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.err, message);
    EXPECT_EQ(result.out, "");
  }
}

TEST(Devices, ListsWhatThePluginReports) {
  const auto result = railwise({"devices", "--plugin", LOOPBACK_PLUGIN});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(
      result.out.find("0    loop0v12  -        0x0000000000000001  10    1     0           host       1"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("\n1    loop1v12"), std::string::npos);
  const auto old = railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--api", "v9", "--json"});
  EXPECT_NE(old.out.find("\"name\": \"loop0v9\""), std::string::npos) << old.out;
  EXPECT_NE(old.out.find("\"rail\": null"), std::string::npos);
}

TEST(Devices, AMissingApiVersionIsAMistakeAMissingPluginAFailure) {
  const auto api = railwise({"devices", "--plugin", LOOPBACK_OLD_PLUGIN, "--api", "v12"});
  EXPECT_EQ(api.status, 2);
  EXPECT_NE(api.err.find("it exports v8, v7, v6"), std::string::npos) << api.err;
  const auto plugin = railwise({"devices", "--plugin", "/nowhere/plugin.so"});
  EXPECT_EQ(plugin.status, 1);
  EXPECT_NE(plugin.err.find("cannot load plugin /nowhere/plugin.so: "), std::string::npos) << plugin.err;
}

TEST(Devices, FallsBackToTheSoftwareDevice) {
  const std::vector<std::string> needs = {"LOOPBACK_NEEDS_SOFTWARE=1"};
  const auto result = railwise({"devices", "--plugin", LOOPBACK_PLUGIN}, needs);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err,
            "railwise: no RDMA device on this machine: using the built-in software device "
            "(RAILWISE_DEVICE=software)\n");
}

TEST(Devices, DoesNotFallBackWhenADeviceWasAskedFor) {
  const auto option =
      railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--device", "verbs"}, {"LOOPBACK_NEEDS_SOFTWARE=1"});
  EXPECT_EQ(option.status, 1);
  EXPECT_NE(option.err.find("plugin warns: loopback: no device"), std::string::npos) << option.err;
  EXPECT_NE(option.err.find("init failed: ncclSystemError"), std::string::npos) << option.err;
  const auto variable = railwise({"devices", "--plugin", LOOPBACK_PLUGIN},
                                 {"LOOPBACK_NEEDS_SOFTWARE=1", "RAILWISE_DEVICE=verbs"});
  EXPECT_EQ(variable.status, 1);
  const auto software = railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "--device", "software"},
                                 {"LOOPBACK_NEEDS_SOFTWARE=1", "RAILWISE_DEVICE=verbs"});
  EXPECT_EQ(software.status, 0) << software.err;
  EXPECT_EQ(software.err, "");
}

TEST(Devices, VerboseShowsThePluginsInfo) {
  const auto quiet = railwise({"devices", "--plugin", LOOPBACK_PLUGIN});
  EXPECT_EQ(quiet.err, "");
  const auto verbose = railwise({"devices", "--plugin", LOOPBACK_PLUGIN, "-v"});
  EXPECT_NE(verbose.err.find("railwise: plugin: loopback: started\n"), std::string::npos) << verbose.err;
}

TEST(ConfigCommand, ListsEverySettingWithItsValue) {
  const auto result = railwise({"config"}, {"NCCL_IB_TIMEOUT=22"});
  EXPECT_EQ(result.status, 0);
  for (const Setting& setting : settings())
    EXPECT_NE(result.out.find(std::string(setting.env) + "="), std::string::npos) << setting.env;
  EXPECT_NE(result.out.find("NCCL_IB_TIMEOUT=22 (set)\n"), std::string::npos) << result.out;
}

TEST(ConfigCommand, MarkdownHasOneRowPerSetting) {
  const auto result = railwise({"config", "--markdown"}, {"NCCL_IB_TIMEOUT=22"});
  const auto rows = std::count(result.out.begin(), result.out.end(), '\n');
  EXPECT_EQ(static_cast<std::size_t>(rows), settings().size() + 2);
  EXPECT_EQ(result.out.find("22"), std::string::npos) << "documentation must not depend on the environment";
}

}  // namespace
}  // namespace railwise::tools
