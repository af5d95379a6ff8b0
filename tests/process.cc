#include "process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"

extern char** environ;

namespace railwise::cli {
namespace {

bool inherited(const std::string& variable) {
  if (variable.starts_with("RAILWISE_METRICS_DIR=")) return true;  // the folder of the tests (own_fabric.cc)
  for (const char* prefix : {"RAILWISE_", "OMPI_", "PMI_", "SLURM_", "RANK=", "WORLD_SIZE=", "LOOPBACK_"}) {
    if (variable.starts_with(prefix)) return false;
  }
  return true;
}

std::string contents(int fd) {
  std::string text;
  std::array<char, 4096> piece;
  off_t at = 0;
  for (ssize_t count; (count = pread(fd, piece.data(), piece.size(), at)) > 0; at += count)
    text.append(piece.data(), static_cast<std::size_t>(count));
  return text;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process::Process(const std::string& program, const std::vector<std::string>& args,
                 const std::vector<std::string>& environment) {
  std::vector<std::string> variables = environment;  // the first of a name counts, and is the only one
  const auto add = [&variables](const std::string& variable) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    for (const std::string& known : variables)
      if (known.starts_with(name)) return;
    variables.push_back(variable);
  };
  // The command and all that it starts are on a fabric of this test, and write their records where tests do.
  add("RAILWISE_FABRIC=test" + std::to_string(getpid()));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (inherited(*variable)) add(*variable);
  }
  std::vector<std::string> words = {program};
  words.insert(words.end(), args.begin(), args.end());
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  out_fd_ = memfd_create("out", MFD_CLOEXEC);
  err_fd_ = memfd_create("err", MFD_CLOEXEC);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out_fd_, STDOUT_FILENO);
    dup2(err_fd_, STDERR_FILENO);
    // Appending, so that several writers do not overwrite each other.
    fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
    fcntl(STDOUT_FILENO, F_SETFL, O_APPEND);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  running_ = pid_ > 0;
  EXPECT_TRUE(running_) << std::strerror(errno);
}

Process::~Process() {
  if (running_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_fd_);
  close(err_fd_);
}

std::string Process::out() const { return contents(out_fd_); }
std::string Process::err() const { return contents(err_fd_); }

bool Process::ended() {
  int status = 0;
  if (!running_ || waitpid(pid_, &status, WNOHANG) != pid_) return !running_;
  running_ = false;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

bool Process::waitForOut(const std::string& text) {
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  while (out().find(text) == std::string::npos) {
    if (ended() || deadline.passed()) return out().find(text) != std::string::npos;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

ProcessResult Process::wait(int timeout_s) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(timeout_s));
  while (!ended()) {
    if (deadline.passed()) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      running_ = false;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {status_, out(), err()};
}

ProcessResult endedWith(int status, ProcessResult result, const char* file, int line) {
  if (result.status != status)
    ADD_FAILURE_AT(file, line) << "exit status " << result.status << "\n" << result.out << result.err;
  return result;
}

ProcessResult succeeded(ProcessResult result, const char* file, int line) {
  return endedWith(0, std::move(result), file, line);
}

void expectFailure(const ProcessResult& result, int status, const std::string& said, const char* file,
                   int line) {
  if (result.status != status || result.err.find(said) == std::string::npos)
    ADD_FAILURE_AT(file, line) << "exit status " << result.status << ", not " << status << ", or no \""
                               << said << "\" in\n"
                               << result.out << result.err;
}

ProcessResult runProcess(const std::string& program, const std::vector<std::string>& args,
                         const std::vector<std::string>& environment, int timeout_s) {
  return Process(program, args, environment).wait(timeout_s);
}

}  // namespace railwise::cli
