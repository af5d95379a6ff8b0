// record_kills: ranks are killed with SIGKILL at random moments, again and again, and what each leaves behind
// must be a record that can be read, that fits together, and of which `railwise postmortem` says that its
// process was killed. Exit status 0 when all was right; what was wrong is printed with the command that shows
// it again.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "process.h"
#include "record/kill/rank.h"
#include "record/reader.h"

namespace railwise::test {
namespace {

constexpr int kRanks = 2;
constexpr int kReadyMs = 60'000;

struct Settings {
  int kills = 25;
  int first = 1;  // number of the first kill
  std::string tally;
  std::string railwise;
};

int usage() {
  std::fputs(
      "record_kills --railwise PATH [--kills N] [--first N] [--tally FILE]\n"
      "  --kills   how many processes are killed: 25\n"
      "  --first   the number of the first kill, which is its seed, too: an odd number\n"
      "  --tally   keep in FILE which kills were right, and go on from there when called again\n",
      stderr);
  return 2;
}

bool parse(int argc, char** argv, Settings* settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--kills") settings->kills = std::atoi(argv[i + 1]);
    else if (key == "--first") settings->first = std::atoi(argv[i + 1]);
    else if (key == "--tally") settings->tally = argv[i + 1];
    else if (key == "--railwise") settings->railwise = argv[i + 1];
    else return false;
  }
  return argc % 2 == 1 && settings->kills > 0 && settings->first % 2 == 1 && !settings->railwise.empty();
}

// What the records that were left had in them, so that the test can tell that it tests something.
struct Found {
  int records = 0;
  int unborn = 0;  // killed before there was a record
  int torn = 0;    // killed in the middle of a change
  int connections = 0;
  int events = 0;
  int failovers = 0;
  int closed = 0;
};

// "": all is right.
std::string problemOf(const record::Snapshot& snapshot, pid_t pid) {
  const record::Process& process = snapshot.process;
  if (process.alive) return "its process is alive";
  if (process.pid != static_cast<uint32_t>(pid)) return "its pid is " + std::to_string(process.pid);
  if (process.ended_ns != 0) return "its process has ended in order";
  for (const record::Connection& connection : snapshot.connections) {
    if (connection.completed > connection.posted) return "a connection has completed more than was posted";
    if (connection.queue_pairs.size() > record::kQueuePairs) return "a connection has too many queue pairs";
    for (const record::QueuePair& queue_pair : connection.queue_pairs)
      if (queue_pair.work_requests > 1'000'000) return "a queue pair has posted more than anyone could";
  }
  for (const record::Rail& rail : snapshot.rails) {
    if (!rail.device.starts_with("soft")) return "a rail is of the device '" + rail.device + "'";
    const record::Totals& totals = rail.totals;
    if (totals.work_requests > 10'000'000 || totals.bytes_sent > uint64_t{1} << 40 ||
        totals.control_bytes > uint64_t{1} << 40 || totals.completions > 10'000'000)
      return "a rail has counted more than it could";
  }
  const record::Event* last = nullptr;
  for (const record::Event& event : snapshot.events) {
    if (last != nullptr && event.number <= last->number) return "events are out of order";
    if (last != nullptr && event.at_ns < last->at_ns) return "an event is older than the one before it";
    if (event.at_ns > snapshot.read_ns) return "an event is of the future";
    last = &event;
  }
  return "";
}

class Kills {
 public:
  explicit Kills(const Settings& settings) : settings_(settings) {
    std::string name = (std::filesystem::temp_directory_path() / "railwise-kills-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::exit(1);
    }
    folder_ = name;
  }
  ~Kills() { std::filesystem::remove_all(folder_); }
  Kills(const Kills&) = delete;
  Kills& operator=(const Kills&) = delete;

  int run() {
    readTally();
    for (int number = settings_.first; number < settings_.first + settings_.kills; number += kRanks)
      if (!done_.contains(number)) killJob(number);
    std::printf(
        "%d processes killed: %d records (%d of them in the middle of a change), %d killed before there was "
        "one; in the records: %d connections, %d events, %d failovers, %d closed connections\n",
        killed_, found_.records, found_.torn, found_.unborn, found_.connections, found_.events,
        found_.failovers, found_.closed);
    if (failures_ > 0) return 1;
    // A run of some length must have met all of it.
    const bool met = found_.records > 0 && found_.connections > 0 && found_.events > 0 &&
                     found_.failovers > 0 && found_.closed > 0;
    if (killed_ >= 20 && !met) std::printf("that is not what this test is for\n");
    return killed_ < 20 || met ? 0 : 1;
  }

 private:
  struct Child {
    pid_t pid = -1;
    int ready = -1;
    bool was_ready = false;
  };

  void killJob(int number) {
    std::mt19937_64 random(static_cast<uint64_t>(number));
    const auto below = [&](uint64_t n) { return random() % n; };
    RankSettings rank;
    rank.folder = folder_;
    rank.rails = 1 + static_cast<int>(below(2));
    rank.devices = "software:fabric=kill" + std::to_string(getpid()) + "-" + std::to_string(number) +
                   ",count=3;fault opcode=write_imm every=" + std::to_string(20 + below(60)) +
                   " status=general_err";
    int peers[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peers) != 0) std::abort();
    std::array<Child, kRanks> children;
    for (int i = 0; i < kRanks; ++i) children[static_cast<std::size_t>(i)] = start(rank, peers, i);
    for (const int fd : peers) close(fd);
    // Some are killed while they begin, some in their first traffic, the others after a connection was
    // closed.
    const bool early = below(5) == 0;
    const int connections = early ? 0 : 1 + static_cast<int>(below(2));
    for (int i = 0; i < connections; ++i) {
      for (Child& child : children) child.was_ready = waitForByte(child.ready);
    }
    const std::size_t first = below(2);
    for (const std::size_t i : {first, 1 - first}) {
      usleep(static_cast<useconds_t>(below(early ? 60'000 : 25'000)));
      Child& child = children[i];
      if (!early && !child.was_ready) fail(number, "no message has arrived within a minute");
      child.was_ready = child.was_ready || waitForByte(child.ready, 0);
      kill(child.pid, SIGKILL);
      (void)waitpid(child.pid, nullptr, 0);
      close(child.ready);
      ++killed_;
      check(number, child);
    }
    tally(number);
  }

  Child start(RankSettings rank, const int (&peers)[2], int index) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) std::abort();
    std::fflush(stdout);
    Child child;
    child.pid = fork();
    if (child.pid == 0) {
      close(ready[0]);
      close(peers[1 - index]);  // so that the end of the peer ends the conversation
      rank.peer = peers[index];
      rank.ready = ready[1];
      runRank(rank);
    }
    close(ready[1]);
    child.ready = ready[0];
    return child;
  }

  // A byte for each connection that has carried messages.
  static bool waitForByte(int fd, int limit_ms = kReadyMs) {
    pollfd input = {.fd = fd, .events = POLLIN, .revents = 0};
    char byte = 0;
    return poll(&input, 1, limit_ms) == 1 && read(fd, &byte, 1) == 1;
  }

  void check(int number, const Child& child) {
    std::string file;
    for (const record::RecordFile& each : record::listRecords(folder_, geteuid()))
      if (each.pid == static_cast<uint32_t>(child.pid)) file = each.path;
    if (file.empty()) {
      ++found_.unborn;
      if (child.was_ready) fail(number, "it has left no record");
      return;
    }
    const auto snapshot = record::readRecord(file, geteuid());
    if (!snapshot.ok()) {
      const bool begun = snapshot.error().find("has only begun to write it") != std::string::npos;
      if (child.was_ready || !begun) fail(number, snapshot.error());
      ++found_.unborn;
      std::filesystem::remove(file);
      return;
    }
    count(*snapshot);
    if (const std::string problem = problemOf(*snapshot, child.pid); !problem.empty())
      return fail(number, file + ": " + problem, file);
    const auto said = cli::runProcess(settings_.railwise, {"postmortem", file});
    if (said.status != 0 || said.out.find("killed") == std::string::npos)
      return fail(number,
                  "railwise postmortem ends with " + std::to_string(said.status) + ": " + said.out + said.err,
                  file);
    std::filesystem::remove(file);
  }

  void count(const record::Snapshot& snapshot) {
    ++found_.records;
    found_.torn += snapshot.torn ? 1 : 0;
    found_.connections += static_cast<int>(snapshot.connections.size());
    found_.events += static_cast<int>(snapshot.events.size());
    found_.closed += static_cast<int>(snapshot.closed.connections);
    for (const record::Rail& rail : snapshot.rails) found_.failovers += static_cast<int>(rail.failovers);
  }

  void fail(int number, const std::string& what, const std::string& file = "") {
    ++failures_;
    if (!file.empty()) {
      const std::string kept =
          (std::filesystem::temp_directory_path() / "railwise-kill").string() + "-" + std::to_string(number);
      std::error_code ignored;
      std::filesystem::copy_file(file, kept, std::filesystem::copy_options::overwrite_existing, ignored);
      std::printf("kill %d: the record is kept as %s\n", number, kept.c_str());
    }
    std::printf("kill %d: %s\n  record_kills --railwise %s --kills 2 --first %d\n", number, what.c_str(),
                settings_.railwise.c_str(), number);
  }

  // A line for each job whose kills were right.
  void readTally() {
    std::ifstream file(settings_.tally);
    for (int number = 0; file >> number;) done_[number] = true;
    if (!done_.empty()) std::printf("%zu jobs were killed in earlier runs\n", done_.size());
  }
  void tally(int number) {
    if (settings_.tally.empty() || failures_ > 0) return;
    std::ofstream(settings_.tally, std::ios::app) << number << '\n';
  }

  const Settings settings_;
  std::string folder_;
  std::map<int, bool> done_;
  Found found_;
  int killed_ = 0;
  int failures_ = 0;
};

int runAll(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, &settings)) return usage();
  return Kills(settings).run();
}

}  // namespace
}  // namespace railwise::test

int main(int argc, char** argv) { return railwise::test::runAll(argc, argv); }
