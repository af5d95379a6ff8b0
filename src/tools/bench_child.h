// A worker of `railwise bench` as its parent sees it: a process with one plugin, on a software device of its
// own fabric or on real devices. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "softdev/softdev.h"
#include "tools/bench_traffic.h"

namespace railwise::tools {

struct BenchPlugin {
  std::string plugin;  // as --plugin takes it; empty: our own
  int api = 0;
};

struct BenchPlace {
  std::string software;  // configuration of the software device
  bool real = false;     // the devices of libibverbs instead
  bool sysfs = false;    // show the plugin a /sys of the software machine
  int device = 0;
  bool verbose = false;
  std::vector<std::string> under = {};  // a command to run the process under, e.g. valgrind's
};

class BenchChild {
 public:
  struct Ran {
    uint64_t cpu_ns;
    uint64_t wall_ns;
  };

  BenchChild(BenchPlugin plugin, const BenchPlace& place, BenchShape shape);
  ~BenchChild();  // ends the process
  BenchChild(const BenchChild&) = delete;
  BenchChild& operator=(const BenchChild&) = delete;

  // Until the plugin is connected and has moved right data. False: error().
  bool start();
  std::optional<Ran> run(uint64_t messages);
  // The same as run(), for a process under callgrind. The answer is the plugin's file.
  std::optional<std::string> count(uint64_t messages);
  void end();  // of the process
  // What its device has counted; nothing on real devices.
  std::optional<softdev::Counters> counters() const;

  int api() const { return api_; }
  const std::string& name() const { return name_; }  // the plugin's own
  const BenchPlugin& plugin() const { return plugin_; }
  const std::string& file() const { return plugin_.plugin; }  // as it was asked for
  const std::string& error() const { return error_; }

 private:
  std::vector<std::string> command() const;
  void order(const char* what, uint64_t messages);
  std::optional<std::string> answer(const char* beginning);

  const BenchPlugin plugin_;
  const BenchPlace place_;
  const BenchShape shape_;
  const std::string fabric_;
  pid_t child_ = -1;
  pid_t worker_ = -1;  // the same, or behind `device run`
  std::FILE* orders_ = nullptr;
  std::FILE* answers_ = nullptr;
  int api_ = 0;
  std::string name_;
  std::string error_;
};

}  // namespace railwise::tools
