#include "cli/demo/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "cli/plugin/plugin_loader.h"

namespace railwise::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr useconds_t kLookUs = 10'000;

int statusOf(int status) {
  constexpr int kSignalled = 128;
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

DemoChild::DemoChild(const std::vector<std::string>& words, const Variables& variables, Output output) {
  if (output == Output::kKept) kept_ = std::tmpfile();
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (kept_ != nullptr) {
    dup2(fileno(kept_), STDOUT_FILENO);
    dup2(fileno(kept_), STDERR_FILENO);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::string executable = executablePath();
  std::vector<std::string> copies = words;
  std::vector<char*> argv = {executable.data()};
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

DemoChild::~DemoChild() {
  end();
  if (kept_ != nullptr) std::fclose(kept_);
}

bool DemoChild::running() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) == 0) return pid_ > 0;
  pid_ = -1;
  status_ = statusOf(status);
  return false;
}

int DemoChild::wait() {
  int status = 0;
  while (pid_ > 0 && waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  if (pid_ > 0) status_ = statusOf(status);
  pid_ = -1;
  return status_;
}

void DemoChild::end() {
  if (!running()) return;
  kill(pid_, SIGTERM);
  for (const Deadline deadline = Deadline::after(kPatience); running() && !deadline.passed();)
    usleep(kLookUs);
  if (!running()) return;
  kill(pid_, SIGKILL);
  (void)wait();
}

std::string DemoChild::output() const {
  if (kept_ == nullptr) return "";
  std::string text;
  char buffer[4096];
  off_t at = 0;
  for (ssize_t length = 0; (length = pread(fileno(kept_), buffer, sizeof buffer, at)) > 0; at += length)
    text.append(buffer, static_cast<std::size_t>(length));
  return text;
}

}  // namespace railwise::cli
