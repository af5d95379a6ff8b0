// What perf says of failures that a run has survived.
#include <gtest/gtest.h>

#include "perf/context.h"

namespace railwise::cli {
namespace {

record::Rail rail(const std::string& device, uint64_t failovers, uint64_t returns) {
  record::Rail made;
  made.device = device;
  made.port = 1;
  made.failovers = failovers;
  made.returns = returns;
  return made;
}

record::Event event(record::EventKind kind, uint64_t us) {
  record::Event made;
  made.kind = kind;
  made.numbers = {2, us, 0};
  return made;
}

TEST(PerfSurvived, NothingIsSaidWhereNothingFailed) {
  record::Snapshot calm;
  calm.rails = {rail("soft0", 0, 0)};
  calm.events = {event(record::EventKind::kConnected, 77)};
  EXPECT_EQ(survivedText({}), "");
  EXPECT_EQ(survivedText({calm}), "");
}

TEST(PerfSurvived, SumsPortsOverRanks) {
  record::Snapshot one, two;
  one.rails = {rail("soft0", 3, 2), rail("soft1", 0, 0)};
  one.events = {event(record::EventKind::kPathFound, 41500),
                event(record::EventKind::kSlowMessage, 9'000'000)};
  two.rails = {rail("soft0", 1, 1), rail("soft1", 5, 0)};
  two.events = {event(record::EventKind::kPathFound, 900)};
  EXPECT_EQ(survivedText({one, two}),
            "# soft0 port 1 failed: 4 ends of connections noticed it and told their peers; 3 ends moved back "
            "later\n"
            "# soft1 port 1 failed: 5 ends of connections noticed it and told their peers; 0 ends moved back "
            "later\n"
            "# Longest time that a connection was without a path: 41.5 ms from when it noticed (--timeline "
            "shows how long data paused)\n");
}

}  // namespace
}  // namespace railwise::cli
