#include "record/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/process.h"

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

// Removes the record if its process is gone. Another process may have taken the name since the file was
// opened.
bool removeDead(const std::string& path, const File& file) {
  struct stat current = {};
  return !file.held() && lstat(path.c_str(), &current) == 0 && current.st_dev == file.status().st_dev &&
         current.st_ino == file.status().st_ino && unlink(path.c_str()) == 0;
}

// Takes a number from the front of `text`. Only the form that a writer uses is accepted: no sign, no zero in
// front.
std::optional<uint64_t> takeNumber(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || (text[0] == '0' && length > 1)) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

// What the name of a record says; null: it is no such name.
std::optional<RecordFile> parseName(std::string_view text) {
  constexpr std::string_view kPrefix = "railwise";
  uint64_t user = 0;
  uint64_t pid = 0;
  RecordFile file;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  for (uint64_t* const field : {&user, &pid, &file.start}) {
    if (!text.starts_with('-')) return std::nullopt;
    text.remove_prefix(1);
    const auto number = takeNumber(text);
    if (!number) return std::nullopt;
    *field = *number;
  }
  file.spy = text == "-spy";
  if ((!text.empty() && !file.spy) || user > UINT32_MAX || pid > INT32_MAX) return std::nullopt;
  file.user = static_cast<uint32_t>(user);
  file.pid = static_cast<uint32_t>(pid);
  return file;
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// The files that are named like records, except those of this process.
std::vector<RecordFile> namedLikeRecords(const std::string& folder) {
  std::vector<RecordFile> files;
  const Folder entries(opendir(folder.c_str()));
  const auto own_pid = static_cast<uint32_t>(getpid());
  const uint64_t own_start = processStat(kThisProcess).start;
  while (const dirent* const entry = entries ? readdir(entries.get()) : nullptr) {
    auto file = parseName(entry->d_name);
    if (!file || (file->pid == own_pid && file->start == own_start)) continue;
    file->path = folder + "/" + entry->d_name;
    files.push_back(std::move(*file));
  }
  std::ranges::sort(files, {},
                    [](const RecordFile& file) { return std::tuple(file.pid, file.start, file.spy); });
  return files;
}

}  // namespace

File::File(const std::string& path)
    : fd_(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  if (!fd_.valid() && errno == ELOOP) problem_ = "a link, and records are files";
  else if (!fd_.valid() || fstat(fd(), &status_) != 0)
    problem_ = std::string("cannot be read: ") + strerror(errno);
  else if (!S_ISREG(status_.st_mode)) problem_ = "not a file";
}

bool File::copy(uint64_t at, void* to, std::size_t bytes) const {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd(), next, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    at += static_cast<uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool File::held() const {
  struct flock lock = {};
  lock.l_type = F_RDLCK;  // what the writer's lock does not allow
  lock.l_whence = SEEK_SET;
  return fcntl(fd(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::vector<RecordFile> listRecords(const std::string& folder, uint32_t user) {
  std::vector<RecordFile> files;
  for (RecordFile& each : namedLikeRecords(folder)) {
    if (each.user != user) continue;
    const File file(each.path);
    if (!file.valid() || file.status().st_uid != user) continue;
    each.alive = file.held();
    files.push_back(std::move(each));
  }
  return files;
}

std::vector<uint32_t> recordUsers(const std::string& folder) {
  std::set<uint32_t> users;
  for (const RecordFile& file : namedLikeRecords(folder)) users.insert(file.user);
  return {users.begin(), users.end()};
}

int removeStaleRecords(const std::string& folder, uint32_t user, std::chrono::seconds keep) {
  struct Dead {
    std::string path;
    time_t found;
    uint64_t bytes;
  };
  std::vector<Dead> dead;
  int removed = 0;
  for (const RecordFile& each : listRecords(folder, user)) {
    const File file(each.path);
    if (!file.valid() || file.held()) continue;
    // Nothing in the record tells when the process died. The first process that finds it gone marks the
    // record, and the time counts from then.
    time_t found = file.status().st_mtime;
    if ((file.status().st_mode & S_IWUSR) != 0) {
      (void)futimens(file.fd(), nullptr);
      (void)fchmod(file.fd(), S_IRUSR);
      found = std::time(nullptr);
    }
    const bool stale = std::time(nullptr) - found >= keep.count();
    if (stale && removeDead(each.path, file)) ++removed;
    else dead.push_back({each.path, found, static_cast<uint64_t>(file.status().st_blocks) * 512});
  }
  // The dead must not take the memory that NCCL needs: the oldest go first.
  std::sort(dead.begin(), dead.end(), [](const Dead& a, const Dead& b) { return a.found > b.found; });
  const uint64_t most_bytes = mostBytesOfTheDead(folder);
  uint64_t bytes = 0;
  for (std::size_t i = 0; i < dead.size(); ++i) {
    bytes += dead[i].bytes;
    if (i < kMostDead && bytes <= most_bytes) continue;
    const File file(dead[i].path);
    if (file.valid() && removeDead(dead[i].path, file)) ++removed;
  }
  return removed;
}

int removeRecordsOf(const std::string& folder, uint32_t user, std::span<const uint32_t> pids) {
  int removed = 0;
  for (const RecordFile& each : listRecords(folder, user)) {
    const File file(each.path);
    if (std::ranges::find(pids, each.pid) != pids.end() && file.valid() && removeDead(each.path, file))
      ++removed;
  }
  return removed;
}

}  // namespace railwise::record
