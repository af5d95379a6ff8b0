// What a process did last, in words: src/observe/stuck/postmortem.

#include <cstdlib>

#include "observe/stuck/diagnosis.h"
#include "tests/ok.h"

namespace railwise::observe {
namespace {

using record::EventKind;

constexpr uint64_t kSecond = 1000000000;

// A sentence may be broken anywhere.
std::string inOneLine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == '\n' || c == ' ';
    if (!blank || !line.ends_with(' ')) line += blank ? ' ' : c;
  }
  return line;
}

// Rank 3, killed 100 s after its start, at 12:00:00 UTC, with a message open for 3.2 s.
record::Snapshot killed() {
  setenv("TZ", "UTC", 1);
  record::Snapshot snapshot;
  record::Process& process = snapshot.process;
  process.host = "gpu1";
  process.pid = 4242;
  process.rank = 3;
  process.program = "python3";
  process.plugin = "Railwise 0.1.0";
  process.started_ns = 10 * kSecond;
  process.started_unix_ns = 1763985600 * kSecond;
  snapshot.read_ns = 999 * kSecond;
  record::Rail& rail = snapshot.rails.emplace_back();
  rail.device = "mlx5_1";
  rail.port = 1;
  rail.state = record::RailState::kUp;
  record::Connection& connection = snapshot.connections.emplace_back();
  connection.slot = 7;
  connection.id = 70;
  connection.state = record::ConnectionState::kRunning;
  connection.device = "mlx5_1";
  connection.peer = "gpu2:4411";
  connection.oldest = 5127;
  connection.oldest_bytes = 1 << 20;
  connection.oldest_since_ns = 106800 * (kSecond / 1000);
  connection.looked_ns = 110 * kSecond;
  connection.posted = 5128;
  connection.completed = 5126;
  connection.waits_for = record::WaitsFor::kCompletion;
  connection.pairs.push_back({.rail = 0, .peer_device = "mlx5_1", .peer_port = 1});
  return snapshot;
}

void addEvent(record::Snapshot& snapshot, EventKind kind, double at_s, const std::string& text = "") {
  record::Event& event = snapshot.events.emplace_back();
  event.number = snapshot.events.size();
  event.at_ns = static_cast<uint64_t>(at_s * 1e9);
  event.kind = kind;
  event.slot = 7;
  event.connection_id = 70;
  event.text = text;
}

TEST(Postmortem, SaysHowTheProcessEndedAndWhatWasOpen) {
  EXPECT_EQ(postmortemVerdict(killed()),
            "rank 3 (gpu1:4242) did not end in order (killed, crashed, or left after an error) while 1 "
            "connection waited, the longest 3.2 s for gpu2:4411; its record shows no failure before");
}

TEST(Postmortem, NamesTheFirstThingThatWentWrongAndDidNotEnd) {
  record::Snapshot snapshot = killed();
  addEvent(snapshot, EventKind::kPathLost, 20);
  addEvent(snapshot, EventKind::kPathFound, 21);
  addEvent(snapshot, EventKind::kPathLost, 97.6, "retry exceeded");
  addEvent(snapshot, EventKind::kFailed, 109);
  EXPECT_HAS(postmortemVerdict(snapshot),
             "the first thing that went wrong: path lost, connection 7 to gpu2:4411 (epoch 0): retry "
             "exceeded, 12.4 s before its last sign of life");
}

TEST(Postmortem, APathThatIsLostAgainAndAgainIsTheFirstTroubleOfASlowMessage) {
  record::Snapshot snapshot = killed();
  addEvent(snapshot, EventKind::kPathLost, 100.5, "nothing has come back");
  addEvent(snapshot, EventKind::kPathFound, 100.6);
  addEvent(snapshot, EventKind::kSlowMessage, 101);
  snapshot.events.back().numbers = {5127, 2000, 0};
  EXPECT_HAS(postmortemVerdict(snapshot), "the first thing that went wrong: path lost");
}

TEST(Postmortem, APathThatWasLostWhileTheOpenMessageWaitedCounts) {
  record::Snapshot snapshot = killed();  // a message is open since 106.8 s
  addEvent(snapshot, EventKind::kPathLost, 50);
  addEvent(snapshot, EventKind::kPathFound, 50.1);
  EXPECT_HAS(postmortemVerdict(snapshot), "shows no failure before");
  addEvent(snapshot, EventKind::kPathLost, 107);
  addEvent(snapshot, EventKind::kPathFound, 107.1);
  EXPECT_HAS(postmortemVerdict(snapshot), "went wrong: path lost, connection 7");
}

TEST(Postmortem, DescribesTheOpenPut) {
  record::Snapshot snapshot = killed();
  record::Connection& writer = snapshot.connections[0];
  writer.kind = record::ConnectionKind::kOneSided;
  writer.waits_for = record::WaitsFor::kCredit;
  writer.one_sided.signals = 5100;
  writer.one_sided.gets_open = 2;
  addEvent(snapshot, EventKind::kSlowMessage, 108);
  snapshot.events.back().connection_id = writer.id;
  snapshot.events.back().numbers = {5127, 2000, 0};
  const std::string text = inOneLine(postmortemText(snapshot, 40));
  EXPECT_HAS(
      text,
      "operation 5127 (1.0 MiB) had waited for 3.2 s at its last sign of life, waiting for the progress of "
      "the peer over mlx5_1 port 1 -> mlx5_1 port 1; 5126 of 5128 operations are done, 5100 "
      "signals, 2 gets under way ");
  EXPECT_HAS(text, "slow message, connection 7 to gpu2:4411 (operation 5127,");
}

TEST(Postmortem, DescribesTheOpenMessage) {
  const std::string text = inOneLine(postmortemText(killed(), 40));
  EXPECT_HAS(
      text,
      "connection 7 to gpu2:4411 (mlx5_1): message 5127 (1.0 MiB) had waited for 3.2 s at its last sign "
      "of life, waiting for the completion of the NIC over mlx5_1 port 1 -> mlx5_1 port 1; last complete: ");
}

// Nothing in the record says when a killed process ended: it may have been stopped for hours before.
TEST(Postmortem, TheEndOfAKilledProcessIsNotKnown) {
  record::Snapshot snapshot = killed();
  addEvent(snapshot, EventKind::kPortDown, 100);
  const std::string text = postmortemText(snapshot, 40);
  EXPECT_HAS(text, "\nLast sign of life: ");
  EXPECT_HAS(text, "times are before the last sign of life");
  EXPECT_LACKS(text, "Ended: ");
  EXPECT_HAS(postmortemJson(snapshot, 40), "\"ended\": null");
}

TEST(Postmortem, EventsHaveBothTimes) {
  record::Snapshot snapshot = killed();
  addEvent(snapshot, EventKind::kPortDown, 100);
  const std::string text = postmortemText(snapshot, 40);
  EXPECT_HAS(text, "-10.0 s * 12:01:30.000 port down, connection 7 to gpu2:4411");
}

TEST(Postmortem, TellsTheLastCompleteMessageOfAConnection) {
  record::Snapshot snapshot = killed();
  record::Connection& sender = snapshot.connections[0];
  sender.epoch = 1;
  sender.queue_pairs.resize(2);
  sender.queue_pairs[0].bytes = sender.queue_pairs[1].bytes = uint64_t{2563} << 20;
  record::Connection idle = sender;
  idle.slot = 8;
  idle.side = record::Side::kReceiver;
  idle.peer = "gpu5:77";
  idle.oldest = 0;
  idle.posted = idle.completed = 900;
  idle.waits_for = record::WaitsFor::kNothing;
  snapshot.connections.push_back(idle);
  const std::string text = inOneLine(postmortemText(snapshot, 40));
  EXPECT_HAS(text,
             "last complete: message 5126, at the latest 3.2 s before its last sign of life "
             "(12:01:36.800); 5.0 GiB so far, 1.0 MiB each on average");
  EXPECT_HAS(text, "connection 8 from gpu5:77 (mlx5_1): no message is under way; last complete: receive 900");
}

TEST(Postmortem, FailuresStandBeforeTheConnectionsThatCameUp) {
  record::Snapshot snapshot = killed();
  addEvent(snapshot, EventKind::kPathLost, 20, "retry exceeded");
  for (int i = 0; i < 100; ++i) addEvent(snapshot, EventKind::kConnected, 30 + i * 0.1);
  const std::string text = postmortemText(snapshot, 10);
  const std::size_t failure = text.find("* 12:00:10.000 path lost");
  ASSERT_NE(failure, std::string::npos) << text;
  EXPECT_LT(failure, text.find(" connected, connection 7")) << text;
  EXPECT_HAS(postmortemJson(snapshot, 10), "path lost");
}

TEST(Postmortem, SaysThatFailoverIsOff) {
  record::Snapshot snapshot = killed();
  EXPECT_LACKS(postmortemText(snapshot, 40), "RAILWISE_FAILOVER");
  snapshot.connections[0].failover = record::Failover::kOff;
  EXPECT_HAS(postmortemText(snapshot, 40), "RAILWISE_FAILOVER=0");
}

TEST(Postmortem, ShowsAsManyEventsAsAskedFor) {
  record::Snapshot snapshot = killed();
  for (int i = 0; i < 10; ++i)
    addEvent(snapshot, EventKind::kOtherEvent, 100 + i, "event" + std::to_string(i));
  const std::string text = postmortemText(snapshot, 2);
  EXPECT_LACKS(text, "event7");
  EXPECT_HAS(text, "The last 2 events");
  EXPECT_HAS(text, "event8");
}

TEST(Postmortem, AProcessThatEndedInOrderOrLivesIsNotCalledKilled) {
  record::Snapshot snapshot = killed();
  snapshot.process.ended_ns = 111 * kSecond;
  EXPECT_HAS(postmortemVerdict(snapshot), "ended in order");
  EXPECT_HAS(postmortemText(snapshot, 40), "\nEnded: ");
  snapshot.process.ended_ns = 0;
  snapshot.process.alive = true;
  EXPECT_HAS(postmortemVerdict(snapshot), "lives while 1 connection waits");
}

TEST(Postmortem, OddRecordsAreDescribedToo) {
  record::Snapshot snapshot;
  snapshot.process.started_ns = UINT64_MAX;
  snapshot.connections.emplace_back().pairs.push_back({.rail = 9});
  addEvent(snapshot, EventKind::kPathFound, 0, "a\x1b[2J");
  snapshot.events[0].numbers = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  const std::string text = postmortemText(snapshot, 40);
  EXPECT_LACKS(text, "\x1b");
  EXPECT_FALSE(postmortemJson(snapshot, 40).empty());
}

TEST(Postmortem, JsonHasTheVerdictAndTheEvents) {
  record::Snapshot snapshot = killed();
  addEvent(snapshot, EventKind::kPortDown, 100);
  const std::string json = postmortemJson(snapshot, 40);
  EXPECT_HAS(json, "\"schema\": \"railwise-postmortem\"");
  EXPECT_HAS(json, "\"before_end_ms\": 10000");
}

}  // namespace
}  // namespace railwise::observe
