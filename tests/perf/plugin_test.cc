// `railwise perf` with railwise's own plugin on the software device: every collective in every API version. A
// few small sizes on two ranks with every build; to 64 MiB on four ranks in CI; the powers of two between as
// a campaign.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

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
  const auto result = succeeded(runProcess(RAILWISE_CLI, args, {}, timeout_s));
  EXPECT_HAS(result.out, "API v" + std::to_string(api) + ")");
  EXPECT_HAS(result.out, " --fabric perf" + std::to_string(getpid()) + "\n") << "the device's own fabric";
  EXPECT_HAS(result.out, "# Out of bounds values : 0 OK\n");
}

auto everyCase(const Options& sizes) {
  return testing::Combine(testing::Values("all_reduce", "sendrecv", "alltoall"), testing::Range(6, 13),
                          testing::Values(sizes));
}

std::string caseName(const testing::TestParamInfo<PerfPlugin::ParamType>& test) {
  return std::string(std::get<0>(test.param)) + "_v" + std::to_string(std::get<1>(test.param));
}

// The other collectives take the same way through the plugin: one API version is enough.
auto newestCase(const Options& sizes) {
  return testing::Combine(testing::Values("all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
                                          "scatter", "hypercube"),
                          testing::Values(12), testing::Values(sizes));
}

INSTANTIATE_TEST_SUITE_P(Quick, PerfPlugin, everyCase(kSmall), caseName);
INSTANTIATE_TEST_SUITE_P(QuickNewest, PerfPlugin, newestCase(kSmall), caseName);
INSTANTIATE_TEST_SUITE_P(FullNewest, PerfPlugin, newestCase(kLarge), caseName);
INSTANTIATE_TEST_SUITE_P(Full, PerfPlugin, everyCase(kLarge), caseName);
INSTANTIATE_TEST_SUITE_P(Campaign, PerfPlugin, everyCase(kAll), caseName);

// The ports keep to 2.5 Gb/s, and each rank has two of them.
TEST(PerfExpectation, PacedPortsAreNotExceeded) {
  const auto result =
      runProcess(RAILWISE_CLI, {"perf", "all_reduce", "-b", "1M", "-e", "1M", "-n", "2", "--ranks", "2",
                                "--json", "--device", ownFabric() + ",count=2,speed=2500,pacing=on",
                                "--plugin", RAILWISE_PLUGIN_PATH});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, "\"ports_gb_per_s\": 0.3125,") << "each port has a channel of both ranks\n";
  const std::size_t share = result.out.find("\"ports_share\": ");
  ASSERT_NE(share, std::string::npos) << result.out;
  const double reached = std::stod(result.out.substr(share + 15));
  EXPECT_GT(reached, 0);
  EXPECT_LT(reached, 1.02);
}

TEST(PerfExpectation, PortsWithoutPacingTellNothing) {
  const auto result =
      succeeded(runProcess(RAILWISE_CLI, {"perf", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "--ranks",
                                          "2", "--device", ownFabric(), "--plugin", RAILWISE_PLUGIN_PATH}));
  EXPECT_LACKS(result.out, "You get");
}

// Ranks on two hosts of a software machine with two GPUs and two NICs of 2.5 Gb/s.
TEST(PerfExpectation, OnTwoHostsTheModelIsThere) {
  const test::Scratch scratch;
  std::string machine = "host A cpu=x86_64/GenuineIntel/6/143 cores=8\n";
  for (const std::string number : {"0", "1"})
    machine += "bridge pci=0000:1" + number + ":00.0/2" + number + ":00.0 numa=0 pcie=5x16\n" +
               "device name=mlx5_" + number + " link=ib speed=2500 rail=" + number + " pci=0000:1" + number +
               ":00.0/2" + number + ":00.0/3" + number + ":00.0/4" + number +
               ":00.0 numa=0 pcie=5x16 pacing=on\n" + "gpu pci=0000:1" + number + ":00.0/2" + number +
               ":00.0/3" + number + ":01.0/5" + number + ":00.0 numa=0 pcie=5x16 sm=90 nvlink=switch:18\n";
  const std::string file = scratch.file("two.conf", machine + "host B like=A\n");
  const std::string fabric = "two" + std::to_string(getpid());
  const auto rank = [&](const std::string& number, const std::string& host) {
    return std::make_unique<Process>(
        RAILWISE_CLI,
        Options{"perf", "all_reduce", "-b", "1M", "-e", "1M", "-n", "2", "--plugin", RAILWISE_PLUGIN_PATH},
        Options{"RANK=" + number, "WORLD_SIZE=2", "LOCAL_RANK=" + number, "LOCAL_WORLD_SIZE=2",
                "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(20'000 + getpid() % 12'000),
                "RAILWISE_FABRIC=" + fabric, "RAILWISE_HOST=" + host, "RAILWISE_DEVICE=software:" + file});
  };
  const auto first = rank("0", "A");
  const auto second = rank("1", "B");
  const auto result = succeeded(first->wait());
  EXPECT_EQ(second->wait().status, 0);
  EXPECT_HAS(result.out, " of 0.625 GB/s (");
  EXPECT_HAS(result.out, "that its rings take of these NICs\n");
  EXPECT_HAS(result.out, "with 2 GPUs on each of 2 hosts like this (2.31.2, ");
}

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

// perf | head: nobody will ask what happened to ranks that were ended because their reader had left.
TEST(PerfOutput, AReaderThatLeavesLeavesNoRecords) {
  const test::Scratch scratch;
  std::string command = "set -o pipefail; " + std::string(RAILWISE_CLI);
  for (const std::string& word : Options{"perf", "sendrecv", "-b", "8", "-e", "1M", "-n", "20", "-N", "0",
                                         "--device", ownFabric(), "--plugin", RAILWISE_PLUGIN_PATH})
    command += " " + word;
  const auto result = runProcess("/bin/bash", {"-c", command + " | head -n 8; exit $?"},
                                 {"RAILWISE_METRICS_DIR=" + scratch.path()});
  EXPECT_EQ(result.status, 141) << result.out;
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << "records";
}

const Options kNoFabric = {"RAILWISE_FABRIC="};

// One device with one address and with two: on one fabric the second job would get the first one's.
TEST(PerfFabric, JobsOfUnlikeConfigurationsDoNotMeet) {
  Process other(RAILWISE_CLI, endlessPerf(deviceNamed("a")), kNoFabric);
  ASSERT_TRUE(other.waitForOut("device a")) << other.err();
  const auto result =
      succeeded(runProcess(RAILWISE_CLI, shortPerf(deviceNamed("a", ",gid=10.7.0.2/v2")), kNoFabric));
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
    EXPECT_HAS(result.err, part);
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
  EXPECT_HAS(first.out, "# Out of bounds values : 0 OK\n");
}

TEST(OwnPlugin, TheCommandFindsItByItself) {
  const auto result = succeeded(runProcess(RAILWISE_CLI, {"devices", "--device", ownFabric()}));
  EXPECT_HAS(result.out,
             "\nGPUDirect: none, because the software device moves bytes with the CPU;\n"
             "  gpudirect=on is for software GPUs\n");
}

}  // namespace
}  // namespace railwise::cli
