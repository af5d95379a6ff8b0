// railwise stuck and railwise postmortem from outside, with records that the test has written, and with
// jobs over the software device.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/process.h"
#include "base/socket.h"
#include "ok.h"
#include "process.h"
#include "record/held_record.h"
#include "record/record_builder.h"
#include "scratch.h"
#include "tests/ok.h"
#include "wait.h"

namespace railwise::cli {
namespace {

using record::Side;
using record::WaitsFor;
using test::HeldRecord;
using test::RecordBuilder;
using test::Scratch;
using Words = std::vector<std::string>;

// One line: a sentence may be broken anywhere.
std::string joined(std::string text) {
  std::string result;
  for (const char c : text) {
    if (c != '\n' && c != ' ') result += c;
    else if (!result.empty() && result.back() != ' ') result += ' ';
  }
  return result;
}

ProcessResult run(Words args, const Words& environment = {}) {
  return runProcess(RAILWISE_CLI, args, environment);
}
ProcessResult stuck(Words args, const Words& environment = {}) {
  args.insert(args.begin(), {"stuck", "--seconds=0.01"});
  return run(args, environment);
}

// Rank 3 on node1 (process 4242): a sender to rank 4 on node2 (process 5151), which has posted no receive.
RecordBuilder waitingRank(uint64_t pair_id = 77, const std::string& peer = "node2:5151") {
  RecordBuilder builder;
  builder.rail("mlx5_0");
  record::ConnectionRecord& sender = builder.connection(Side::kSender).connection;
  sender.pair_id = pair_id;
  RecordBuilder::setText(sender.peer, peer);
  sender.oldest = 1;
  sender.oldest_since_ns = sender.waits_since_ns = builder.ago(9);
  sender.waits_for = WaitsFor::kClearToSend;
  sender.looked_ns = UINT64_MAX / 2;  // it looks all the time
  return builder;
}
// Rank 4, with nothing open.
RecordBuilder lateRank() {
  RecordBuilder builder;
  builder.header().pid = 5151;
  builder.header().rank = 4;
  RecordBuilder::setText(builder.header().host, "node2");
  builder.rail("mlx5_0");
  record::ConnectionRecord& receiver = builder.connection(Side::kReceiver).connection;
  receiver.pair_id = 77;
  RecordBuilder::setText(receiver.peer, "node1:4242");
  return builder;
}

TEST(StuckCommand, NamesTheRankThatWaitsForNone) {
  const Scratch scratch;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  const HeldRecord late(lateRank().write(scratch.path()));
  const auto result = endedWith(1, stuck({"--dir", scratch.path()}));
  EXPECT_HAS(joined(result.out),
             "STUCK: rank 4 (node2:5151) does not call: its GPU or its application "
             "holds up the job; 1 process waits for it")
      << result.out;
}

TEST(StuckCommand, OneProcessStandsForItsJobAndForNoOther) {
  const Scratch scratch;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  const HeldRecord late(lateRank().write(scratch.path()));
  RecordBuilder of_another_job = waitingRank(78, "node7:9");
  of_another_job.header().pid = 6161;
  const HeldRecord stranger(of_another_job.write(scratch.path()));
  const auto result = endedWith(1, stuck({"4242", "--dir", scratch.path()}));
  EXPECT_HAS(joined(result.out), "STUCK: rank 4 (node2:5151) does not call") << result.out;
  EXPECT_LACKS(result.out, "6161");
  EXPECT_HAS(stuck({"--dir", scratch.path()}).out, "6161");
}

TEST(StuckCommand, NamesADeadRank) {
  const Scratch scratch;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  (void)lateRank().write(scratch.path());  // no process holds it
  const auto result = endedWith(1, stuck({"--dir", scratch.path()}));
  EXPECT_HAS(joined(result.out), "STUCK: rank 4 (node2:5151) is dead") << result.out;
}

TEST(StuckCommand, WithoutRecordsThereIsNothingToJudge) {
  const Scratch scratch;
  EXPECT_HAS(endedWith(3, stuck({}, {"RAILWISE_METRICS_DIR=" + scratch.path()})).out,
             "no job runs here: no process of this user uses Railwise");
}

TEST(StuckCommand, RecordsOfDeadProcessesAreNotStuck) {
  const Scratch scratch;
  (void)waitingRank().write(scratch.path());  // no process holds these
  (void)lateRank().write(scratch.path());
  const auto result = endedWith(3, stuck({"--dir", scratch.path()}));
  const std::string text = joined(result.out);
  EXPECT_HAS(text, "no job runs here; 2 records of processes that have ended") << result.out;
  EXPECT_HAS(text, "railwise postmortem ") << result.out;
  EXPECT_LACKS(text, "STUCK") << result.out;
  // Who asks for a process wants to know that it is dead.
  const auto asked = endedWith(1, stuck({"--dir", scratch.path(), "5151"}));
  EXPECT_HAS(joined(asked.out), "STUCK: rank 4 (node2:5151) is dead") << asked.out;
}

TEST(StuckCommand, FilesOfSeveralHostsAreJudgedTogether) {
  const Scratch scratch;
  const Scratch other;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  const HeldRecord late(lateRank().write(other.path()));
  const std::string one = scratch.file("out/one", stuck({"--gather", "--dir", scratch.path()}).out);
  const std::string two = scratch.file("out/two", stuck({"--gather", "--dir", other.path()}).out);
  EXPECT_HAS(stuck({"--gathered", one}).out, "node2 was not asked");
  EXPECT_HAS(stuck({"--gathered", one, two}).out, "rank 4 (node2:5151) does not call");
}

// "ssh" that answers for node2, fails for node3, and never answers for node4.
class FakeSsh {
 public:
  FakeSsh() {
    const std::string path =
        scratch_.file("bin/ssh",
                      "#!/bin/sh\n"
                      "while [ \"${1#-}\" != \"$1\" ]; do shift 2; done\n"
                      "host=$1; shift\n"
                      "case $host in\n"
                      "node3) echo 'ssh: connect to host node3: No route to host' >&2; exit 255;;\n"
                      "node4) exec sleep 1000;;\n"
                      "node5) echo not for you; exit 0;;\n"
                      "esac\n"
                      "echo Welcome to $host\n"
                      "export RAILWISE_HOST=$host\n"
                      "exec sh -c \"$*\"\n");
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    const char* const before = std::getenv("PATH");
    path_ = "PATH=" + scratch_.path("bin") + ":" + (before != nullptr ? before : "");
  }
  std::string path() const { return path_; }
  std::string hosts(const std::string& text) const { return scratch_.file("hosts", text); }

 private:
  Scratch scratch_;
  std::string path_;
};

TEST(StuckCommand, HostsAreAskedOverSsh) {
  const Scratch scratch;
  const FakeSsh ssh;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  const HeldRecord late(lateRank().write(scratch.path()));
  const auto result = endedWith(1, stuck({"--hosts", ssh.hosts("node1\nnode2\n"), "--dir", scratch.path()},
                                         {ssh.path(), "RAILWISE_HOST=node1"}));
  EXPECT_HAS(result.out, "rank 4 (node2:5151) does not call");
}

TEST(StuckCommand, ThisHostIsAskedWithTheOthers) {
  const Scratch scratch;
  const FakeSsh ssh;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  const auto result = endedWith(1, stuck({"--hosts", ssh.hosts("node3\n"), "--dir", scratch.path()},
                                         {ssh.path(), "RAILWISE_HOST=node1"}));
  EXPECT_HAS(joined(result.out), "rank 3 (node1:4242) waits for node2:5151") << result.out;
}

TEST(StuckCommand, AHostThatCannotBeReachedIsNamedAndTheOthersAreJudged) {
  const Scratch scratch;
  const FakeSsh ssh;
  RecordBuilder builder = waitingRank();
  const HeldRecord waiting(builder.write(scratch.path()));
  const auto result = endedWith(
      1, stuck({"--hosts", ssh.hosts("node1\nnode3\nnode4\nnode5\n"), "--limit=1", "--dir", scratch.path()},
               {ssh.path(), "RAILWISE_HOST=node1"}));
  const std::string text = joined(result.out);
  EXPECT_HAS(text, "node3 does not answer - ssh: connect to host node3: No route to host") << result.out;
  EXPECT_HAS(text, "node4 does not answer - no answer within 1 s") << result.out;
  EXPECT_HAS(text, "node5 does not answer - node5: no line of railwise stuck --gather in it") << result.out;
  EXPECT_HAS(text, "node2 was not asked") << result.out;
}

TEST(StuckCommand, RanksOfALauncherSendTheirAnswersToRankZero) {
  const Scratch scratch;
  const Scratch other;
  const HeldRecord waiting(waitingRank().write(scratch.path()));
  const HeldRecord late(lateRank().write(other.path()));
  const auto rank = [](int number) {
    return Words{"OMPI_COMM_WORLD_RANK=" + std::to_string(number), "OMPI_COMM_WORLD_SIZE=2",
                 "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=stuck-test-" + std::to_string(getpid())};
  };
  Process second(RAILWISE_CLI, {"stuck", "--seconds=0.01", "--dir", other.path()}, rank(1));
  const auto first = stuck({"--dir", scratch.path()}, rank(0));
  const auto result = second.wait();
  EXPECT_EQ(first.status, 1) << first.out << first.err;
  EXPECT_HAS(first.out, "rank 4 (node2:5151) does not call");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
}

// Rank 0 drops callers where it has too many. Or somebody else listens there.
TEST(StuckCommand, ARankWhoseAnswerIsNotTakenComesAgain) {
  const Scratch scratch;
  constexpr uint8_t kLoopback[] = {127, 0, 0, 1};
  auto listener = Socket::listen(SocketAddress(AF_INET, kLoopback, 0, 0), 4);
  ASSERT_OK(listener);
  Process rank(
      RAILWISE_CLI,
      {"stuck", "--seconds=0", "--dir", scratch.path(""), "--address", listener->localAddress().text()},
      {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"});
  for (int call = 0; call < 2; ++call)
    test::waitUntil([&] {
      const auto caller = listener->accept();
      return caller.ok() && caller->valid();
    });
}

TEST(StuckCommand, MistakesHaveClearErrors) {
  const Scratch scratch;
  const auto error = [&](const Words& args) {
    const auto result = endedWith(2, stuck(args, {"RAILWISE_METRICS_DIR=" + scratch.path()}));
    return result.err;
  };
  EXPECT_HAS(error({"12x"}), "'12x' is not the number of a process");
  EXPECT_HAS(error({"12"}), "process 12 has no record in");
  EXPECT_HAS(error({"--hosts", "/no/such"}), "/no/such: cannot be read: No such file");
  EXPECT_HAS(error({"--hosts", "x", "12"}), "--hosts takes no PID");
  EXPECT_HAS(error({"--hosts", scratch.file("hosts", "-oProxyCommand=x\n")}),
             "hosts:1: '-oProxyCommand=x' is not the name of a host");
  EXPECT_HAS(error({"--json", "--dot"}), "--json and --dot: give one of them");
  EXPECT_HAS(error({"--seconds", "-1"}), "a number of seconds from 0 to 600");
  EXPECT_HAS(error({"--gathered", scratch.file("bad", "{\"x\"")}), "bad:1: no JSON, or cut");
}

TEST(PostmortemCommand, TellsWhatAProcessDidLast) {
  const Scratch scratch;
  RecordBuilder builder = waitingRank();
  builder.event(record::EventKind::kPortDown, "mlx5_0 port 1", 4).rail = 0;
  const std::string path = builder.write(scratch.path());
  const auto result = succeeded(run({"postmortem", path}));
  EXPECT_HAS(joined(result.out),
             "rank 3 (node1:4242) did not end in order (killed, crashed, or left after an error) while "
             "1 connection waited")
      << result.out;
  EXPECT_HAS(joined(result.out), "the first thing that went wrong: port down on mlx5_0 port 1") << result.out;
  EXPECT_HAS(run({"postmortem", "4242", "--dir", scratch.path()}).out, "rank 3 (node1:4242) did not end");
}

TEST(RecordsOfPids, TheDescendantsOfALauncherAreNamed) {
  const Scratch scratch;
  // A shell, its child, and the rank as the child's child.
  Process launcher("/bin/sh", {"-c", "(/bin/sh -c 'echo $$; exec sleep 100'; :); :"});
  ASSERT_TRUE(launcher.waitForOut("\n"));
  const std::string rank = launcher.out().substr(0, launcher.out().find('\n'));
  const std::string launcher_pid = std::to_string(launcher.pid());
  RecordBuilder builder = waitingRank();
  builder.header().pid = static_cast<uint32_t>(std::stoul(rank));
  builder.header().process_start = processStat(rank).start;
  const HeldRecord held(builder.write(scratch.path()));
  RecordBuilder stranger = lateRank();
  stranger.header().pid = static_cast<uint32_t>(getpid());
  stranger.header().process_start = processStat(kThisProcess).start;
  const HeldRecord other(stranger.write(scratch.path()));
  for (const char* command : {"stuck", "metrics", "postmortem", "top"}) {
    const auto result = run({command, launcher_pid, "--dir", scratch.path()});
    EXPECT_NE(result.status, 0) << command;
    EXPECT_HAS(result.err, "process " + launcher_pid + " has no record in ");
    EXPECT_HAS(result.err, " have: " + rank + "\n") << command << ": ";
  }
  // The number was another process's when the record was written.
  builder.header().process_start += 1;
  const Scratch before;
  const HeldRecord earlier(builder.write(before.path()));
  EXPECT_LACKS(run({"stuck", launcher_pid, "--dir", before.path()}).err, " have: ");
  kill(std::stoi(rank), SIGKILL);
}

// A job over the software device, with records in a folder of the test.
class Job {
 public:
  Job(const std::string& device, const std::string& ranks)
      : environment_({"RAILWISE_DEVICE=" + device, "RAILWISE_METRICS_DIR=" + scratch_.path()}),
        perf_(RAILWISE_CLI, {"perf", "sendrecv", "--ranks", ranks, "-b", "64K", "-e", "64K", "-D", "3600"},
              environment_) {}

  // Asks until an answer says `part`. Returns the whole answer, in one line.
  std::string stuckUntil(const std::string& part) {
    for (test::Patience patience;; patience.again()) {
      const std::string text = joined(run({"stuck", "--seconds=0.2"}, environment_).out);
      if (railwise::test::has(text, part)) return text;
    }
  }
  // The number of one of the ranks.
  pid_t rank() const {
    for (const auto& file : std::filesystem::directory_iterator(scratch_.path())) {
      const std::string name = file.path().filename();  // railwise-USER-PID-START
      const std::size_t at = name.find('-', name.find('-') + 1) + 1;
      return std::stoi(name.substr(at));
    }
    return -1;
  }
  const Words& environment() const { return environment_; }

 private:
  Scratch scratch_;
  Words environment_;
  Process perf_;
};

TEST(StuckLive, AStoppedRankIsNamed) {
  Job job("software:count=1,link=roce", "2");
  job.stuckUntil("messages/s");
  const pid_t rank = job.rank();
  ASSERT_GT(rank, 0);
  kill(rank, SIGSTOP);
  const std::string text = job.stuckUntil("is stopped (SIGSTOP)");
  kill(rank, SIGCONT);
  EXPECT_HAS(text, "kill -CONT " + std::to_string(rank));
  job.stuckUntil("nothing is stuck");
}

TEST(StuckLive, ABlackHoledRailIsNamedAndAfterTheEndToo) {
  Job job("software:count=1,link=roce;fault opcode=any nth=5000 every=1 drop", "2");
  job.stuckUntil("STUCK: ");
  const std::string text = job.stuckUntil("soft0 port 1 does not carry data");
  const pid_t rank = job.rank();
  ASSERT_GT(rank, 0);
  kill(rank, SIGKILL);
  const auto result = run({"postmortem", std::to_string(rank)}, job.environment());
  EXPECT_HAS(joined(result.out), "the first thing that went wrong: path lost") << result.out;
  EXPECT_HAS(joined(result.out), "soft0 port 1 qp ") << result.out;
}

TEST(PostmortemCommand, MistakesHaveClearErrors) {
  const Scratch scratch;
  EXPECT_EQ(run({"postmortem"}).status, 2);
  EXPECT_EQ(run({"postmortem", "--events=x", "1"}).status, 2);
  const auto missing = endedWith(1, run({"postmortem", "77", "--dir", scratch.path()}));
  EXPECT_HAS(missing.err, "process 77 has no record in");
  EXPECT_HAS(missing.err, "ended in order");
  expectFailure(run({"postmortem", scratch.file("bad", "no record")}), 1, scratch.path("bad"));
}

}  // namespace
}  // namespace railwise::cli
