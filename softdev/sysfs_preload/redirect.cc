#include "softdev/sysfs_preload/redirect.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace railwise::sysfs_preload {
namespace {

// Folders of /sys that the tree replaces completely if the tree contains `with`. An entry that the tree lacks
// then does not exist: for example, the modules by which the computer's NICs reach its GPUs do not belong to
// the described machine.
struct Part {
  const char* path;
  const char* with;
  bool prefix;  // `path` is the beginning of a name ("pci0000:16")
  bool merged;  // the tree replaces only the entries that it has; the others stay those of the computer
};
constexpr Part kParts[] = {
    {"/sys/class/infiniband", "/sys/class/infiniband", false, false},
    {"/sys/class/pci_bus", "/sys/class/pci_bus", false, false},
    {"/sys/bus/pci", "/sys/bus/pci", false, false},
    {"/sys/devices/pci", "/sys/bus/pci", true, false},
    {"/sys/devices/platform/railwise", "/sys/devices/platform/railwise", false, false},
    {"/sys/devices/system/node", "/sys/devices/system/node", false, false},
    {"/sys/module/nvidia_peermem", "/sys/bus/pci", false, false},
    {"/sys/kernel/mm/memory_peers", "/sys/bus/pci", false, false},
    {"/sys/class/net", "/sys/class/net", false, true},
};
constexpr std::size_t kPartCount = sizeof kParts / sizeof *kParts;

char g_root[kPathSize];  // "": nothing is redirected
std::size_t g_root_length;
bool g_present[kPartCount];  // whether the tree has the part
pthread_once_t g_once = PTHREAD_ONCE_INIT;

class KeepErrno {
 public:
  KeepErrno() = default;
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;
  ~KeepErrno() { errno = kept_; }

 private:
  int kept_ = errno;
};

// Uses a system call, because the C library's function would call us.
bool exists(const char* path) { return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

bool join(const char* path, std::size_t length, char (&buffer)[kPathSize]) {
  if (g_root_length + length >= kPathSize) return false;
  std::memcpy(buffer, g_root, g_root_length);
  std::memcpy(buffer + g_root_length, path, length);
  buffer[g_root_length + length] = '\0';
  return true;
}

bool present(const Part& part) {
  char path[kPathSize];
  return join(part.with, std::strlen(part.with), path) && exists(path);
}

void readRoot() {
  const char* root = std::getenv("RAILWISE_SYSFS_ROOT");
  if (root != nullptr && root[0] == '/' && std::strlen(root) < kPathSize) std::strcpy(g_root, root);
  g_root_length = std::strlen(g_root);
  while (g_root_length > 0 && g_root[g_root_length - 1] == '/') g_root[--g_root_length] = '\0';
  for (std::size_t i = 0; i < kPartCount; ++i) g_present[i] = g_root_length > 0 && present(kParts[i]);
}

// Removes empty components and ".". Keeps "..", because it follows links. False: the path is too long.
bool tidy(const char* path, char (&buffer)[kPathSize], std::size_t* length) {
  std::size_t out = 0;
  while (*path != '\0') {
    while (*path == '/') ++path;
    const std::size_t step = std::strcspn(path, "/");
    const bool dot = step == 1 && path[0] == '.';
    if (step != 0 && !dot) {
      if (out + step + 2 > kPathSize) return false;
      buffer[out++] = '/';
      std::memcpy(buffer + out, path, step);
      out += step;
    }
    path += step;
  }
  buffer[out] = '\0';
  *length = out;
  return true;
}

bool isPart(const Part& part, const char* path, std::size_t length) {
  const std::size_t size = std::strlen(part.path);
  if (length < size || std::memcmp(path, part.path, size) != 0) return false;
  return part.prefix || path[size] == '/' || path[size] == '\0';
}

// Does the tree have this entry of a merged folder, such as "/sys/class/net/NAME"?
bool hasEntry(const Part& part, const char* path, char (&buffer)[kPathSize]) {
  const std::size_t size = std::strlen(part.path);
  if (path[size] != '/') return false;
  const std::size_t entry = size + 1 + std::strcspn(path + size + 1, "/");
  return join(path, entry, buffer) && exists(buffer);
}

}  // namespace

const char* redirected(const char* path, char (&buffer)[kPathSize]) {
  if (path == nullptr || path[0] != '/') return path;
  const KeepErrno keep;
  pthread_once(&g_once, readRoot);
  if (g_root_length == 0) return path;
  char tidied[kPathSize];
  std::size_t length = 0;
  if (!tidy(path, tidied, &length) || std::memcmp(tidied, "/sys/", 5) != 0) return path;
  for (std::size_t i = 0; i < kPartCount; ++i) {
    if (!g_present[i] || !isPart(kParts[i], tidied, length)) continue;
    if (kParts[i].merged && !hasEntry(kParts[i], tidied, buffer)) return path;
    return join(tidied, length, buffer) ? buffer : path;
  }
  return path;
}

void restore(char* path) {
  const KeepErrno keep;
  pthread_once(&g_once, readRoot);
  if (g_root_length == 0 || std::strncmp(path, g_root, g_root_length) != 0) return;
  const char* rest = path + g_root_length;
  if (std::strncmp(rest, "/sys", 4) != 0 || (rest[4] != '/' && rest[4] != '\0')) return;
  std::memmove(path, rest, std::strlen(rest) + 1);
}

}  // namespace railwise::sysfs_preload
