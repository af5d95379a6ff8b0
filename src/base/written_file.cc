#include "base/written_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace railwise {
namespace {

Error cannotWrite(const std::string& path, int error) {
  return Error{"cannot write " + path + ": " + std::strerror(error)};
}

int writeAll(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    at += static_cast<std::size_t>(wrote);
  }
  return 0;
}

}  // namespace

Outcome<void> replaceFile(const std::string& path, const std::string& text) {
  // In one folder with `path`, so that rename() replaces it at once; a name that does not end in .prom, so
  // that the node exporter does not read it.
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return cannotWrite(path, errno);
  int error = writeAll(fd, text);
  if (error == 0 && fchmod(fd, 0644) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  (void)unlink(temporary.c_str());
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

}  // namespace railwise
