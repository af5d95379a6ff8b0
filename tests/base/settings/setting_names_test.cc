// Which names of an environment are misspelt, and which setting was meant.
#include "base/settings/setting_names.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/settings/config.h"

namespace railwise {
namespace {

// What `name` was meant to be; "-": it is not unknown.
std::string meant(const std::string& name) {
  const auto unknown = unknownNames({{name, "1"}});
  return unknown.empty() ? "-" : unknown.front().nearest;
}

TEST(NcclVariables, AreSortedAndEachIsThereOnce) {
  const auto rows = ncclVariables();
  EXPECT_GT(rows.size(), 300U);
  const auto twice = std::adjacent_find(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::string_view(a.name) >= b.name;
  });
  EXPECT_EQ(twice, rows.end()) << twice->name;
}

TEST(NcclVariables, HaveEachOfNcclsThatThePluginReads) {
  const auto isNccls = [](const char* env) { return std::string_view(env).starts_with("NCCL_"); };
  for (const Setting& row : settings())
    EXPECT_TRUE(!isNccls(row.env) || findNcclVariable(row.env) != nullptr) << row.env;
  for (const UnusedSetting& row : unusedSettings())
    EXPECT_TRUE(findNcclVariable(row.env) != nullptr) << row.env;
}

TEST(NcclVariables, KnowTheirReleases) {
  EXPECT_STREQ(findNcclVariable("NCCL_IB_OOO_RQ")->since, "2.30");
  EXPECT_STREQ(findNcclVariable("NCCL_WORK_FIFO_DEPTH")->until, "2.21");
  EXPECT_STREQ(findNcclVariable("NCCL_DEBUG")->since, "");
  EXPECT_TRUE(findNcclVariable("NCCL_IB_CUDA_SUPPORT")->gone);
  EXPECT_EQ(findNcclVariable("NCCL_IB_HCS"), nullptr);
}

TEST(UnknownNames, SettingsAreKnown) {
  for (const char* name : {"NCCL_DEBUG", "NCCL_IB_HCA", "RAILWISE_STRICT", "NCCL_IB_WQE_LATENCY_REPORT",
                           "RCCL_MSCCL_ENABLE", "RCCL_FORCE_ENABLE_DMABUF", "NCCL_IB_GDR_LEVEL"})
    EXPECT_EQ(meant(name), "-") << name;
}

TEST(UnknownNames, OneSlipIsFound) {
  EXPECT_EQ(meant("NCCL_IB_HCS"), "NCCL_IB_HCA");
  EXPECT_EQ(meant("NCCL_IB_HAC"), "NCCL_IB_HCA");
  EXPECT_EQ(meant("NCCL_IB_TIMOUT"), "NCCL_IB_TIMEOUT");
  EXPECT_EQ(meant("NCCL_SOCKET_IF_NAME"), "NCCL_SOCKET_IFNAME");
  EXPECT_EQ(meant("NCCL_IB_RETRY_COUNT"), "NCCL_IB_RETRY_CNT");
  EXPECT_EQ(meant("NCCL_NET_PLUGINS"), "NCCL_NET_PLUGIN");
  EXPECT_EQ(meant("NCCL_DEBUG_SUBSYSTEM"), "NCCL_DEBUG_SUBSYS");
  EXPECT_EQ(meant("RAILWISE_FAILOVR"), "RAILWISE_FAILOVER");
}

TEST(UnknownNames, CaseAndPrefixAreMended) {
  EXPECT_EQ(meant("nccl_debug"), "NCCL_DEBUG");
  EXPECT_EQ(meant("NCCL_Ib_Hca"), "NCCL_IB_HCA");
  EXPECT_EQ(meant("NCLL_IB_HCA"), "NCCL_IB_HCA");
  EXPECT_EQ(meant("RCCL_DEBUG"), "NCCL_DEBUG");
  EXPECT_EQ(meant("RAILWISE_IB_HCA"), "NCCL_IB_HCA");
  EXPECT_EQ(meant("RAILWIZE_STRICT"), "RAILWISE_STRICT");
}

TEST(UnknownNames, AForgottenIbIsMended) {
  EXPECT_EQ(meant("NCCL_GID_INDEX"), "NCCL_IB_GID_INDEX");
  EXPECT_EQ(meant("NCCL_HCA"), "NCCL_IB_HCA");
  EXPECT_EQ(meant("NCCL_TIMEOUT"), "");
}

TEST(UnknownNames, OneWordIsTooLittleForAnotherFamily) {
  EXPECT_EQ(meant("NCCL_HOST"), "");
  EXPECT_EQ(meant("NCCL_FAILOVER_TIMEOUT"), "RAILWISE_FAILOVER_TIMEOUT");
}

TEST(UnknownNames, OtherNamesOfNcclsFamilyHaveNothingNear) {
  EXPECT_EQ(meant("NCCL_SOMETHING_QUITE_NEW"), "");
  EXPECT_EQ(meant("NCCL_IB_PLANE_AWARE_SPRAYING"), "");
  EXPECT_EQ(meant("RAILWISE_NO_SUCH_THING"), "");
}

TEST(UnknownNames, NamesOfOtherProgramsAreNotMisspelt) {
  for (const char* name :
       {"NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT_DIR", "NCCL_INCLUDE_DIR", "NCCL_LIB_DIR", "NCCL_TESTS_HOME",
        "NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "UCCL_IB_HCA", "NCCL_UCX_TLS", "PATH",
        "OFI_NCCL_PROTOCOL", "nccl_path", "RAILWISE_TEST_DEVICE", "NV_LIBNCCL_PACKAGE", "HOROVOD_NCCL_HOME"})
    EXPECT_EQ(meant(name), "-") << name;
}

TEST(UnknownNames, TheTextNamesBoth) {
  EXPECT_EQ(textOf(unknownNames({{"NCCL_IB_HCS", "x"}}).front()),
            "NCCL_IB_HCS is not a setting of NCCL (2.13 to 2.32) or Railwise: did you mean NCCL_IB_HCA? "
            "NCCL_IB_HCS has no effect");
  EXPECT_EQ(textOf(unknownNames({{"RAILWISE_XYZ", "x"}}).front()),
            "RAILWISE_XYZ is not a setting of NCCL (2.13 to 2.32) or Railwise and has no effect; `railwise "
            "config` lists the settings");
}

TEST(MisspeltNetworkNames, AreRailwisesAndThoseNearTheNetworks) {
  const auto found = misspeltNetworkNames({{"NCCL_ALGOS", "1"},
                                           {"NCCL_IB_HCS", "1"},
                                           {"NCCL_IB_QUITE_NEW_SETTING", "1"},
                                           {"NCCL_SOCKET_IFNAMES", "1"},
                                           {"RAILWISE_XYZ", "1"}});
  std::string names;
  for (const UnknownName& name : found) names += name.name + " ";
  EXPECT_EQ(names, "NCCL_IB_HCS NCCL_SOCKET_IFNAMES RAILWISE_XYZ ");
}

}  // namespace
}  // namespace railwise
