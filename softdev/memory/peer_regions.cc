// Regions of peers, mapped in this process (shared_memory.h).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "softdev/fabric/process_locks.h"
#include "softdev/memory/shared_memory.h"

namespace railwise::softdev {

class PeerRegion {
 public:
  PeerRegion(void* base, size_t bytes, std::byte* memory)
      : base_(base), bytes_(bytes), memory_(memory), process_(getpid()) {}
  ~PeerRegion() {
    if (process_ == getpid()) munmap(base_, bytes_);  // a forked child does not have the mapping
  }
  PeerRegion(const PeerRegion&) = delete;
  PeerRegion& operator=(const PeerRegion&) = delete;
  std::byte* memory() const { return memory_; }

 private:
  void* base_;
  size_t bytes_;
  std::byte* memory_;
  pid_t process_;
};

namespace {

constexpr long kTmpfs = 0x01021994;      // TMPFS_MAGIC of <linux/magic.h>
constexpr long kHugetlbfs = 0x958458f6;  // HUGETLBFS_MAGIC

// What a mapping shows. Equal extents share one mapping. The file stays open while it is mapped, so that its
// identity cannot name another file.
struct Extent {
  uint64_t identity;
  uint64_t offset;
  uint64_t length;
  bool writable;
  auto operator<=>(const Extent&) const = default;
};

struct Registry {
  std::map<Extent, std::weak_ptr<PeerRegion>> mapped;
};
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

// If the file system cannot provide a page, the process that touches it dies (SIGBUS). So only files are
// mapped whose pages all exist, or whose file system has no limit.
bool safeToTouch(const struct stat& file, const struct statfs& system, const Extent& extent) {
  if (static_cast<uint64_t>(file.st_size) < extent.offset + extent.length) return false;
  if (system.f_type == kHugetlbfs) return true;  // mmap() reserves the pages
  if (system.f_type == kTmpfs && system.f_blocks == 0) return true;
  constexpr uint64_t kBlockBytes = 512;
  return static_cast<uint64_t>(file.st_blocks) * kBlockBytes >= static_cast<uint64_t>(file.st_size);
}

std::shared_ptr<PeerRegion> mapExtent(int fd, const Extent& extent) {
  struct stat file = {};
  struct statfs system = {};
  if (fstat(fd, &file) != 0 || fstatfs(fd, &system) != 0 || !S_ISREG(file.st_mode) ||
      fileIdentity(file.st_dev, file.st_ino) != extent.identity || !safeToTouch(file, system, extent))
    return nullptr;
  const auto page =
      static_cast<uint64_t>(system.f_type == kHugetlbfs ? system.f_bsize : sysconf(_SC_PAGESIZE));
  const uint64_t first = extent.offset / page * page;
  const uint64_t bytes = (extent.offset + extent.length - first + page - 1) / page * page;
  const int rights = PROT_READ | (extent.writable ? PROT_WRITE : 0);
  void* base = mmap(nullptr, bytes, rights, MAP_SHARED, fd, static_cast<off_t>(first));
  if (base == MAP_FAILED) return nullptr;
  (void)madvise(base, bytes, MADV_DONTFORK);
  (void)madvise(base, bytes, MADV_DONTDUMP);
  return std::make_shared<PeerRegion>(base, bytes, static_cast<std::byte*>(base) + (extent.offset - first));
}

std::shared_ptr<PeerRegion> openExtent(pid_t pid, uint32_t peer_fd, const Extent& extent) {
  std::lock_guard lock(processLock(ProcessLock::kPeerRegions));
  std::weak_ptr<PeerRegion>& known = registry().mapped[extent];
  std::shared_ptr<PeerRegion> region = known.lock();
  if (region != nullptr) return region;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%u", static_cast<int>(pid), peer_fd);
  const int fd = open(path, (extent.writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd >= 0) {
    region = mapExtent(fd, extent);
    close(fd);
  }
  known = region;
  std::erase_if(registry().mapped, [](const auto& entry) { return entry.second.expired(); });
  return region;
}

}  // namespace

std::byte* PeerRegions::find(Fabric& fabric, uint32_t token, uint32_t key, const std::byte* address,
                             bool writing) {
  const MrRecord& record = fabric.segment->mrs[key >> 8];
  if (record.backing_fd.load(std::memory_order_relaxed) == 0) return nullptr;
  Entry& entry = entries_[(key >> 8) % kEntries];
  const bool same = entry.key == key && entry.token == token &&
                    entry.identity == record.backing_file.load(std::memory_order_relaxed) &&
                    entry.offset == record.backing_offset.load(std::memory_order_relaxed) &&
                    entry.address == record.address.load(std::memory_order_relaxed) &&
                    entry.length == record.length.load(std::memory_order_relaxed);
  if (!same) [[unlikely]] {
    sweep(*fabric.segment);
    map(fabric, entry, token, key, record);
  }
  if (entry.memory == nullptr || (writing && !entry.writable)) return nullptr;
  return entry.memory + (reinterpret_cast<uint64_t>(address) - entry.address);
}

void PeerRegions::map(Fabric& fabric, Entry& entry, uint32_t token, uint32_t key, const MrRecord& record) {
  constexpr uint32_t kWritable = IBV_ACCESS_LOCAL_WRITE;
  entry = {};
  entry.key = key;
  entry.token = token;
  entry.identity = record.backing_file.load(std::memory_order_acquire);
  entry.offset = record.backing_offset.load(std::memory_order_acquire);
  entry.address = record.address.load(std::memory_order_acquire);
  entry.length = record.length.load(std::memory_order_acquire);
  entry.writable = (record.access.load(std::memory_order_acquire) & kWritable) != 0;
  const uint32_t fd = record.backing_fd.load(std::memory_order_acquire);
  if (fd == 0 || record.key.load(std::memory_order_relaxed) != key) {
    entry = {};  // the record belongs to another region by now
    return;
  }
  const uint32_t pid = fabric.segment->processes[slotOf(token)].pid.load(std::memory_order_acquire);
  entry.region = openExtent(static_cast<pid_t>(pid), fd - 1,
                            {entry.identity, entry.offset, entry.length, entry.writable});
  if (entry.region != nullptr) entry.memory = entry.region->memory();
}

void PeerRegions::sweep(const Segment& segment) {
  for (Entry& entry : entries_) {
    if (entry.key != 0 && segment.mrs[entry.key >> 8].key.load(std::memory_order_acquire) != entry.key)
      entry = {};
  }
}

void PeerRegions::clear() { entries_ = {}; }

}  // namespace railwise::softdev
