// `railwise perf` with railwise's own plugin on the software device: every collective in every API version. A
// few small sizes on two ranks with every build; to 64 MiB on four ranks in CI; the powers of two between as
// a campaign.
#include <gtest/gtest.h>
#include <unistd.h>

#include "process.h"

namespace railwise::tools {
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

TEST(OwnPlugin, TheCommandFindsItByItself) {
  const auto result = runProcess(RAILWISE_CLI, {"devices", "--device", ownFabric()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("soft0: GPUDirect: none, because the software device moves bytes with the CPU\n"),
            std::string::npos)
      << result.out;
}

}  // namespace
}  // namespace railwise::tools
