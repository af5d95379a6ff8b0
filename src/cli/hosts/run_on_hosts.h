// Runs a program on many hosts at once and keeps what it prints. A host that does not answer costs its time
// limit and no more. Main thread; starts processes.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/outcome.h"

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

// The file of --hosts: one host per line. Pure; thread-safe.

inline constexpr std::size_t kMaxHosts = 256;

// "#" begins a comment; what follows the first word of a line is left out ("node1 slots=8", as mpirun's files
// have it). More than `most` hosts are an error. An error names file, line and what to do.
Outcome<std::vector<std::string>> parseHostFile(std::string_view text, const std::string& file,
                                                std::size_t most = kMaxHosts);

// Is it a name that ssh takes: letters, digits, "." "-" "_" ":" and one "@", not beginning with "-"?
bool isHostName(std::string_view name);

// The name of this host, and whether a name means this host. Thread-safe as long as no thread changes the
// environment.

// RAILWISE_HOST, else the name of this computer.
std::string nameOfThisHost();
bool isThisHost(const std::string& host);

}  // namespace railwise::cli
