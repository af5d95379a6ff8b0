#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/files.h"

namespace railwise {
namespace {

// How long a killed child may take to disappear. One that hangs in a driver does not disappear at all.
constexpr Clock::duration kKillTime = std::chrono::milliseconds(200);
constexpr useconds_t kLookUs = 1000;
// Of one child at a time, so that a child that writes without end does not keep the others waiting.
constexpr int kPiecesAtOnce = 16;
// The complaints of a program that complains without end are not kept without end.
constexpr std::size_t kMostComplaint = 4096;

struct Pipe {
  Descriptor reader;
  Descriptor writer;
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
    return true;
  }
};

struct Pipes {
  Pipe input;
  Pipe output;
  Pipe error;
};

Outcome<Pipes> pipesFor(const ProcessPlan& plan) {
  Pipes pipes;
  const bool opened = (plan.input != kStreamPipe || pipes.input.open()) &&
                      ((plan.output != kStreamPipe && !plan.words.empty()) || pipes.output.open()) &&
                      (plan.error != kStreamPipe || pipes.error.open());
  if (!opened) return Error{std::string("no pipe: ") + std::strerror(errno)};
  for (const Descriptor* ours : {&pipes.input.writer, &pipes.output.reader, &pipes.error.reader})
    if (ours->valid()) fcntl(ours->get(), F_SETFL, O_NONBLOCK);
  const std::string& text = plan.input_text;
  if (!text.empty() &&
      write(pipes.input.writer.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return Error{std::string("the input does not fit into a pipe: ") + std::strerror(errno)};
  return pipes;
}

std::vector<std::string> environmentWith(const ProcessPlan& plan) {
  std::vector<std::string> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string line = *each;
    const bool replaced = std::any_of(plan.variables.begin(), plan.variables.end(), [&](const auto& one) {
      return line.substr(0, line.find('=')) == one.first;
    });
    if (!replaced) all.push_back(line);
  }
  for (const auto& [name, value] : plan.variables) all.emplace_back(name).append("=").append(value);
  return all;
}

void makeStream(int number, int wanted, int pipe_end) {
  if (wanted == kStreamInherited) return;
  // The null device stays open below another number. It is closed by exec, and a function does not miss it.
  const int fd = wanted == kStreamNothing ? ::open("/dev/null", O_RDWR | O_CLOEXEC) : wanted;
  dup2(wanted == kStreamPipe ? pipe_end : fd, number);
}

// The first thing in the child: only calls that are safe between fork and exec.
void becomeChild(const ProcessPlan& plan, const Pipes& pipes, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, plan.words.empty() ? SIGKILL : SIGTERM);
  if (getppid() != parent) _exit(Process::kNoProgram);  // the parent ended before prctl
  if (plan.own_group) setpgid(0, 0);
  makeStream(STDIN_FILENO, plan.input, pipes.input.reader.get());
  makeStream(STDOUT_FILENO, plan.output, pipes.output.writer.get());
  makeStream(STDERR_FILENO, plan.error, pipes.error.writer.get());
}

// Ends by _exit: the parent's exit handlers and buffers are not the child's.
[[noreturn]] void runBody(const ProcessPlan& plan, Pipes& pipes) {
  pipes.output.reader.close();
  pipes.input.writer.close();
  try {
    std::string answer;
    const int status = plan.body(answer);
    (void)writeAll(pipes.output.writer.get(), answer);
    _exit(status);
  } catch (...) {
    _exit(Process::kBodyFailed);
  }
}

// qemu-user and other layers accept advice that they do not know, and do nothing then.
constexpr int kNoAdvice = -1;

std::atomic<pid_t>* makePage() {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, kNoAdvice) != 0 && madvise(page, bytes, MADV_WIPEONFORK) == 0)
    return new (page) std::atomic<pid_t>(0);
  munmap(page, bytes);
  return nullptr;
}

}  // namespace

std::vector<char*> argvOf(std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

Process::Process(const ProcessPlan& plan) : own_group_(plan.own_group) {
  output_.most = plan.most_output;
  error_.most = kMostComplaint;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      own_group_(other.own_group_),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      error_(std::move(other.error_)),
      killed_(other.killed_),
      ended_(other.ended_) {}

Process::~Process() {
  if (pid_ > 0 && !killed_) end();
}

Outcome<Process> Process::start(const ProcessPlan& plan) {
  Outcome<Pipes> pipes = pipesFor(plan);
  if (!pipes.ok()) return pipes.failure();
  // Made before fork(): in the child another thread's lock of the heap would never be released.
  std::vector<std::string> words = plan.words;
  std::vector<std::string> variables = environmentWith(plan);
  const std::vector<char*> argv = argvOf(words);
  const std::vector<char*> envp = argvOf(variables);
  Process process(plan);
  const pid_t parent = getpid();
  process.pid_ = fork();
  if (process.pid_ < 0) return Error{std::string("fork: ") + std::strerror(errno)};
  if (process.pid_ == 0) {
    becomeChild(plan, *pipes, parent);
    if (words.empty()) runBody(plan, *pipes);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(kNoProgram);
  }
  process.input_ = std::move(pipes->input.writer);
  process.output_.fd = std::move(pipes->output.reader);
  process.error_.fd = std::move(pipes->error.reader);
  return process;
}

const std::optional<ProcessEnd>& Process::ended() {
  if (ended_) return ended_;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited == pid_) {
    const bool signalled = WIFSIGNALED(status);
    ended_ = ProcessEnd{signalled, signalled ? WTERMSIG(status) : WEXITSTATUS(status)};
  } else if (waited < 0 && errno != EINTR) {
    ended_ = ProcessEnd{false, -1};  // somebody else has waited for it
  }
  return ended_;
}

ProcessEnd Process::wait() {
  siginfo_t info;
  while (running()) waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  return *ended_;
}

const std::optional<ProcessEnd>& Process::wait(const Deadline& deadline) {
  while (running() && !deadline.passed()) usleep(kLookUs);
  return ended();
}

void Process::kill(int signal) {
  if (ended_) return;  // from then on the number may be another process's
  if (own_group_) ::kill(-pid_, signal);
  ::kill(pid_, signal);
}

const std::optional<ProcessEnd>& Process::end(Clock::duration patience) {
  if (patience > Clock::duration::zero()) {
    kill(SIGTERM);
    wait(Deadline::after(patience));
  }
  kill(SIGKILL);
  killed_ = true;
  return wait(Deadline::after(kKillTime));
}

void Process::Stream::receive() {
  char piece[65536];
  for (int pieces = 0; pieces < kPiecesAtOnce && fd.valid(); ++pieces) {
    const ssize_t got = ::read(fd.get(), piece, sizeof piece);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return fd.close();
    if (text.size() <= most) text.append(piece, static_cast<std::size_t>(got));
  }
}

void Process::receive() {
  output_.receive();
  error_.receive();
}

const std::string& Process::receiveAll(const Deadline& deadline) {
  Process* const alone[] = {this};
  while (outputOpen() && !deadline.passed()) receiveAny(alone, deadline);
  return output();
}

void Process::receiveAny(std::span<Process* const> processes, const Deadline& deadline) {
  std::vector<pollfd> pipes;
  for (const Process* process : processes)
    for (const Stream* stream : {&process->output_, &process->error_})
      if (stream->fd.valid()) pipes.push_back({stream->fd.get(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.at() - Clock::now()).count();
  poll(pipes.data(), pipes.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
  for (Process* process : processes) process->receive();
}

pid_t askProcessId() {
  static std::atomic<pid_t>* const page = makePage();
  const pid_t id = getpid();
  if (page == nullptr) return id;
  page->store(id, std::memory_order_relaxed);
  g_process_id_page.store(page, std::memory_order_release);
  return id;
}

std::string beginningOf(const std::string& path) {
  char bytes[1024];
  std::size_t got = 0;
  if (FILE* const file = std::fopen(path.c_str(), "re"); file != nullptr) {
    got = std::fread(bytes, 1, sizeof bytes, file);
    std::fclose(file);
  }
  return {bytes, got};
}

// qemu-user answers a read of the process's own /proc/PID/stat itself, with another start than the other
// processes see, but not one of the first thread's file. That file is missing where /proc is of another PID
// namespace.
ProcessStat processStat(const std::string& pid) {
  const std::string own = std::to_string(getpid());
  std::string stat = beginningOf("/proc/" + pid + "/task/" + (pid == kThisProcess ? own : pid) + "/stat");
  if (stat.empty()) stat = beginningOf("/proc/" + pid + "/stat");
  std::size_t at = stat.rfind(')');  // the program's name may have blanks
  if (at == std::string::npos || at + 2 >= stat.size()) return {};
  const char state = stat[at + 2];
  const auto parent = static_cast<pid_t>(std::strtol(stat.c_str() + at + 3, nullptr, 10));
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return {};
  return {.state = state, .parent = parent, .start = std::strtoull(stat.c_str() + at, nullptr, 10)};
}

std::string bootId() {
  const std::string id = beginningOf("/proc/sys/kernel/random/boot_id");
  return id.substr(0, id.find('\n'));
}

std::string hostName() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace railwise
