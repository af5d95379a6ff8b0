#include "perf/results/record.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/ok.h"
#include "tests/wait.h"

namespace railwise::cli {
namespace {

Report makeReport() {
  Report report;
  report.ranks = 2;
  report.plugin_path = "/lib/x.so";
  report.plugin_name = "X";
  report.api = 11;
  report.rank_lines = {{0, 12, "h0", "soft0"}, {1, 13, "h1", "soft0,soft1"}};
  report.rows = {{8, 2, {1e-6, 0}, {2e-6, 3}}, {16, 4, {3e-6, 0}, {4e-6, 0}}};
  report.late_signals = 1;
  report.surroundings = {
      .cores = 2, .ranks_on_host = 4, .naps = 7, .others = OthersUse{0.9, 0.25}, .load = 3.5};
  return report;
}

TEST(PackedReport, ComesBackAsItWas) {
  Report back;
  ASSERT_TRUE(unpackReport(packReport(makeReport()), &back));
  EXPECT_EQ(jsonText(back), jsonText(makeReport()));
  EXPECT_EQ(surroundingsText(back), surroundingsText(makeReport()));
}

TEST(PackedReport, HalfOfOneIsNone) {
  Bytes bytes = packReport(makeReport());
  bytes.resize(bytes.size() / 2);
  Report back;
  EXPECT_FALSE(unpackReport(bytes, &back));
}

TEST(RunRecord, ARankStandsStillUntilItIsCompared) {
  auto record = RunRecord::create(1);
  ASSERT_OK(record);
  RankRecord& rank = (*record)->rank(0);
  std::atomic<bool> on = false;
  std::thread thread([&] {
    rank.standStill(std::chrono::minutes(1));
    on = true;
  });
  test::waitUntil([&] { return rank.still % 2 == 1; });
  EXPECT_FALSE(on);
  rank.compared = rank.still.load();
  thread.join();
  EXPECT_EQ(rank.still % 2, 0U);
  rank.standStill(std::chrono::seconds(0));  // no one compares
  EXPECT_EQ(rank.still % 2, 0U);
}

TEST(RunRecord, TheLauncherSeesWhatARankSaidThatIsGone) {
  auto record = RunRecord::create(2);
  ASSERT_OK(record);
  Report report;
  EXPECT_FALSE((*record)->latest(&report));
  const pid_t child = fork();
  if (child == 0) {
    auto attached = RunRecord::attach((*record)->fd());
    if (!attached.ok()) _exit(1);
    (*attached)->keep(makeReport());
    (*attached)->rank(1).received += 7;
    (*attached)->rank(1).end(RankEnding::kTold, "rank 0 is gone");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE((*record)->latest(&report));
  EXPECT_EQ(report.rank_lines.size(), 2U);
  EXPECT_EQ((*record)->rank(1).received, 7U);
  EXPECT_EQ((*record)->rank(1).ending, RankEnding::kTold);
  EXPECT_STREQ((*record)->rank(1).text, "rank 0 is gone");
  EXPECT_EQ((*record)->rank(0).ending, RankEnding::kSilent);
}

}  // namespace
}  // namespace railwise::cli
