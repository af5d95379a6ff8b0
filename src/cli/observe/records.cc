#include "cli/observe/records.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>

#include "base/process.h"
#include "base/text/words.h"
#include "record/file.h"

namespace railwise::cli {
namespace {

constexpr int kKeepS = 3600;  // RAILWISE_METRICS_KEEP's default
// A chain of parents that is read while processes come and go has an end.
constexpr int kMostGenerations = 64;

const char* setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::chrono::seconds keepTime() {
  const char* text = setting("RAILWISE_METRICS_KEEP");
  return std::chrono::seconds(text != nullptr ? parseInt(text, 0, 31536000).value_or(kKeepS) : kKeepS);
}

void readFiles(const std::vector<record::RecordFile>& files, uint32_t user,
               std::vector<record::Snapshot>& snapshots, std::vector<std::string>* notes) {
  for (const record::RecordFile& file : files) {
    Outcome<record::Snapshot> read = record::readRecord(file.path, user);
    if (read.ok()) snapshots.push_back(std::move(*read));
    else notes->push_back(read.error());
  }
}

// Is the process of this record a descendant of `pid`? No for a process of another PID namespace.
bool descendsFrom(const record::RecordFile& file, const std::string& pid) {
  ProcessStat stat = processStat(std::to_string(file.pid));
  if (stat.start != file.start) return false;
  for (int generations = 0; stat.parent > 0 && generations < kMostGenerations; ++generations) {
    const std::string parent = std::to_string(stat.parent);
    if (parent == pid) return true;
    stat = processStat(parent);
  }
  return false;
}

// Why there is no record of `pid`. A user often gives the number of what has started the ranks.
Error noRecordOf(const std::string& pid, const std::string& folder,
                 const std::vector<record::RecordFile>& files) {
  std::set<uint32_t> descendants;  // with the spy a process has two records
  for (const record::RecordFile& file : files)
    if (file.alive && descendsFrom(file, pid)) descendants.insert(file.pid);
  const std::string text = "process " + pid + " has no record in " + folder;
  if (!descendants.empty())
    return {text + ", but processes that it has started have: " + joined(descendants, " ", [](uint32_t each) {
              return std::to_string(each);
            })};
  return {text +
          ": it has not loaded Railwise, runs as another user or in another container (--dir), has "
          "RAILWISE_METRICS=0, or has ended in order (its record goes then, unless something failed)"};
}

}  // namespace

Option recordFolderOption(std::string* folder) {
  return textOption(
      0, "dir", "FOLDER", folder,
      "where the records are (RAILWISE_METRICS_DIR, or /dev/shm); of a container: /proc/PID/root/dev/shm");
}

std::string chosenRecordFolder(const std::string& chosen) {
  const char* const set = setting("RAILWISE_METRICS_DIR");
  return !chosen.empty() ? chosen : set != nullptr ? set : "/dev/shm";
}

Outcome<std::vector<record::Snapshot>> readRecords(const std::string& chosen,
                                                   const std::vector<std::string>& pids, bool gone,
                                                   std::vector<std::string>* notes) {
  const std::string folder = chosenRecordFolder(chosen);
  const uint32_t user = geteuid();
  (void)record::removeStaleRecords(folder, user, keepTime());
  std::vector<record::RecordFile> files = record::listRecords(folder, user);
  for (const std::string& pid : pids) {
    const auto is = [&](const record::RecordFile& file) { return std::to_string(file.pid) == pid; };
    if (std::ranges::none_of(files, is)) return noRecordOf(pid, folder, files);
  }
  std::erase_if(files, [&](const record::RecordFile& file) {
    if (pids.empty()) return !gone && !file.alive;
    return std::ranges::find(pids, std::to_string(file.pid)) == pids.end();
  });
  std::vector<record::Snapshot> snapshots;
  readFiles(files, user, snapshots, notes);
  return snapshots;
}

std::vector<record::Snapshot> readRecordsOfAll(const std::string& chosen, std::vector<std::string>* notes) {
  const std::string folder = chosenRecordFolder(chosen);
  std::vector<record::Snapshot> snapshots;
  for (const uint32_t user : record::recordUsers(folder)) {
    std::vector<record::RecordFile> files = record::listRecords(folder, user);
    std::erase_if(files, [](const record::RecordFile& file) { return !file.alive; });
    readFiles(files, user, snapshots, notes);
  }
  return snapshots;
}

}  // namespace railwise::cli
