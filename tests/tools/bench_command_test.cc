// `railwise bench` on the software device, with railwise's own plugin and others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "process.h"

namespace railwise::tools {
namespace {

using Words = std::vector<std::string>;

ProcessResult bench(const Words& more) {
  Words args = {"bench", "--plugin", RAILWISE_PLUGIN_PATH, "--messages", "512", "--repeats", "3"};
  args.insert(args.end(), more.begin(), more.end());
  return runProcess(RAILWISE_CLI, args);
}

// The number behind the `nth` "key"; -1: there is none.
double number(const std::string& json, const std::string& key, int nth = 0) {
  std::size_t at = 0;
  for (int i = 0; i <= nth; ++i) {
    at = json.find("\"" + key + "\": ", i == 0 ? 0 : at + 1);
    if (at == std::string::npos) return -1;
  }
  return std::stod(json.substr(at + key.size() + 4));
}

TEST(BenchCommand, CountsAndTimesAMessage) {
  const auto result = bench({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.front(), '{') << result.out;
  EXPECT_NE(result.out.find("\"plugin\": \"Railwise\""), std::string::npos) << result.out;
  EXPECT_EQ(number(result.out, "size"), 8);
  EXPECT_EQ(number(result.out, "window"), 8);
  EXPECT_EQ(number(result.out, "messages"), 3 * 512);
  EXPECT_GT(number(result.out, "cpu_ns_min"), 0);
  EXPECT_GE(number(result.out, "cpu_ns_median"), number(result.out, "cpu_ns_min"));
  EXPECT_NE(result.out.find("\"instructions_plugin\": null"), std::string::npos) << result.out;
  // One write each way, and a receive request.
  EXPECT_NEAR(number(result.out, "work_requests"), 2, 0.01) << result.out;
  EXPECT_NEAR(number(result.out, "receive_work_requests"), 1, 0.05) << result.out;
  EXPECT_GE(number(result.out, "completions"), 1) << result.out;
}

TEST(BenchCommand, GroupsAreOneReceive) {
  const auto result = bench({"--json", "--grouped", "8"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NEAR(number(result.out, "receive_work_requests"), 1.0 / 8, 0.01) << result.out;
}

TEST(BenchCommand, MeasuresPluginsSideBySide) {
  const auto result = bench({"--json", "--vs", RAILWISE_PLUGIN_PATH, "--vs", LOOPBACK_PLUGIN});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.front(), '[') << result.out;
  EXPECT_GT(number(result.out, "cpu_ratio"), 0);
  EXPECT_EQ(number(result.out, "work_requests"), number(result.out, "work_requests", 1));
  EXPECT_EQ(number(result.out, "work_requests", 2), -1) << "it has no device to count";
}

TEST(BenchCommand, PrintsATable) {
  const auto result = bench({"--size", "4K", "--api", "v8"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("# railwise bench: 4096 bytes, window 8"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nRailwise"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" v8 "), std::string::npos) << result.out;
}

TEST(BenchCommand, SaysWhichPluginFailed) {
  const auto result = bench({"--vs", "/nowhere/libnccl-net-none.so"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("railwise: bench: /nowhere/libnccl-net-none.so: cannot load plugin"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(result.out, "");
}

TEST(BenchCommand, SaysThatAGroupIsTooLarge) {
  const auto result = bench({"--vs", LOOPBACK_PLUGIN, "--grouped", "8"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("the plugin takes 1 buffers in a receive"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace railwise::tools
