#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "perf/measuring/measuring.h"
#include "tests/wait.h"

namespace railwise::cli {
namespace {

// A file as /proc/stat is, in ticks of which a second has kTicks.
class ProcStat {
 public:
  ProcStat() { write("cpu  1000 20 300 9000 50 6 7 80 10 0"); }
  ProcStat(const ProcStat&) = delete;
  ProcStat& operator=(const ProcStat&) = delete;
  ~ProcStat() { std::remove(path_.c_str()); }
  void write(const std::string& line) { std::ofstream(path_) << line << "\ncpu0 1 2 3 4 5 6 7 8 0 0\n"; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "proc_stat_" + std::to_string(getpid());
};

TEST(MachineUse, TellsOthersFromWhatIsMeasured) {
  ProcStat stat;
  const MachineUse use(stat.path());
  stat.write("cpu  1300 20 400 9500 50 6 7 180 10 0");  // of 1000 ticks 400 busy, 100 stolen
  const double own_seconds = 150.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto others = use.since(own_seconds);
  ASSERT_TRUE(others);
  EXPECT_DOUBLE_EQ(others->processes, 0.25);
  EXPECT_DOUBLE_EQ(others->hypervisor, 0.1);
  EXPECT_TRUE(others->worthSaying());
  EXPECT_EQ(others->text(), "other processes had 25 % of its CPU time, the hypervisor 10 %");
}

TEST(MachineUse, SaysNothingOfAnIdleMachine) {
  ProcStat stat;
  const MachineUse use(stat.path());
  stat.write("cpu  1100 20 300 9900 50 6 7 80 10 0");
  const auto others = use.since(99.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  ASSERT_TRUE(others);
  EXPECT_FALSE(others->worthSaying());
}

TEST(MachineUse, CannotTellOfAMoment) {
  ProcStat stat;
  const MachineUse use(stat.path());
  stat.write("cpu  1010 20 300 9010 50 6 7 80 10 0");
  EXPECT_FALSE(use.since(0));
}

TEST(MachineUse, CannotTellWithoutTheFile) {
  EXPECT_FALSE(MachineUse("/nowhere/stat").since(0));
  ProcStat stat;
  stat.write("intr 1 2 3");
  EXPECT_FALSE(MachineUse(stat.path()).since(0));
}

TEST(MachineUse, ReadsThisMachine) {
  const MachineUse use;
  const double before = ownCpuSeconds();
  for (test::Patience patience; !use.since(0); patience.again()) continue;
  const auto others = use.since(ownCpuSeconds() - before);
  EXPECT_LE(others->processes, use.since(0)->processes);
  EXPECT_GE(usableCpus(), 1);
}

}  // namespace
}  // namespace railwise::cli
