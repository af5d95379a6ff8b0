#include "softdev/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <unordered_map>

#include "softdev/fabric/process_locks.h"
#include "softdev/memory/address_space.h"

namespace railwise::softdev {
namespace {

// Files of this process by identity. Never destroyed, because regions may outlive static destruction.
struct Files {
  std::unordered_map<uint64_t, std::weak_ptr<BackingFile>> known;
};
Files& files() {
  static auto* instance = new Files;
  return *instance;
}

bool isFile(int fd, uint64_t identity) {
  struct stat file = {};
  return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && fileIdentity(file.st_dev, file.st_ino) == identity;
}

// Opens `path` if it is the file with this identity. Otherwise -1.
int openIf(const char* path, uint64_t identity, bool writing) {
  const int fd = open(path, (writing ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || isFile(fd, identity)) return fd;
  close(fd);
  return -1;
}

// Finds the application's own descriptor of the file and opens the file again.
int searchDescriptors(uint64_t identity, bool writing) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string number = entry.path().filename();
    int fd = -1;
    std::from_chars(number.data(), number.data() + number.size(), fd);
    if (fd < 0 || !isFile(fd, identity)) continue;
    const int opened = openIf(entry.path().c_str(), identity, writing);
    if (opened >= 0) return opened;
    const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (duplicate >= 0) return duplicate;
  }
  return -1;
}

int openBacking(uint64_t address, const Area& area, uint64_t identity, bool writing) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/map_files/%llx-%llx",
                static_cast<unsigned long long>(area.begin), static_cast<unsigned long long>(area.end));
  if (const int fd = openIf(path, identity, writing); fd >= 0) return fd;  // not every process may open these
  if (const int fd = searchDescriptors(identity, writing); fd >= 0) return fd;
  Area described;
  if (!describeArea(address, &described) || described.name.empty() || described.name[0] != '/') return -1;
  struct stat file = {};  // checked before opening, because opening a device may have effects
  if (stat(described.name.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return -1;
  return openIf(described.name.c_str(), identity, writing);
}

// Is the region one contiguous range of one file, mapped shared? *first receives the area of its first byte.
bool sharedStretch(uint64_t address, uint64_t length, bool writing, Area* first) {
  if (surelyPrivate(address) || !findArea(address, first)) return false;
  Area area = *first;
  const uint64_t end = address + length;
  while (true) {
    if (!area.shared || area.inode == 0 || !area.readable || (writing && !area.writable)) return false;
    if (area.inode != first->inode || area.device != first->device ||
        area.offset - first->offset != area.begin - first->begin)
      return false;
    if (end <= area.end) return true;
    if (const uint64_t next = area.end; !findArea(next, &area)) return false;
  }
}

}  // namespace

BackingFile::~BackingFile() {
  // The application may have closed the descriptor, and its number may belong to another file now.
  if (isFile(fd_, identity_)) close(fd_);
}

uint64_t fileIdentity(uint64_t device, uint64_t inode) {
  uint64_t mixed = device * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ULL;
  return inode ^ mixed;
}

std::shared_ptr<BackingFile> findBacking(uint64_t address, uint64_t length, bool writing, uint64_t* offset) {
  Area area;
  if (!sharedStretch(address, length, writing, &area)) return nullptr;
  *offset = area.offset + (address - area.begin);
  const uint64_t identity = fileIdentity(area.device, area.inode);
  std::lock_guard lock(processLock(ProcessLock::kFiles));
  std::weak_ptr<BackingFile>& known = files().known[identity];
  std::shared_ptr<BackingFile> file = known.lock();
  if (file != nullptr && isFile(file->fd(), identity) && (file->writable() || !writing)) return file;
  const int fd = openBacking(address, area, identity, writing);
  if (fd < 0) {
    if (file == nullptr) files().known.erase(identity);
    return nullptr;
  }
  file = std::make_shared<BackingFile>(fd, identity, writing);
  known = file;
  return file;
}

void rememberBacking(const std::shared_ptr<BackingFile>& file) {
  std::lock_guard lock(processLock(ProcessLock::kFiles));
  std::erase_if(files().known, [](const auto& entry) { return entry.second.expired(); });
  files().known[file->identity()] = file;
}

void publishBacking(MrRecord& record, const BackingFile* file, uint64_t offset) {
  record.backing_offset.store(offset, std::memory_order_release);
  record.backing_file.store(file != nullptr ? file->identity() : 0, std::memory_order_release);
  record.backing_fd.store(file != nullptr ? static_cast<uint32_t>(file->fd()) + 1 : 0,
                          std::memory_order_release);
}

}  // namespace railwise::softdev
