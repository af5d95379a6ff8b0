// The comparison of a record with what the devices of its process have counted.
#include "tests/campaign/record_check.h"

#include <gtest/gtest.h>

namespace railwise::cli {
namespace {

record::Rail makeRail(const std::string& device) {
  record::Rail rail;
  rail.device = device;
  rail.totals.bytes_sent = 1000;
  rail.totals.control_bytes = 24;
  rail.totals.work_requests = 15;
  rail.totals.completions = 7;
  return rail;
}

softdev::CountsRow makeRow(const std::string& device) {
  softdev::CountsRow row;
  row.host = "h0";
  row.device = device;
  row.counts.bytes = 1024;
  row.counts.writes = 5;
  row.counts.writes_with_imm = 4;
  row.counts.reads = 3;
  row.counts.sends = 2;
  row.counts.atomics = 1;
  row.counts.completions = 7;
  return row;
}

record::Snapshot makeRecord() {
  record::Snapshot snapshot;
  snapshot.rails = {makeRail("soft0"), makeRail("soft1")};
  return snapshot;
}

TEST(PerfRecordCheck, CountsThatAreEqualAgree) {
  EXPECT_TRUE(compareCounts(makeRecord(), {makeRow("soft0"), makeRow("soft1")}).empty());
}

TEST(PerfRecordCheck, TheRailsOfADeviceCountTogether) {
  record::Snapshot snapshot = makeRecord();
  snapshot.rails[1].device = "soft0";
  softdev::CountsRow both = makeRow("soft0");
  both.counts.bytes *= 2;
  both.counts.writes += 15;
  both.counts.completions *= 2;
  EXPECT_TRUE(compareCounts(snapshot, {both}).empty());
}

TEST(PerfRecordCheck, GetsCountAsTheDeviceCountsThem) {
  record::Snapshot snapshot = makeRecord();
  snapshot.rails[0].totals.bytes_received = snapshot.rails[0].totals.bytes_got = 500;
  snapshot.rails[1].totals.bytes_received = 700;  // written by the peer's device
  softdev::CountsRow gets = makeRow("soft0");
  gets.counts.bytes += 500;
  EXPECT_TRUE(compareCounts(snapshot, {gets, makeRow("soft1")}).empty());
}

TEST(PerfRecordCheck, OneOfEachCountIsSeen) {
  for (uint64_t softdev::Counters::*field :
       {&softdev::Counters::bytes, &softdev::Counters::writes, &softdev::Counters::writes_with_imm,
        &softdev::Counters::reads, &softdev::Counters::sends, &softdev::Counters::atomics,
        &softdev::Counters::completions}) {
    std::vector<softdev::CountsRow> rows = {makeRow("soft0"), makeRow("soft1")};
    ++(rows[1].counts.*field);
    const auto different = compareCounts(makeRecord(), rows);
    ASSERT_EQ(different.size(), 1U);
    EXPECT_EQ(different[0].device, "soft1");
    EXPECT_NE(different[0].record, different[0].device_says);
  }
}

TEST(PerfRecordCheck, ADeviceThatOneOfBothDoesNotKnowDiffers) {
  EXPECT_EQ(compareCounts(makeRecord(), {makeRow("soft0")}).size(), 1U);
  EXPECT_EQ(compareCounts(makeRecord(), {makeRow("soft0"), makeRow("soft1"), makeRow("soft2")}).size(), 1U);
}

TEST(PerfRecordCheck, AFolderOfItsOwnGoesWithTheRun) {
  std::string path;
  {
    const RecordFolder folder(nullptr);
    path = folder.path();
    EXPECT_EQ(access(path.c_str(), W_OK), 0) << path;
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << path;
  EXPECT_EQ(RecordFolder("/chosen").path(), "/chosen");
}

}  // namespace
}  // namespace railwise::cli
