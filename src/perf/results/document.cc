#include "perf/results/document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

// A device or a pipe cannot be replaced by a file, and a link stays one.
bool isSpecial(const std::string& file) {
  struct stat its = {};
  return lstat(file.c_str(), &its) == 0 && !S_ISREG(its.st_mode) && !S_ISDIR(its.st_mode);
}

std::string temporaryOf(const std::string& file) { return file + ".part" + std::to_string(getpid()); }

// 0: the file can be written. Otherwise an errno.
int tryToWrite(const std::string& file) {
  struct stat its = {};
  const bool exists = stat(file.c_str(), &its) == 0;
  if (exists && S_ISDIR(its.st_mode)) return EISDIR;
  if (exists && isSpecial(file)) return access(file.c_str(), W_OK) == 0 ? 0 : errno;
  const std::string temporary = temporaryOf(file);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  close(fd);
  unlink(temporary.c_str());
  return 0;
}

bool writeTo(const std::string& name, const char* mode, const std::string& text) {
  FILE* const stream = std::fopen(name.c_str(), mode);
  if (stream == nullptr) return false;
  const bool written = std::fputs(text.c_str(), stream) >= 0;
  return std::fclose(stream) == 0 && written;
}

}  // namespace

Outcome<void> checkOutputs(const PerfOptions& options) {
  const struct {
    const char* option;
    const std::string& file;
  } outputs[] = {
      {"--json", options.json_file}, {"--csv", options.csv_file}, {"--timeline", options.timeline}};
  for (const auto& output : outputs) {
    if (output.file.empty()) continue;
    if (const int error = tryToWrite(output.file); error != 0)
      return Error{
          textOf("option %s: cannot write %s: %s", output.option, output.file.c_str(), std::strerror(error))};
  }
  return {};
}

bool writeDocument(const std::string& file, const std::string& text) {
  if (file.empty()) return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (isSpecial(file)) {
    if (writeTo(file, "we", text)) return true;
  } else {
    const std::string temporary = temporaryOf(file);
    if (writeTo(temporary, "we", text) && std::rename(temporary.c_str(), file.c_str()) == 0) return true;
    const int error = errno;
    std::remove(temporary.c_str());
    errno = error;
  }
  say("cannot write %s: %s", file.c_str(), std::strerror(errno));
  return false;
}

}  // namespace railwise::cli
