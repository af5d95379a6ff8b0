#include "net/device/path_news.h"

#include <gtest/gtest.h>

namespace railwise::net {
namespace {

using std::chrono::microseconds;

TEST(PathNews, TellsWhichPathIsSuspectedSince) {
  PathNews news;
  news.suspect(7);
  const uint64_t since = news.suspicions();
  EXPECT_FALSE(news.suspectedSince(since, 7));
  news.suspect(8);
  news.suspect(9);
  EXPECT_EQ(news.suspicions(), since + 2);
  EXPECT_TRUE(news.suspectedSince(since, 8));
  EXPECT_TRUE(news.suspectedSince(since, 9));
  EXPECT_FALSE(news.suspectedSince(since, 7));
  EXPECT_FALSE(news.suspectedSince(since + 1, 8));
}

TEST(PathNews, OfManySuspicionsEachPathMayBeMeant) {
  PathNews news;
  for (uint64_t path = 100; path < 116; ++path) news.suspect(path);
  EXPECT_FALSE(news.suspectedSince(0, 7));
  news.suspect(116);
  EXPECT_TRUE(news.suspectedSince(0, 7));
}

TEST(RoundTrips, KnowTheLongestOfLate) {
  RoundTrips trips;
  for (int i = 0; i < 15; ++i) trips.note(microseconds(10));
  EXPECT_FALSE(trips.longest());
  trips.note(microseconds(500));
  EXPECT_EQ(trips.longest(), microseconds(500));
  trips.note(microseconds(10));
  EXPECT_GT(*trips.longest(), microseconds(490));
  for (int i = 0; i < 1000; ++i) trips.note(microseconds(10));
  EXPECT_EQ(trips.longest(), microseconds(10));
}

}  // namespace
}  // namespace railwise::net
