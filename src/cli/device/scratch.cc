#include "cli/device/scratch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "cli/options/message.h"

namespace railwise::cli {
namespace {

namespace fs = std::filesystem;

// The start time of a process, in clock ticks since boot: field 22 of the stat file of its first thread.
// qemu-user answers a read of the process's own /proc/PID/stat itself, with another time than the other
// processes see, so they would take this process's folder for a stale one. The fields are counted after the
// name in parentheses.
// "": there is no such process.
std::string startOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name = line.rfind(')');
  if (name == std::string::npos) return "";
  std::istringstream fields(line.substr(name + 1));
  std::string field;
  constexpr int kStart = 22 - 2;  // the first two fields are the process id and the name
  for (int i = 0; i < kStart; ++i) fields >> field;
  return fields ? field : "";
}

// The beginning of the names of this user's folders in this PID namespace: "railwise-sysfs.0.4026531836.".
// Only such folders are examined.
std::string prefix() {
  struct stat space = {};
  (void)stat("/proc/self/ns/pid", &space);
  return textOf("railwise-sysfs.%u.%llu.", geteuid(), static_cast<unsigned long long>(space.st_ino));
}

// TMPDIR if it is set. Otherwise a folder in memory, because the tree has about a thousand small files: the
// user's own folder, or the one of shared memory.
fs::path temporaryFolder() {
  for (const char* variable : {"TMPDIR", "XDG_RUNTIME_DIR"}) {
    std::error_code error;
    const char* named = std::getenv(variable);
    if (named == nullptr || *named == '\0') continue;
    fs::path folder = fs::canonical(named, error);
    if (!error && access(folder.c_str(), W_OK | X_OK) == 0) return folder;
  }
  return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

bool mine(const fs::path& folder) {
  struct stat status = {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

void removeStale(const fs::path& folder, const std::string& ours) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(ours)) continue;
    const std::string owner = name.substr(ours.size());  // "PID.START"
    const std::size_t dot = owner.find('.');
    if (dot == std::string::npos || owner.find_first_not_of("0123456789.") != std::string::npos) continue;
    if (startOf(owner.substr(0, dot)) == owner.substr(dot + 1) || !mine(entry.path())) continue;
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

Outcome<DeviceScratch> DeviceScratch::create() {
  const fs::path folder = temporaryFolder();
  const std::string ours = prefix();
  removeStale(folder, ours);
  const std::string pid = std::to_string(getpid());
  const std::string path = (folder / (ours + pid + "." + startOf(pid))).string();
  if (mkdir(path.c_str(), 0700) != 0)
    return Error{"cannot make the folder " + path + ": " + std::strerror(errno)};
  return DeviceScratch(path);
}

DeviceScratch::~DeviceScratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace railwise::cli
