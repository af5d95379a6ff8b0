// The record that this process writes: its file, its pages, and what moves when queue pairs and connections
// end.
#include "record/writer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "ok.h"
#include "record/reader.h"
#include "scratch.h"

namespace railwise::record {
namespace {

namespace fs = std::filesystem;

// Reads the record of this process, or one that stop() has left.
Snapshot readAt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  auto snapshot = parseRecord(std::as_bytes(std::span(bytes)), false, path);
  EXPECT_OK(snapshot);
  return snapshot.ok() ? *snapshot : Snapshot();
}

struct FreePage {
  void operator()(void* memory) const { PageMemory::free(memory, 64); }
};
using Page = std::unique_ptr<void, FreePage>;

Page makePage() { return Page(PageMemory::allocate(64)); }
ConnectionPage& pageOf(const Page& page) { return PageMemory::pageOf(page.get()); }
ConnectionRecord& connectionOf(const Page& page) { return pageOf(page).connection; }

// A page in the record.
Page openPage(Side side = Side::kSender) {
  Page page = makePage();
  openConnection(connectionOf(page), side, ConnectionState::kRunning);
  return page;
}

class Writer : public testing::Test {
 protected:
  void startIn(const std::string& folder, uint32_t most_connections = 64) {
    start({.folder = folder, .most_connections = most_connections, .host = "node1:1", .plugin = "test"});
  }
  void startRecord(uint32_t most_connections = 64) {
    startIn(scratch_.path(), most_connections);
    ASSERT_FALSE(recordPath().empty());
  }
  Snapshot read() const { return readAt(recordPath()); }
  void TearDown() override { stop(); }

  const test::Scratch scratch_;
};

TEST_F(Writer, HasNoRecordInAFolderThatDoesNotExist) {
  startIn(scratch_.path("missing"));
  EXPECT_EQ(recordPath(), "");
  const Page page = openPage();  // goes on in private memory
  EXPECT_EQ(connectionOf(page).slot_plus_one, 0U);
}

// Runs `act` in a child process, which says by its exit status whether it went well.
template <typename Act>
int statusOfChild(Act act) {
  const pid_t child = fork();
  if (child == 0) _exit(act() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST_F(Writer, AnExitWithoutStopRemovesTheFileOfAJobThatWasWell) {
  for (const bool well : {true, false}) {
    EXPECT_EQ(statusOfChild([&] {
                startRecord();
                if (!well) noteEvent(EventKind::kFailed, "");
                std::exit(0);
                return false;
              }),
              0);
    EXPECT_EQ(fs::is_empty(scratch_.path()), well);
  }
}

void limitFileSize(rlim_t bytes) {
  const rlimit limit = {bytes, bytes};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST_F(Writer, DoesNotDieByALimitOfFileSizes) {
  EXPECT_EQ(statusOfChild([&] {
              limitFileSize(4096);
              startIn(scratch_.path());
              return recordPath().empty();
            }),
            0);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(Writer, HoldsNoMoreConnectionsThanTheLimitOfFileSizesAllows) {
  EXPECT_EQ(statusOfChild([&] {
              limitFileSize(kSlotsAt + 4096);
              startRecord();
              const Page page = openPage();
              return connectionOf(page).slot_plus_one == 0 && read().unrecorded == 1;
            }),
            0);
}

TEST_F(Writer, KeepsTheCapOfConnections) {
  startRecord(2);
  const Page first = openPage();
  const Page second = openPage();
  const Page third = openPage();
  EXPECT_EQ(connectionOf(second).slot_plus_one, 2U);
  EXPECT_EQ(connectionOf(third).slot_plus_one, 0U);
  EXPECT_EQ(read().connections.size(), 2U);
  EXPECT_EQ(read().unrecorded, 1U);
}

TEST_F(Writer, GivesTheSlotOfAClosedConnectionToTheNextOne) {
  startRecord();
  Page first = openPage();
  const uint64_t id = connectionOf(first).id;
  setText(connectionOf(first).peer, "node2:7");
  setState(connectionOf(first), ConnectionState::kClosed);
  first.reset();
  const Page next = openPage();
  EXPECT_EQ(connectionOf(next).slot_plus_one, 1U);
  EXPECT_EQ(connectionOf(next).life, 2U);
  ASSERT_EQ(read().connections.size(), 1U);
  EXPECT_NE(read().connections[0].id, id);
  EXPECT_EQ(read().connections[0].peer, "");
}

TEST_F(Writer, HoldsMoreConnectionsThanItAddsAtOnce) {
  startRecord(40);
  std::vector<Page> pages;
  for (int i = 0; i < 40; ++i) pages.push_back(openPage());
  EXPECT_EQ(read().connections.size(), 40U);
  EXPECT_EQ(read().connections[39].slot, 39U);
}

TEST_F(Writer, LeavesNothingBehindWhenNothingHasFailed) {
  startRecord();
  stop();
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(Writer, KeepsARecordWithErrorsOfARail) {
  startRecord();
  const std::string path = recordPath();
  countError(addRail({.device = "mlx5_0"}), ErrorKind::kRetryExceeded);
  stop();
  EXPECT_NE(readAt(path).process.ended_ns, 0U);
}

TEST_F(Writer, SaysWhenTheProcessHasRun) {
  beat();  // no record
  startRecord();
  const std::string path = recordPath();
  EXPECT_EQ(readAt(path).process.alive_ns, 0U);
  const uint64_t before = nowNs();
  beat();
  const uint64_t said = readAt(path).process.alive_ns;
  EXPECT_GE(said, before);
  EXPECT_LE(said, nowNs());
  stop();
}

TEST_F(Writer, KeepsARecordOfAConnectionThatHasFailed) {
  startRecord();
  const std::string path = recordPath();
  noteEvent(EventKind::kConnectFailed, "node2: no answer");
  stop();
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(Writer, HasNoRecordInAChildOfFork) {
  startRecord();
  EXPECT_EQ(statusOfChild([] {
              noteEvent(EventKind::kOtherEvent, "of the child");
              const Page page = openPage();
              return recordPath().empty() && connectionOf(page).slot_plus_one == 0;
            }),
            0);
  EXPECT_EQ(read().events.size(), 1U);
  EXPECT_TRUE(read().connections.empty());
}

// Readers compare it with what they see themselves. qemu-user tells a process another moment than its
// children.
TEST_F(Writer, BeganWhenAnotherProcessSaysThatItBegan) {
  startRecord();
  const std::string read_stat = "cat /proc/" + std::to_string(getpid()) + "/stat";
  FILE* const pipe = popen(read_stat.c_str(), "re");
  ASSERT_NE(pipe, nullptr);
  char text[1024] = {};
  const std::size_t length = fread(text, 1, sizeof text - 1, pipe);
  ASSERT_EQ(pclose(pipe), 0);
  const std::string stat(text, length);
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  EXPECT_EQ(std::to_string(readAt(recordPath()).process.process_start), field);
}

TEST_F(Writer, KeepsTheLatestEvents) {
  startRecord();
  for (uint32_t i = 0; i < kEvents + 10; ++i) noteEvent(EventKind::kOtherEvent, std::to_string(i));
  const Snapshot snapshot = read();
  ASSERT_EQ(snapshot.events.size(), kEvents);
  EXPECT_EQ(snapshot.events.back().text, std::to_string(kEvents + 9));
  EXPECT_EQ(snapshot.events.back().number, snapshot.events.front().number + kEvents - 1);
}

TEST_F(Writer, SurvivesAPageThatLivesLongerThanTheRecord) {
  startRecord();
  const Page page = openPage();
  stop();
  startRecord();
  setState(connectionOf(page), ConnectionState::kFailed, "too late");
  EXPECT_TRUE(read().connections.empty());
}

// A sender's page with a queue pair of `rail`, which has posted 5 messages of 1000 bytes.
Page makeSender(uint16_t rail) {
  Page page = openPage();
  ConnectionRecord& connection = connectionOf(page);
  connection.lanes = 1;
  connection.queue_pairs = 2;
  connection.queue_rail[0] = rail;
  connection.first_message = 1;
  connection.numbers = {.next = 6, .posted = 6, .completions = 3};
  QueuePairRecord& pair = pageOf(page).queue_pairs[1];  // the first one is not used
  pair.used = 1;
  pair.rail = rail;
  pair.posted = 5;
  pair.bytes = 5000;
  pair.control_extra = 8;
  return page;
}

TEST_F(Writer, CountsTheSameBeforeAndAfterQueuePairsEnd) {
  startRecord();
  const Page page = makeSender(addRail({.device = "mlx5_0"}));
  connectionOf(page).flushes[0] = {.reads = 4, .completions = 4, .rail = 0, .in_use = 1};
  const auto check = [&](const char* when) {
    SCOPED_TRACE(when);
    const Totals totals = read().rails.at(0).totals;
    EXPECT_EQ(totals.messages_sent, 5U);
    EXPECT_EQ(totals.bytes_sent, 5000U);
    EXPECT_EQ(totals.work_requests, 9U);
    EXPECT_EQ(totals.control_bytes, 12U);
    EXPECT_EQ(totals.completions, 7U);
  };
  check("while the queue pair lives");
  foldQueuePairs(pageOf(page));
  check("when the queue pair has ended");
  foldQueuePairs(pageOf(page));
  foldFlushes(pageOf(page));
  setState(connectionOf(page), ConnectionState::kClosed);
  check("when the connection is closed");
}

TEST_F(Writer, CountsTheWholeTimeWithoutAPath) {
  startRecord();
  const Page page = openPage();
  ConnectionRecord& connection = connectionOf(page);
  setState(connection, ConnectionState::kLost, "the port is down");
  connection.state_since_ns -= 1000;
  setState(connection, ConnectionState::kReconnecting);
  connection.state_since_ns -= 1000;
  setState(connection, ConnectionState::kRunning, "");
  EXPECT_GE(connection.counters.lost_ns, 2000U);
  const uint64_t lost = connection.counters.lost_ns;
  setState(connection, ConnectionState::kClosed);
  EXPECT_EQ(read().closed.counters.lost_ns, lost);
}

TEST_F(Writer, CountsTheDegradedTimeOfAClosedConnection) {
  startRecord();
  const Page page = openPage();
  ConnectionRecord& connection = connectionOf(page);
  connection.degraded = 1;
  connection.degraded_since_ns = connection.opened_ns - 1000;
  setState(connection, ConnectionState::kClosed);
  EXPECT_GE(read().closed.counters.degraded_ns, 1000U);
}

TEST_F(Writer, DoesNotCountAListenerAsAConnection) {
  startRecord();
  auto listener = std::make_unique<ListenerPage>("mlx5_0", kNoRail);
  EXPECT_EQ(read().connections.at(0).state, ConnectionState::kListening);
  listener.reset();
  EXPECT_TRUE(read().connections.empty());
  EXPECT_EQ(read().closed.connections, 0U);
}

TEST_F(Writer, GivesTheReasonOfAState) {
  startRecord();
  const Page page = openPage();
  setState(connectionOf(page), ConnectionState::kFailed, "the peer is gone");
  EXPECT_EQ(read().connections.at(0).reason, "the peer is gone");
  setState(connectionOf(page), ConnectionState::kRunning, "");
  EXPECT_EQ(read().connections.at(0).reason, "");
}

}  // namespace
}  // namespace railwise::record
