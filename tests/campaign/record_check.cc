#include "tests/campaign/record_check.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "cli/options/message.h"
#include "record/reader.h"
#include "tests/campaign/schedule.h"

namespace railwise::cli {
namespace {

// Some 0.3 s: the thread of the plugin calls every 5 ms.
constexpr int kLooks = 30;
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

std::vector<CountsDiffer> compareCounts(const record::Snapshot& record,
                                        const std::vector<softdev::CountsRow>& rows) {
  std::map<std::string, CountsDiffer> devices;
  for (const record::Rail& rail : record.rails) {
    Counted& counted = devices[rail.device].record;
    counted.bytes += rail.totals.bytes_sent + rail.totals.bytes_got + rail.totals.control_bytes;
    counted.work_requests += rail.totals.work_requests;
    counted.completions += rail.totals.completions;
  }
  for (const softdev::CountsRow& row : rows) {
    const softdev::Counters& counts = row.counts;
    Counted& counted = devices[row.device].device_says;
    counted.bytes += counts.bytes;
    counted.work_requests +=
        counts.writes + counts.writes_with_imm + counts.reads + counts.sends + counts.atomics;
    counted.completions += counts.completions;
  }
  std::vector<CountsDiffer> different;
  for (auto& [name, its] : devices) {
    its.device = name;
    if (its.record != its.device_says) different.push_back(std::move(its));
  }
  return different;
}

RecordFolder::RecordFolder(const char* chosen) {
  if (chosen != nullptr && *chosen != '\0') {
    path_ = chosen;
    return;
  }
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "railwise-perf-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) return;
  path_ = name;
  ours_ = true;
}

RecordFolder::~RecordFolder() {
  std::error_code ignored;
  if (ours_) std::filesystem::remove_all(path_, ignored);
}

void RecordCheck::compare(RunRecord& ranks, softdev::Fabric* fabric) {
  for (std::size_t rank = 0; rank < times_.size(); ++rank) {
    RankRecord& its = ranks.rank(static_cast<int>(rank));
    const uint32_t still = its.still.load(std::memory_order_acquire);
    if (still % 2 == 0 || still == its.compared) continue;
    std::string problem = fabric != nullptr ? compareRank(static_cast<int>(rank), its, still, *fabric)
                                            : "it uses no software device";
    if (!problem.empty()) report_.problem = textOf("rank %zu: ", rank) + problem;
    its.compared = still;
  }
}

// A rank that stands still may drive one-sided communication by a thread of the plugin (net/rma/attendant.h):
// what differs counts only when it lasts.
std::string RecordCheck::compareRank(int rank, const RankRecord& its, uint32_t still,
                                     softdev::Fabric& fabric) {
  std::vector<CountsDiffer> different;
  for (int look = 0; look == 0 || (look < kLooks && !different.empty()); ++look) {
    if (look > 0) std::this_thread::sleep_for(kBetweenLooks);
    std::string problem = lookAtRank(rank, its, still, fabric, different);
    if (!problem.empty()) return problem;
  }
  const int time = ++times_[static_cast<std::size_t>(rank)];
  report_.ranks += time == 1 ? 1 : 0;
  ++report_.comparisons;
  if (!different.empty()) report_.disagreements.push_back({rank, time, std::move(different)});
  return "";
}

// What counts: the devices first, then the record, and after both the rank was alive and still stood.
std::string RecordCheck::lookAtRank(int rank, const RankRecord& its, uint32_t still, softdev::Fabric& fabric,
                                    std::vector<CountsDiffer>& different) const {
  std::vector<softdev::CountsRow> rows = softdev::listCounts(fabric, softdev::CountsBy::kDevice);
  std::erase_if(rows, [&](const softdev::CountsRow& row) { return row.host != hostName(rank); });
  const std::vector<record::RecordFile> files = record::listRecords(folder_, geteuid());
  const auto file = std::find_if(files.begin(), files.end(), [&](const record::RecordFile& each) {
    return each.pid == static_cast<uint32_t>(its.pid) && !each.spy;
  });
  if (file == files.end()) return "it has no record in " + folder_;
  const auto snapshot = record::readRecord(file->path, geteuid());
  if (!snapshot.ok()) return snapshot.error();
  if (snapshot->torn) return file->path + ": some counts changed whenever they were read";
  if (snapshot->unrecorded > 0) return file->path + ": not all connections are in it";
  if (!snapshot->process.alive) return file->path + ": its process is gone";
  if (its.still.load(std::memory_order_acquire) != still) return "it did not wait for the comparison";
  different = compareCounts(*snapshot, rows);
  return "";
}

}  // namespace railwise::cli
