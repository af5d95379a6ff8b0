// Starts the other ends of `railwise doctor --pair`: over ssh, by another command, or on this machine. If one
// ends before it has joined, the command ends with a message that names it. Main thread; start() before any
// thread runs.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/outcome.h"
#include "base/process.h"

namespace railwise::cli {

struct PairCommand {
  std::string host;                                              // for messages
  std::vector<std::string> words;                                // the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's
};

class PairLaunch {
 public:
  PairLaunch() = default;
  PairLaunch(const PairLaunch&) = delete;
  PairLaunch& operator=(const PairLaunch&) = delete;
  ~PairLaunch();

  // `contact` is written to the standard input of each.
  Outcome<void> start(const std::vector<PairCommand>& commands, const std::string& contact);
  // Watches until joined() is called.
  void watch();
  void joined() { joined_ = true; }

 private:
  struct Child {
    Process process;  // its input stays open while this process lives
    std::string host;
    std::string program;
  };
  bool anyEnded();
  void reportAndLeave();

  std::vector<Child> children_;
  std::atomic<bool> joined_{false};
  std::thread watcher_;
};

}  // namespace railwise::cli
