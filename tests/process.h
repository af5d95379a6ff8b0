// Runs a program for a test: its output goes to memory and can be read while it runs; whatever is still
// running at the end is killed. One thread at a time.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace railwise::cli {

struct ProcessResult {
  int status = -1;  // of exit; 128 + signal; -1: it did not end in time and was killed
  std::string out;
  std::string err;
};

class Process {
 public:
  // `environment`: NAME=value, added to this process's; RAILWISE_* and job variables of it are not passed on.
  Process(const std::string& program, const std::vector<std::string>& args,
          const std::vector<std::string>& environment = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  std::string out() const;
  std::string err() const;
  // Waits until the output holds `text`; false when the process ends or a minute passes without it.
  bool waitForOut(const std::string& text);
  ProcessResult wait(int timeout_s = 100);

 private:
  bool ended();

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  bool running_ = false;
  int status_ = -1;
};

// The result of a run that has to end with this status, or with status 0; else the test fails, at the
// caller's line, with what the run printed.
ProcessResult endedWith(int status, ProcessResult result, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());
ProcessResult succeeded(ProcessResult result, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());

// A run that has to fail with this status, and to say this on its standard error; else as succeeded().
void expectFailure(const ProcessResult& result, int status, const std::string& said,
                   const char* file = __builtin_FILE(), int line = __builtin_LINE());

ProcessResult runProcess(const std::string& program, const std::vector<std::string>& args,
                         const std::vector<std::string>& environment = {}, int timeout_s = 100);

}  // namespace railwise::cli
