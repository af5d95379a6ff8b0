// Where NCCL's init fails although it reads the file: the release, the place and what helps.
#include "topo/lint/init/init_failure.h"

#include <string>

#include "tests/ok.h"

namespace railwise::topo {
namespace {

// "LINE: TEXT; FIX" of the finding. "": there is none.
std::string failureOf(const std::string& name, NcclVersion nccl, int nvls_enable = 2) {
  LintReport report = lintFile(std::string(RAILWISE_SOURCE_DIR "/tests/topo/machines/init/") + name + ".xml");
  EXPECT_TRUE(report.read) << name;
  addInitFailure(report, {.nccl = nccl, .nvls_enable = nvls_enable});
  std::string all;
  for (const Finding& finding : report.findings)
    if (finding.rule == "init-fails")
      all += std::to_string(finding.position.line) + ": " + finding.text + "; " + finding.fix;
  return all;
}

TEST(InitFailure, OneWayLinksOfSwitchesAreNamedWithTheirLine) {
  for (const NcclVersion nccl : {NcclVersion::k2_30, NcclVersion::k2_31}) {
    const std::string failure = failureOf("one-way-pcilink-lint", nccl);
    EXPECT_TRUE(
        failure.starts_with("12: the PCIe switch 0000:20:00.0 has a <pcilink> to the PCIe switch "
                            "0000:10:00.0"))
        << failure;
    EXPECT_HAS(failure, "; write <pcilink target=\"0000:20:00.0\"> at 0000:10:00.0 too");
    EXPECT_LACKS(failure, "GPU");
  }
}

TEST(InitFailure, BelowAFlattenedSwitchOnly231RefusesAOneWayLink) {
  EXPECT_EQ(failureOf("bcm-flattened-one-way-pcilink", NcclVersion::k2_30), "");
  EXPECT_HAS(failureOf("bcm-flattened-one-way-pcilink", NcclVersion::k2_31), "which has none back");
}

TEST(InitFailure, NvlsNeedsAPathOfEveryGpuFrom231On) {
  EXPECT_EQ(failureOf("nvls-one-gpu-without-nvlink", NcclVersion::k2_30), "");
  EXPECT_HAS(failureOf("nvls-one-gpu-without-nvlink", NcclVersion::k2_31), "; set NCCL_NVLS_ENABLE=0");
  EXPECT_EQ(failureOf("nvls-one-gpu-without-nvlink", NcclVersion::k2_31, 0), "");
}

TEST(InitFailure, AWidthThatOverflowsLeavesTheGpuWithoutACpu) {
  for (const NcclVersion nccl : {NcclVersion::k2_30, NcclVersion::k2_31})
    EXPECT_HAS(failureOf("link-width-int-overflow", nccl), "no path from the GPU at 0015:01:00.0 to a CPU");
}

TEST(InitFailure, TwoHostsWithATwoLevelSwitchAreAccepted) {
  for (const NcclVersion nccl : {NcclVersion::k2_30, NcclVersion::k2_31})
    EXPECT_EQ(failureOf("bcm-gen4-two-hosts-false-refusal", nccl), "");
}

TEST(InitFailure, WhatALintRuleSaysIsNotSaidTwice) {
  LintReport report = lintText("<system version=\"1\">\n<cpu/>\n</system>\n", "a.xml");
  const std::size_t before = report.findings.size();
  ASSERT_GT(before, 0U);
  addInitFailure(report, Settings());
  EXPECT_EQ(report.findings.size(), before);
}

}  // namespace
}  // namespace railwise::topo
