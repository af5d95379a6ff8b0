// The spy in programs that load it as NCCL does: how it finds the plugin behind it, and what a job says.
#include "process.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "record/layout.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::test {
namespace {

using cli::ProcessResult;

class SpyProcess : public testing::Test {
 protected:
  // A job of two ranks over the spy. `spied`: RAILWISE_SPY; "": not set.
  ProcessResult job(const std::string& spied, std::vector<std::string> environment = {},
                    const std::string& device = "software") {
    if (!spied.empty()) environment.push_back("RAILWISE_SPY=" + spied);
    environment.push_back("RAILWISE_METRICS_DIR=" + folder_.path());
    environment.push_back("RAILWISE_SPY_REPORT=" + folder_.path("%p.json"));
    return cli::runProcess(RAILWISE_CLI,
                           {"perf", "sendrecv", "--plugin", SPY, "--device", device, "-b", "8", "-e", "64K",
                            "-f", "16", "--verbose"},
                           environment);
  }
  std::vector<nlohmann::json> reports() const {
    std::vector<nlohmann::json> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().extension() != ".json") continue;
      std::ifstream file(entry.path());
      found.push_back(nlohmann::json::parse(file, nullptr, false));
    }
    return found;
  }
  // The reason with which the job failed.
  void expectNoPlugin(const ProcessResult& run, const std::string& reason) {
    EXPECT_NE(run.status, 0);
    EXPECT_HAS((run.out + run.err), reason) << run.out << run.err;
  }

  Scratch folder_;
};

TEST_F(SpyProcess, AJobOverRailwise) {
  const ProcessResult run = succeeded(job(RAILWISE));
  EXPECT_HAS(run.out, "(Railwise, API v12)");
  EXPECT_HAS(run.err, "NET/Spy : watching Railwise (v12) of " RAILWISE);
  EXPECT_HAS(run.err, "no breach of the contract");
  const auto found = reports();
  ASSERT_EQ(found.size(), 2U) << "one for each rank";
  for (const auto& report : found) {
    EXPECT_EQ(report["breaches"].size(), 0U) << report["breaches"];
    EXPECT_EQ(report["left_open"],
              nlohmann::json({{"connections", 0}, {"listeners", 0}, {"requests", 0}, {"memory", 0}}));
    EXPECT_GE(report["connections"].size(), 2U);
  }
}

TEST_F(SpyProcess, OneSidedCommunicationOverRailwise) {
  const ProcessResult run = succeeded(cli::runProcess(
      RAILWISE_CLI, {"bench", "--pattern", "put-signal", "--plugin", SPY, "-n", "500", "-r", "1", "-s", "64"},
      {"RAILWISE_SPY=" RAILWISE, "RAILWISE_METRICS_DIR=" + folder_.path(),
       "RAILWISE_SPY_REPORT=" + folder_.path("%p.json")}));
  const auto found = reports();
  ASSERT_EQ(found.size(), 1U);
  const auto& its = found[0]["one_sided"];
  EXPECT_GE(its["puts"], 500) << found[0];
  EXPECT_EQ(its["puts"], found[0]["calls"]["iputSignal"]["calls"]);
  EXPECT_EQ(its["signals"], its["puts"]);
  EXPECT_EQ(its["put_bytes"], its["puts"].get<uint64_t>() * 64);
  EXPECT_EQ(its["gets"], 0);
}

// NCCL takes the newest version that it finds, so the spy must not show more than there is.
TEST_F(SpyProcess, APluginOfOldVersions) {
  const ProcessResult run = succeeded(job(LOOPBACK_OLD_PLUGIN));
  EXPECT_HAS(run.out, "(Loopback, API v8)");
}

TEST_F(SpyProcess, ByNameBesideTheSpy) {
  const ProcessResult run = succeeded(job("railwise"));
  EXPECT_HAS(run.out, "(Railwise, API v12)");
}

// Versions 6 to 10 have no finalize: the report comes with the last connection, and with the end of the
// process.
TEST_F(SpyProcess, ReportsWithoutFinalize) {
  const ProcessResult run = succeeded(job(LOOPBACK_OLD_PLUGIN));
  const auto found = reports();
  ASSERT_EQ(found.size(), 2U);
  for (const auto& report : found) {
    EXPECT_EQ(report["api"], 8);
    EXPECT_EQ(report["left_open"]["connections"], 0);
    EXPECT_EQ(report["breaches"].size(), 0U) << report["breaches"];
  }
}

TEST_F(SpyProcess, NothingIsNamed) { expectNoPlugin(job(""), "RAILWISE_SPY is not set"); }

TEST_F(SpyProcess, ThePluginIsNotThere) {
  expectNoPlugin(job("/nowhere/libnccl-net-x.so"),
                 "RAILWISE_SPY=/nowhere/libnccl-net-x.so: the plugin cannot be loaded");
}

TEST_F(SpyProcess, TheSpyBehindTheSpy) { expectNoPlugin(job(SPY), "this is the spy itself"); }

TEST_F(SpyProcess, NoPlugin) { expectNoPlugin(job("libc.so.6"), "exports none of ncclNetPlugin_v6"); }

// Ranks that fail end at once, without a report. Their records stay.
TEST_F(SpyProcess, AJobThatFailsLeavesItsRecords) {
  const ProcessResult run = job(LOOPBACK_PLUGIN, {"LOOPBACK_FAIL=isend:3", "LOOPBACK_RANK=0"});
  EXPECT_NE(run.status, 0);
  uint64_t errors = 0;
  int records = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (!entry.path().filename().string().ends_with("-spy")) continue;
    ++records;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    ASSERT_GE(bytes.size(), record::kEventsAt);
    const auto& header = *reinterpret_cast<const record::Header*>(bytes.data());
    const auto* rails = reinterpret_cast<const record::RailRecord*>(bytes.data() + header.rails_at);
    for (uint32_t i = 0; i < header.rails; ++i)
      errors += rails[i].counters.errors[static_cast<std::size_t>(record::ErrorKind::kOther)];
  }
  EXPECT_EQ(records, 2);
  EXPECT_EQ(errors, 1U) << "of the isend that failed";
}

}  // namespace
}  // namespace railwise::test
