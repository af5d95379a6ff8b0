// Families of samples from snapshots, and how Prometheus and OpenTelemetry are given them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "observe/metrics/family.h"
#include "ok.h"
#include "record/reader.h"
#include "record/record_builder.h"

namespace railwise::observe {
namespace {

using namespace record;
using test::RecordBuilder;

Snapshot snapshotOf(const RecordBuilder& record) {
  auto snapshot = parseRecord(record.bytes(), true, "test");
  EXPECT_OK(snapshot);
  return *snapshot;
}

std::string textOf(const std::vector<Snapshot>& snapshots) {
  return prometheusText(collectMetrics(snapshots, 0));
}

std::string textOf(const RecordBuilder& record) { return textOf(std::vector<Snapshot>{snapshotOf(record)}); }

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool hasLine(const std::string& text, const std::string& line) {
  const auto lines = linesOf(text);
  return std::ranges::find(lines, line) != lines.end();
}

const std::string kProcess = R"(pid="4242",rank="3",program="all_reduce_perf")";
const std::string kRail = kProcess + R"(,device="mlx5_0",port="1")";

TEST(Metrics, WithoutProcessesThereIsTheVersion) {
  EXPECT_EQ(textOf(std::vector<Snapshot>{}),
            "# HELP railwise_build_info Version of the railwise that wrote this; always 1.\n"
            "# TYPE railwise_build_info gauge\n"
            "railwise_build_info{version=\"" RAILWISE_VERSION
            "\"} 1\n"
            "# HELP railwise_records_unreadable Records of processes that were found and could not be read: "
            "damaged, or of another version.\n"
            "# TYPE railwise_records_unreadable gauge\n"
            "railwise_records_unreadable 0\n");
}

TEST(Metrics, TellOfRails) {
  RecordBuilder record;
  RailRecord& rail = record.rail("mlx5_0", 200000);
  rail.state = RailState::kDown;
  rail.counters.totals.bytes_sent = 17;
  rail.counters.errors[static_cast<int>(ErrorKind::kRemoteAccess)] = 4;
  const std::string text = textOf(record);
  EXPECT_TRUE(hasLine(text, "railwise_rail_sent_bytes_total{" + kRail + "} 17")) << text;
  EXPECT_TRUE(hasLine(text, "railwise_rail_speed_bytes_per_second{" + kRail + "} 2.5e+10"));
  EXPECT_TRUE(hasLine(text, "railwise_rail_state{" + kRail + ",state=\"down\"} 1"));
  EXPECT_TRUE(hasLine(text, "railwise_rail_state{" + kRail + ",state=\"up\"} 0"));
  EXPECT_TRUE(hasLine(text, "railwise_rail_errors_total{" + kRail + ",kind=\"remote_access\"} 4"));
  EXPECT_TRUE(hasLine(text, "railwise_rail_errors_total{" + kRail + ",kind=\"other\"} 0"));
  EXPECT_LACKS(text, "measured");
}

// Its message has come back since NCCL looked last; with nothing open NCCL does not look.
TEST(Metrics, AConnectionWithNothingOpenWaitsForNothing) {
  RecordBuilder record;
  record.rail("mlx5_0");
  ConnectionRecord& connection = record.connection(Side::kSender).connection;
  connection.waits_for = WaitsFor::kCompletion;
  connection.waits_since_ns = connection.oldest_since_ns = record.ago(70);
  connection.oldest = 7;
  connection.numbers.next = 8;
  const auto textAfter = [&](uint64_t complete) {
    connection.numbers.complete = connection.numbers.arrived = complete;
    Snapshot snapshot = snapshotOf(record);
    snapshot.read_ns = record.now_ns;
    return textOf({snapshot});
  };
  const auto saysSeconds = [](const std::string& text, const char* seconds) {
    return hasLine(text, "railwise_connection_longest_wait_seconds{" + kProcess +
                             ",waits_for=\"completion\"} " + seconds) &&
           hasLine(text, "railwise_oldest_message_age_seconds{" + kProcess + "} " + seconds);
  };
  EXPECT_TRUE(saysSeconds(textAfter(6), "70"));
  EXPECT_TRUE(saysSeconds(textAfter(7), "0"));
  EXPECT_TRUE(
      hasLine(textAfter(7), "railwise_connections_waiting{" + kProcess + ",waits_for=\"completion\"} 0"));
}

// NCCL asks for it all the time, so an old look is of a send that has been made since, or of NCCL that hangs.
TEST(Metrics, ASendThatNobodyAsksForWaitsForNoReceive) {
  RecordBuilder record;
  record.rail("mlx5_0");
  ConnectionRecord& connection = record.connection(Side::kSender).connection;
  connection.waits_for = WaitsFor::kClearToSend;
  connection.waits_since_ns = record.ago(70);
  const auto secondsAfterLook = [&](double ago_s) {
    connection.looked_ns = record.ago(ago_s);
    Snapshot snapshot = snapshotOf(record);
    snapshot.read_ns = record.now_ns;
    const std::string text = textOf({snapshot});
    const std::string name =
        "railwise_connection_longest_wait_seconds{" + kProcess + ",waits_for=\"clear_to_send\"} ";
    return hasLine(text, name + "70") ? 70 : hasLine(text, name + "0") ? 0 : -1;
  };
  EXPECT_EQ(secondsAfterLook(1), 70);
  EXPECT_EQ(secondsAfterLook(60), 0);
}

TEST(Metrics, TellOfConnectionsTogether) {
  RecordBuilder record;
  record.rail("mlx5_0");
  for (const double seconds : {20.0, 50.0}) {
    ConnectionRecord& connection = record.connection(Side::kReceiver).connection;
    connection.waits_for = WaitsFor::kData;
    connection.waits_since_ns = record.ago(seconds);
    connection.oldest = 1;
    connection.oldest_since_ns = record.ago(seconds);
    connection.counters.slow_messages = 2;
    connection.counters.lost_ns = 1500000000;
  }
  record.connection(Side::kSender, ConnectionState::kFailed).connection.degraded = 1;
  Snapshot snapshot = snapshotOf(record);
  snapshot.read_ns = record.now_ns;
  const std::string text = textOf({snapshot});
  EXPECT_TRUE(hasLine(text, "railwise_connections{" + kProcess + ",state=\"running\"} 2")) << text;
  EXPECT_TRUE(hasLine(text, "railwise_connections{" + kProcess + ",state=\"failed\"} 1"));
  EXPECT_TRUE(hasLine(text, "railwise_connections_waiting{" + kProcess + ",waits_for=\"data\"} 2"));
  EXPECT_TRUE(
      hasLine(text, "railwise_connection_longest_wait_seconds{" + kProcess + ",waits_for=\"data\"} 50"));
  EXPECT_TRUE(
      hasLine(text, "railwise_connection_longest_wait_seconds{" + kProcess + ",waits_for=\"path\"} 0"));
  EXPECT_TRUE(hasLine(text, "railwise_oldest_message_age_seconds{" + kProcess + "} 50"));
  EXPECT_TRUE(hasLine(text, "railwise_connections_degraded{" + kProcess + "} 1"));
  EXPECT_TRUE(hasLine(text, "railwise_slow_messages_total{" + kProcess + "} 4"));
  EXPECT_TRUE(hasLine(text, "railwise_connection_lost_seconds_total{" + kProcess + "} 3"));
}

TEST(Metrics, TellOfOneSidedCommunication) {
  RecordBuilder record;
  record.rail("mlx5_0");
  ConnectionRecord& writer = record.connection(Side::kSender).connection;
  writer.kind = ConnectionKind::kOneSided;
  writer.numbers.next = 11;
  writer.one_sided = {.put_bytes = 100, .get_bytes = 50, .gets = 3, .signals = 6};
  for (const double seconds : {2.0, 30.0}) {
    ConnectionRecord& target = record.connection(Side::kReceiver).connection;
    target.kind = ConnectionKind::kOneSided;
    target.numbers.arrived = 20;
    target.one_sided.last_signal_ns = record.ago(seconds);
  }
  record.header().closed.one_sided = {.puts = 1000,
                                      .put_bytes = 1,
                                      .gets = 2000,
                                      .get_bytes = 3,
                                      .signals_sent = 4000,
                                      .signals_applied = 5000};
  Snapshot snapshot = snapshotOf(record);
  snapshot.read_ns = record.now_ns;
  const std::string text = textOf({snapshot});
  EXPECT_TRUE(hasLine(text, "railwise_puts_total{" + kProcess + "} 1007")) << text;
  EXPECT_TRUE(hasLine(text, "railwise_put_bytes_total{" + kProcess + "} 101"));
  EXPECT_TRUE(hasLine(text, "railwise_gets_total{" + kProcess + "} 2003"));
  EXPECT_TRUE(hasLine(text, "railwise_get_bytes_total{" + kProcess + "} 53"));
  EXPECT_TRUE(hasLine(text, "railwise_signals_sent_total{" + kProcess + "} 4006"));
  EXPECT_TRUE(hasLine(text, "railwise_signals_applied_total{" + kProcess + "} 5040"));
  EXPECT_TRUE(hasLine(text, "railwise_signal_age_newest_seconds{" + kProcess + "} 2"));
  EXPECT_TRUE(hasLine(text, "railwise_signal_age_oldest_seconds{" + kProcess + "} 30"));
}

// A counter never becomes less when connections close.
TEST(Metrics, CountsOfClosedConnectionsStay) {
  RecordBuilder record;
  ConnectionRecord& connection = record.connection(Side::kSender).connection;
  connection.counters.slow_messages = 2;
  connection.latency[10] = 5;
  ClosedConnections& closed = record.header().closed;
  closed.connections = 3;
  closed.counters.slow_messages = 40;
  closed.latency[10] = 700;
  const std::string text = textOf(record);
  EXPECT_TRUE(hasLine(text, "railwise_closed_connections_total{" + kProcess + "} 3")) << text;
  EXPECT_TRUE(hasLine(text, "railwise_slow_messages_total{" + kProcess + "} 42"));
  EXPECT_TRUE(hasLine(text, "railwise_message_latency_seconds_count{" + kProcess + "} 705"));
}

TEST(Metrics, HistogramsAreCumulative) {
  RecordBuilder record;
  ConnectionRecord& connection = record.connection(Side::kSender).connection;
  connection.latency[0] = 1;   // below the first bucket
  connection.latency[10] = 2;  // 1 to 2 us
  connection.latency[31] = 4;  // beyond the last bucket
  const std::string text = textOf(record);
  const auto bucket = [&](const std::string& le) {
    return "railwise_message_latency_seconds_bucket{" + kProcess + ",le=\"" + le + "\"} ";
  };
  EXPECT_TRUE(hasLine(text, bucket("1.024e-06") + "1")) << text;
  EXPECT_TRUE(hasLine(text, bucket("2.048e-06") + "3"));
  EXPECT_TRUE(hasLine(text, bucket("2.147483648") + "3"));
  EXPECT_TRUE(hasLine(text, bucket("+Inf") + "7"));
  EXPECT_TRUE(hasLine(text, "railwise_message_latency_seconds_count{" + kProcess + "} 7"));
}

TEST(Metrics, ASpyCountsCallsOnly) {
  RecordBuilder plugin;
  plugin.rail("mlx5_0");
  RecordBuilder spy;
  spy.header().spy = 1;
  spy.rail("mlx5_0");
  ConnectionRecord& connection = spy.connection(Side::kReceiver).connection;
  connection.calls[3] = {.calls = 9, .idle = 8, .ns = 2500000000};
  connection.group_sizes[1] = 3;
  const std::string both = textOf({snapshotOf(plugin), snapshotOf(spy)});
  EXPECT_TRUE(hasLine(both, "railwise_spy_calls_total{" + kProcess + ",function=\"test\"} 9")) << both;
  EXPECT_TRUE(hasLine(both, "railwise_spy_idle_calls_total{" + kProcess + ",function=\"test\"} 8"));
  EXPECT_TRUE(hasLine(both, "railwise_spy_call_seconds_total{" + kProcess + ",function=\"test\"} 2.5"));
  EXPECT_TRUE(hasLine(both, "railwise_spy_grouped_receives_total{" + kProcess + ",buffers=\"2\"} 3"));
  EXPECT_TRUE(hasLine(both, "railwise_connections{" + kProcess + ",state=\"running\"} 0"));
  EXPECT_TRUE(hasLine(textOf(spy), "railwise_connections{" + kProcess + ",state=\"running\"} 1"));
  EXPECT_LACKS(textOf(plugin), "railwise_spy");
}

// Prometheus refuses a page on which two samples have equal labels.
void expectUniqueSamples(const std::string& text) {
  std::set<std::string> seen;
  for (const std::string& line : linesOf(text)) {
    if (line[0] == '#') continue;
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
}

TEST(Metrics, ProcessesOfTwoContainersMayHaveOneNumber) {
  RecordBuilder first;
  first.rail("mlx5_0");
  RecordBuilder second;
  second.rail("mlx5_0");
  second.header().process_start = 888;
  const Snapshot snapshot = snapshotOf(first);
  const std::string text = textOf({snapshot, snapshotOf(second), snapshot});
  expectUniqueSamples(text);
  EXPECT_HAS(text, "pid=\"4242-888\"");
}

TEST(Metrics, AHostileRecordMakesNoWrongPage) {
  RecordBuilder record;
  RecordBuilder::setText(record.header().program, "a\"b\\c\nd");
  record.rail("x\"} 1\nevil 2");
  record.rail("x\"} 1\nevil 2");
  record.header().started_unix_ns = UINT64_MAX;
  record.connection(Side::kSender).queue_pairs[0].bytes = UINT64_MAX;
  const std::string text = textOf(record);
  expectUniqueSamples(text);
  const std::regex sample(R"re([a-z_]+(\{([a-z_]+="([^"\\]|\\\\|\\"|\\n)*",?)*\})? [-+0-9.e]+)re");
  for (const std::string& line : linesOf(text))
    if (line[0] != '#') EXPECT_TRUE(std::regex_match(line, sample)) << line;
  EXPECT_HAS(text, R"(program="a\"b\\c?d")");
}

TEST(Metrics, OtlpHasAResourceForEachProcess) {
  RecordBuilder record;
  RecordBuilder::setText(record.header().host, "node1:4242");
  record.rail("mlx5_0").counters.totals.bytes_sent = 17;
  record.connection(Side::kSender).connection.latency[10] = 2;
  const std::string line = otlpLine(collectMetrics(std::vector<Snapshot>{snapshotOf(record)}, 0));
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  const auto request = nlohmann::json::parse(line);
  ASSERT_EQ(request["resourceMetrics"].size(), 2U);
  const auto& process = request["resourceMetrics"][1];
  EXPECT_EQ(process["resource"]["attributes"][1]["value"]["stringValue"], "node1");
  const auto named = [&](const std::string& name) {
    for (const auto& metric : process["scopeMetrics"][0]["metrics"])
      if (metric["name"] == name) return metric;
    return nlohmann::json();
  };
  const auto sent = named("railwise.rail_sent");
  EXPECT_EQ(sent["unit"], "By");
  EXPECT_EQ(sent["sum"]["isMonotonic"], true);
  EXPECT_EQ(sent["sum"]["aggregationTemporality"], 2);
  EXPECT_EQ(sent["sum"]["dataPoints"][0]["asInt"], "17");
  EXPECT_EQ(sent["sum"]["dataPoints"][0]["startTimeUnixNano"],
            std::to_string(record.header().started_unix_ns));
  const auto latency = named("railwise.message_latency")["histogram"]["dataPoints"][0];
  EXPECT_EQ(latency["count"], "2");
  EXPECT_EQ(latency["bucketCounts"].size(), latency["explicitBounds"].size() + 1);
  EXPECT_EQ(latency["bucketCounts"][1], "2");
}

}  // namespace
}  // namespace railwise::observe
