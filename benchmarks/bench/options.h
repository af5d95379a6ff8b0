// What the user asks for on the command line of `railwise bench`.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/bench/child.h"
#include "cli/options/options.h"

namespace railwise::cli {

struct BenchOptions {
  BenchTask task = {.shape = {.window = 0}};  // the task of the first plugin; window 0: the pattern's usual
  std::vector<BenchPlugin> others;
  BenchPlace place;
  int repeats = 11;
  int messages = 0;  // per repeat; 0: chosen by the size
  int set_ups = 0;   // number of connections; 0: not measured
  bool instructions = false;
  std::string profile;  // the file to keep the first plugin's profile in; empty: none
  bool raw = false;     // also measure bare RDMA writes
  bool latency = false;
  bool all_sizes = false;  // from 8 bytes to 1 MiB
  bool all = false;        // print the table of patterns
  bool one_sided = false;  // print the table of one-sided patterns
  bool json = false;

  uint64_t messagesOfRepeat() const;  // always whole operations
  // Sets the other options that the pattern requires.
  void settlePattern();
  // Says which options cannot be combined; empty: there is no conflict.
  std::string conflict() const;
};

const char* nameOf(BenchEnds ends);
std::vector<Option> benchOptionTable(BenchOptions& fields);

}  // namespace railwise::cli
