// The signals of one stream at the target: reports and marks come over several queue pairs in any order, and
// become signals in the order of their numbers, each once. Plain values; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/rma/mistakes.h"
#include "net/rma/report.h"

namespace railwise::net {

class SignalOrder {
 public:
  // All signals up to this one are applied.
  uint64_t applied() const { return applied_; }
  // The highest number that a report or mark had.
  uint64_t latest() const { return latest_; }

  // A report that is all of the next signal, where nothing is open: take() and applyNext() in one step.
  // False: it is not that, and nothing is changed.
  bool takeNext(const Report& report) {
    if (report.number != applied_ + 1 || latest_ != applied_ || report.owed != 0 ||
        report.kind != Report::Kind::kSignal)
      return false;
    latest_ = ++applied_;
    return true;
  }
  // Takes a report that has come over queue pair `queue_pair`. "": taken; else what is wrong with it.
  std::string take(const Report& report, uint32_t queue_pair) {
    if (report.number <= applied_ || report.number > applied_ + kOpenSignals)
      return "a report of signal " + std::to_string(report.number) + ", where signal " +
             std::to_string(applied_) + " is the latest";
    if (entries_.empty()) entries_.resize(kOpenSignals);
    Entry& entry = entries_[report.number % kOpenSignals];
    if (report.kind == Report::Kind::kMark) {
      if ((entry.marks >> queue_pair & 1) != 0) return "a mark twice";
      entry.marks |= uint32_t{1} << queue_pair;
    } else {
      if (entry.has_report) return "signal " + std::to_string(report.number) + " twice";
      entry.report = report;
      entry.has_report = true;
      entry.queue_pair = static_cast<uint8_t>(queue_pair);
    }
    if (report.number > latest_) latest_ = report.number;
    return "";
  }
  // The next signal, if it is complete: `apply` takes its report, and the queue pairs that have brought it
  // and its data as bits. False: it cannot be applied.
  template <typename Apply>
  bool applyNext(Apply&& apply) {
    if (entries_.empty()) return false;
    Entry& entry = entries_[(applied_ + 1) % kOpenSignals];
    if (!entry.has_report) return false;
    const bool marked = (entry.marks & entry.report.owed) == entry.report.owed;
    if (!marked && !isPlanted(Mistake::kSignalBeforeMarks)) return false;
    const Report report = entry.report;
    const uint32_t brought = entry.report.owed | uint32_t{1} << entry.queue_pair;
    const uint8_t home = entry.queue_pair;
    entry = {};
    ++applied_;
    return apply(report, home, brought);
  }
  // The epoch is over. What is incomplete comes again.
  void forget() {
    if (isPlanted(Mistake::kForgetsAppliedSignal) && applied_ > 0) --applied_;
    if (!isPlanted(Mistake::kMarksOfOldEpoch)) entries_.clear();
    latest_ = applied_;
  }

 private:
  struct Entry {
    Report report = {};
    uint32_t marks = 0;
    uint8_t queue_pair = 0;
    bool has_report = false;
  };
  uint64_t applied_ = 0;
  uint64_t latest_ = 0;
  std::vector<Entry> entries_;  // by number; none before the first report
};

}  // namespace railwise::net
