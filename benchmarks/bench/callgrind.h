// Instructions of a message, counted by valgrind's callgrind and told apart by the file they come from. One
// thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/child.h"

namespace railwise::tools {

// Per message.
struct Instructions {
  double plugin;  // its own file's, and libc's and the C++ library's for it
  double device;  // libibverbs.so.1: the software device's front, or the system's
  double bench;   // the loop that calls the plugin
  double rest;    // libc and the like, for the others
};

// Runs the task once more, in one thread of a process under valgrind. `keep`: the profile's file, empty for
// none. Nothing: `error` says why.
std::optional<Instructions> countInstructions(BenchTask task, BenchPlace place, const std::string& keep,
                                              std::string* error);

// Instructions of a callgrind profile by object file, callees not included; and what its calls cost in other
// object files, with all that they call there in turn. Nothing: not a profile.
struct ObjectCost {
  std::string object;
  uint64_t instructions;
  std::map<std::string, uint64_t> calls;  // by the callee's object file
};
std::optional<std::vector<ObjectCost>> readCallgrind(const std::string& text);

}  // namespace railwise::tools
