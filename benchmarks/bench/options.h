// What the command line of `railwise bench` asks for.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/bench/child.h"
#include "cli/options/options.h"

namespace railwise::tools {

struct BenchOptions {
  BenchTask task;  // of the first plugin
  std::vector<BenchPlugin> others;
  BenchPlace place;
  int repeats = 11;
  int messages = 0;  // 0: by the size
  int set_ups = 0;   // connections; 0: not measured
  bool instructions = false;
  std::string profile;  // the file to keep the first plugin's in; empty: none
  bool raw = false;     // bare RDMA writes, too
  bool latency = false;
  std::string plot;  // the file; empty: none
  bool all = false;  // the table of patterns
  bool json = false;

  uint64_t messagesOfRepeat() const;  // whole operations
  // What the pattern asks for besides.
  void settlePattern();
  // Options that do not go together; empty: they do.
  std::string conflict() const;
};

const char* nameOf(BenchEnds ends);
std::vector<Option> benchOptionTable(BenchOptions& fields);

}  // namespace railwise::tools
