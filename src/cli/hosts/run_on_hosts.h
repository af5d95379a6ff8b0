// Runs a program on many hosts at once and keeps what it prints. A host that does not answer costs its time
// limit and no more. Main thread; starts processes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace railwise::cli {

// For messages about a program that has ended with the status Process::kNoProgram.
inline constexpr const char* kNoProgramText =
    " (127: there is no such program here, or no railwise at this path there: --program PATH says where it "
    "is)";

struct HostCommand {
  std::string host;                // for messages
  std::vector<std::string> words;  // the program and its arguments
};

struct HostAnswer {
  std::string host;
  std::string out;
  std::string error;  // why there is no answer, in one sentence; "" if the program has ended with status 0
};

struct RunLimits {
  std::chrono::milliseconds time = std::chrono::seconds(30);  // of each program
  std::size_t bytes = std::size_t{64} << 20;                  // of its output
  std::size_t at_once = 64;
};

// In the order of `commands`. Standard input is empty. What is still running after its time is killed.
std::vector<HostAnswer> runOnHosts(const std::vector<HostCommand>& commands, const RunLimits& limits);

// The command line that starts a program on another host. Pure; thread-safe.

inline constexpr const char* kDefaultLaunch = "ssh -o BatchMode=yes -o ConnectTimeout=10";

// `launch`: "ssh -o BatchMode=yes {host}"; a launch without "{host}" gets the host as its last word. "": on
// this machine. `program`: the program and its arguments.
std::vector<std::string> launchWords(const std::string& launch, const std::string& host,
                                     const std::vector<std::string>& program);

}  // namespace railwise::cli
