// A worker of `railwise bench` as its parent process uses it: a process with one plugin, on a software device
// with a fabric of its own, or on real devices. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "benchmarks/bench/load/load.h"
#include "softdev/softdev.h"

namespace railwise::cli {

struct BenchPlace {
  std::string software;                 // the configuration of the software device
  bool real = false;                    // use the devices of libibverbs instead
  bool sysfs = false;                   // show the plugin a /sys of the software machine
  int queue_pairs = 0;                  // queue pairs per connection and rail; 0: the plugin's default
  int timeout_s = 300;                  // without an answer; then its process is killed
  std::vector<std::string> under = {};  // a command to run the process under, e.g. valgrind's
};

class BenchChild {
 public:
  BenchChild(BenchTask task, BenchPlace place);
  ~BenchChild();  // ends the worker process
  BenchChild(const BenchChild&) = delete;
  BenchChild& operator=(const BenchChild&) = delete;

  // Starts the worker, and returns when the plugin is connected and has moved correct data. False: see
  // error().
  bool start();
  std::optional<BenchRan> run(uint64_t messages);
  // Does what run() does, in a process under callgrind. Returns the name of the plugin's file.
  std::optional<std::string> count(uint64_t messages);
  // What a worker that measures connections has measured.
  std::optional<BenchSetUp> connected();
  void end();  // ends the worker process
  // The counters of the worker's software devices; null on real devices.
  struct Counts {
    softdev::Counters all;
    softdev::Counters first;  // of the task's device alone: one-sided patterns put from there
  };
  std::optional<Counts> counters() const;

  int api() const { return api_; }
  const std::string& name() const { return name_; }  // the name that the plugin reports
  const BenchPlugin& plugin() const { return task_.plugin; }
  const std::string& error() const { return error_; }

 private:
  std::vector<std::string> command() const;
  const char* sysfs() const;  // the value of --sysfs of `railwise device run`
  void order(const char* what, uint64_t messages);
  std::optional<std::string> answer(const char* beginning);
  std::string endText();

  const BenchTask task_;
  const BenchPlace place_;
  const std::string fabric_;
  std::optional<Process> process_;
  std::FILE* orders_ = nullptr;
  std::FILE* answers_ = nullptr;
  int api_ = 0;
  std::string name_;
  std::string error_;
};

}  // namespace railwise::cli
