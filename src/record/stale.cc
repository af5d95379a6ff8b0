#include "record/stale.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "record/file.h"

namespace railwise::record {
namespace {

// So many records of dead processes stay, and this part of the memory of the folder: a container has 64 MiB
// of shared memory, which NCCL needs too.
constexpr std::size_t kMostDead = 128;
constexpr uint64_t kPartOfTheDead = 8;

uint64_t mostBytesOfTheDead(const std::string& folder) {
  struct statvfs room = {};
  if (statvfs(folder.c_str(), &room) != 0 || room.f_blocks == 0) return UINT64_MAX;
  return static_cast<uint64_t>(room.f_blocks) * room.f_frsize / kPartOfTheDead;
}

// A process may have taken the name since the file was opened.
bool isStill(const char* name, const File& file, int folder_fd) {
  struct stat current = {};
  return fstatat(folder_fd, name, &current, AT_SYMLINK_NOFOLLOW) == 0 &&
         current.st_dev == file.status().st_dev && current.st_ino == file.status().st_ino;
}

}  // namespace

int removeStaleRecords(const std::string& folder, uint32_t user, std::chrono::seconds keep) {
  struct Dead {
    std::string name;
    time_t found;
    uint64_t bytes;
  };
  std::vector<Dead> dead;
  int removed = 0;
  visitRecords(folder, user, [&](const char* name, const RecordName&, const File& file, int folder_fd) {
    if (file.held()) return;
    // Nothing in the record tells when the process died. The first process that finds it gone marks the
    // record, and the time counts from then.
    time_t found = file.status().st_mtime;
    if ((file.status().st_mode & S_IWUSR) != 0) {
      (void)futimens(file.fd(), nullptr);
      (void)fchmod(file.fd(), S_IRUSR);
      found = std::time(nullptr);
    }
    const bool stale = std::time(nullptr) - found >= keep.count();
    if (stale && !file.held() && isStill(name, file, folder_fd) && unlinkat(folder_fd, name, 0) == 0)
      ++removed;
    else dead.push_back({name, found, static_cast<uint64_t>(file.status().st_blocks) * 512});
  });
  // The dead must not take the memory that NCCL needs: the oldest go first.
  std::sort(dead.begin(), dead.end(), [](const Dead& a, const Dead& b) { return a.found > b.found; });
  const uint64_t most_bytes = mostBytesOfTheDead(folder);
  uint64_t bytes = 0;
  for (std::size_t i = 0; i < dead.size(); ++i) {
    bytes += dead[i].bytes;
    if (i < kMostDead && bytes <= most_bytes) continue;
    const File file(AT_FDCWD, (folder + "/" + dead[i].name).c_str());
    if (file.valid() && !file.held() && unlink((folder + "/" + dead[i].name).c_str()) == 0) ++removed;
  }
  return removed;
}

int removeRecordsOf(const std::string& folder, uint32_t user, std::span<const uint32_t> pids) {
  int removed = 0;
  visitRecords(folder, user, [&](const char* name, const RecordName& its, const File& file, int folder_fd) {
    if (std::find(pids.begin(), pids.end(), its.pid) == pids.end() || file.held()) return;
    if (isStill(name, file, folder_fd) && unlinkat(folder_fd, name, 0) == 0) ++removed;
  });
  return removed;
}

}  // namespace railwise::record
