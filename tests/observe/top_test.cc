// What railwise top makes of two reads: rates, the order of the news, lines of any width, JSON.

#include <deque>
#include <nlohmann/json.hpp>

#include "observe/snapshots.h"
#include "observe/top/model.h"
#include "observe/top/screen.h"
#include "observe/top/text.h"
#include "tests/ok.h"

namespace railwise::observe::top {
namespace {

using namespace test;
using record::ConnectionState;
using record::RailState;
using record::Snapshot;

constexpr uint64_t kGiga = 1000000000;

// The model points into the later read, which is kept here.
Model modelOf(const std::vector<Snapshot>& before, const std::vector<Snapshot>& now) {
  static std::deque<std::vector<Snapshot>> kept;
  return makeModel(before, kept.emplace_back(now), {}, "/dev/shm");
}

// Makes the model of one read, which stands for both.
Model modelOf(const std::vector<Snapshot>& now) {
  std::vector<Snapshot> before;
  for (const Snapshot& snapshot : now) before.push_back(secondBefore(snapshot));
  return modelOf(before, now);
}

std::string newsText(const Model& model) {
  std::string text;
  for (const News& news : model.news) text += (text.empty() ? "" : "; ") + news.text;
  return text;
}

// Two processes on two rails: one is down, a connection has lost its path, others wait.
std::vector<Snapshot> makeTrouble() {
  std::vector<record::Rail> rails = {makeRail("mlx5_0"), makeRail("mlx5_1")};
  rails[1].state = RailState::kDown;
  rails[1].state_since_ns = kNow - 90 * kSecond;
  rails[1].errors[0] = 3;
  rails[1].failovers = 2;
  return {makeSnapshot(4210, 2, rails, {makeWaiting(0, 34 * kSecond), makeWaiting(1, 3 * kSecond)}),
          makeSnapshot(4211, 3, rails, {makeLost(0, 12 * kSecond), makeConnection(1)})};
}

// ---- rates

TEST(TopModel, RatesAreGrowthBetweenTheReads) {
  auto now = makeSnapshot(1, 0, {makeRail("mlx5_0", 50 * kGiga, 9 * kGiga)}, {makeConnection(0)});
  now.connections[0].queue_pairs[0].bytes = 30 * kGiga;
  auto before = secondBefore(now);
  before.read_ns -= kSecond;  // two seconds in all
  before.rails[0].totals.bytes_sent = 10 * kGiga;
  before.rails[0].totals.bytes_received = 8 * kGiga;
  before.connections[0].queue_pairs[0].bytes = 10 * kGiga;
  before.connections[0].completed -= 10;
  const Model model = modelOf({before}, {now});
  EXPECT_DOUBLE_EQ(model.interval_s, 2);
  EXPECT_DOUBLE_EQ(model.rails[0].traffic.bytes_out, 20e9);
  EXPECT_DOUBLE_EQ(model.rails[0].traffic.bytes_in, 0.5e9);
  EXPECT_DOUBLE_EQ(model.rails[0].load(), 0.4);  // of 50 GB/s
  EXPECT_DOUBLE_EQ(model.processes[0].traffic.bytes_out, 20e9);
  EXPECT_DOUBLE_EQ(model.connections[0].traffic.bytes_out, 10e9);
  EXPECT_DOUBLE_EQ(model.connections[0].traffic.messages_out, 5);
}

TEST(TopModel, ARailIsTheSumOfItsProcesses) {
  std::vector<Snapshot> now = {makeSnapshot(1, 0, {makeRail("mlx5_0", 3 * kGiga)}, {}),
                               makeSnapshot(2, 1, {makeRail("mlx5_1"), makeRail("mlx5_0", 4 * kGiga)}, {})};
  std::vector<Snapshot> before = {secondBefore(now[0]), secondBefore(now[1])};
  before[0].rails[0].totals.bytes_sent = before[1].rails[1].totals.bytes_sent = 2 * kGiga;
  const Model model = modelOf(before, now);
  ASSERT_EQ(model.rails.size(), 2U);
  EXPECT_EQ(model.rails[0].device, "mlx5_0");
  EXPECT_EQ(model.rails[0].processes, 2U);
  EXPECT_EQ(model.rails[0].totals.bytes_sent, 7 * kGiga);
  EXPECT_DOUBLE_EQ(model.rails[0].traffic.bytes_out, 3e9);
  EXPECT_DOUBLE_EQ(model.sums.traffic.bytes_out, 3e9);
}

TEST(TopModel, ProcessesOfOneHostShareItsRails) {
  std::vector<Snapshot> now = {makeSnapshot(1, 0, {makeRail("mlx5_0")}, {}),
                               makeSnapshot(2, 1, {makeRail("mlx5_0")}, {})};
  now[0].process.host = "node3:1";
  now[1].process.host = "node3:2";
  EXPECT_EQ(modelOf(now).rails.size(), 1U);
  EXPECT_EQ(modelOf(now).host(), "node3");
  now[1].process.host = "node4:2";  // a software machine plays several
  const Model model = modelOf(now);
  EXPECT_EQ(model.rails.size(), 2U);
  EXPECT_EQ(model.host(), "");
  EXPECT_HAS(plainText(frameOf(model, {}), {}), "node4 mlx5_0:1");
}

TEST(TopModel, CountersThatGoBackSayNothing) {
  const auto before = secondBefore(makeSnapshot(1, 0, {makeRail("mlx5_0", 50 * kGiga)}, {makeConnection(0)}));
  auto now = makeSnapshot(1, 0, {makeRail("mlx5_0", 10 * kGiga)}, {makeConnection(0)});
  now.connections[0].completed = now.connections[0].posted = 3;
  const Model model = modelOf({before}, {now});
  EXPECT_DOUBLE_EQ(model.rails[0].traffic.bytes_out, 0);
  EXPECT_DOUBLE_EQ(model.connections[0].traffic.messages_out, 0);
}

TEST(TopModel, WhatIsNewHasNoRateYet) {
  const auto now = makeSnapshot(1, 0, {makeRail("mlx5_0", 50 * kGiga)}, {makeConnection(0)});
  auto other = secondBefore(now);
  other.process.process_start = 77;                                       // another process had the number
  for (const auto& before : {std::vector<Snapshot>{}, {other}, {now}}) {  // {now}: no time between the reads
    const Model model = modelOf(before, {now});
    EXPECT_FALSE(model.rails[0].traffic.known);
    EXPECT_FALSE(model.processes[0].traffic.known);
    EXPECT_FALSE(model.connections[0].traffic.known);
    EXPECT_DOUBLE_EQ(model.sums.traffic.bytes_out, 0);
  }
}

TEST(TopModel, ASlotThatIsTakenAgainIsAnotherConnection) {
  auto now = makeSnapshot(1, 0, {makeRail("mlx5_0")}, {makeConnection(0)});
  now.connections[0].queue_pairs[0].bytes = 50 * kGiga;
  auto before = secondBefore(now);
  before.connections[0].id = 1;
  EXPECT_FALSE(modelOf({before}, {now}).connections[0].traffic.known);
}

TEST(TopModel, NewQueuePairsCountFromZero) {
  auto now = makeSnapshot(1, 0, {makeRail("mlx5_0")}, {makeConnection(0)});
  auto before = secondBefore(now);
  before.connections[0].queue_pairs[0].bytes = 90 * kGiga;
  now.connections[0].epoch = 1;  // after a failover
  now.connections[0].queue_pairs[0].bytes = 2 * kGiga;
  EXPECT_DOUBLE_EQ(modelOf({before}, {now}).connections[0].traffic.bytes_out, 2e9);
}

TEST(TopModel, AProcessThatVanishesLeavesNothing) {
  const auto stays = makeSnapshot(1, 0, {makeRail("mlx5_0", 5 * kGiga)}, {makeConnection(0)});
  const auto goes =
      secondBefore(makeSnapshot(2, 1, {makeRail("mlx5_1", 90 * kGiga)}, {makeLost(0, kSecond)}));
  const Model model = modelOf({secondBefore(stays), goes}, {stays});
  EXPECT_EQ(model.rails.size(), 1U);
  EXPECT_EQ(model.processes.size(), 1U);
  EXPECT_DOUBLE_EQ(model.sums.traffic.bytes_out, 0);
  EXPECT_EQ(newsText(model), "all well: 1 rail, 1 process, 1 connection up");
}

TEST(TopModel, DeadProcessesCountForNothing) {
  auto dead = makeSnapshot(2, 1, {makeRail("mlx5_0", 9 * kGiga)}, {makeLost(0, 40 * kSecond)});
  dead.process.alive = false;
  const Model model = modelOf({dead, makeSnapshot(1, 0, {makeRail("mlx5_0")}, {makeConnection(0)})});
  EXPECT_EQ(model.sums.connections, 1U);
  EXPECT_EQ(model.rails[0].processes, 1U);
  EXPECT_EQ(waitsText(model.processes[1]), "died");
  EXPECT_EQ(newsText(model), "1 process has died without closing Railwise");
}

TEST(TopModel, TheSpyBeforeRailwiseCountsNoRailTwice) {
  auto spy = makeSnapshot(1, 0, {makeRail("mlx5_0", 9 * kGiga)}, {});
  spy.process.spy = true;
  const Model model = modelOf({spy, makeSnapshot(1, 0, {makeRail("mlx5_0", 9 * kGiga)}, {})});
  EXPECT_EQ(model.rails[0].totals.bytes_sent, 9 * kGiga);
  EXPECT_EQ(modelOf({spy}).rails.size(), 1U);  // in front of another plugin
}

// ---- news

TEST(TopNews, TheWorstComesFirst) {
  EXPECT_EQ(newsText(modelOf(makeTrouble())),
            "1 of 2 rails down (mlx5_1:1 since 90 s); process 4211 (rank 3): looking for a path since 12 s; "
            "1 connection waits > 10 s (longest 34 s)");
  auto failed = makeTrouble();
  failed[0].connections[0].state = ConnectionState::kFailed;
  EXPECT_EQ(modelOf(failed).news[0].text, "process 4210 (rank 2): 1 connection has failed");
}

TEST(TopNews, AProcessThatStandsStillIsNamed) {
  auto snapshot = makeSnapshot(4211, 3, {makeRail("mlx5_0")}, {});
  EXPECT_EQ(modelOf({snapshot}).processes[0].still_ns, 0U) << "an older plugin does not tell";
  snapshot.process.alive_ns = kNow - kSecond;
  EXPECT_EQ(modelOf({snapshot}).processes[0].still_ns, 0U);
  snapshot.process.alive_ns = kNow - 7 * kSecond;
  const Model model = modelOf({snapshot});
  EXPECT_EQ(model.news[0].text, "process 4211 (rank 3): stopped, or without a processor since 7.0 s");
  EXPECT_EQ(waitsText(model.processes[0]), "is stopped");
}

TEST(TopNews, NcclThatDoesNotCallIsNamed) {
  auto idle = makeWaiting(0, 30 * kSecond, record::WaitsFor::kCompletion);
  idle.looked_ns = kNow - 7 * kSecond;
  auto snapshot = makeSnapshot(4211, 3, {makeRail("mlx5_0")}, {idle});
  const Model model = modelOf({snapshot});
  EXPECT_EQ(model.news[0].text, "process 4211 (rank 3): NCCL does not call since 7.0 s");
  EXPECT_EQ(waitsText(model.processes[0]), "NCCL does not call");

  // One connection that NCCL looks at is enough; so are messages that go on without a look.
  snapshot.connections.push_back(makeWaiting(1, kSecond / 2));
  EXPECT_EQ(modelOf({snapshot}).processes[0].not_called_ns, 0U);
  snapshot.connections.pop_back();
  auto before = secondBefore(snapshot);
  before.connections[0].completed -= 1;
  EXPECT_EQ(modelOf({before}, {snapshot}).processes[0].not_called_ns, 0U);
  EXPECT_EQ(modelOf({}, {snapshot}).processes[0].not_called_ns, 0U);  // one read does not tell
  // Nothing is open: NCCL has no reason to call.
  snapshot.connections[0].completed = snapshot.connections[0].posted;
  EXPECT_EQ(modelOf({snapshot}).processes[0].not_called_ns, 0U);
}

// The spy: NCCL has called, and the plugin behind the spy does not come back.
TEST(TopNews, APluginThatHangsInACallIsNamed) {
  auto hangs = makeWaiting(0, 30 * kSecond, record::WaitsFor::kCompletion);
  hangs.looked_ns = kNow - 7 * kSecond;
  hangs.in_call = static_cast<int>(record::CallKind::kTest) + 1;
  const Model model = modelOf({makeSnapshot(4211, 3, {makeRail("mlx5_0")}, {hangs})});
  EXPECT_EQ(model.news[0].text,
            "process 4211 (rank 3): in a call of its network plugin that does not return since 7.0 s");
  EXPECT_EQ(waitsText(model.processes[0]), "plugin hangs in test");
}

TEST(TopNews, ListenersAndHandshakesComeUp) {
  auto listener = makeConnection(0, record::Side::kListener);
  listener.state = ConnectionState::kListening;
  listener.state_since_ns = kNow - 15 * kSecond;
  auto connecting = makeConnection(1);
  connecting.state = ConnectionState::kConnecting;
  connecting.state_since_ns = kNow - kSecond / 2;
  const Model model =
      modelOf({makeSnapshot(1, 0, {makeRail("mlx5_0")}, {listener, connecting, makeConnection(2)})});
  EXPECT_EQ(newsText(model), "2 connections coming up since 15 s");
  EXPECT_EQ(model.sums.in(Stage::kComingUp), 2U);
  EXPECT_EQ(model.processes[0].up, 1U);
  EXPECT_EQ(waitsText(model.processes[0]), "coming up");
}

TEST(TopModel, AWriterWithoutCreditWaits) {
  auto writer = makeWaiting(0, 12 * kSecond, record::WaitsFor::kCredit);
  writer.side = record::Side::kSender;
  writer.kind = record::ConnectionKind::kOneSided;
  writer.one_sided.totals.puts = 52;
  const Model model = modelOf({makeSnapshot(1, 0, {makeRail("mlx5_0")}, {writer})});
  EXPECT_EQ(newsText(model), "1 connection waits > 10 s (longest 12 s)");
  EXPECT_EQ(waitsText(model.connections[0]), "peer's credit");
  const std::string text = plainText(frameOf(model, {.width = 100}), {.width = 100});
  EXPECT_HAS(text, "peer's credit mlx5_0  =>");
  const std::string all =
      plainText(frameOf(model, {.width = 140, .view = View::kConnections}), {.width = 140});
  EXPECT_HAS(all, "KIND");
  EXPECT_HAS(all, "put");
  EXPECT_HAS(modelJson(model), "\"puts\": 52");
}

TEST(TopNews, NewErrorsAreNews) {
  auto now = makeSnapshot(1, 0, {makeRail("mlx5_0")}, {makeConnection(0)});
  now.rails[0].errors[0] = 5;
  now.rails[0].failovers = 1;
  auto before = secondBefore(now);
  EXPECT_EQ(modelOf({before}, {now}).news[0].severity, Severity::kGood);
  before.rails[0].errors[0] = 2;
  before.rails[0].failovers = 0;
  EXPECT_EQ(newsText(modelOf({before}, {now})), "now on mlx5_0:1: 3 x retry exceeded, 1 failover");
}

// Two ports that one process sends over, a connection each.
struct TwoRails {
  Snapshot now =
      makeSnapshot(1, 0, {makeRail("mlx5_0"), makeRail("mlx5_1")}, {makeConnection(0), makeConnection(1)});
  Snapshot before;

  TwoRails() {
    now.connections[1].queue_pairs[0].rail = 1;
    before = secondBefore(now);
  }
  // In this second: messages whose time was taken, in a bucket, and what the port carried.
  void sent(std::size_t rail, uint32_t timed, std::size_t bucket, uint64_t bytes) {
    now.connections[rail].latency[bucket] += timed;
    now.rails[rail].totals.bytes_sent += bytes;
  }
  std::string news() const { return newsText(modelOf({before}, {now})); }
};

TEST(TopNews, ARailWhoseMessagesTakeLongIsSlow) {
  TwoRails rails;
  rails.before.connections[1].latency[10] = rails.now.connections[1].latency[10] =
      1000;  // before this second
  rails.sent(0, 20, 20, 9 * kGiga);
  rails.sent(1, 4, 22, 3 * kGiga);
  EXPECT_EQ(rails.news(), "mlx5_1:1 is slow: a message takes 6.29 ms, over the other rails 1.57 ms");
  EXPECT_HAS(modelJson(modelOf({rails.before}, {rails.now})), "\"message_us\": 6291.456");
}

TEST(TopNews, ARailIsNotSlowBecauseItCarriesMore) {
  TwoRails rails;
  rails.sent(0, 20, 20, 3 * kGiga);
  rails.sent(1, 20, 22, 9 * kGiga);
  EXPECT_HAS(rails.news(), "all well");
}

TEST(TopNews, FewMessagesOrPortsOfOtherSpeedsMakeNoRailSlow) {
  TwoRails few;
  few.sent(0, 20, 20, 9 * kGiga);
  few.sent(1, 3, 22, 3 * kGiga);
  EXPECT_HAS(few.news(), "all well");
  TwoRails other;
  other.sent(0, 20, 20, 9 * kGiga);
  other.sent(1, 20, 22, 3 * kGiga);
  other.now.rails[1].claimed_mbps /= 4;
  EXPECT_HAS(other.news(), "all well");
}

TEST(TopNews, ARailThatDeliversLessOfSpreadMessagesIsSlow) {
  TwoRails rails;
  for (Snapshot* read : {&rails.before, &rails.now}) {
    read->connections[0].queue_pairs.push_back(read->connections[1].queue_pairs[0]);  // two rails: not timed
    read->connections.pop_back();
    read->rails[0].measured_mbps = 380000;
    read->rails[1].measured_mbps = 100000;
  }
  rails.now.connections[0].latency[22] = 100;
  EXPECT_HAS(rails.news(), "all well");  // nothing is sent
  rails.now.rails[0].totals.bytes_sent = rails.now.rails[1].totals.bytes_sent = kGiga;
  EXPECT_EQ(rails.news(), "mlx5_1:1 is slow: it delivers 12.5 GB/s, the other rails 47.5");
}

TEST(TopNews, NoProcessIsSaid) {
  const Model model = modelOf(std::vector<Snapshot>{});
  EXPECT_EQ(newsText(model), "no process of this user runs Railwise (records in /dev/shm)");
  EXPECT_EQ(model.host(), "");
}

TEST(TopNews, AMessageThatIsCompleteByNowIsNotTheOldest) {
  auto busy = makeWaiting(0, 20 * kSecond);
  busy.oldest = busy.completed;  // noted at the last look, complete since
  const Model model = modelOf({makeSnapshot(1, 0, {makeRail("mlx5_0")}, {busy})});
  EXPECT_EQ(model.connections[0].stage, Stage::kWorking);
  EXPECT_EQ(model.processes[0].oldest_age_ns, 0U);
}

// ---- lines

// A machine whose names are as long and as odd as records allow.
std::vector<Snapshot> makeOdd() {
  std::vector<Snapshot> odd = makeTrouble();
  const std::string wide = "\xe6\xa9\x9f\xe6\xa2\xb0\xe5\xad\xa6\xe7\xbf\x92";  // four wide characters
  for (int i = 0; i < 6; ++i) odd[0].process.program += wide;
  odd[0].process.host = "node\x1b[2Jwith\nlines.and.a.name.that.is.very.long.example.com";
  odd[1].process.pid = UINT32_MAX;
  odd[1].process.rank = 123456;
  odd[0].rails[0].device = std::string(63, 'd');
  odd[0].rails[0].errors[1] = UINT64_MAX / 2;
  odd[0].rails[0].failovers = UINT64_MAX;
  odd[0].rails[0].claimed_mbps = UINT32_MAX;
  odd[1].connections[0].peer = std::string(60, 'p') + ":99999";
  odd[1].connections[0].reason = std::string(100, 'r') + "\x1b]0;title\x07 \xff\xfe e\xcc\x81";
  odd[0].connections[0].oldest_since_ns = 1;
  odd[0].connections[0].posted = UINT64_MAX;
  record::Event event;
  event.at_ns = UINT64_MAX;
  event.rail = 1000;
  event.text =
      "\x9b"
      "31m" +
      wide;
  odd[0].events.push_back(event);
  return odd;
}

TEST(TopScreen, NoLineIsWiderThanAsked) {
  for (const auto& machine : {makeTrouble(), makeOdd()}) {
    const Model model = modelOf(machine);
    for (const int width : {1, 10, 20, 40, 60, 79, 80, 81, 100, 132, 250})
      for (const bool utf8 : {false, true})
        for (const View view : {View::kMain, View::kRails, View::kConnections, View::kEvents, View::kHelp})
          for (const int height : {0, 1, 3, 24}) {
            const Style style{.width = width, .height = height, .utf8 = utf8, .view = view, .keys = true};
            const Frame frame = frameOf(model, style);
            if (height > 0) EXPECT_EQ(frame.lines.size(), static_cast<std::size_t>(height));
            for (const Line& line : frame.lines) {
              const std::string plain = plainLine(line, width, utf8);
              EXPECT_LE(textWidth(plain), width) << plain;
              EXPECT_EQ(cleanText(plain, utf8), plain);  // no control characters
              int columns = 0;
              (void)escapedLine(line, width, utf8, true, &columns);
              EXPECT_LE(columns, width);
            }
          }
  }
}

TEST(TopScreen, EightyColumnsByTwentyFourLines) {
  const Style style{.width = 80, .height = 24, .keys = true};
  EXPECT_EQ(plainText(frameOf(modelOf(makeTrouble()), style), style),
            R"(1 of 2 rails down (mlx5_1:1 since 90 s)
process 4211 (rank 3): looking for a path since 12 s
1 connection waits > 10 s (longest 34 s)
22:13:20  in 0 out 0 GB/s  0 msg/s  3/4 conns up  6 messages open  2 processes
RAIL     STATE  LOAD                                IN   OUT OF GB/s  ERR FAILOV
mlx5_1:1 DOWN   [.........................]   0%     0     0    50.0    6      4
mlx5_0:1 up     [.........................]   0%     0     0    50.0    0      0
    PID RANK PROGRAM  UP/ALL    IN   OUT MSG/S OLDEST WAITS FOR
   4211    3 python3     1/2     0     0     0   12 s path
   4210    2 python3     2/2     0     0     0   34 s data
 WAITS     PID FOR           DEVICE     PEER       PEERDEV OPEN
  34 s    4210 data          mlx5_0  <- node7:5123 mlx5_4     2
  12 s    4211 path          mlx5_0  <- node7:5123 mlx5_4     2
    mlx5_0 port 1 is down
 3.0 s    4210 data          mlx5_0  <- node7:5123 mlx5_4     2








q quit  h help  r rails  c connections  e events  p pause  o order: trouble
)");
}

TEST(TopScreen, LongListsShareTheScreenAndScroll) {
  std::vector<record::Rail> rails;
  for (int i = 0; i < 30; ++i) rails.push_back(makeRail("mlx5_" + std::to_string(i)));
  std::vector<Snapshot> machine;
  for (uint32_t pid = 1; pid <= 30; ++pid)
    machine.push_back(makeSnapshot(pid, static_cast<int>(pid), rails, {makeWaiting(0, pid * kSecond)}));
  const Model model = modelOf(machine);
  Style style{.width = 80, .height = 24, .keys = true};
  const Frame top = frameOf(model, style);
  const std::string text = plainText(top, style);
  EXPECT_EQ(top.lines.size(), 24U);
  EXPECT_HAS(text, "mlx5_0:1");
  EXPECT_HAS(text, "more below");
  EXPECT_HAS(text, "WAITS FOR");
  EXPECT_HAS(text, "PEERDEV");
  EXPECT_LACKS(text, "mlx5_29:1");
  style.scroll = top.most_scroll;
  EXPECT_HAS(plainText(frameOf(model, style), style), "mlx5_29:1");
}

TEST(TopScreen, NewsThatDoNotFitAreCounted) {
  Style style{.width = 60, .height = 16};
  const std::string text = plainText(frameOf(modelOf(makeTrouble()), style), style);
  EXPECT_EQ(text.find("1 of 2 rails down (mlx5_1:1 since 90 s)\nprocess 4211"), 0U);
  EXPECT_HAS(text, "; 1 more\n");
  style.view = View::kEvents;
  const std::string events = plainText(frameOf(modelOf(makeTrouble()), style), style);
  EXPECT_HAS(events, "1 connection waits > 10 s");
}

TEST(TopScreen, OrdersByTrafficAndByName) {
  std::vector<Snapshot> now = {
      makeSnapshot(1, 0, {makeRail("mlx5_10", kGiga), makeRail("mlx5_9", 3 * kGiga)}, {})};
  std::vector<Snapshot> before = {secondBefore(now[0])};
  for (record::Rail& rail : before[0].rails) rail.totals = {};
  const auto first = [&](Order order) {
    const Style style{.order = order};
    const std::string text = plainText(frameOf(modelOf(before, now), style), style);
    return text.find("mlx5_9:1") < text.find("mlx5_10:1") ? "mlx5_9" : "mlx5_10";
  };
  EXPECT_STREQ(first(Order::kName), "mlx5_9");
  EXPECT_STREQ(first(Order::kTraffic), "mlx5_9");
  std::swap(before[0].rails[1].totals, now[0].rails[1].totals);
  EXPECT_STREQ(first(Order::kTraffic), "mlx5_10");
}

TEST(TopScreen, WithoutColorThereIsNone) {
  const Style style{.width = 80, .height = 24, .keys = true};
  const Frame frame = frameOf(modelOf(makeTrouble()), style);
  EXPECT_HAS(escapedText(frame, style, true), "\x1b[1;37;41m");
  const std::string bare = escapedText(frame, style, false);
  for (const char* color : {"[3", "[4", ";3", ";4"}) EXPECT_LACKS(bare, std::string("\x1b") + color) << color;
}

// ---- text

TEST(TopText, CleansWhatIsNoText) {
  EXPECT_EQ(cleanText("a\x1b[1mb\x7f\n", true), "a?[1mb??");
  EXPECT_EQ(cleanText("\xc2\x9b"
                      "31m \xe2\x80\xae \xff \xf0\x9f\x98\x80",
                      true),
            "?31m ? ? ?");
  EXPECT_EQ(cleanText("gr\xc3\xbcn \xe6\xa9\x9f", true), "gr\xc3\xbcn \xe6\xa9\x9f");
  EXPECT_EQ(cleanText("gr\xc3\xbcn \xe6\xa9\x9f", false), "gr?n ?");
  EXPECT_EQ(cleanText("cut \xe6\xa9", true), "cut ?");
}

TEST(TopText, CutsByColumns) {
  EXPECT_EQ(textWidth("\xe6\xa9\x9f"
                      "a\xc3\xbc"),
            4);
  EXPECT_EQ(cutText("mlx5_bond_0", 8, false), "mlx5_bo~");
  EXPECT_EQ(cutText("\xe6\xa9\x9f\xe6\xa2\xb0\xe5\xad\xa6", 4, false), "\xe6\xa9\x9f~");
  EXPECT_EQ(cutText("gpu-node-0123.example.com:123456", 14, false, Cut::kMiddle), "gpu-no~:123456");
  EXPECT_EQ(cutText("abc", 0, false), "");
}

TEST(TopText, NumbersFitTheirColumns) {
  for (double rate = 1; rate < 1e18; rate *= 1.37) {
    EXPECT_LE(rateText(rate, true).size(), 5U) << rate;
    EXPECT_LE(countText(rate).size(), 4U) << rate;
    EXPECT_LE(ageText(static_cast<uint64_t>(rate)).size(), 6U) << rate;
  }
  EXPECT_EQ(rateText(12.34e9, false), "12.3");
  EXPECT_EQ(rateText(50e9, true), "400");
  EXPECT_EQ(countText(4123), "4.1k");
  EXPECT_EQ(ageText(12 * kSecond + kSecond / 2), "12 s");
  EXPECT_EQ(barText(0.5, 10, false), "[####....]");
  EXPECT_EQ(barText(0.5, 4, true), "██░░");
  EXPECT_EQ(barText(7, 6, false), "[####]");
}

// ---- JSON

TEST(TopJson, HasEverything) {
  const auto json = nlohmann::json::parse(modelJson(modelOf(makeTrouble())));
  EXPECT_EQ(json["schema"], "railwise-top");
  EXPECT_EQ(json["totals"]["rails_down"], 1);
  EXPECT_EQ(json["totals"]["connections"], 4);
  EXPECT_EQ(json["rails"][1]["state"], "down");
  EXPECT_EQ(json["rails"][1]["errors"]["retry exceeded"], 6);
  EXPECT_EQ(json["processes"][1]["rank"], 3);
  EXPECT_EQ(json["connections"].size(), 4U);
  EXPECT_EQ(json["connections"][0]["stage"], "no path");
  EXPECT_EQ(json["connections"][0]["state_since_s"], 12.0);
  EXPECT_EQ(json["connections"][1]["oldest_message_s"], 34.0);
  EXPECT_EQ(json["news"][0]["severity"], "bad");
}

TEST(TopJson, WhatIsNotKnownIsNull) {
  const auto json = nlohmann::json::parse(modelJson(modelOf({}, {makeSnapshot(1, -1, {makeRail("a")}, {})})));
  EXPECT_TRUE(json["processes"][0]["rank"].is_null());
  EXPECT_TRUE(json["rails"][0]["bytes_sent_per_s"].is_null());
  EXPECT_TRUE(nlohmann::json::accept(modelJson(modelOf(makeOdd()))));
}

}  // namespace
}  // namespace railwise::observe::top
