// What `railwise stuck` would say of the ranks of a fault run, and when it is right.
#include "tests/campaign/stall_watch.h"

#include <gtest/gtest.h>

namespace railwise::cli {
namespace {

observe::Diagnosis makeDiagnosis(observe::CulpritKind kind, const std::string& name) {
  observe::Diagnosis diagnosis;
  diagnosis.culprits.push_back({.kind = kind, .name = name});
  diagnosis.culprits.push_back({.kind = observe::CulpritKind::kFailedRail, .name = "h3 soft3 port 1"});
  return diagnosis;
}

TEST(PerfStall, AVerdictMustNameARailThatIsBroken) {
  using Kind = observe::CulpritKind;
  const std::vector<std::string> broken = {"h1/soft0", "h2/soft1"};
  EXPECT_TRUE(namesBroken(makeDiagnosis(Kind::kFailedRail, "h1 soft0 port 1"), broken));
  EXPECT_TRUE(namesBroken(makeDiagnosis(Kind::kFailedRail, "h0 soft0 port 1 - h2 soft1 port 1"), broken));
  EXPECT_TRUE(namesBroken(makeDiagnosis(Kind::kSilentRail, "h0 soft0 port 1 -> h1 soft0 port 1"), broken));
  EXPECT_TRUE(namesBroken(makeDiagnosis(Kind::kFailedConnection, "h0 soft0 - h1 soft0"), broken));
}

TEST(PerfStall, AnotherRailOrAnotherCauseIsWrong) {
  using Kind = observe::CulpritKind;
  const std::vector<std::string> broken = {"h1/soft0", "h3/soft3"};
  EXPECT_FALSE(namesBroken(makeDiagnosis(Kind::kFailedRail, "h1 soft1 port 1"), broken));
  EXPECT_FALSE(namesBroken(makeDiagnosis(Kind::kFailedRail, "h11 soft0 port 1"), broken));
  EXPECT_FALSE(namesBroken(makeDiagnosis(Kind::kFailedConnection, "h0 soft2 - h1 soft01"), broken));
  EXPECT_FALSE(namesBroken(makeDiagnosis(Kind::kLateProcess, "rank 1 (h1:77)"), broken));
  EXPECT_FALSE(namesBroken(makeDiagnosis(Kind::kFailedRail, "h1 soft0 port 1"), {}));
  EXPECT_FALSE(namesBroken({}, broken));
}

TEST(PerfStall, EachRankIsAHostOfItsOwn) {
  std::vector<record::Snapshot> records(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    records[rank].process.pid = 100 + rank;
    records[rank].process.host = "here:" + std::to_string(100 + rank);
    record::Connection& connection = records[rank].connections.emplace_back();
    connection.state = record::ConnectionState::kRunning;
    connection.peer = "here:" + std::to_string(101 - rank);
  }
  const auto hosts = hostsOfRanks({}, records, {100, 101});
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[1].name, "h1");
  EXPECT_EQ(hosts[1].processes[0].host, "h1");
  EXPECT_EQ(hosts[1].processes[0].connections[0].peer, "h0:100");
}

}  // namespace
}  // namespace railwise::cli
