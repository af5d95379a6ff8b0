// `railwise perf` with railwise's own plugin on the software device: every collective in every API version.
// With PERF_FULL the sizes and ranks of the acceptance run, else a few small ones.
#include <gtest/gtest.h>

#include "process.h"

namespace railwise::tools {
namespace {

#ifdef PERF_FULL
const std::vector<std::string> kSizes = {"-b", "8", "-e", "64M", "-f", "2", "-n", "2", "--ranks", "4"};
constexpr int kTimeoutSeconds = 1700;
#else
const std::vector<std::string> kSizes = {"-b", "8", "-e", "256K", "-f", "8", "-n", "2", "--ranks", "2"};
constexpr int kTimeoutSeconds = 110;
#endif

class PerfPlugin : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(PerfPlugin, IsRightOnTheSoftwareDevice) {
  const auto [collective, api] = GetParam();
  std::vector<std::string> args = {"perf",     collective,
                                   "-c",       "1",
                                   "--device", "software",
                                   "--plugin", RAILWISE_PLUGIN_PATH,
                                   "--api",    "v" + std::to_string(api)};
  args.insert(args.end(), kSizes.begin(), kSizes.end());
  const auto result = runProcess(RAILWISE_CLI, args, {}, kTimeoutSeconds);
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  EXPECT_NE(result.out.find("API v" + std::to_string(api) + ")"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("# Out of bounds values : 0 OK\n"), std::string::npos) << result.out;
}

const auto kEveryCase =
    testing::Combine(testing::Values("all_reduce", "sendrecv", "alltoall"), testing::Range(6, 13));

std::string caseName(const testing::TestParamInfo<std::tuple<const char*, int>>& test) {
  return std::string(std::get<0>(test.param)) + "_v" + std::to_string(std::get<1>(test.param));
}

// Two programs, two names: ctest must be able to tell them apart.
#ifdef PERF_FULL
INSTANTIATE_TEST_SUITE_P(Full, PerfPlugin, kEveryCase, caseName);
#else
INSTANTIATE_TEST_SUITE_P(Quick, PerfPlugin, kEveryCase, caseName);

TEST(OwnPlugin, TheCommandFindsItByItself) {
  const auto result = runProcess(RAILWISE_CLI, {"devices", "--device", "software"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("soft0: GPUDirect: none, because the software device moves bytes with the CPU\n"),
            std::string::npos)
      << result.out;
}
#endif

}  // namespace
}  // namespace railwise::tools
