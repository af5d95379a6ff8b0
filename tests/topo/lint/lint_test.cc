#include "topo/lint/lint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/ok.h"
#include "tests/topo/lint/traps.h"
#include "tests/topo/topologies.h"

namespace railwise::topo {
namespace {

using namespace test;

const std::filesystem::path kRepository = RAILWISE_SOURCE_DIR;

std::vector<Finding> linted(const std::string& text) {
  std::vector<XmlRemark> remarks;
  const Outcome<XmlDocument> document = parseXml(text, "test.xml", {}, &remarks);
  EXPECT_OK(document);
  return document.ok() ? lint(*document, remarks) : std::vector<Finding>{};
}

class LintTrap : public testing::TestWithParam<Trap> {};

TEST_P(LintTrap, IsFoundAtItsLineAndNothingElse) {
  const Trap& trap = GetParam();
  int found = 0;
  for (const Finding& finding : linted(edited(trap.base, trap.edits))) {
    if (finding.rule != trap.rule) {
      EXPECT_EQ(trap.also.count(finding.rule), 1U) << finding.rule << ": " << finding.text;
      continue;
    }
    found++;
    EXPECT_EQ(finding.severity, trap.severity);
    EXPECT_EQ(finding.position.line, trap.line);
    EXPECT_FALSE(finding.text.empty());
    EXPECT_FALSE(finding.fix.empty());
  }
  EXPECT_EQ(found, 1);
}

std::string trapName(const testing::TestParamInfo<Trap>& info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char c : std::string(info.param.rule)) name += c == '-' ? '_' : c;
  return name;
}
INSTANTIATE_TEST_SUITE_P(Every, LintTrap, testing::ValuesIn(allTraps()), trapName);

TEST(Lint, CleanMachinesHaveNoFinding) {
  for (const char* machine : {kMachine, kPciOnly}) {
    for (const Finding& finding : linted(machine)) ADD_FAILURE() << finding.rule << ": " << finding.text;
  }
}

TEST(Lint, EveryRuleHasATrap) {
  std::set<std::string> tested = {"parse-error", "init-fails"};  // the second one: init_failure_test.cc
  for (const Trap& trap : allTraps()) tested.insert(trap.rule);
  for (const std::string& rule : lintRules()) EXPECT_EQ(tested.count(rule), 1U) << rule;
}

TEST(Lint, DocumentationHasEveryRuleAndNoOther) {
  std::ifstream file(kRepository / "docs" / "lint.md");
  ASSERT_TRUE(file.is_open());
  std::multiset<std::string> documented;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) documented.insert(line.substr(3, line.find('`', 3) - 3));
  }
  const std::vector<std::string> rules = lintRules();
  EXPECT_EQ(documented, std::multiset<std::string>(rules.begin(), rules.end()));
}

struct Speed {
  const char* text;
  const char* fix;  // null: no finding
};

TEST(Lint, LinkSpeedsThatNcclMisreads) {
  for (const Speed& speed :
       {Speed{"2.5 GT/s", nullptr}, Speed{"5 GT/s", nullptr}, Speed{"8.0 GT/s", nullptr},
        Speed{"32 GT/s PCIe/s", nullptr}, Speed{"64.0 GT/s PCIe", nullptr},
        Speed{"5.0 GT/s", "\"5.0 GT/s PCIe\""}, Speed{"16.0 GT/s", "\"16.0 GT/s PCIe\""},
        Speed{"64 GT/s", "\"64.0 GT/s PCIe\""}, Speed{"128.0 GT/s PCIe", "link_width"}}) {
    const auto findings =
        linted(edited(kMachine, {{kNicLine, edited(kNicLine, {{"32.0 GT/s PCIe", speed.text}})}}));
    const bool misread = !findings.empty() && findings[0].rule == "link-speed";
    EXPECT_EQ(misread, speed.fix != nullptr) << speed.text;
    if (!misread || speed.fix == nullptr) continue;
    EXPECT_HAS(findings[0].fix, speed.fix);
  }
}

TEST(Lint, NotesOfWhatNcclAddsAreOneForAFile) {
  const auto findings = linted(edited(kMachine, {{" speed=\"400000\"", ""}, {" speed=\"400000\"", ""}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, "net \"mlx5_0\" has no speed (and 1 more like it); NCCL takes the plugin's");
}

TEST(Lint, MergingIsSaidOfPortsThatNcclCanMerge) {
  const std::string port = "<net name=\"p\" dev=\"9\" speed=\"400000\" gdr=\"1\" port=\"1\" guid=\"0x9\"/>";
  std::string ports;
  for (int i = 0; i < 8; ++i) {
    std::string one = port;
    one.replace(one.find("\"p\""), 3, "\"p" + std::to_string(i) + "\"");
    one.replace(one.find("\"9\""), 3, "\"" + std::to_string(i + 2) + "\"");
    ports += one;
  }
  const auto many = linted(edited(kMachine, {{"<nic>", "<nic>" + ports}}));
  ASSERT_EQ(many.size(), 1U);
  EXPECT_EQ(many[0].text, "NCCL merges the 9 nets of this <nic> into devices of 8");
  // Port 0: devices of NCCL's Socket plugin.
  const auto sockets =
      linted(edited(kMachine, {{"<nic>", "<nic>" + edited(port, {{"port=\"1\"", "port=\"0\""}})}}));
  EXPECT_TRUE(sockets.empty());
}

TEST(Lint, FindingsComeInTheOrderOfTheLines) {
  const auto findings =
      linted(edited(kMachine, {{"mlx5_0\" dev=\"0\"", "mlx5_0\""}, {"AuthenticAMD", "HygonGenuine"}}));
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_LT(findings[0].position.line, findings[1].position.line);
}

TEST(Lint, AnOlderReleaseFillsInTheClassOfALink) {
  const std::string text = edited(kMachine, {{" tclass=\"0x030200\"", ""}});
  for (const auto& [release, severity] :
       {std::pair{NcclVersion::k2_30, kNote}, {NcclVersion::k2_31, kError}}) {
    const LintReport report = lintText(text, "m.xml", release);
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_EQ(report.findings[0].rule, "nvlink-incomplete");
    EXPECT_EQ(report.findings[0].severity, severity);
  }
}

TEST(LintFile, TellsWhyNcclRefusesTheFile) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "lint_refused.xml";
  std::ofstream(path) << "<system version=\"1\">\n <cpu\n numaid=\"0\"/>\n</system>\n";
  const LintReport report = lintFile(path);
  EXPECT_FALSE(report.read);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].rule, "parse-error");
  EXPECT_EQ(report.findings[0].severity, kError);
  EXPECT_EQ(report.findings[0].position.line, 2);
  EXPECT_TRUE(report.findings[0].text.starts_with("line break inside <cpu>")) << report.findings[0].text;
  EXPECT_FALSE(report.findings[0].fix.empty());
}

TEST(LintFile, TellsThatAFileIsMissing) {
  const LintReport report = lintFile("/nonexistent/topology.xml");
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].position.line, 0);
  EXPECT_HAS(report.findings[0].text, "No such file");
}

// Files of the shared folder in which NCCL really loses or mis-reads something. In all others an error is a
// false alarm.
const std::map<std::string, std::set<std::string>> kLossy = {
    {"misc/modal-gvisor-6f0b99c33.xml", {"nic-drops-children"}},
    {"misc/sugarlxn-nccl_topo.xml", {"duplicate-net-dev", "virtual-nic-shared"}},
    {"quirks/speed_128.xml", {"link-speed"}},
    {"rccl/topo_8p1h_1.xml", {"duplicate-busid"}},
    {"synthetic/root-none-2gpu.xml", {"cpu-incomplete"}},
};

TEST(LintFile, RealFilesThatNcclAcceptsHaveNoErrorsButTrueOnes) {
  const std::filesystem::path root = topologiesFolder();
  if (root.empty()) GTEST_SKIP() << "no folder of topologies";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "machines")) {
    if (entry.path().extension() != ".xml") continue;
    const std::string name = std::filesystem::relative(entry.path(), root / "machines");
    const LintReport report = lintFile(entry.path());
    if (!report.read) continue;  // xml_test.cc compares those with NCCL
    std::set<std::string> errors;
    for (const Finding& finding : report.findings) {
      if (finding.severity == kError) errors.insert(finding.rule);
    }
    const auto lossy = kLossy.find(name);
    EXPECT_EQ(errors, lossy != kLossy.end() ? lossy->second : std::set<std::string>()) << name;
  }
}

}  // namespace
}  // namespace railwise::topo
