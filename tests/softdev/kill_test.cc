// Death: one of two processes in full traffic is killed at a random instant, again and again. The survivor's
// sends must fail with "retry exceeded" within two seconds, every completion and byte before must be right,
// the next connection must work, and nothing of the dead may stay.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "softdev/census.h"
#include "softdev/fabric/monotonic.h"
#include "softdev/kill_worker.h"
#include "softdev/queues/objects.h"
#include "softdev/queues/reclaim.h"

namespace railwise::softdev::test {
namespace {

constexpr int64_t kPatienceNs = 2'000'000'000;

class WorkerProcess {
 public:
  WorkerProcess(const std::string& config, uint64_t seed) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
      throw std::runtime_error("socketpair");
    fd_ = fds[0];
    const int theirs = dup(fds[1]);  // without close-on-exec
    close(fds[1]);
    char program[] = "/proc/self/exe";
    char flag[] = "--softdev-worker";
    char number[16];
    std::snprintf(number, sizeof number, "%d", theirs);
    char* arguments[] = {program, flag, number, nullptr};
    const int error = posix_spawn(&pid_, program, nullptr, nullptr, arguments, environ);
    close(theirs);
    if (error != 0) throw std::runtime_error("posix_spawn");
    WorkerCommand command{};
    command.kind = WorkerCommand::kConfigure;
    command.seed = seed;
    std::snprintf(command.config, sizeof command.config, "%s", config.c_str());
    tell(command);
    ready();
  }
  ~WorkerProcess() {
    close(fd_);
    reap();
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void tell(const WorkerCommand& command) const { (void)!send(fd_, &command, sizeof command, MSG_NOSIGNAL); }
  bool hear(WorkerAnswer* answer) const { return recv(fd_, answer, sizeof *answer, 0) == sizeof *answer; }
  void ready() {
    if (!hear(&answer_)) throw std::runtime_error("a worker is gone");
  }
  const Address* addresses() const { return answer_.addresses; }
  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  void reap() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  int fd_ = -1;
  pid_t pid_ = -1;
  WorkerAnswer answer_{};
};

// Names of sockets of this fabric.
int socketsOf(const std::string& fabric) {
  std::ifstream sockets("/proc/net/unix");
  int count = 0;
  for (std::string line; std::getline(sockets, line);)
    count += line.find("/" + fabric + "/") != std::string::npos;
  return count;
}

// Files of this fabric in shared memory: other programs of the computer have theirs there.
int filesOf(const std::string& fabric) {
  std::error_code none;  // no such folder, no files
  const std::filesystem::directory_iterator files("/dev/shm", none);
  return static_cast<int>(std::count_if(begin(files), end(files), [&](const auto& file) {
    return file.path().filename().string().find(fabric) != std::string::npos;
  }));
}

class Killing {
 public:
  explicit Killing(uint64_t seed) : random_(seed) {
    for (auto& worker : workers_) worker = spawn();
  }

  // One connection, one death; "" or what was wrong.
  std::string round() {
    connect();
    const size_t victim = random_() % 2;
    const bool at_once = random_() % 16 == 0;  // before the traffic begins
    const int64_t killed_ns = killAfterTraffic(victim, at_once);
    WorkerAnswer lost{};
    const bool heard = workers_[1 - victim]->hear(&lost);
    const double waited_ms = static_cast<double>(static_cast<int64_t>(monotonicNs()) - killed_ns) / 1e6;
    workers_[victim] = nullptr;
    if (!heard) return "the survivor died";
    longest_ms_ = std::max(longest_ms_, waited_ms);
    completions_ += lost.completions;
    if (lost.complaint[0] != 0) return lost.complaint;
    if (lost.first_error_ns < killed_ns)
      return "an error " + std::to_string(killed_ns - lost.first_error_ns) +
             " ns before the death: " + lost.first_error;
    if (waited_ms > static_cast<double>(kPatienceNs) / 1e6)
      return "the survivor knew after " + std::to_string(waited_ms) + " ms";
    workers_[1 - victim]->ready();
    workers_[victim] = spawn();
    return "";
  }

  void leave() {
    WorkerCommand command{};
    command.kind = WorkerCommand::kLeave;
    for (auto& worker : workers_) {
      if (worker != nullptr) worker->tell(command);
      worker = nullptr;
    }
  }

  const std::string& fabric() const { return device_.fabric(); }
  Fabric& attached() { return *as<Context>(static_cast<ibv_context*>(device_)).fabric; }
  double longestMs() const { return longest_ms_; }
  uint64_t completions() const { return completions_; }

 private:
  std::unique_ptr<WorkerProcess> spawn() {
    constexpr const char* kModes[] = {
        "", ";mover=vm", ";mover=mem", ";mover=agent", ";mover=agent", ";mover=remap", ";engine=on"};
    const std::string config = "fabric=" + fabric() + kModes[random_() % std::size(kModes)] + ";name=soft0";
    return std::make_unique<WorkerProcess>(config, random_());
  }

  void connect() {
    WorkerCommand command{};
    command.kind = WorkerCommand::kConnect;
    for (size_t i = 0; i < 2; ++i) {
      std::memcpy(command.peers, workers_[1 - i]->addresses(), sizeof command.peers);
      workers_[i]->tell(command);
    }
    WorkerAnswer answer{};
    for (auto& worker : workers_) worker->hear(&answer);
  }

  int64_t killAfterTraffic(size_t victim, bool at_once) {
    WorkerCommand command{};
    command.kind = WorkerCommand::kGo;
    int64_t killed_ns = static_cast<int64_t>(monotonicNs());
    if (at_once) workers_[victim]->kill();
    for (auto& worker : workers_) worker->tell(command);
    if (!at_once) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 4000));  // the instant is random
      killed_ns = static_cast<int64_t>(monotonicNs());
      if (random_() % 4 == 0) {
        command.kind = WorkerCommand::kDieHolding;
        command.lock = static_cast<WorkerLock>(random_() % static_cast<uint32_t>(WorkerLock::kCount));
        workers_[victim]->tell(command);
      } else {
        workers_[victim]->kill();
      }
    }
    workers_[victim]->reap();
    return killed_ns;
  }

  OpenDevice device_;  // keeps the fabric, and with it what the dead leave
  std::mt19937_64 random_;
  std::unique_ptr<WorkerProcess> workers_[2];
  double longest_ms_ = 0;
  uint64_t completions_ = 0;
};

class Kill : public testing::TestWithParam<int> {};  // how many

TEST_P(Kill, EitherEndAtAnyInstant) {
  constexpr uint64_t kSeed = 20261121;
  const int kills = GetParam();
  Killing killing(kSeed + static_cast<uint64_t>(kills));
  const Census::Records before = [&] {
    reclaimDead(killing.attached());
    return takeCensus(killing.attached()).of_dead;
  }();
  EXPECT_EQ(before, Census::Records{});
  for (int i = 0; i < kills; ++i) ASSERT_EQ(killing.round(), "") << "kill " << i;
  killing.leave();
  reclaimDead(killing.attached());
  const Census census = takeCensus(killing.attached());
  EXPECT_EQ(census.of_dead, Census::Records{});
  EXPECT_EQ(census.of_living, (Census::Records{.processes = 1, .contexts = 1}));
  EXPECT_EQ(filesOf(killing.fabric()), 0);
  EXPECT_EQ(socketsOf(killing.fabric()), 2);  // our membership and our asynchronous events
  std::printf("%d deaths, %llu completions checked, longest until noticed %.1f ms\n", kills,
              static_cast<unsigned long long>(killing.completions()), killing.longestMs());
}

std::string killsName(const testing::TestParamInfo<int>& test) { return std::to_string(test.param); }
INSTANTIATE_TEST_SUITE_P(Quick, Kill, testing::Values(30), killsName);
INSTANTIATE_TEST_SUITE_P(Full, Kill, testing::Values(250), killsName);
INSTANTIATE_TEST_SUITE_P(Campaign, Kill, testing::Values(5000), killsName);

}  // namespace
}  // namespace railwise::softdev::test
