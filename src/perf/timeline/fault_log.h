// Reads the fault log of a software device's fabric while a run uses it, as events for the timeline. One
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "softdev/faults/faults.h"

namespace railwise::cli {

// An event for the timeline: an entry of the fault log, or what the caller adds.
struct FaultMark {
  uint64_t realtime_ns;
  std::string words;
};

class FaultLog {
 public:
  explicit FaultLog(std::string fabric) : name_(std::move(fabric)) {}
  ~FaultLog();
  FaultLog(const FaultLog&) = delete;
  FaultLog& operator=(const FaultLog&) = delete;

  // Attaches as soon as a process is on the fabric. True: attached.
  bool attach();
  // Null: not attached.
  softdev::Fabric* fabric() const { return fabric_; }
  // The new entries. Call it only while attached, and once more at the end.
  std::vector<softdev::FaultLogEntry> read();
  // Adds an event of this moment that the fault log does not know.
  void add(std::string words);

  // The number of entries so far.
  uint64_t seen() const { return seen_; }
  const std::vector<FaultMark>& marks() const { return marks_; }

 private:
  const std::string name_;
  softdev::Fabric* fabric_ = nullptr;
  uint64_t seen_ = 0;
  std::vector<FaultMark> marks_;
};

}  // namespace railwise::cli
