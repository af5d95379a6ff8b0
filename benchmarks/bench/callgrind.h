// Counts the instructions of a message with valgrind's callgrind, split by the object file that they belong
// to. One thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "benchmarks/bench/child.h"

namespace railwise::cli {

// Instructions per message.
struct Instructions {
  double plugin;   // the plugin's own file, and libc and the C++ library when the plugin calls them
  double targets;  // what of `plugin` ranks spend that are only put to; one-sided patterns only
  double device;   // the software device's libraries, or the system's libibverbs.so.1
  double bench;    // the loop that calls the plugin
  double rest;     // libc and other libraries when the others call them
};

// Runs the task once more, in one thread of a process under valgrind. `keep`: the file to keep the profile
// in; empty: the profile is deleted.
Outcome<Instructions> countInstructions(const BenchTask& task, const BenchPlace& place,
                                        const std::string& keep);

// What a callgrind profile says about one object file: its instructions without those of called functions,
// and the cost of its calls into other object files, including everything that they call in turn.
// readCallgrind() returns null if `text` is not a profile.
struct ObjectCost {
  std::string object;
  uint64_t instructions;
  std::map<std::string, uint64_t> calls;  // by the object file of the called function
};
std::optional<std::vector<ObjectCost>> readCallgrind(const std::string& text);

}  // namespace railwise::cli
