// A command that the demo runs. One thread.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"

namespace railwise::cli {

class DemoChild {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // `words`: arguments of this executable. The output of the command goes where ours goes, or is kept.
  enum class Output { kShown, kKept };
  DemoChild(const std::vector<std::string>& words, const Variables& variables, Output output);
  ~DemoChild() { end(); }

  bool running() { return process_.ok() && process_->running(); }
  // Waits for the end of the command. Returns its exit status; 128 and more: a signal ended it.
  int wait() { return process_.ok() ? process_->wait().shellStatus() : Process::kNoProgram; }
  void end();                  // asks the command to end, and waits
  std::string output() const;  // what it has written so far, if that is kept

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> kept_;
  Outcome<Process> process_;
};

}  // namespace railwise::cli
