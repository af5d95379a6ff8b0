// The measurements of `railwise bench`. Each plugin has processes of its own, and the plugins run in turn, so
// that noise affects all of them equally. One thread. A function that finds a failure reports it to the user.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/callgrind.h"
#include "benchmarks/bench/child.h"
#include "cli/options/options.h"
#include "perf/measuring/measuring.h"

namespace railwise::cli {

// What the user asks for on the command line.

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

// What the messages of one plugin cost.
struct Costs {
  BenchPlugin plugin;
  std::string name;
  std::string label;  // for people: the name, and the file of those that call themselves alike
  int api;
  std::size_t size;
  uint64_t messages;  // in all repeats together
  double cpu_ns_min;
  double cpu_ns_median;
  double wall_ns_min;
  std::optional<BenchChild::Counts> counts;  // in all repeats together
  std::optional<Instructions> instructions = {};
  std::optional<BenchRan::Latency> latency = {};
  std::optional<BenchSetUp> set_up = {};  // cost of one connection
  std::optional<OthersUse> others = {};   // the machine's other load during the whole row

  // What one core could carry: not the rate of the run, which jumps with the load of the machine.
  double bandwidthGbps() const { return static_cast<double>(size) * 8 / cpu_ns_min; }
};

// The costs of each plugin, in the order of the command line.
std::optional<std::vector<Costs>> measureCosts(const BenchOptions& options);
bool addInstructions(const BenchOptions& options, std::vector<Costs>& all);
bool addLatency(const BenchOptions& options, std::vector<Costs>& all);
bool addSetUp(const BenchOptions& options, std::vector<Costs>& all);

}  // namespace railwise::cli
