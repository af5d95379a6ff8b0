#include "record/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace railwise::record {
namespace {

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

}  // namespace railwise::record
