// `railwise perf` with railwise's own plugin on the software device: every collective in every API version. A
// few small sizes on two ranks with every build; to 64 MiB on four ranks in CI; the powers of two between as
// a campaign.
#include <gtest/gtest.h>
#include <unistd.h>

#include "process.h"

namespace railwise::cli {
namespace {

using Options = std::vector<std::string>;
const Options kSmall = {"-b", "8", "-e", "256K", "-f", "8", "-n", "2", "--ranks", "2"};
const Options kLarge = {"-b", "4", "-e", "64M", "-f", "8", "-n", "1", "--ranks", "4"};
const Options kAll = {"-b", "8", "-e", "64M", "-f", "2", "-n", "2", "--ranks", "4"};

// Tests run beside each other.
std::string ownFabric() { return "software:fabric=perf" + std::to_string(getpid()); }

class PerfPlugin : public testing::TestWithParam<std::tuple<const char*, int, Options>> {};

TEST_P(PerfPlugin, IsRightOnTheSoftwareDevice) {
  const auto& [collective, api, sizes] = GetParam();
  Options args = {"perf",     collective,          "-c",    "1",
                  "--device", ownFabric(),         "--api", "v" + std::to_string(api),
                  "--plugin", RAILWISE_PLUGIN_PATH};
  args.insert(args.end(), sizes.begin(), sizes.end());
  const int timeout_s = sizes == kSmall ? 110 : 1700;  // ctest's own is a little longer
  const auto result = runProcess(RAILWISE_CLI, args, {}, timeout_s);
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_NE(result.out.find("API v" + std::to_string(api) + ")"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("# Out of bounds values : 0 OK\n"), std::string::npos) << result.out;
}

auto everyCase(const Options& sizes) {
  return testing::Combine(testing::Values("all_reduce", "sendrecv", "alltoall"), testing::Range(6, 13),
                          testing::Values(sizes));
}

std::string caseName(const testing::TestParamInfo<PerfPlugin::ParamType>& test) {
  return std::string(std::get<0>(test.param)) + "_v" + std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Quick, PerfPlugin, everyCase(kSmall), caseName);
INSTANTIATE_TEST_SUITE_P(Full, PerfPlugin, everyCase(kLarge), caseName);
INSTANTIATE_TEST_SUITE_P(Campaign, PerfPlugin, everyCase(kAll), caseName);

// A device whose only address is 10.7.0.1: two processes that have it under two names cannot share a fabric.
std::string deviceNamed(const std::string& name, const std::string& more = "") {
  return "software:name=" + name + ",gid=10.7.0.1/v2" + more;
}

Options endlessPerf(const std::string& device) {
  return {"perf", "sendrecv",   "-b",       "8",    "-e",       "8",
          "-n",   "1000000000", "--device", device, "--plugin", RAILWISE_PLUGIN_PATH};
}

Options shortPerf(const std::string& device) {
  return {"perf", "sendrecv", "-b", "8",        "-e",   "8",        "-n",
          "2",    "-c",       "1",  "--device", device, "--plugin", RAILWISE_PLUGIN_PATH};
}

const Options kNoFabric = {"RAILWISE_FABRIC="};

// One device with one address and with two: on one fabric the second job would get the first one's.
TEST(PerfFabric, JobsOfUnlikeConfigurationsDoNotMeet) {
  Process other(RAILWISE_CLI, endlessPerf(deviceNamed("a")), kNoFabric);
  ASSERT_TRUE(other.waitForOut("device a")) << other.err();
  const auto result = runProcess(RAILWISE_CLI, shortPerf(deviceNamed("a", ",gid=10.7.0.2/v2")), kNoFabric);
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_EQ(result.err, "");
}

TEST(PerfFabric, OnANamedFabricTheyAreToldWhatDiffers) {
  const std::string fabric = "named" + std::to_string(getpid());
  Process other(RAILWISE_CLI, endlessPerf(deviceNamed("a", ",fabric=" + fabric)), kNoFabric);
  ASSERT_TRUE(other.waitForOut("device a")) << other.err();
  const auto result = runProcess(RAILWISE_CLI, shortPerf(deviceNamed("b", ",fabric=" + fabric)), kNoFabric);
  EXPECT_NE(result.status, 0) << result.out;
  for (const std::string& part :
       {"uses the fabric " + fabric + " with another configuration: its a port 1 of host ",
        std::string("has the address 10.7.0.1 of our b port 1"), std::string("RAILWISE_FABRIC=NAME")})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

TEST(PerfFabric, RanksOfAJobMeetThoughNobodyNamesAFabric) {
  const auto environment = [](int rank) {
    return Options{"RAILWISE_FABRIC=", "OMPI_COMM_WORLD_RANK=" + std::to_string(rank),
                   "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                   "PMIX_NAMESPACE=fabric-" + std::to_string(getpid())};
  };
  Process zero(RAILWISE_CLI, shortPerf(deviceNamed("a")), environment(0));
  Process one(RAILWISE_CLI, shortPerf(deviceNamed("a")), environment(1));
  const auto first = zero.wait();
  const auto second = one.wait();
  EXPECT_EQ(first.status, 0) << first.err << first.out;
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_NE(first.out.find("# Out of bounds values : 0 OK\n"), std::string::npos) << first.out;
}

TEST(OwnPlugin, TheCommandFindsItByItself) {
  const auto result = runProcess(RAILWISE_CLI, {"devices", "--device", ownFabric()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("soft0: GPUDirect: none, because the software device moves bytes with the CPU; "
                            "gpudirect=on is for software GPUs\n"),
            std::string::npos)
      << result.out;
}

}  // namespace
}  // namespace railwise::cli
