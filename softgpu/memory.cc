#include "memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace softgpu {
namespace {

struct Known {
  std::mutex mutex;
  std::map<uintptr_t, Allocation> by_begin;
  unsigned long long next_id = 1;
};

Known& known() {
  static auto& all = *new Known;
  return all;
}

// Each allocation has a descriptor, and NCCL makes many.
void raiseDescriptorLimit() {
  static const bool raised = [] {
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      limit.rlim_cur = limit.rlim_max;
      (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    return true;
  }();
  (void)raised;
}

// Needs the mutex. The allocation that begins last at or before `address`.
std::map<uintptr_t, Allocation>::iterator before(Known& all, uintptr_t address) {
  auto next = all.by_begin.upper_bound(address);
  return next == all.by_begin.begin() ? all.by_begin.end() : std::prev(next);
}

}  // namespace

size_t wholePages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

int createMemoryFile(const char* name, size_t bytes) {
  raiseDescriptorLimit();
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  close(fd);
  return -1;
}

void* allocateShared(size_t bytes, MemoryKind kind, int device) {
  const size_t mapped = wholePages(bytes);
  if (mapped < bytes) return nullptr;
  const int fd = createMemoryFile("softgpu", mapped);
  if (fd < 0) return nullptr;
  void* const at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    close(fd);
    return nullptr;
  }
  addMapping({.begin = reinterpret_cast<uintptr_t>(at),
              .bytes = bytes,
              .mapped_bytes = mapped,
              .kind = kind,
              .device = device,
              .fd = fd});
  return at;
}

void* allocatePinned(size_t bytes, int device) {
  const size_t mapped = wholePages(bytes);
  if (mapped < bytes) return nullptr;
  void* const at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  addMapping({.begin = reinterpret_cast<uintptr_t>(at),
              .bytes = bytes,
              .mapped_bytes = mapped,
              .kind = MemoryKind::kPinned,
              .device = device});
  return at;
}

bool addMapping(Allocation allocation) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto previous = before(all, allocation.begin + allocation.bytes - 1);
  if (previous != all.by_begin.end() && previous->second.begin + previous->second.bytes > allocation.begin)
    return false;
  allocation.id = all.next_id++;
  all.by_begin.emplace(allocation.begin, allocation);
  return true;
}

std::optional<Allocation> findAllocation(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto found = before(all, at);
  if (found == all.by_begin.end() || at - found->second.begin >= found->second.bytes) return std::nullopt;
  return found->second;
}

std::optional<Allocation> takeAllocation(const void* address,
                                         const std::function<bool(const Allocation&)>& accept) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_begin.find(reinterpret_cast<uintptr_t>(address));
  if (found == all.by_begin.end() || !accept(found->second)) return std::nullopt;
  const Allocation taken = found->second;
  all.by_begin.erase(found);
  return taken;
}

void releaseMapping(const Allocation& allocation) {
  if (allocation.mapped_bytes != 0)
    munmap(reinterpret_cast<void*>(allocation.begin), allocation.mapped_bytes);
  if (allocation.fd >= 0) close(allocation.fd);
}

}  // namespace softgpu
