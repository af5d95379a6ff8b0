// Tests who waits for whom, and who holds up the job: src/observe/stuck.
#include <gtest/gtest.h>

#include <algorithm>

#include "observe/stuck/diagnosis.h"
#include "observe/stuck/facts.h"
#include "observe/stuck/job.h"
#include "observe/stuck_job.h"
#include "ok.h"

namespace railwise::observe {
namespace {

using record::ConnectionState;
using record::RailState;
using record::WaitsFor;
using enum CulpritKind;

Diagnosis diagnosisOf(const TestJob& job) { return diagnose(job.job(), {}); }
// In one line: a sentence may be broken anywhere.
std::string textOfJob(const TestJob& made) {
  const Job job = made.job();
  std::string text;
  for (const char c : stuckText(job, diagnose(job, {}), judgeJobs(job, {}))) {
    const bool blank = c == '\n' || c == ' ';
    if (!blank || !text.ends_with(' ')) text += blank ? ' ' : c;
  }
  return text;
}

// The kind and the name of the worst culprit.
std::pair<CulpritKind, std::string> worst(const Diagnosis& diagnosis) {
  if (diagnosis.culprits.empty()) return {kUnaskedHost, "no culprit"};
  return {diagnosis.culprits[0].kind, diagnosis.culprits[0].name};
}
std::pair<CulpritKind, std::string> culprit(CulpritKind kind, const std::string& name) {
  return {kind, name};
}

// ---- what the two ends of a connection tell together

// Rank 0 sends to rank 1, or puts into its memory.
struct TwoRanks {
  explicit TwoRanks(bool puts = false) {
    const auto [first, second] = puts ? job.connectPuts(from, to) : job.connect(from, to);
    sender = first;
    receiver = second;
  }
  TestJob job;
  ProcessFacts& from = job.process(0, 1);
  ProcessFacts& to = job.process(1, 2);
  ConnectionFacts* sender;
  ConnectionFacts* receiver;
};

constexpr const char* kThere = "gpu1 mlx5_0 port 1 -> gpu2 mlx5_0 port 1";
constexpr const char* kBack = "gpu2 mlx5_0 port 1 -> gpu1 mlx5_0 port 1";
constexpr const char* kBetween = "gpu1 mlx5_0 port 1 - gpu2 mlx5_0 port 1";
constexpr const char* kRank0 = "rank 0 (gpu1:100)";
constexpr const char* kRank1 = "rank 1 (gpu2:101)";

constexpr const char* kOnSecond = "gpu1 mlx5_1 port 1 - gpu2 mlx5_1 port 1";

// Both ends look for a path.
void loseThePath(TwoRanks& two) {
  for (ConnectionFacts* const end : {two.sender, two.receiver}) {
    end->state = ConnectionState::kReconnecting;
    end->waits_for = WaitsFor::kPeer;
    end->still = true;
    end->looked_ms = 5;
  }
}

// A second pair, and no path: the sender's end knows the reason, and has told the receiver's.
void loseBothPairs(TwoRanks& two, const std::string& reason) {
  for (ProcessFacts* const process : {&two.from, &two.to})
    process->rails.push_back({.device = "mlx5_1", .port = 1, .state = RailState::kUp});
  for (ConnectionFacts* const end : {two.sender, two.receiver})
    end->pairs.push_back({.rail = 1, .peer_device = "mlx5_1", .peer_port = 1});
  loseThePath(two);
  two.sender->reason = reason;
  two.receiver->reason = "the sender lost it: " + reason;
}

// What is wrong with the two, and the one culprit.
struct Blame {
  const char* name;
  void (*make)(TwoRanks&);
  CulpritKind kind;
  const char* culprit;
  const char* words = "";  // of the text: "a|b"
  const char* why = "";    // of the longest wait; "": any
};
void PrintTo(const Blame& blame, std::ostream* out) { *out << blame.name; }

const Blame kBlames[] = {
    {"AReceiveThatIsNotPostedIsTheReceiversProcess",
     [](TwoRanks& two) { TestJob::waitsForReceive(*two.sender); }, kLateProcess, kRank1,
     "rank 1 (gpu2:101) does not call: its GPU or its application holds up the job; 1 process waits for it, "
     "the longest for 5.0 s",
     "no_receive"},
    {"ASendThatIsNotPostedIsTheSendersProcess", [](TwoRanks& two) { TestJob::waitsForData(*two.receiver); },
     kLateProcess, kRank0, "", "no_send"},
    {"DataThatIsPostedAndDoesNotArriveIsASilentRail",  // both ends blame one rail
     [](TwoRanks& two) {
       TestJob::waits(*two.sender, WaitsFor::kCompletion);
       two.sender->numbers.next = two.sender->numbers.posted = two.sender->oldest + 1;
       TestJob::waitsForData(*two.receiver);
     },
     kSilentRail, kThere, "fe80::1|2 connections"},
    {"AClearToSendThatDoesNotArriveIsASilentRailOfTheOtherDirection",
     [](TwoRanks& two) {
       TestJob::waitsForReceive(*two.sender);
       TestJob::waitsForData(*two.receiver);  // the receive is posted
     },
     kSilentRail, kBack},
    {"AnEndWithoutAPairNumberIsFoundByItsPeer",
     [](TwoRanks& two) {
       two.sender->pair_id = two.receiver->pair_id = 0;
       TestJob::waitsForReceive(*two.sender);
       TestJob::waitsForData(*two.receiver);
     },
     kSilentRail, kBack},
    {"APortThatIsDownIsNamedWithItsStateAndReason",
     [](TwoRanks& two) {
       two.from.rails[0].state = RailState::kDown;
       two.from.rails[0].state_ms = 12400;
       two.sender->state = two.receiver->state = ConnectionState::kLost;
       two.sender->still = two.receiver->still = true;
       two.sender->looked_ms = two.receiver->looked_ms = 5;
       two.sender->reason = "port 1 of mlx5_0 is down";
     },
     kFailedRail, "gpu1 mlx5_0 port 1",
     "gpu1 mlx5_0 port 1 is down; 2 processes wait for it|is down, for 12.4 s|port 1 of mlx5_0 is down"},
    {"APairThatCarriesNothingIsOneCulpritForBothEnds", loseThePath, kFailedRail, kBetween},
    {"OfSeveralPairsThatCarryNothingTheOneOfTheReason",
     [](TwoRanks& two) { loseBothPairs(two, "mlx5_1 port 1 qp 7: transition to INIT failed: Try again"); },
     kFailedRail, kOnSecond},
    {"ADeviceThatHasFailedAndIsUpAgainIsOfTheReason",
     [](TwoRanks& two) { loseBothPairs(two, "mlx5_1: the device failed: look for its reset"); }, kFailedRail,
     kOnSecond},
    {"APathThatIsLostAgainAndAgainCarriesNothing",
     [](TwoRanks& two) {
       TestJob::waits(*two.sender, WaitsFor::kCompletion);
       TestJob::waitsForData(*two.receiver);
       two.sender->new_epochs = 2;
     },
     kFailedRail, kBetween},
    {"ASetupThatIsSlowSaysForWhomItWaits",
     [](TwoRanks& two) {
       two.from.slow_setup =
           "18 of 64 connections are up after 12 s; waiting for: host7 (3 ranks: nothing heard)";
     },
     kHandshake, kRank0, "18 of 64 connections are up after 12 s"},
    {"ADeadRankIsNamed",
     [](TwoRanks& two) {
       two.to.alive = false;
       TestJob::waits(*two.sender, WaitsFor::kCompletion);
     },
     kDeadProcess, kRank1, "railwise postmortem 101"},
    {"ADeadRankIsNamedBeforeAnythingWaitsForIt", [](TwoRanks& two) { two.to.alive = false; }, kDeadProcess,
     kRank1},
    {"AStoppedRankIsNamedWhateverItsNeighboursWaitFor",
     [](TwoRanks& two) {
       two.to.kernel_state = 'T';
       TestJob::waits(*two.sender, WaitsFor::kCompletion);
       TestJob::waitsForData(*two.receiver);  // as it was when the process was stopped
       two.receiver->looked_ms = 9000;
     },
     kStoppedProcess, kRank1, "kill -CONT 101"},
    {"AHandshakeOfAStoppedRankIsNoFindingOfItsOwn",
     [](TwoRanks& two) {
       two.from.kernel_state = 'T';
       two.sender->state = ConnectionState::kConnecting;
       two.sender->still = true;
     },
     kStoppedProcess, kRank0},
    {"ARankThatDoesNotLookAfterItsOpenMessagesIsNamed",
     [](TwoRanks& two) {
       TestJob::waits(*two.sender, WaitsFor::kClearToSend);
       TestJob::waitsForData(*two.receiver);
       two.receiver->looked_ms = 30000;
       // The receiver has posted no further receive.
       two.sender->numbers.next = two.sender->oldest = two.receiver->numbers.posted;
     },
     kIdleCaller, kRank1, "its last call was 30.0 s ago"},
    {"AConnectionThatHasFailedForGoodIsNamedWithItsReason",
     [](TwoRanks& two) {
       two.sender->state = ConnectionState::kFailed;
       two.sender->reason = "no path for 60 s";
     },
     kFailedConnection, "rank 0 (gpu1:100) - rank 1 (gpu2:101)", "no path for 60 s"},
};

const Blame kBlamesOfPuts[] = {
    {"AWriterWithoutCreditWaitsForATargetThatNobodyDrives",
     [](TwoRanks& two) {
       TestJob::waits(*two.sender, WaitsFor::kCredit);
       two.receiver->looked_ms = 6000;
     },
     kIdleCaller, kRank1,
     "does not drive its one-sided communication|operation 8 (1.0 MiB), 7 of 8 operations done", "no_credit"},
    {"CreditThatDoesNotArriveIsASilentRail",
     [](TwoRanks& two) { TestJob::waits(*two.sender, WaitsFor::kCredit); }, kSilentRail, kBack},
    {"AWindowThatIsNotRegisteredIsTheTargetsProcess",
     [](TwoRanks& two) { TestJob::waits(*two.sender, WaitsFor::kWindow); }, kLateProcess, kRank1,
     "has not registered its part of a window", "no_window"},
    {"APutThatIsNotAcknowledgedIsASilentRail",
     [](TwoRanks& two) { TestJob::waits(*two.sender, WaitsFor::kCompletion); }, kSilentRail, kThere},
    // Operations and signals are not counted alike: a target says nothing of its writer's operations.
    {"AWriterThatNobodyDrivesIsNotComplete",
     [](TwoRanks& two) {
       TestJob::waits(*two.sender, WaitsFor::kCompletion);
       two.sender->looked_ms = 6000;
       two.receiver->completed = 1000;
     },
     kIdleCaller, kRank0},
    {"ASignalInPartsIsASilentRailOfItsWriter",
     [](TwoRanks& two) { TestJob::waits(*two.receiver, WaitsFor::kSignalParts); }, kSilentRail, kThere},
    {"ASignalThatTheOwnNicDoesNotWriteIsThatNic",
     [](TwoRanks& two) { TestJob::waits(*two.receiver, WaitsFor::kOwnNic); }, kSilentRail, "gpu2 mlx5_0", "",
     "own_nic"},
};

void expectBlame(const Blame& blame, bool puts) {
  TwoRanks two(puts);
  blame.make(two);
  const Diagnosis diagnosis = diagnosisOf(two.job);
  ASSERT_EQ(diagnosis.culprits.size(), 1U);
  EXPECT_EQ(worst(diagnosis), culprit(blame.kind, blame.culprit));
  for (const std::string& words : splitAt(blame.words, '|')) EXPECT_HAS(textOfJob(two.job), words);
  if (*blame.why != '\0') EXPECT_STREQ(rowOf(kWhys, diagnosis.waits.at(0).why).key, blame.why);
}

class OneCulprit : public testing::TestWithParam<Blame> {};
TEST_P(OneCulprit, OfASendIsNamed) { expectBlame(GetParam(), false); }
class OneCulpritOfPuts : public testing::TestWithParam<Blame> {};
TEST_P(OneCulpritOfPuts, IsNamed) { expectBlame(GetParam(), true); }

const auto nameOfBlame = [](const auto& each) { return std::string(each.param.name); };
INSTANTIATE_TEST_SUITE_P(Stuck, OneCulprit, testing::ValuesIn(kBlames), nameOfBlame);
INSTANTIATE_TEST_SUITE_P(Stuck, OneCulpritOfPuts, testing::ValuesIn(kBlamesOfPuts), nameOfBlame);

TEST(Stuck, NothingIsStuckWhereNothingIsOpen) {
  TestJob job;
  job.connect(job.process(0, 1), job.process(1, 2));
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_FALSE(diagnosis.stuck);
  EXPECT_HAS(diagnosis.verdict, "2 processes, no message is open");
}

TEST(Stuck, WhatMovesIsNotStuck) {
  TestJob job;
  const auto [sender, receiver] = job.connect(job.process(0, 1), job.process(1, 2));
  TestJob::waitsForData(*receiver);
  receiver->still = false;
  receiver->moved = 240;
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_FALSE(diagnosis.stuck);
  EXPECT_EQ(diagnosis.verdict, "nothing is stuck: 2 processes, 120 messages/s");
}

// The record of the spy has no peers.
ConnectionFacts& spied(ConnectionFacts& connection) {
  connection.peer = connection.peer_device = "";
  connection.pair_id = 0;
  connection.pairs.clear();
  return connection;
}

TEST(Stuck, APeerThatTheSpyCannotNameIsWaitedFor) {
  TestJob job;
  const auto [sender, receiver] = job.connect(job.process(0, 1), job.process(1, 2));
  for (ProcessFacts& process : job.processes) process.spy = true;
  spied(*sender).completed = sender->posted = 8;  // it was sent, and has not arrived
  TestJob::waitsForData(spied(*receiver), 47'000);
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_TRUE(diagnosis.stuck);
  EXPECT_EQ(worst(diagnosis), culprit(kUnnamedPeers, "rank 1 (gpu2:101)"));
  EXPECT_HAS(diagnosis.culprits[0].details[0], "8 sends are done, 0 under way, and 7 receives are done");
  EXPECT_EQ(diagnosis.waits[0].why, Why::kPeerUnnamed);
  // Its other connection moves.
  ConnectionFacts moving = *receiver;
  moving.still = false;
  moving.moved = 9;
  std::ranges::find(job.processes, 1, &ProcessFacts::rank)->connections.push_back(moving);
  EXPECT_FALSE(diagnosisOf(job).stuck);
}

TEST(Stuck, ACallThatDoesNotReturnIsThePluginsBehindTheSpy) {
  TestJob job;
  const auto [sender, receiver] = job.connect(job.process(0, 1), job.process(1, 2));
  for (ProcessFacts& process : job.processes) process.spy = true;
  spied(*sender).in_call = static_cast<int>(record::CallKind::kIsend) + 1;  // the first: nothing is open
  sender->looked_ms = 12'000;
  spied(*receiver);
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_EQ(worst(diagnosis), culprit(kHangingCall, "rank 0 (gpu1:100)"));
  EXPECT_HAS(diagnosis.verdict, "is in isend of its network plugin, which does not return");
  sender->looked_ms = 10;
  EXPECT_FALSE(diagnosisOf(job).stuck) << "it has just begun";
}

// A connection names its peer when its queue pairs are made: until then NCCL's thread is in the driver.
TEST(Stuck, QueuePairsThatAreNeverMadeAreTheDriversFault) {
  TestJob job;
  ProcessFacts &hangs = job.process(0, 1), &waits = job.process(1, 2);
  const auto [sender, receiver] = job.connect(waits, hangs);
  sender->state = ConnectionState::kConnecting;
  sender->reason = "it takes the call, but does not answer";
  receiver->state = ConnectionState::kListening;
  receiver->peer.clear();
  ConnectionFacts made = *receiver;
  made.side = record::Side::kSender;
  made.state = ConnectionState::kConnecting;
  hangs.connections.push_back(made);
  for (ProcessFacts& process : job.processes)
    for (ConnectionFacts& connection : process.connections)
      connection.still = true, connection.state_ms = 9000;
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_EQ(worst(diagnosis), culprit(kHangingCall, "rank 0 (gpu1:100)"));
  EXPECT_HAS(diagnosis.verdict,
             "is in a call of its NIC's driver, which does not return; 1 process waits for it");
  EXPECT_EQ(diagnosis.culprits.size(), 1U) << "nobody is missing";
  hangs.connections.back().state_ms = 100;
  EXPECT_NE(worst(diagnosisOf(job)), culprit(kHangingCall, "rank 0 (gpu1:100)")) << "it has just begun";
}

TEST(Stuck, ARecordOfThePluginsTrialIsNoDeadJob) {
  TestJob job;
  ProcessFacts& trial = job.process(0, 1);
  trial.spy = true;
  trial.alive = false;
  trial.gone_ms = 5000;
  EXPECT_LACKS(diagnosisOf(job).verdict, "died first");
  trial.spy = false;
  EXPECT_HAS(diagnosisOf(job).verdict, "died first");
}

TEST(Stuck, OfTwoRailsTheOneThatOwesBytesIsSilent) {
  TestJob job;
  ProcessFacts& from = job.process(0, 1);
  ProcessFacts& to = job.process(1, 2);
  from.rails.push_back({.device = "mlx5_1", .port = 1, .state = RailState::kUp});
  const auto [sender, receiver] = job.connect(from, to);
  sender->pairs.push_back({.rail = 1, .peer_device = "mlx5_1", .peer_port = 1});
  sender->queue_pairs = {{.number = 10, .peer_number = 20, .pair = 0, .bytes = 500},
                         {.number = 11, .peer_number = 21, .pair = 1, .bytes = 500}};
  receiver->queue_pairs = {{.number = 20, .peer_number = 10, .pair = 0, .bytes = 500},
                           {.number = 21, .peer_number = 11, .pair = 1, .bytes = 100}};
  TestJob::waits(*sender, WaitsFor::kCompletion);
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 1U);
  EXPECT_EQ(diagnosis.culprits[0].name, "gpu1 mlx5_1 port 1 -> gpu2 mlx5_1 port 1");
}

// Ring: rank 0 has no path to rank 1, which sees that, but nothing to send either: it waits for rank 2.
TEST(Stuck, ALostPathOverWhichNothingIsToBeSentHoldsNobodyUp) {
  TestJob job;
  ProcessFacts& middle = job.process(0, 1);
  const auto [sender, receiver] = job.connect(middle, job.process(1, 2));
  receiver->state = ConnectionState::kLost;
  TestJob::waitsForData(*receiver, 2000);
  const auto [first_sender, first_receiver] = job.connect(job.process(2, 3), middle);
  first_sender->state = first_receiver->state = ConnectionState::kLost;
  TestJob::waits(*first_sender, WaitsFor::kCompletion);
  TestJob::waitsForData(*first_receiver);
  Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 1U);
  EXPECT_EQ(diagnosis.culprits[0].name, "gpu1 mlx5_0 port 1 - gpu3 mlx5_0 port 1");
  sender->state_ms = 300;  // it has just lost a path, and found another one
  EXPECT_EQ(diagnosisOf(job).culprits.size(), 2U);
  sender->state_ms = kNever;
  TestJob::waits(*sender, WaitsFor::kClearToSend);  // it has something to send
  diagnosis = diagnosisOf(job);
  EXPECT_EQ(diagnosis.culprits.size(), 2U);
}

TEST(Stuck, RailsThatHaveFailedAreToldWhileTheJobGoesOn) {
  TestJob job;
  ProcessFacts& own = job.process(0, 1);
  const auto [sender, receiver] = job.connect(own, job.process(1, 2));
  receiver->moved = 200;
  own.rails[0].state = RailState::kDown;
  own.rails[0].state_ms = 4000;
  own.rails[0].failovers = 2;
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_EQ(diagnosis.verdict, "nothing is stuck: 2 processes, 100 messages/s; 1 rail has failed");
  EXPECT_EQ(
      diagnosis.rails,
      std::vector<std::string>{"gpu1 mlx5_0 port 1: down for 4.0 s, 2 failovers away from it, in 1 process"});
}

TEST(Stuck, ARailThatIsUsedAgainIsNotNamed) {
  TestJob job;
  ProcessFacts& own = job.process(0, 1);
  own.rails[0].failovers = 2;
  const auto [sender, receiver] = job.connect(own, job.process(1, 2));
  receiver->moved = 200;
  sender->pairs.clear();  // it has gone on over another rail
  EXPECT_EQ(
      diagnosisOf(job).rails,
      std::vector<std::string>{"gpu1 mlx5_0 port 1: its port is up, 2 failovers away from it, in 1 process"});
  sender->pairs.push_back({.rail = 0});
  EXPECT_EQ(diagnosisOf(job).rails, std::vector<std::string>());
  EXPECT_EQ(diagnosisOf(job).verdict, "nothing is stuck: 2 processes, 100 messages/s");
  own.rails[0].state = RailState::kDown;
  EXPECT_EQ(diagnosisOf(job).rails.size(), 1U);
}

TEST(Stuck, ADeadProcessOfAnotherJobIsNoFinding) {
  TestJob job;
  job.connect(job.process(0, 1), job.process(1, 2));
  job.process(2, 1).alive = false;
  EXPECT_FALSE(diagnosisOf(job).stuck);
}

TEST(Stuck, WhereNoProcessLivesNothingIsStuck) {
  TestJob job;
  ProcessFacts& one = job.process(0, 1);
  ProcessFacts& other = job.process(1, 2);
  job.connect(one, other);
  one.alive = other.alive = false;
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_FALSE(diagnosis.stuck);
  EXPECT_HAS(diagnosis.verdict, "no job runs on these hosts; 2 records of processes");
}

TEST(Stuck, AMessageThatTheReceiverHasIsCompleteWhateverTheLastLookSays) {
  TestJob job;
  const auto [sender, receiver] = job.connect(job.process(0, 1), job.process(3, 2));
  TestJob::waits(*sender, WaitsFor::kCompletion);
  sender->looked_ms = 30000;
  receiver->completed = sender->oldest;
  EXPECT_FALSE(diagnosisOf(job).stuck);
}

// ---- peers without a record

ProcessFacts processAway(const std::string& host, uint32_t pid) {
  ProcessFacts away;
  away.host = host;
  away.pid = pid;
  return away;
}

TEST(Stuck, AHostThatDoesNotAnswerIsNamedWithItsReason) {
  TestJob job;
  ProcessFacts away = processAway("gpu7", 4411);
  const auto [sender, receiver] = job.connect(job.process(0, 1), away);
  TestJob::waits(*sender, WaitsFor::kCompletion);
  job.hosts.push_back({.asked = "root@gpu7", .error = "no answer within 30 s"});
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_EQ(worst(diagnosis), culprit(kSilentHost, "gpu7"));
  EXPECT_HAS(textOfJob(job), "no answer within 30 s");
}

TEST(Stuck, AHostThatDoesNotAnswerIsAFindingOfItsOwnBehindTheOthers) {
  TestJob job;
  job.hosts.push_back({.asked = "root@gpu7", .error = "No route to host"});
  EXPECT_EQ(worst(diagnosisOf(job)), culprit(kSilentHost, "gpu7"));
  TestJob::waitsForReceive(*job.connect(job.process(0, 1), job.process(1, 2)).first);
  EXPECT_EQ(worst(diagnosisOf(job)).first, kLateProcess);
}

TEST(Stuck, AHostThatWasNotAskedIsToBeAsked) {
  TestJob job;
  ProcessFacts away = processAway("gpu7", 4411);
  const auto [sender, receiver] = job.connect(job.process(0, 1), away);
  TestJob::waitsForReceive(*sender);
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_EQ(worst(diagnosis), culprit(kUnaskedHost, "gpu7"));
  EXPECT_HAS(diagnosis.culprits[0].advice, "railwise stuck --hosts FILE with gpu7 in FILE");
}

TEST(Stuck, AProcessWithoutARecordOnAHostThatAnswersIsNamed) {
  TestJob job;
  ProcessFacts away = processAway("gpu7", 4411);
  const auto [sender, receiver] = job.connect(job.process(0, 1), away);
  TestJob::waitsForReceive(*sender);
  job.hosts.push_back({.asked = "gpu7", .name = "gpu7.example.org"});
  EXPECT_EQ(worst(diagnosisOf(job)), culprit(kNoRecord, "gpu7:4411"));
}

// ---- chains and circles

TEST(Stuck, AChainOfWaitsLeadsToTheRankThatWaitsForNone) {
  TestJob job;
  ProcessFacts& first = job.process(0, 1);
  ProcessFacts& second = job.process(1, 2);
  ProcessFacts& last = job.process(2, 3);
  TestJob::waitsForReceive(*job.connect(first, second).first, 3000);
  TestJob::waitsForReceive(*job.connect(second, last).first, 8000);
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 1U);
  EXPECT_EQ(worst(diagnosis), culprit(kLateProcess, "rank 2 (gpu3:102)"));
  EXPECT_EQ(diagnosis.culprits[0].processes, (std::vector<int>{0, 1}));
  EXPECT_EQ(diagnosis.culprits[0].connections, 1);
  EXPECT_HAS(diagnosis.verdict, "2 processes wait for it, the longest for 8.0 s");
}

TEST(Stuck, ARingBehindASilentRailBlamesTheRailAlone) {
  TestJob job;
  ProcessFacts& a = job.process(0, 1);
  ProcessFacts& b = job.process(1, 2);
  ProcessFacts& c = job.process(2, 3);
  const auto [a_sends, b_receives] = job.connect(a, b);
  TestJob::waits(*a_sends, WaitsFor::kCompletion);
  a_sends->numbers.next = a_sends->numbers.posted = a_sends->oldest + 1;
  TestJob::waitsForData(*b_receives);
  TestJob::waitsForData(*job.connect(b, c).second);
  TestJob::waitsForData(*job.connect(c, a).second);
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 1U);
  EXPECT_EQ(worst(diagnosis), culprit(kSilentRail, "gpu1 mlx5_0 port 1 -> gpu2 mlx5_0 port 1"));
  EXPECT_EQ(diagnosis.culprits[0].processes.size(), 3U);
}

TEST(Stuck, ACircleIsTold) {
  TestJob job;
  ProcessFacts& a = job.process(0, 1);
  ProcessFacts& b = job.process(1, 2);
  TestJob::waitsForReceive(*job.connect(a, b).first);
  TestJob::waitsForReceive(*job.connect(b, a).first);
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 1U);
  EXPECT_EQ(diagnosis.culprits[0].kind, kCircle);
  EXPECT_HAS(textOfJob(job), "rank 0 (gpu1:100) waits for rank 1 (gpu2:101) waits for rank 0");
}

TEST(Stuck, InARingTheRankThatPassesNothingOnIsPointedAt) {
  TestJob job;
  std::vector<ProcessFacts*> ranks = {&job.process(0, 1), &job.process(1, 2), &job.process(2, 3)};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [sender, receiver] = job.connect(*ranks[i], *ranks[(i + 1) % 3]);
    TestJob::waitsForData(*receiver);
    sender->posted = i == 2 ? 4 : 7;  // rank 2 has received 7
  }
  EXPECT_HAS(textOfJob(job), "rank 2 (gpu3:102) has received more than it has passed on");
}

TEST(Stuck, TheMostBlamedComesFirst) {
  TestJob job;
  ProcessFacts& one = job.process(0, 1);
  ProcessFacts& other = job.process(1, 2);
  TestJob::waitsForReceive(*job.connect(job.process(2, 3), one).first);
  for (int rank = 3; rank < 6; ++rank)
    TestJob::waitsForReceive(*job.connect(job.process(rank, rank + 1), other).first);
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 2U);
  EXPECT_EQ(diagnosis.culprits[0].name, "rank 1 (gpu2:101)");
}

TEST(Graph, FindsRootsOfALongChainWithoutRecursion) {
  constexpr int kNodes = 100000;
  Graph graph(kNodes);
  for (int node = 0; node + 1 < kNodes; ++node) graph[static_cast<std::size_t>(node)] = {node + 1};
  const auto roots = rootsOf(graph);
  ASSERT_EQ(roots.size(), 1U);
  EXPECT_EQ(roots[0], std::vector<int>{kNodes - 1});
  EXPECT_EQ(whoReaches(graph, roots[0]).size(), kNodes - 1U);
}

TEST(Graph, ACircleIsInOrder) {
  const Graph graph = {{1}, {2}, {1, 3}, {2}};
  EXPECT_EQ(rootsOf(graph), (std::vector<std::vector<int>>{{1, 2, 3}}));
  EXPECT_EQ(circleIn(graph, {1, 2, 3}), (std::vector<int>{1, 2}));
}

// ---- several jobs, several deaths, failover

// Two ranks of `job`, of which the first waits for the second; `pid` is the number of the first.
void addWaitingJob(TestJob& job, uint32_t pid, const std::string& command) {
  ProcessFacts& waiting = job.process(0, 1);
  ProcessFacts& late = job.process(1, 2);
  waiting.pid = pid;
  late.pid = pid + 1;
  waiting.command = late.command = command;
  TestJob::waitsForReceive(*job.connect(waiting, late).first);
}

TEST(StuckJobs, EachJobIsJudgedByItself) {
  TestJob job;
  ProcessFacts& calm = job.process(0, 1);
  ProcessFacts& other = job.process(1, 2);
  job.connect(calm, other);
  addWaitingJob(job, 500, "python3 train.py");
  const Job all = job.job();
  const std::vector<JudgedJob> jobs = judgeJobs(all, {});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_TRUE(jobs[0].diagnosis.stuck);
  EXPECT_EQ(jobs[0].job.processes().size(), 2U);
  EXPECT_EQ(jobs[0].job.process(0).pid, 500U);
  EXPECT_FALSE(jobs[1].diagnosis.stuck);
  const std::string text = stuckText(all, diagnose(all, {}), jobs);
  EXPECT_TRUE(text.starts_with("STUCK: 1 of 2 jobs is stuck")) << text;
  EXPECT_HAS(text, "python3 train.py");
  EXPECT_HAS(text, "gpu1 (500)");
  EXPECT_HAS(text, "railwise stuck PID");
  const std::string json = stuckJson(all, diagnose(all, {}), jobs);
  EXPECT_HAS(json, "\"processes\": [\"gpu1:500\", \"gpu2:501\"]");
}

TEST(StuckJobs, RanksWithoutAConnectionAreOneJobByTheirCommunicatorOrTheirLauncher) {
  TestJob job;
  for (int rank = 0; rank < 6; ++rank) {
    ProcessFacts& own = job.process(rank, 1);
    own.ranks = 2;
    own.parent = rank < 2 ? 77 : rank < 4 ? 0 : 1;  // 1: its launcher has ended
    // Rails go from rank to rank: no two of this host are connected.
    ProcessFacts away = processAway("gpu9", static_cast<uint32_t>(900 + rank));
    job.connect(own, away).first->communicator = rank == 2 || rank == 3 ? 42 : 0;
  }
  EXPECT_EQ(jobNumbers(job.job().processes()), (std::vector<int>{0, 0, 1, 1, 2, 3}));
}

// Together the jobs look complete.
TEST(StuckJobs, NotesOfAJobAreInTheJsonToo) {
  TestJob job;
  for (int rank = 0; rank < 2; ++rank) {
    ProcessFacts& own = job.process(rank, rank);
    own.ranks = 2;
    own.connections.emplace_back().communicator = 1 + static_cast<uint64_t>(rank);
  }
  const Job all = job.job();
  const std::string json = stuckJson(all, diagnose(all, {}), judgeJobs(all, {}));
  EXPECT_HAS(json, "\"notes\": [\"rank 1 of 2 has no record on the hosts that were asked\"]");
  EXPECT_HAS(json, "rank 0 of 2 has no record");
}

TEST(StuckJobs, AHostThatDoesNotAnswerBelongsToTheJobThatHasPeersThere) {
  TestJob job;
  job.connect(job.process(0, 1), job.process(1, 2));
  ProcessFacts away = processAway("gpu7", 9);
  ProcessFacts& own = job.process(2, 1);
  TestJob::waitsForData(*job.connect(away, own).second);
  job.hosts.push_back({.asked = "gpu7", .error = "No route to host"});
  const std::vector<JudgedJob> jobs = judgeJobs(job.job(), {});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(worst(jobs[0].diagnosis), culprit(kSilentHost, "gpu7"));
  EXPECT_FALSE(jobs[1].diagnosis.stuck) << jobs[1].diagnosis.verdict;
}

// What has run here before stays in the records, and no host that is silent now can hold it up.
TEST(StuckJobs, AHostThatDoesNotAnswerHoldsUpNoJobOfWhichNoneLives) {
  TestJob job;
  job.connect(job.process(0, 1), job.process(1, 2));
  ProcessFacts away = processAway("gpu7", 9);
  ProcessFacts& ended = job.process(2, 1);
  ended.alive = false;
  ended.ended = true;
  job.connect(away, ended);
  job.process(3, 1).alive = false;
  job.hosts.push_back({.asked = "gpu7", .error = "No route to host"});
  const std::vector<JudgedJob> jobs = judgeJobs(job.job(), {});
  ASSERT_EQ(jobs.size(), 1U);  // perhaps a rank of the job that runs is there
  EXPECT_EQ(worst(jobs[0].diagnosis), culprit(kSilentHost, "gpu7"));
}

// To compare each peer with each host, for each host anew, takes minutes here and hours on a large machine.
TEST(StuckJobs, AreToldApartOnManyHosts) {
  constexpr int kHosts = 400;
  constexpr int kRanks = 8;
  constexpr int kPeers = 32;
  TestJob job;
  for (int rank = 0; rank < kHosts * kRanks; ++rank) {
    ProcessFacts& own = job.process(rank, rank / kRanks);
    for (int i = 1; i <= kPeers; ++i) {
      ConnectionFacts& connection = own.connections.emplace_back();
      const int peer = (rank + i * kRanks) % (kHosts * kRanks);
      connection.peer = "gpu" + std::to_string(peer / kRanks) + ":" + std::to_string(100 + peer);
    }
  }
  for (int spare = 0; spare < kHosts; ++spare)
    job.hosts.push_back({.asked = "spare" + std::to_string(spare), .name = "spare" + std::to_string(spare)});
  EXPECT_EQ(judgeJobs(job.job(), {}).size(), static_cast<std::size_t>(kRanks));
}

// Rank 2 is killed; ranks 1 and 3 see it and leave; more wait for rank 1 than for rank 2.
TEST(Stuck, WhoDiedFirstStandsFirst) {
  TestJob job;
  ProcessFacts& living = job.process(0, 1);
  std::vector<ProcessFacts*> dead;
  for (int rank = 1; rank < 4; ++rank) dead.push_back(&job.process(rank, rank + 1));
  for (ProcessFacts* const each : dead) {
    TestJob::waitsForReceive(*job.connect(living, *each).first);
    each->alive = false;
    each->gone_ms = 4000;
    each->trouble = "failed, connection 1: the peer is gone";
  }
  TestJob::waitsForReceive(*job.connect(job.process(4, 5), *dead[0]).first);
  dead[1]->gone_ms = 9000;
  dead[1]->trouble = "";
  dead[2]->gone_ms = 9500;  // an idle process has its last sign of life long before its end
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.culprits.size(), 3U);
  EXPECT_EQ(worst(diagnosis), culprit(kDeadProcess, "rank 2 (gpu3:102)"));
  EXPECT_HAS(diagnosis.verdict, "died first of 3");
  const std::string text = textOfJob(job);
  EXPECT_HAS(text, "shows no failure before");
  EXPECT_HAS(text, "went wrong there first: failed, connection 1: the peer is gone");
  for (const Wait& wait : diagnosis.waits)  // the waits still point to their own culprits
    EXPECT_EQ(diagnosis.culprits[static_cast<std::size_t>(wait.culprit)].process, wait.other.process);
}

TEST(Stuck, LastSignsOfLifeThatAreCloseDoNotTellWhoDiedFirst) {
  TestJob job;
  ProcessFacts& one = job.process(0, 1);
  ProcessFacts& other = job.process(1, 2);
  ProcessFacts& alive = job.process(2, 3);
  TestJob::waitsForReceive(*job.connect(alive, one).first);
  TestJob::waitsForReceive(*job.connect(alive, other).first);
  for (ProcessFacts* const each : {&one, &other}) each->alive = false;
  one.gone_ms = 4300;
  other.gone_ms = 4000;
  EXPECT_HAS(diagnosisOf(job).verdict, "it died at about the same time as others, of 2");
  one.gone_ms = 9000;
  EXPECT_HAS(diagnosisOf(job).verdict, "it died first of 2");
  one.gone_ms = 4300;
  other.trouble = "failed";
  EXPECT_HAS(diagnosisOf(job).verdict, "it died first of 2") << "the other one saw it fail";
}

TEST(Stuck, WhereAllAreDeadTheFirstOfTheLastJobIsNamed) {
  TestJob job;
  ProcessFacts& old = job.process(6, 1);
  old.gone_ms = 500000;
  ProcessFacts& first = job.process(0, 1);
  ProcessFacts& second = job.process(1, 2);
  job.connect(first, second);
  first.gone_ms = 3000;
  first.trouble = "failed";
  second.gone_ms = 2000;
  for (ProcessFacts* const each : {&old, &first, &second}) each->alive = false;
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_HAS(diagnosis.verdict, "rank 1 (gpu2:101) died first");
  EXPECT_HAS(diagnosis.verdict, "railwise postmortem 101");
}

TEST(Stuck, ADeadProcessThatGaveNoSignOfLifeLongBeforeItsPeersMayHaveBeenStopped) {
  TestJob job;
  ProcessFacts& one = job.process(0, 1);
  ProcessFacts& other = job.process(1, 2);
  const auto [its, peers] = job.connect(one, other);
  TestJob::waitsForReceive(*peers);
  for (ProcessFacts* const each : {&one, &other}) {
    each->alive = false;
    each->alive_ns = 1;
  }
  one.gone_ms = 10000;
  other.gone_ms = 2000;
  const char* const kStopped =
      "its last sign of life came 8.0 s before that of rank 1 (gpu2:101), which still waited for it: "
      "perhaps it was stopped";
  EXPECT_HAS(diagnosisOf(job).verdict, kStopped);
  peers->state = record::ConnectionState::kFailed;
  EXPECT_LACKS(diagnosisOf(job).verdict, "stopped") << "the peer saw it go";
  peers->state = record::ConnectionState::kRunning;
  other.gone_ms = 8000;
  EXPECT_LACKS(diagnosisOf(job).verdict, "stopped") << "beats are half a second apart";
  other.gone_ms = 2000;
  one.alive_ns = 0;
  EXPECT_LACKS(diagnosisOf(job).verdict, "stopped") << "it has no beats";
}

TEST(Stuck, AJobThatHasDiedIsNotedBesideJobsThatRun) {
  TestJob job;
  job.connect(job.process(0, 1), job.process(1, 2));
  ProcessFacts& dead = job.process(5, 1);
  dead.alive = false;
  dead.gone_ms = 3000;
  EXPECT_HAS(textOfJob(job), "rank 5 (gpu1:105) died first");
  dead.gone_ms = 3000000;
  EXPECT_LACKS(textOfJob(job), "rank 5");
}

TEST(Stuck, AJobThatHasDiedIsNotedAlsoWhereARankOfAnotherOneDiedLater) {
  TestJob job;
  job.connect(job.process(0, 1), job.process(1, 2));
  ProcessFacts& dead = job.process(5, 1);
  ProcessFacts& later = job.process(2, 2);
  job.connect(job.processes.front(), later);
  dead.alive = later.alive = false;
  dead.gone_ms = 3000;
  later.gone_ms = 1000;
  EXPECT_HAS(textOfJob(job), "rank 5 (gpu1:105) died first");
}

// A container that starts again gives its processes the numbers of those before, whose records are still
// there.
TEST(Stuck, WhoHadTheNumberBeforeIsNotAskedFor) {
  TestJob job;
  for (const bool alive : {false, true}) {
    ProcessFacts& first = job.process(0, 1);
    ProcessFacts& second = job.process(1, 2);
    for (ProcessFacts* const each : {&first, &second}) {
      each->alive = alive;
      each->process_start = alive ? 8 : 7;
      each->gone_ms = alive ? kNever : 3000;
    }
    job.connect(first, second);
  }
  const Diagnosis diagnosis = diagnose(job.job(), {.pids = {100}});
  EXPECT_FALSE(diagnosis.stuck) << diagnosis.verdict;
}

TEST(Stuck, SaysWhereNothingTakesOver) {
  TestJob job;
  const auto [sender, receiver] = job.connect(job.process(0, 1), job.process(1, 2));
  TestJob::waits(*sender, WaitsFor::kCompletion);
  EXPECT_LACKS(textOfJob(job), "failover");  // not known: an older record
  sender->failover = record::Failover::kOff;
  EXPECT_HAS(textOfJob(job), "RAILWISE_FAILOVER=0");
  sender->failover = record::Failover::kOn;
  EXPECT_HAS(textOfJob(job), "one rail pair");
  ConnectionFacts& second = *job.connect(job.processes[0], job.processes[1]).first;
  TestJob::waits(second, WaitsFor::kCompletion);
  second.failover = record::Failover::kOn;
  EXPECT_HAS(textOfJob(job), "2 connections that wait use one rail pair");
  second.failover = record::Failover::kOff;
  sender->pairs.push_back(sender->pairs.front());
  EXPECT_LACKS(textOfJob(job), "one rail pair");
}

// ---- census

TEST(Stuck, TheCensusSaysForWhomConnectionsWait) {
  TestJob job;
  ProcessFacts& own = job.process(0, 1);
  job.connect(own, job.process(1, 2));
  for (const uint32_t pid : {1U, 2U, 3U}) {
    ProcessFacts away = processAway("gpu7", pid);
    ConnectionFacts& end = *job.connect(own, away).first;
    end.state = ConnectionState::kConnecting;
    end.still = true;
    end.state_ms = 42000;
    end.reason = "connection refused";
  }
  job.hosts.push_back({.asked = "gpu7", .error = "No route to host"});
  const std::string text = textOfJob(job);
  EXPECT_HAS(text, "2 of 5 connections are up; the others wait for");
  EXPECT_HAS(text, "gpu7, which does not answer (3 processes): 3 connections, the longest for 42.0 s;");
}

TEST(Stuck, AListenerThatNoPeerHasCalledIsAFinding) {
  TestJob job;
  ProcessFacts& own = job.process(0, 1);
  ConnectionFacts& listener = *job.connect(own, own).first;
  listener.side = record::Side::kListener;
  listener.state = ConnectionState::kListening;
  listener.peer = "";
  listener.still = true;
  own.connections.pop_back();
  own.ranks = 2;
  const Diagnosis diagnosis = diagnosisOf(job);
  EXPECT_EQ(worst(diagnosis), culprit(kHandshake, "rank 0 (gpu1:100)"));
  EXPECT_EQ(diagnosis.notes,
            std::vector<std::string>{"rank 1 of 2 has no record on the hosts that were asked"});
}

// ---- two reads

record::Snapshot snapshotWith(const record::Connection& connection, uint64_t read_ns) {
  record::Snapshot snapshot;
  snapshot.read_ns = read_ns;
  snapshot.process.alive = true;
  snapshot.process.pid = 1;
  snapshot.connections.push_back(connection);
  return snapshot;
}

record::Connection runningConnection(uint64_t oldest) {
  record::Connection connection;
  connection.state = ConnectionState::kRunning;
  connection.oldest = oldest;
  return connection;
}

// Two reads, two seconds apart.
ConnectionFacts factsOfReads(const record::Connection& first, const record::Connection& second) {
  const record::Snapshot before = snapshotWith(first, 1000000000);
  const ProcessFacts facts = factsOf(&before, snapshotWith(second, 3000000000));
  EXPECT_EQ(facts.between_ms, 2000U);
  return facts.connections.at(0);
}

TEST(StuckFacts, WhatCompletesBetweenTheReadsMoves) {
  record::Connection first = runningConnection(5), second = runningConnection(15);
  first.completed = 4;
  second.completed = 14;
  EXPECT_EQ(factsOfReads(first, second).moved, 10U);
  EXPECT_FALSE(factsOfReads(first, second).still);
}

TEST(StuckFacts, WhatIsOpenInBothReadsStandsStill) {
  record::Connection connection = runningConnection(5);
  connection.waits_since_ns = 500000000;
  EXPECT_TRUE(factsOfReads(connection, connection).still);
  EXPECT_EQ(factsOfReads(connection, connection).waits_ms, 2500U);
}

TEST(StuckFacts, NewQueuePairsAreNoProgress) {
  record::Connection first = runningConnection(5), second = first;
  first.epoch = 2;
  second.epoch = 3;
  EXPECT_TRUE(factsOfReads(first, second).still);
  EXPECT_EQ(factsOfReads(first, second).new_epochs, 1U);
}

TEST(StuckFacts, TheSlowSetupIsOverOnceAConnectionIsUp) {
  record::Snapshot snapshot = snapshotWith({}, 1);
  snapshot.events.push_back({.kind = record::EventKind::kSlowConnect, .text = "1 of 2"});
  EXPECT_EQ(factsOf(nullptr, snapshot).slow_setup, "1 of 2");
  snapshot.events.push_back({.kind = record::EventKind::kConnected});
  EXPECT_EQ(factsOf(nullptr, snapshot).slow_setup, "");
}

TEST(StuckFacts, WhatHasNothingOpenDoesNotStandStill) {
  EXPECT_FALSE(factsOfReads(runningConnection(0), runningConnection(0)).still);
}

TEST(StuckFacts, TheLastLookOfAnIdleConnectionIsNoWait) {
  record::Connection first = runningConnection(0);
  first.waits_for = WaitsFor::kClearToSend;  // it has come since
  first.looked_ns = 500000000;
  EXPECT_FALSE(factsOfReads(first, first).still);
  record::Connection second = first;
  second.waits_for = WaitsFor::kData;
  second.side = record::Side::kReceiver;
  second.oldest = second.posted = second.completed = 5;  // it has arrived since
  EXPECT_FALSE(factsOfReads(first, second).still);
}

TEST(StuckFacts, ReadOnceTheAgeTells) {
  record::Connection connection = runningConnection(5);
  connection.oldest_since_ns = 1000000000;
  EXPECT_TRUE(factsOf(nullptr, snapshotWith(connection, 3100000000)).connections.at(0).still);
  EXPECT_FALSE(factsOf(nullptr, snapshotWith(connection, 2900000000)).connections.at(0).still);
}

TEST(StuckFacts, TextOfARecordCannotReachTheTerminal) {
  record::Connection connection;
  connection.reason = "a\x1b[2Jb";
  EXPECT_EQ(factsOf(nullptr, snapshotWith(connection, 1)).connections.at(0).reason, "a?[2Jb");
}

// ---- lines of JSON

HostFacts someHost() {
  TestJob job;
  ProcessFacts& process = job.process(0, 1);
  TestJob::waitsForData(*job.connect(process, process).second);
  return {.asked = "gpu1", .name = "gpu1", .notes = {"a note"}, .processes = {process}};
}

TEST(StuckWire, WhatIsWrittenIsReadAgain) {
  const std::string lines = jsonLines(someHost());
  const auto hosts = parseJsonLines(lines + lines, "gpu1");
  ASSERT_OK(hosts);
  ASSERT_EQ(hosts->size(), 2U);
  EXPECT_EQ(jsonLines((*hosts)[1]), lines);
}

TEST(StuckWire, GreetingsOfAShellAreLeftOut) {
  EXPECT_OK(parseJsonLines("Welcome to gpu1\n\n" + jsonLines(someHost()), "gpu1"));
}

TEST(StuckWire, ErrorsNameTheSourceAndTheLine) {
  const auto errorOf = [](const std::string& text) {
    const auto hosts = parseJsonLines(text, "gpu1");
    return hosts.ok() ? "" : hosts.error();
  };
  const std::string lines = jsonLines(someHost());
  const std::string first = lines.substr(0, lines.find('\n') + 1);
  EXPECT_EQ(errorOf(""),
            "gpu1: no line of railwise stuck --gather in it: is railwise of this version there?");
  EXPECT_EQ(errorOf(first), "gpu1:1: cut: 0 of 1 processes of the host before it are there");
  EXPECT_EQ(errorOf("x\n{\"a\": 1}"), "gpu1:2: no line of a host stands before it");
  EXPECT_EQ(errorOf(first + "{\"pid\": \"x\"}"), "gpu1:2: 'host' is missing");
  EXPECT_EQ(errorOf(lines.substr(0, lines.size() - 5)), "gpu1:2: no JSON, or cut");
  EXPECT_EQ(errorOf("{\"schema\": " + std::string(50000, '[')), "gpu1:1: no JSON of railwise stuck --gather");
}

// A job whose processes are all of such hosts would have no host.
TEST(StuckWire, AHostThatHasNotAnsweredHasNoProcesses) {
  HostFacts host = someHost();
  host.error = "No route to host";
  EXPECT_FALSE(parseJsonLines(jsonLines(host), "gpu1").ok());
  host.processes.clear();
  EXPECT_OK(parseJsonLines(jsonLines(host), "gpu1"));
}

TEST(StuckWire, PlacesBeyondATableAreNotKnown) {
  HostFacts host = someHost();
  host.processes[0].connections[0].pairs[0].rail = 77;
  host.processes[0].connections[0].queue_pairs.push_back({.pair = 5});
  const auto hosts = parseJsonLines(jsonLines(host), "gpu1");
  ASSERT_OK(hosts);
  EXPECT_EQ((*hosts)[0].processes[0].connections[0].pairs[0].rail, -1);
  EXPECT_EQ((*hosts)[0].processes[0].connections[0].queue_pairs[0].pair, -1);
}

// ---- outputs

TEST(StuckText, HasEightyColumns) {
  TestJob job;
  ProcessFacts& a = job.process(0, 1);
  ProcessFacts& b = job.process(1, 2);
  const auto [sender, receiver] = job.connect(a, b);
  TestJob::waits(*sender, WaitsFor::kCompletion);
  sender->reason =
      "a long reason, with many words, that goes on and on and does not fit into one line at all";
  const Job made = job.job();
  std::string text = stuckText(made, diagnose(made, {}), judgeJobs(made, {}));
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    EXPECT_LE(end, 80U) << text.substr(0, end);
    text.erase(0, end + 1);
  }
}

TEST(StuckText, TheGraphQuotesNames) {
  TestJob job;
  ProcessFacts& odd = job.process(0, 1);
  odd.host = "a\"b";
  TestJob::waitsForReceive(*job.connect(job.process(1, 2), odd).first);
  const Job made = job.job();
  EXPECT_HAS(stuckDot(made, diagnose(made, {})), "rank 0 (a\\\"b:100)");
}

TEST(StuckText, JsonHasTheWaitsAndTheCulprits) {
  TestJob job;
  TestJob::waitsForReceive(*job.connect(job.process(0, 1), job.process(1, 2)).first);
  const Job made = job.job();
  const std::string json = stuckJson(made, diagnose(made, {}), judgeJobs(made, {}));
  EXPECT_HAS(json, "\"schema\": \"railwise-stuck\"");
  EXPECT_HAS(json, "\"kind\": \"late_process\"");
  EXPECT_HAS(json, "\"why\": \"no_receive\"");
}

// ---- one-sided communication

// A GPU that waits for a signal is not seen. What has come of whom is.
TEST(Stuck, NamesRanksThatHaveNotSignalled) {
  TestJob job;
  ProcessFacts& own = job.process(0, 1);
  const auto [quiet, of_quiet] = job.connectPuts(job.process(1, 2), own);
  of_quiet->last_signal_ms = 34000;
  job.connectPuts(job.process(2, 3), own);
  const auto [never, of_never] = job.connectPuts(job.process(3, 4), own);
  of_never->last_signal_ms = kNever;
  never->posted = never->completed + 2;
  const auto [other, stopped] = job.connectPuts(job.process(4, 5), job.process(5, 6));
  stopped->last_signal_ms = stopped->looked_ms = 50000;  // it sees nothing itself
  const Diagnosis diagnosis = diagnosisOf(job);
  ASSERT_EQ(diagnosis.quiet.size(), 2U);
  const std::string text = textOfJob(job);
  EXPECT_HAS(text,
             "rank 0 (gpu1:100) has had no signal of rank 1 (gpu2:101) for 34.0 s (7 before); the "
             "latest one of another rank came 33.9 s after that; nothing is under way to it there: "
             "that rank has put nothing since");
  EXPECT_HAS(text, "no signal of rank 3 (gpu4:103) for 60.0 s (none before)");
  EXPECT_HAS(text, "2 operations are under way to it there");
  EXPECT_LACKS(text, "no signal of rank 2");
  EXPECT_FALSE(diagnosis.stuck);
}

TEST(Stuck, PutsWithoutSignalsAreNotMissed) {
  TestJob job;
  const auto [writer, target] = job.connectPuts(job.process(0, 1), job.process(1, 2));
  target->last_signal_ms = kNever;
  EXPECT_TRUE(diagnosisOf(job).quiet.empty());
}

TEST(Stuck, ARankThatSignalsOverOneOfItsConnectionsIsNotQuiet) {
  TestJob job;
  ProcessFacts& own = job.process(0, 1);
  ProcessFacts& peer = job.process(1, 2);
  job.connectPuts(peer, own);
  const auto [writer, idle] = job.connectPuts(peer, own);
  idle->last_signal_ms = 34000;
  EXPECT_TRUE(diagnosisOf(job).quiet.empty());
}

}  // namespace
}  // namespace railwise::observe
