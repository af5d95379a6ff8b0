// Compares the records of the ranks (record/reader.h) with what the software device itself has counted. Every
// rank has a host of its own on the fabric. Main thread of the launcher; compareCounts() is pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/results/record.h"
#include "record/snapshot.h"
#include "softdev/control/control.h"
#include "tests/campaign/outcome.h"

namespace railwise::cli {

// The devices for which a record and the devices' own counts differ. `rows`: by device, of the host of the
// record's process.
std::vector<CountsDiffer> compareCounts(const record::Snapshot& record,
                                        const std::vector<softdev::CountsRow>& rows);

// A folder for the records of one run, gone with this object. `chosen`: a folder that stays.
class RecordFolder {
 public:
  explicit RecordFolder(const char* chosen);
  ~RecordFolder();
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool ours_ = false;
};

class RecordCheck {
 public:
  RecordCheck(std::string folder, int ranks)
      : folder_(std::move(folder)), times_(static_cast<std::size_t>(ranks)) {}

  // Compares each rank that stands still and was not compared since. `fabric` null: the ranks use no software
  // device, and are only let go.
  void compare(RunRecord& ranks, softdev::Fabric* fabric);
  const RecordReport& report() const { return report_; }

 private:
  // "": compared.
  std::string compareRank(int rank, const RankRecord& its, uint32_t still, softdev::Fabric& fabric);
  std::string lookAtRank(int rank, const RankRecord& its, uint32_t still, softdev::Fabric& fabric,
                         std::vector<CountsDiffer>& different) const;

  const std::string folder_;
  std::vector<int> times_;  // comparisons of each rank
  RecordReport report_;
};

}  // namespace railwise::cli
