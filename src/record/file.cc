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
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

std::optional<RecordName> parseName(std::string_view text) {
  RecordName name;
  constexpr std::string_view kPrefix = "railwise";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  for (uint64_t* const field : {&name.user, &name.pid, &name.start}) {
    if (!text.starts_with('-')) return std::nullopt;
    text.remove_prefix(1);
    const auto number = takeNumber(text);
    if (!number) return std::nullopt;
    *field = *number;
  }
  name.spy = text == "-spy";
  if (!text.empty() && !name.spy) return std::nullopt;
  if (name.user > UINT32_MAX || name.pid > INT32_MAX) return std::nullopt;
  return name;
}

// Field 22 of this process's stat file: when it began, as the writer of a record reads it; 0: not known.
uint64_t ownStart() {
  char text[1024] = {};
  std::snprintf(text, sizeof text, "/proc/self/task/%d/stat", static_cast<int>(getpid()));
  int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::memset(text, 0, sizeof text);
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  std::string_view rest(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));  // the program's name may hold spaces
  for (int field = 2; field < 22; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return 0;
    rest.remove_prefix(space + 1);
  }
  return takeNumber(rest).value_or(0);
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

}  // namespace

File::File(int folder, const char* path)
    : fd_(openat(folder, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
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

void visitRecordNames(const std::string& folder,
                      const std::function<void(const char*, const RecordName&, int folder_fd)>& visit) {
  const Folder entries(opendir(folder.c_str()));
  if (!entries) return;
  const auto own_pid = static_cast<uint64_t>(getpid());
  const uint64_t own_start = ownStart();
  while (const dirent* const entry = readdir(entries.get())) {
    const auto name = parseName(entry->d_name);
    if (name && (name->pid != own_pid || name->start != own_start))
      visit(entry->d_name, *name, dirfd(entries.get()));
  }
}

void visitRecords(
    const std::string& folder, uint32_t user,
    const std::function<void(const char*, const RecordName&, const File&, int folder_fd)>& visit) {
  visitRecordNames(folder, [&](const char* text, const RecordName& name, int folder_fd) {
    if (name.user != user) return;
    const File file(folder_fd, text);
    if (file.valid() && file.status().st_uid == user) visit(text, name, file, folder_fd);
  });
}

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
