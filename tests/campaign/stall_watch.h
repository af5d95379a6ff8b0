// Watches a run with faults for stalls: times in which no rank receives data. During each it asks the logic
// of `railwise stuck` what holds up the job, and judges the answer by what is really broken on the fabric.
// Main thread of the launcher.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "observe/stuck/diagnosis.h"
#include "record/snapshot.h"
#include "tests/campaign/outcome.h"

namespace railwise::cli {

// The devices, as "h1/soft0", that carry nothing now, or that a fault has struck since `since`.
using BrokenDevices = std::function<std::vector<std::string>(Clock::time_point since)>;

// True if the first culprit of the diagnosis is a rail, or a pair of rails, with a device of `broken`.
bool namesBroken(const observe::Diagnosis& diagnosis, const std::vector<std::string>& broken);

// What `railwise stuck` knows of the ranks, each of which is a host of its own: from two reads of their
// records. `pids`: of the ranks, in order.
std::vector<observe::HostFacts> hostsOfRanks(const std::vector<record::Snapshot>& first,
                                             const std::vector<record::Snapshot>& second,
                                             const std::vector<int>& pids);

class StallWatch {
 public:
  // `folder`: of the ranks' records.
  StallWatch(std::string folder, BrokenDevices broken)
      : folder_(std::move(folder)), broken_(std::move(broken)) {}

  // `since_traffic`: how long the run is under way. `received`: bytes of all ranks so far.
  void look(Clock::duration since_traffic, uint64_t received, const std::vector<int>& pids);
  // A process was stopped on purpose: the time until now is no stall.
  void restart() {
    moved_at_.reset();
    read_at_.reset();
  }
  // A rank ends: what stands still from now on is no stall.
  void stop() { stopped_ = true; }
  const std::vector<Stall>& stalls() const { return stalls_; }

 private:
  std::vector<record::Snapshot> read(const std::vector<int>& pids) const;
  void judge(Clock::duration since_traffic, const std::vector<int>& pids);

  const std::string folder_;
  const BrokenDevices broken_;
  bool stopped_ = false;
  uint64_t received_ = 0;
  std::optional<Clock::time_point> moved_at_;  // when data last arrived
  std::optional<Clock::time_point> read_at_;   // of the first read in this stall
  std::vector<record::Snapshot> first_;
  std::vector<Stall> stalls_;
};

}  // namespace railwise::cli
