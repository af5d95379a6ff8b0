#include "perf/job/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/socket.h"
#include "cli/options/message.h"
#include "cli/options/options.h"
#include "perf/job/rank_environment.h"

namespace railwise::cli {
namespace {

// The time from the first rank's failure, or from a signal, until the remaining ranks are killed.
constexpr auto kGrace = std::chrono::seconds(5);

std::vector<pid_t> childrenOfThis() {
  std::vector<pid_t> children;
  std::FILE* const list = std::fopen("/proc/thread-self/children", "re");
  for (int pid = 0; list != nullptr && std::fscanf(list, "%d", &pid) == 1;) children.push_back(pid);
  if (list != nullptr) std::fclose(list);
  return children;
}

struct Child {
  pid_t pid = -1;
  bool running = false;
  ProcessEnd end = {};
};

class Launcher {
 public:
  explicit Launcher(const Launch& launch) : launch_(launch) {}

  Launched run() {
    before_ = childrenOfThis();
    Launched launched;
    launched.exit_status = runAll();
    launched.signal = signal_;
    launched.orphans = endOrphans();
    for (const Child& child : children_) {
      launched.ends.push_back(child.end);
      launched.pids.push_back(child.pid);
    }
    launched.ends.resize(static_cast<std::size_t>(launch_.ranks));
    return launched;
  }

 private:
  int runAll() {
    if (launch_.adopt_orphans) prctl(PR_SET_CHILD_SUBREAPER, 1);
    const uint8_t loopback[] = {127, 0, 0, 1};
    auto listener = Socket::listen(SocketAddress(AF_INET, loopback, 0, 0), launch_.ranks + 64);
    if (!listener.ok())
      return leave(kExitFailed, "cannot listen on 127.0.0.1: %s", std::strerror(listener.status().sys_errno));
    secret_ = randomHex();
    blockSignals();
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      if (!start(rank, *listener)) {
        say("cannot start rank %d: %s", rank, std::strerror(errno));
        failed_ = true;
        killAll(SIGKILL);
        break;
      }
    }
    listener->close();
    watch();
    if (signal_ != 0) return 128 + signal_;
    return failed_ ? kExitFailed : kExitOk;
  }

  // Ends processes that ranks left behind. They have become children of this process.
  bool endOrphans() const {
    if (!launch_.adopt_orphans) return false;
    bool any = false;
    for (const pid_t pid : childrenOfThis()) {
      if (std::find(before_.begin(), before_.end(), pid) != before_.end()) continue;
      if (waitpid(pid, nullptr, WNOHANG) == pid) continue;  // the process had already ended
      say("a rank left process %d behind: killing it", static_cast<int>(pid));
      kill(pid, SIGKILL);
      (void)waitpid(pid, nullptr, 0);
      any = true;
    }
    return any;
  }

  void blockSignals() {
    sigemptyset(&watched_);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&watched_, number);
    sigprocmask(SIG_BLOCK, &watched_, &original_mask_);
  }

  bool start(int rank, const Socket& listener) {
    const pid_t launcher = getpid();
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) becomeRank(rank, listener, launcher);
    children_.push_back({pid, true, {}});
    return true;
  }

  [[noreturn]] void becomeRank(int rank, const Socket& listener, pid_t launcher) const {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher) _exit(kExitFailed);
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set(kRankVariable, std::to_string(rank));
    set(kSizeVariable, std::to_string(launch_.ranks));
    set(kAddressVariable, listener.localAddress().text());
    set(kSecretVariable, secret_);
    set(kLauncherVariable, std::to_string(launcher));
    set(kFallbackVariable, launch_.software_fallback ? "1" : "0");
    if (launch_.environment) {
      for (const auto& [name, value] : launch_.environment(rank)) set(name.c_str(), value);
    }
    if (launch_.record_fd >= 0) {
      fcntl(launch_.record_fd, F_SETFD, 0);  // the descriptor stays open after exec
      set(kRecordVariable, std::to_string(launch_.record_fd));
    }
    if (rank == 0) {
      fcntl(listener.fd(), F_SETFD, 0);
      set(kListenFdVariable, std::to_string(listener.fd()));
    }
    if (const int null = open("/dev/null", O_RDONLY | O_CLOEXEC); null >= 0) dup2(null, STDIN_FILENO);
    std::vector<char*> argv = {const_cast<char*>("railwise")};
    for (const char* arg : launch_.args) argv.push_back(const_cast<char*>(arg));
    argv.push_back(nullptr);
    sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(kExitFailed);
  }

  bool anyRunning() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.running; });
  }

  void killAll(int number) {
    for (const Child& child : children_) {
      if (child.running) kill(child.pid, number);
    }
  }

  void watch() {
    while (anyRunning()) {
      if (launch_.tick) launch_.tick();
      const timespec tick = {.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(launch_.tick_period).count()};
      const int number = sigtimedwait(&watched_, nullptr, &tick);
      if (number > 0 && number != SIGCHLD) interrupted(number);
      reap();
      if (deadline_ && deadline_->passed() && !killed_) {
        killed_ = true;
        for (std::size_t rank = 0; rank < children_.size(); ++rank) {
          if (!children_[rank].running) continue;
          children_[rank].end.killed = true;
          say("rank %zu (pid %d) did not end: killing it", rank, static_cast<int>(children_[rank].pid));
        }
        killAll(SIGKILL);
      }
    }
  }

  void interrupted(int number) {
    if (number == SIGPIPE) {
      // Nobody reads on: `perf | head`. SIGKILL, because a rank must not report that another one is gone.
      signal_ = number;
      return killAll(SIGKILL);
    }
    if (signal_ == 0) say("ended by signal %d (%s)", number, strsignal(number));
    signal_ = number;
    killAll(SIGTERM);
    beginGrace();
  }

  void beginGrace() {
    if (!deadline_) deadline_ = Deadline::after(kGrace);
  }

  void reap() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = children_[rank];
      int status = 0;
      if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.running = false;
      child.end.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (WIFEXITED(status) && WEXITSTATUS(status) == kExitOk) continue;
      failed_ = true;
      beginGrace();
      if (signal_ != 0 || killed_) continue;
      if (WIFSIGNALED(status))
        say("rank %zu (pid %d) was killed by signal %d (%s)", rank, static_cast<int>(child.pid),
            WTERMSIG(status), strsignal(WTERMSIG(status)));
      else if (WEXITSTATUS(status) != kExitFailed)  // a rank that fails reports the reason itself
        say("rank %zu (pid %d) ended with status %d", rank, static_cast<int>(child.pid), WEXITSTATUS(status));
    }
  }

  const Launch& launch_;
  std::vector<pid_t> before_;  // child processes that this launcher did not start
  std::string secret_;
  std::vector<Child> children_;
  sigset_t watched_;
  sigset_t original_mask_;
  std::optional<Deadline> deadline_;
  bool failed_ = false;
  bool killed_ = false;
  int signal_ = 0;
};

}  // namespace

Launched launchRanks(const Launch& launch) { return Launcher(launch).run(); }

}  // namespace railwise::cli
