// The files of records: which there are, and whether a process still holds one.
#include "record/reader.h"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "record/file.h"

namespace railwise::record {
namespace {

// What no record exceeds: tables and 65536 slots of 64 KiB.
constexpr off_t kMostBytes = kSlotsAt + off_t{65536} * 65536;

class FileSource : public Source {
 public:
  explicit FileSource(const File& file) : file_(file) {}
  uint64_t size() const override { return static_cast<uint64_t>(file_.status().st_size); }
  bool copy(uint64_t at, void* to, std::size_t bytes) const override { return file_.copy(at, to, bytes); }

 private:
  const File& file_;
};

}  // namespace

std::string recordFolder(const std::string& chosen) { return chosen.empty() ? "/dev/shm" : chosen; }

std::vector<RecordFile> listRecords(const std::string& folder, uint32_t user) {
  struct Found {
    RecordName name;
    RecordFile file;
  };
  std::vector<Found> found;
  visitRecords(folder, user, [&](const char* text, const RecordName& name, const File& file, int) {
    found.push_back({.name = name,
                     .file = {.path = folder + "/" + text,
                              .pid = static_cast<uint32_t>(name.pid),
                              .alive = file.held(),
                              .spy = name.spy}});
  });
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.name.pid, a.name.start, a.name.spy) < std::tie(b.name.pid, b.name.start, b.name.spy);
  });
  std::vector<RecordFile> files;
  for (Found& each : found) files.push_back(std::move(each.file));
  return files;
}

std::vector<uint32_t> recordUsers(const std::string& folder) {
  std::set<uint32_t> users;
  visitRecordNames(folder, [&](const char*, const RecordName& name, int) {
    users.insert(static_cast<uint32_t>(name.user));
  });
  return {users.begin(), users.end()};
}

Outcome<Snapshot> readRecord(const std::string& path, std::optional<uint32_t> owner) {
  const File file(AT_FDCWD, path.c_str());
  if (!file.valid()) return Error{path + ": " + file.problem()};
  if (owner && file.status().st_uid != *owner)
    return Error{path + ": belongs to user " + std::to_string(file.status().st_uid) + ", not to user " +
                 std::to_string(*owner)};
  if (file.status().st_size > kMostBytes)
    return Error{path + ": " + std::to_string(file.status().st_size) + " bytes are too many for a record"};
  const bool alive = file.held();  // asked first: what a process that is gone has written is complete
  return readSource(FileSource(file), alive, path);
}

}  // namespace railwise::record
