#include "cli/hosts/run_on_hosts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "cli/options/message.h"

namespace railwise::cli {
namespace {

constexpr int kNotStarted = 127;
constexpr int kSshFailed = 255;
constexpr int kPollMs = 20;  // how late the end of a program without output may be noticed
constexpr std::size_t kMostComplaint = 4096;
constexpr int kPiecesAtOnce = 16;  // of one program, so that none keeps the others waiting

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void set(int fd) { close(), fd_ = fd; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Runs in the child between fork and exec: only calls that are safe there.
[[noreturn]] void becomeProgram(char* const* words, int out, int error, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotStarted);
  setpgid(0, 0);  // the time limit also ends what the program has started
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  execvp(words[0], words);
  _exit(kNotStarted);
}

class Run {
 public:
  Run(const HostCommand& command, const RunLimits& limits)
      : limits_(limits), deadline_(Deadline::after(limits.time)) {
    answer_.host = command.host;
    program_ = command.words.empty() ? "" : command.words[0];
    start(command);
  }
  ~Run() { end(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool ended() const { return ended_; }
  void addPolls(std::vector<pollfd>& polls) const {
    for (const Descriptor* pipe : {&out_, &error_})
      if (pipe->get() >= 0) polls.push_back({.fd = pipe->get(), .events = POLLIN, .revents = 0});
  }
  // Reads what is there, and looks whether the program has ended or must end.
  void look() {
    if (ended_) return;
    read(out_, answer_.out, limits_.bytes);
    read(error_, complaint_, kMostComplaint);
    if (answer_.out.size() > limits_.bytes) return fail("it answers with too many bytes");
    if (deadline_.passed())
      return fail(textOf("no answer within %.0f s", std::chrono::duration<double>(limits_.time).count()));
    if (out_.get() >= 0 || waitpid(pid_, &status_, WNOHANG) != pid_) return;
    pid_ = -1;
    ended_ = true;
    if (!WIFEXITED(status_) || WEXITSTATUS(status_) != 0) answer_.error = failureText();
  }
  HostAnswer takeAnswer() { return std::move(answer_); }

 private:
  void start(const HostCommand& command) {
    int out[2];
    int error[2];
    if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0) return fail(textOf("no pipe: %s", std::strerror(errno)));
    out_.set(out[0]);
    Descriptor out_writer(out[1]);
    if (pipe2(error, O_CLOEXEC | O_NONBLOCK) != 0) return fail(textOf("no pipe: %s", std::strerror(errno)));
    error_.set(error[0]);
    Descriptor error_writer(error[1]);
    for (const int fd : {out[1], error[1]}) fcntl(fd, F_SETFL, 0);  // the program's ends block
    std::vector<std::string> words = command.words;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) becomeProgram(argv.data(), out[1], error[1], parent);
    if (pid_ < 0) fail(textOf("'%s' cannot be started: %s", program_.c_str(), std::strerror(errno)));
  }
  // Keeps little more than `most` bytes; reads on, so that the program does not block.
  static void read(Descriptor& pipe, std::string& text, std::size_t most) {
    char piece[65536];
    for (int pieces = 0; pieces < kPiecesAtOnce && pipe.get() >= 0; ++pieces) {
      const ssize_t got = ::read(pipe.get(), piece, sizeof piece);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) return pipe.close();
      if (text.size() <= most) text.append(piece, static_cast<std::size_t>(got));
    }
  }
  void fail(std::string why) {
    answer_.error = std::move(why);
    if (const std::string said = lastLine(); !said.empty()) answer_.error += "; it says: " + said;
    ended_ = true;
    end();
  }
  void end() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  std::string failureText() const {
    const int status = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    const std::string said = lastLine();
    if (status == kSshFailed) return said.empty() ? "ssh failed without a reason" : said;
    std::string text = textOf("'%s' ended with status %d", program_.c_str(), status);
    if (status == kNotStarted)
      text +=
          " (127: there is no such program here, or no railwise at this path there: --program PATH says "
          "where it is)";
    return said.empty() ? text : text + ": " + said;
  }
  // The last part of what the program has said on standard error. The caller makes it printable.
  std::string lastLine() const {
    std::string text = complaint_;
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    const std::size_t begin = text.rfind('\n');
    return begin == std::string::npos ? text : text.substr(begin + 1);
  }

  const RunLimits& limits_;
  const Deadline deadline_;
  HostAnswer answer_;
  std::string program_;
  std::string complaint_;
  Descriptor out_;
  Descriptor error_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace

std::vector<HostAnswer> runOnHosts(const std::vector<HostCommand>& commands, const RunLimits& limits) {
  std::vector<HostAnswer> answers(commands.size());
  std::vector<std::pair<std::size_t, std::unique_ptr<Run>>> running;
  std::size_t next = 0;
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && running.size() < limits.at_once) {
      running.emplace_back(next, std::make_unique<Run>(commands[next], limits));
      ++next;
    }
    std::vector<pollfd> polls;
    for (const auto& [place, run] : running) run->addPolls(polls);
    poll(polls.data(), polls.size(), kPollMs);
    for (auto& [place, run] : running) {
      run->look();
      if (run->ended()) answers[place] = run->takeAnswer();
    }
    std::erase_if(running, [](const auto& each) { return each.second->ended(); });
  }
  return answers;
}

}  // namespace railwise::cli
