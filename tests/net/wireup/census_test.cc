// The warning of a process whose connections come up slowly, without a network and in times of the test's
// own.
#include "net/wireup/census.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/ok.h"

namespace railwise::net {
namespace {

constexpr Clock::duration kAfter = std::chrono::seconds(10);

using Entries = std::vector<std::unique_ptr<Census::Entry>>;

void add(Census& census, Entries& entries, const std::string& peer, const std::string& heard) {
  entries.push_back(std::make_unique<Census::Entry>(census, peer, heard));
}

TEST(Census, SaysNothingBeforeItsTime) {
  Census census;
  const Census::Entry entry(census, "host7:1", "nothing heard");
  EXPECT_EQ(census.warningAt(Clock::now() + kAfter / 2, kAfter), "");
}

TEST(Census, NamesHostsWithTheirRanksAndWhatWasHeard) {
  Census census;
  Entries entries;
  for (int i = 0; i < 4; ++i) {
    add(census, entries, "host1:" + std::to_string(i), "nothing heard");
    entries.back()->up();
  }
  add(census, entries, "host7:1", "nothing heard");
  // The first one that waits begins the count anew, so these count as up.
  for (int i = 0; i < 2; ++i) {
    add(census, entries, "host1:" + std::to_string(i), "nothing heard");
    entries.back()->up();
  }
  add(census, entries, "host7:2", "nothing heard");
  add(census, entries, "host7:2", "nothing heard");  // two connections of one rank
  add(census, entries, "host9:5", "nothing heard");
  entries.back()->note("the call failed: Connection refused");
  add(census, entries, "", "nobody has called");
  EXPECT_EQ(
      census.warningAt(Clock::now() + kAfter, kAfter),
      "2 of 7 connections are up after 10 s; waiting for: host7 (2 ranks: nothing heard), host9 (1 rank: the "
      "call failed: Connection refused), 1 peer that has not called yet");
}

TEST(Census, WarnsOnceUntilAllAreUp) {
  Census census;
  auto first = std::make_unique<Census::Entry>(census, "a:1", "nothing heard");
  EXPECT_NE(census.warningAt(Clock::now() + kAfter, kAfter), "");
  EXPECT_EQ(census.warningAt(Clock::now() + 2 * kAfter, kAfter), "");
  first->up();
  EXPECT_EQ(census.warningAt(Clock::now() + 3 * kAfter, kAfter), "");
  const Census::Entry second(census, "a:1", "nothing heard");
  EXPECT_NE(census.warningAt(Clock::now() + 4 * kAfter, kAfter), "");
}

TEST(Census, AnAttemptThatIsGivenUpIsNotWaitedFor) {
  Census census;
  { const Census::Entry entry(census, "a:1", "nothing heard"); }
  EXPECT_EQ(census.warningAt(Clock::now() + kAfter, kAfter), "");
}

TEST(Census, ZeroSecondsMeanNoWarning) {
  Census census;
  const Census::Entry entry(census, "a:1", "nothing heard");
  EXPECT_EQ(census.warningAt(Clock::now() + kAfter, {}), "");
}

TEST(Census, NamesAFewOfMany) {
  Census census;
  Entries entries;
  for (int i = 10; i < 40; ++i) add(census, entries, "host" + std::to_string(i) + ":1", "nothing heard");
  const std::string text = census.warningAt(Clock::now() + kAfter, kAfter);
  EXPECT_HAS(text, "0 of 30");
  EXPECT_HAS(text, " and 22 more");
  EXPECT_LT(text.size(), 500U);
}

}  // namespace
}  // namespace railwise::net
