// railwise top on a pseudo-terminal and through a pipe, with records in a folder of the test's own.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/observe/terminal_screen.h"
#include "process.h"
#include "record/held_record.h"
#include "record/record_builder.h"
#include "scratch.h"
#include "tests/ok.h"
#include "wait.h"

namespace railwise::cli {
namespace {

using namespace railwise::test;
using record::ConnectionState;
using record::RailState;
using record::Side;
using test::TerminalScreen;

// A process with two rails and two connections, whose record can change.
struct Machine {
  Scratch scratch;
  RecordBuilder builder;
  record::RailRecord& first = builder.rail("mlx5_0");
  record::RailRecord& second = builder.rail("mlx5_1");
  record::ConnectionPage& sender = builder.connection(Side::kSender);
  record::ConnectionPage& receiver = builder.connection(Side::kReceiver);
  std::string path = builder.write(scratch.path());
  HeldRecord held{path};

  // In place: the file is never shorter than before, and its lock stays.
  void update() {
    const std::vector<std::byte> bytes = builder.bytes();
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    close(fd);
  }
};

// railwise top on a terminal, in the foreground of a small shell with job control.
class TerminalRun {
 public:
  TerminalRun(const std::string& folder, const std::vector<std::string>& environment) {
    winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    int to_test[2], to_shell[2];
    EXPECT_EQ(openpty(&fd_, &slave_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(pipe2(to_test, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(to_shell, O_CLOEXEC), 0);
    EXPECT_EQ(tcgetattr(slave_, &before_), 0);
    shell_ = fork();
    if (shell_ == 0) {
      for (const int fd : {fd_, to_test[0], to_shell[1]}) close(fd);
      for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG", "NO_COLOR", "TERM"}) unsetenv(name);
      for (const std::string& one : environment) putenv(const_cast<char*>(one.c_str()));
      runShell(slave_, folder, to_test[1], to_shell[0]);
    }
    close(to_test[1]);
    close(to_shell[0]);
    statuses_fd_ = to_test[0];
    continue_fd_ = to_shell[1];
    EXPECT_EQ(::read(statuses_fd_, &top_, sizeof top_), ssize_t{sizeof top_});
  }
  ~TerminalRun() {
    kill(shell_, SIGKILL);
    waitpid(shell_, nullptr, 0);
    kill(top_, SIGKILL);
    for (const int fd : {fd_, slave_, statuses_fd_, continue_fd_})
      if (fd >= 0) close(fd);
  }
  TerminalRun(const TerminalRun&) = delete;
  TerminalRun& operator=(const TerminalRun&) = delete;

  void press(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), ssize_t(keys.size()));
  }
  void resize(int columns, int rows) {
    winsize size = {.ws_row = static_cast<unsigned short>(rows),
                    .ws_col = static_cast<unsigned short>(columns),
                    .ws_xpixel = 0,
                    .ws_ypixel = 0};
    read();
    screen.resize(columns, rows);
    ASSERT_EQ(ioctl(fd_, TIOCSWINSZ, &size), 0);
  }
  void signal(int number) { kill(top_, number); }
  void killShell() { kill(shell_, SIGKILL); }

  // Reads what is drawn until `condition`.
  template <typename Condition>
  void waitFor(Condition&& condition, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    try {
      waitUntil(
          [&] {
            read();
            return !screen.error().empty() || condition();
          },
          file, line);
    } catch (const std::exception& late) {
      FAIL() << late.what() << "\n" << screen.text();
    }
    EXPECT_EQ(screen.error(), "");
  }
  void waitForText(const std::string& text, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
    waitFor([&] { return screen.shows(text); }, file, line);
  }

  // The status of waitpid() when railwise top stops or ends.
  int waitForStatus() {
    int status = 0;
    waitFor([&] {
      pollfd in = {.fd = statuses_fd_, .events = POLLIN, .revents = 0};
      return poll(&in, 1, 0) == 1 && ::read(statuses_fd_, &status, sizeof status) == ssize_t{sizeof status};
    });
    read();
    EXPECT_EQ(screen.error(), "");
    return status;
  }
  void waitForGoodEnd() {
    const int status = waitForStatus();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  // The shell's "fg".
  void goOn() { ASSERT_EQ(write(continue_fd_, "", 1), 1); }
  bool topLives() const { return kill(top_, 0) == 0; }

  termios settings() const {
    termios now = {};
    EXPECT_EQ(tcgetattr(slave_, &now), 0);
    return now;
  }
  bool settingsAreAsBefore() const {
    const termios now = settings();
    return now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag &&
           now.c_cflag == before_.c_cflag && now.c_lflag == before_.c_lflag &&
           std::memcmp(now.c_cc, before_.c_cc, sizeof now.c_cc) == 0;
  }
  void expectRestored() {
    EXPECT_TRUE(settingsAreAsBefore());
    EXPECT_FALSE(screen.alternate());
    EXPECT_TRUE(screen.cursorShown());
    EXPECT_TRUE(screen.wraps());
    EXPECT_TRUE(screen.plain());
    EXPECT_EQ(screen.text(), std::string(static_cast<std::size_t>(24), '\n'));  // nothing on the main screen
  }
  // The terminal's window is closed.
  void hangUp() {
    close(slave_);
    slave_ = -1;
    close(fd_);
    fd_ = open("/dev/null", O_RDWR | O_CLOEXEC);
  }

  TerminalScreen screen{80, 24};

 private:
  void read() {
    pollfd in = {.fd = fd_, .events = POLLIN, .revents = 0};
    while (poll(&in, 1, 10) == 1 && (in.revents & POLLIN) != 0) {
      char bytes[4096];
      const ssize_t got = ::read(fd_, bytes, sizeof bytes);
      if (got <= 0) return;
      screen.take(std::string(bytes, static_cast<std::size_t>(got)));
    }
  }

  [[noreturn]] static void runShell(int terminal, const std::string& folder, int statuses, int continues) {
    endInTwoMinutes();
    login_tty(terminal);
    for (const int number : {SIGTTOU, SIGHUP, SIGINT}) ::signal(number, SIG_IGN);
    const pid_t top = fork();
    if (top == 0) {
      setpgid(0, 0);
      tcsetpgrp(0, getpid());
      for (const int number : {SIGTTOU, SIGHUP, SIGINT}) ::signal(number, SIG_DFL);
      execl(RAILWISE_CLI, RAILWISE_CLI, "top", "--dir", folder.c_str(), "--interval", "0.2", nullptr);
      _exit(127);
    }
    setpgid(top, top);
    bool told = write(statuses, &top, sizeof top) == ssize_t{sizeof top};
    for (int status = 0; told && waitpid(top, &status, WUNTRACED) == top;) {
      if (WIFSTOPPED(status)) tcsetpgrp(0, getpid());
      told = write(statuses, &status, sizeof status) == ssize_t{sizeof status};
      if (!WIFSTOPPED(status)) break;
      char byte;
      if (::read(continues, &byte, 1) != 1) break;
      tcsetpgrp(0, top);
      kill(-top, SIGCONT);
    }
    waitToBeKilled();  // the terminal belongs to this session
  }

  int fd_ = -1;
  int slave_ = -1;  // kept open, so that the terminal stays when the program ends
  int statuses_fd_ = -1;
  int continue_fd_ = -1;
  pid_t shell_ = -1;
  pid_t top_ = -1;
  termios before_ = {};
};

TEST(TopTerminal, ShowsTheMachineAndFollowsIt) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm-256color", "LANG=C.UTF-8"});
  run.waitForText("all well: 2 rails, 1 process, 2 connections up");
  EXPECT_TRUE(run.screen.alternate());
  EXPECT_FALSE(run.screen.cursorShown());
  EXPECT_EQ(run.settings().c_lflag & (ICANON | ECHO), 0U);
  run.waitForText("mlx5_1:1");
  run.waitForText("░░░");

  machine.second.state = RailState::kDown;
  machine.sender.connection.state = ConnectionState::kLost;
  machine.sender.connection.state_since_ns = machine.builder.ago(12);
  RecordBuilder::setText(machine.sender.connection.reason, "mlx5_1 port 1 is down\x1b[31m");
  machine.update();
  run.waitForText("1 of 2 rails down (mlx5_1:1");
  run.waitForText("process 4242 (rank 3): looking for a path since");
  run.waitForText("mlx5_1 port 1 is down?[31m");
  EXPECT_TRUE(run.screen.colored());

  run.press("q");
  run.waitForGoodEnd();
  run.expectRestored();
}

TEST(TopTerminal, KeysChooseTheView) {
  Machine machine;
  machine.builder.event(record::EventKind::kPortDown, "the cable is out", 5);
  machine.sender.connection.state = ConnectionState::kConnecting;
  machine.update();
  TerminalRun run(machine.scratch.path(), {"TERM=screen"});
  run.waitForText("WAITS FOR");
  run.press("c");
  run.waitForText("STATE   DEVICE");
  EXPECT_FALSE(run.screen.shows("WAITS FOR"));
  run.press("e");
  run.waitForText("the cable is out");
  run.press("h");
  run.waitForText("this help");
  run.press("r");
  run.waitForText("RoCE, so since");
  run.press("r");
  run.waitForText("WAITS FOR");
  run.press("u");
  run.waitForText("OF Gb/s");
  run.press("o");
  run.waitForText("o order: traffic");
  run.press("\x1b");  // Escape alone
  run.press("h");
  run.waitForText("this help");
  run.press("\x1b");
  run.waitForText("PEERDEV");
  run.press("q");
  run.waitForGoodEnd();
  run.expectRestored();
}

TEST(TopTerminal, PausesAndGoesOn) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=tmux"});
  run.waitForText("all well");
  run.press("p");
  run.waitForText("PAUSED");
  machine.second.state = RailState::kDown;
  machine.update();
  run.press("u");  // drawn anew, and still of the read before
  run.waitForText("Gb/s");
  EXPECT_TRUE(run.screen.shows("all well"));
  run.press("p");
  run.waitForText("1 of 2 rails down");
  EXPECT_FALSE(run.screen.shows("PAUSED"));
}

TEST(TopTerminal, ScrollsLongLists) {
  Machine machine;
  for (int i = 0; i < 40; ++i) {
    auto& connection = machine.builder.connection(Side::kSender).connection;
    RecordBuilder::setText(connection.peer, "peer" + std::to_string(i) + ":1");
  }
  machine.builder.write(machine.scratch.path());
  TerminalRun run(machine.scratch.path(), {"TERM=linux"});
  run.waitForText("42/42");
  run.press("c");
  run.waitForText("peer5:1");
  EXPECT_FALSE(run.screen.shows("peer39:1"));
  run.press("\x1b[6~\x1b[6~\x1b[6~\x1b[6~\x1b[6~");  // PgDn
  run.waitForText("peer39:1");
  run.waitForText("end of the list");
  run.press("\x1b[Ak\x1bOA");  // up, three times
  run.waitForText("3 more below");
  run.press("g");
  run.waitForText("peer5:1");
}

TEST(TopTerminal, DrawsAnewInANewSize) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
  run.waitForText("q quit");
  EXPECT_EQ(run.screen.line(23).substr(0, 6), "q quit");
  run.press("p");
  run.waitForText("PAUSED");  // no frame of the old size is under way
  run.resize(100, 30);
  run.waitFor([&] { return run.screen.line(29).substr(0, 6) == "q quit"; });
  EXPECT_EQ(run.screen.line(23), "");
  run.resize(40, 12);
  run.waitFor([&] { return run.screen.line(11).substr(0, 6) == "q quit"; });
}

TEST(TopTerminal, ASignalLeavesTheTerminalAsItWas) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGSEGV, SIGABRT}) {
    Machine machine;
    TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
    run.waitForText("all well");
    run.signal(number);
    const int status = run.waitForStatus();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    run.expectRestored();
  }
}

TEST(TopTerminal, ControlCLeavesToo) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
  run.waitForText("all well");
  run.press("\x03");
  const int status = run.waitForStatus();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  run.expectRestored();
}

TEST(TopTerminal, LeavesTheTerminalWhileItIsStopped) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
  run.waitForText("all well");
  run.press("\x1a");  // Ctrl-Z
  const int status = run.waitForStatus();
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  run.expectRestored();
  machine.second.state = RailState::kDown;
  machine.update();
  run.goOn();
  run.waitForText("1 of 2 rails down");
  EXPECT_TRUE(run.screen.alternate());
  run.press("q");
  run.waitForGoodEnd();
  run.expectRestored();
}

TEST(TopTerminal, EndsWhenTheTerminalIsGone) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
  run.waitForText("all well");
  run.hangUp();
  const int status = run.waitForStatus();
  // The hang-up can be seen before the signal comes.
  EXPECT_TRUE(WIFEXITED(status) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP)) << status;
}

TEST(TopTerminal, EndsWhenTheShellIsKilled) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
  run.waitForText("all well");
  run.killShell();
  waitUntil([&] { return !run.topLives(); });
}

TEST(TopTerminal, ObeysNoColorAndTheLocale) {
  Machine machine;
  machine.second.state = RailState::kDown;
  machine.update();
  TerminalRun run(machine.scratch.path(), {"TERM=xterm", "NO_COLOR=1", "LC_ALL=C", "LANG=C.UTF-8"});
  run.waitForText("[....");
  EXPECT_FALSE(run.screen.colored());
}

TEST(TopTerminal, PrintsOnceOnADumbTerminal) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=dumb"});
  run.waitForText("all well");
  EXPECT_FALSE(run.screen.alternate());
  run.waitForGoodEnd();
}

TEST(TopTerminal, SaysThatAProcessHasEnded) {
  Machine machine;
  TerminalRun run(machine.scratch.path(), {"TERM=xterm"});
  run.waitForText("all well");
  machine.held.kill9();
  run.waitForText("process 4242 (rank 3) has ended");
}

// ---- once

ProcessResult top(const Machine& machine, std::vector<std::string> args) {
  args.insert(args.begin(), {"top", "--dir", machine.scratch.path(), "--interval", "0.05"});
  return runProcess(RAILWISE_CLI, args, {"LC_ALL=C"});
}

TEST(TopOnce, APipeGetsPlainText) {
  Machine machine;
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{}, {"--once"}, {"4242"}}) {
    const auto result = succeeded(top(machine, args));
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out.find("all well: 2 rails, 1 process, 2 connections up\n"), 0U) << result.out;
    EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  }
  const auto narrow = top(machine, {"--once", "--width", "40"});
  for (std::size_t at = 0, end; (end = narrow.out.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 40U) << narrow.out;
}

TEST(TopOnce, JsonHasRatesAndConnections) {
  Machine machine;
  const auto result = succeeded(top(machine, {"--json"}));
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_GE(json["interval_s"], 0.05);
  EXPECT_EQ(json["totals"]["bytes_sent_per_s"], 0.0);
  EXPECT_EQ(json["connections"].size(), 2U);
  EXPECT_EQ(json["processes"][0]["pid"], 4242);
}

TEST(TopOnce, DeadProcessesOnlyIfAskedFor) {
  Machine machine;
  machine.held.kill9();
  EXPECT_HAS(top(machine, {"--once"}).out, "no process of this user runs Railwise");
  for (const char* arg : {"--gone", "4242"}) EXPECT_HAS(top(machine, {"--once", arg}).out, "died");
}

// An hour of the machine's clock, not of the epoch.
TEST(TopOnce, WithoutAProcessTheTimeIsRightToo) {
  Machine machine;
  machine.held.kill9();
  const auto clock = [] {
    const time_t now = time(nullptr);
    tm local = {};
    localtime_r(&now, &local);
    char text[16];
    (void)strftime(text, sizeof text, "%H:%M:", &local);
    return std::string(text);
  };
  const std::string before = clock();
  const std::string out = top(machine, {"--once"}).out;
  EXPECT_TRUE(out.find("\n" + before) != std::string::npos || out.find("\n" + clock()) != std::string::npos)
      << out;
}

TEST(TopOnce, MistakesAreNamed) {
  Machine machine;
  EXPECT_HAS(endedWith(1, top(machine, {"--once", "4243"})).err, "process 4243 has no record in");
  for (const auto& [args, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"abc"}, "'abc' is not the number of a process"},
           {{"--interval", "0"}, "'0' is not a number of seconds from 0.05 to 3600"},
           {{"--width", "3"}, "'3' is not a number from 20 to 1000"}}) {
    EXPECT_HAS(endedWith(2, top(machine, args)).err, said);
  }
}

TEST(TopOnce, ARecordThatCannotBeReadIsNoted) {
  Machine machine;
  machine.builder.header().version = 99;
  machine.update();
  const auto result = succeeded(top(machine, {"--once"}));
  EXPECT_HAS(result.out, "railwise-");
}

}  // namespace
}  // namespace railwise::cli
