#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace railwise {

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
