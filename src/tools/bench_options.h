// What the command line of `railwise bench` asks for.
#pragma once

#include <vector>

#include "tools/bench_child.h"
#include "tools/options.h"

namespace railwise::tools {

struct BenchOptions {
  BenchPlugin own;
  std::vector<BenchPlugin> others;
  BenchPlace place;
  uint64_t size = 8;
  int window = 8;
  int grouped = 1;
  int repeats = 11;
  int messages = 0;  // 0: by the size
  bool instructions = false;
  bool json = false;

  BenchShape shape() const { return {size, window, grouped}; }
  uint64_t messagesOfRepeat() const;  // whole groups
};

std::vector<Option> benchOptionTable(BenchOptions& fields);

}  // namespace railwise::tools
