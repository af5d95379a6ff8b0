// Fifty runs of one user side by side, of unlike configurations: each ends right, or is told who made the
// default fabric.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "process.h"
#include "softdev/endpoint.h"
#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

constexpr int kRuns = 50;
constexpr std::size_t kAtOnce = 6;
constexpr int kRight = 0;
constexpr int kTold = 3;
constexpr int kWrong = 4;

const std::array<std::string, 5> kDevices = {"", "count=2", "link=ib,speed=100000", "link=iwarp,count=2",
                                             "@dual-port"};

// Opens all devices of a configuration on the default fabric, writes from each to itself, and stays until
// `until` returns.
int useDevices(
    const std::string& text, const std::function<void()>& until = [] {}) {
  if (!configure(text.c_str()).ok()) return kWrong;
  std::vector<ibv_context*> contexts;
  ibv_device** list = getDeviceList(nullptr);
  for (ibv_device** device = list; *device != nullptr; ++device) {
    ibv_context* const context = openDevice(*device);
    if (context == nullptr) return errno == EADDRINUSE ? kTold : kWrong;
    contexts.push_back(context);
  }
  for (ibv_context* const context : contexts) {
    if (context->device->transport_type == IBV_TRANSPORT_IWARP) continue;  // connects otherwise
    Pair pair(context);
    *pair.a.word(0) = 4711;
    if (pair.a.send({.length = 8}) != 0 || pair.a.wait().status != IBV_WC_SUCCESS || *pair.b.word(0) != 4711)
      return kWrong;
  }
  until();
  for (ibv_context* const context : contexts) {
    if (closeDevice(context) != 0) return kWrong;
  }
  return kRight;
}

// A forked child with the exit status of useDevices(). What it says on stderr is kept.
class User {
 public:
  explicit User(const std::string& devices) {
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(fileno(said_), STDERR_FILENO);
    try {
      _exit(useDevices(devices));
    } catch (const std::exception&) {
      _exit(kWrong);
    }
  }
  ~User() { std::fclose(said_); }
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  // `expected` is kRight or kTold. With kWrong both of these are accepted.
  void expect(int expected, const std::string& devices) {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
    char text[4096] = "";
    (void)!pread(fileno(said_), text, sizeof text - 1, 0);
    const std::string said = text;
    ASSERT_TRUE(WIFEXITED(status)) << devices;
    if (expected != kWrong) EXPECT_EQ(WEXITSTATUS(status), expected) << devices << ": " << said;
    if (WEXITSTATUS(status) == kRight) return;
    EXPECT_EQ(WEXITSTATUS(status), kTold) << devices << ": " << said;
    for (const char* part : {"cannot join the fabric default with RAILWISE_DEVICE=software", ": process ",
                             " made it", "with RAILWISE_DEVICE=software", "fabric=NAME"})
      EXPECT_HAS(said, part);
  }

 private:
  std::FILE* const said_ = std::tmpfile();
  pid_t pid_ = -1;
};

// A process that holds the default fabric with a configuration for as long as this lives.
class Holder {
 public:
  explicit Holder(const std::string& devices) {
    if (pipe(up_) != 0 || pipe(down_) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(down_[1]);
      _exit(useDevices(devices, [this] {
        char byte = 1;
        (void)!write(up_[1], &byte, 1);
        (void)!read(down_[0], &byte, 1);
      }));
    }
    close(up_[1]);
    char byte = 0;
    made_ = read(up_[0], &byte, 1) == 1;
  }
  ~Holder() {
    close(down_[1]);
    waitpid(pid_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // False: another program of this user is on the default fabric, with a configuration of its own.
  bool made() const { return made_; }

 private:
  int up_[2] = {-1, -1};
  int down_[2] = {-1, -1};
  pid_t pid_ = -1;
  bool made_ = false;
};

// A command of Railwise's own: it has a fabric of its own, and ends right.
class Command {
 public:
  Command(std::vector<std::string> words, const std::string& devices)
      : process_(RAILWISE_CLI, with(std::move(words), devices), {"RAILWISE_FABRIC="}) {}
  void expectRight() {
    const cli::ProcessResult result = process_.wait();
    EXPECT_EQ(result.status, 0) << result.err << result.out;
  }

 private:
  static std::vector<std::string> with(std::vector<std::string> words, const std::string& devices) {
    words.insert(words.end(), {"--plugin", RAILWISE_PLUGIN_PATH, "--device", "software:" + devices});
    return words;
  }

  cli::Process process_;
};

TEST(MixedRuns, FiftySideBySideMeetOnlyIfTheyAgree) {
  unsetenv("RAILWISE_FABRIC");
  const std::string& held = kDevices[1];
  const Holder holder(held);
  std::deque<std::function<void()>> running;
  const auto endFirst = [&] {
    running.front()();
    running.pop_front();
  };
  for (int run = 0; run < kRuns; ++run) {
    const std::string devices = kDevices.at(static_cast<std::size_t>((run + run / 5) % 5));
    if (running.size() == kAtOnce) endFirst();
    if (run % 5 == 0) {
      const auto perf = std::make_shared<Command>(
          std::vector<std::string>{"perf", "sendrecv", "-b", "8", "-e", "8", "-n", "1"}, devices);
      running.emplace_back([perf] { perf->expectRight(); });
    } else if (run % 5 == 1) {
      const auto list = std::make_shared<Command>(std::vector<std::string>{"devices"}, devices);
      running.emplace_back([list] { list->expectRight(); });
    } else {
      const auto user = std::make_shared<User>(devices);
      const int expected = !holder.made() ? kWrong : devices == held ? kRight : kTold;
      running.emplace_back([user, expected, devices] { user->expect(expected, devices); });
    }
  }
  while (!running.empty()) endFirst();
}

}  // namespace
}  // namespace railwise::softdev::test
