#include "base/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptor.h"

namespace railwise {
namespace {

Error cannotWrite(const std::string& path, int error) {
  return Error{"cannot write " + path + ": " + std::strerror(error)};
}

}  // namespace

int writeAll(int fd, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    at += static_cast<std::size_t>(wrote);
  }
  return 0;
}

Outcome<void> replaceFile(const std::string& path, const std::string& text, std::optional<mode_t> mode) {
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  std::error_code failed;
  const std::string place = exists ? std::filesystem::canonical(path, failed).string() : path;
  // In one folder with `path`, so that rename() replaces it at once; a name that does not end in .prom, so
  // that the node exporter does not read it.
  std::string beside = place + ".XXXXXX";
  const bool dangling = !exists && std::filesystem::is_symlink(path, failed);  // a link stays a link
  const bool special = dangling || (exists && !S_ISREG(info.st_mode));
  const int made = special ? -1 : mkostemp(beside.data(), O_CLOEXEC);
  const bool renames = made >= 0;
  const int fd =
      renames ? made : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
  if (fd < 0) return cannotWrite(path, errno);
  int error = writeAll(fd, text);
  const mode_t mask = umask(0);
  umask(mask);
  if (renames && fchmod(fd, mode.value_or(exists ? info.st_mode & 07777 : 0666 & ~mask)) != 0 && error == 0)
    error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && renames && std::rename(beside.c_str(), place.c_str()) != 0) error = errno;
  if (error == 0) return {};
  if (renames) (void)unlink(beside.c_str());
  return cannotWrite(path, error);
}

Outcome<void> appendToFile(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
  if (fd < 0) return cannotWrite(path, errno);
  int error = writeAll(fd, text);
  if (close(fd) != 0 && error == 0) error = errno;
  if (error != 0) return cannotWrite(path, error);
  return {};
}

Outcome<std::string> wholeFile(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Error{std::strerror(errno)};
  std::string text;
  struct stat status = {};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode))
    text.reserve(std::min(static_cast<std::size_t>(status.st_size), most));
  char buffer[65536];
  while (text.size() < most) {
    const ssize_t got = ::read(file.get(), buffer, std::min(sizeof buffer, most - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{std::strerror(errno)};
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace railwise
