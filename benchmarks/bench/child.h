// A worker of `railwise bench` as its parent sees it: a process with one plugin, on a software device of its
// own fabric or on real devices. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/bench/load/load.h"
#include "softdev/softdev.h"

namespace railwise::tools {

struct BenchPlace {
  std::string software;                 // configuration of the software device
  bool real = false;                    // the devices of libibverbs instead
  bool sysfs = false;                   // show the plugin a /sys of the software machine
  int queue_pairs = 0;                  // of a connection and rail; 0: as the plugin likes
  std::vector<std::string> under = {};  // a command to run the process under, e.g. valgrind's
};

class BenchChild {
 public:
  BenchChild(BenchTask task, BenchPlace place);
  ~BenchChild();  // ends the process
  BenchChild(const BenchChild&) = delete;
  BenchChild& operator=(const BenchChild&) = delete;

  // Until the plugin is connected and has moved right data. False: error().
  bool start();
  std::optional<BenchRan> run(uint64_t messages);
  // The same as run(), for a process under callgrind. The answer is the plugin's file.
  std::optional<std::string> count(uint64_t messages);
  // What a process for connections has measured.
  std::optional<BenchSetUp> connected();
  void end();  // of the process
  // What its device has counted; nothing on real devices.
  std::optional<softdev::Counters> counters() const;

  int api() const { return api_; }
  const std::string& name() const { return name_; }  // the plugin's own
  const BenchPlugin& plugin() const { return task_.plugin; }
  const std::string& error() const { return error_; }

 private:
  std::vector<std::string> command() const;
  void order(const char* what, uint64_t messages);
  std::optional<std::string> answer(const char* beginning);

  const BenchTask task_;
  const BenchPlace place_;
  const std::string fabric_;
  pid_t child_ = -1;
  std::FILE* orders_ = nullptr;
  std::FILE* answers_ = nullptr;
  int api_ = 0;
  std::string name_;
  std::string error_;
};

}  // namespace railwise::tools
