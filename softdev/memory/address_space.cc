#include "softdev/memory/address_space.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "softdev/memory/once_asked.h"

namespace railwise::softdev {
namespace {

// PROCMAP_QUERY of <linux/fs.h>. Headers before 6.11 do not have it.
struct MapQuery {
  uint64_t size = sizeof(MapQuery);
  uint64_t query_flags = 0;
  uint64_t query_addr = 0;
  uint64_t vma_start = 0;
  uint64_t vma_end = 0;
  uint64_t vma_flags = 0;
  uint64_t vma_page_size = 0;
  uint64_t vma_offset = 0;
  uint64_t inode = 0;
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  uint32_t vma_name_size = 0;
  uint32_t build_id_size = 0;
  uint64_t vma_name_addr = 0;
  uint64_t build_id_addr = 0;
};
static_assert(sizeof(MapQuery) == 104);
constexpr unsigned long kMapQuery = _IOWR('f', 17, MapQuery);
constexpr uint64_t kQueryReadable = 1;
constexpr uint64_t kQueryWritable = 2;
constexpr uint64_t kQueryShared = 8;

// A file of /proc/self that stays open, because opening it costs more than a query. -1 before the first use.
class ProcFile {
 public:
  explicit constexpr ProcFile(const char* path) : path_(path) {}

  int get() {
    int fd = fd_.load(std::memory_order_acquire);
    if (fd >= 0) return fd;
    const int opened = open(path_, O_RDONLY | O_CLOEXEC);
    if (opened < 0) return -1;
    if (fd_.compare_exchange_strong(fd, opened, std::memory_order_acq_rel)) return opened;
    close(opened);
    return fd;
  }
  // Called if the number may belong to another file now (the application closed ours), or in a forked child.
  // Does not close it, because it may be the application's.
  void forget() { fd_.store(-1, std::memory_order_release); }
  // Closes the file, if the number still belongs to our file.
  void release() {
    const int fd = fd_.exchange(-1, std::memory_order_acq_rel);
    char link[48];
    char target[64] = {};
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd < 0 || readlink(link, target, sizeof target - 1) <= 0) return;
    const std::string_view name = std::string_view(path_).substr(std::string_view("/proc/self").size());
    if (std::string_view(target).starts_with("/proc/") && std::string_view(target).ends_with(name)) close(fd);
  }

 private:
  const char* path_;
  std::atomic<int> fd_{-1};
};

constinit ProcFile g_maps("/proc/self/maps");
constinit ProcFile g_pagemap("/proc/self/pagemap");

// Kernels before 6.11 do not know the query, and a filter of system calls may refuse it.
bool kernelKnowsQuery() {
  static constinit OnceAsked knows;
  return knows([] {
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    MapQuery query;
    query.query_addr = reinterpret_cast<uintptr_t>(&query);
    const bool answered = ioctl(maps, kMapQuery, &query) == 0;
    if (maps >= 0) close(maps);
    return answered;
  });
}

enum class Answer { kFound, kNothing, kUnknown };

Answer queryKernel(uint64_t address, Area* area) {
  if (!kernelKnowsQuery()) return Answer::kUnknown;
  MapQuery query;
  query.query_addr = address;
  if (ioctl(g_maps.get(), kMapQuery, &query) != 0 && errno != ENOENT) {
    g_maps.forget();
    if (ioctl(g_maps.get(), kMapQuery, &query) != 0 && errno != ENOENT) return Answer::kUnknown;
  }
  if (query.vma_end == 0) return Answer::kNothing;
  area->begin = query.vma_start;
  area->end = query.vma_end;
  area->offset = query.vma_offset;
  area->inode = query.inode;
  area->device = makedev(query.dev_major, query.dev_minor);
  area->readable = (query.vma_flags & kQueryReadable) != 0;
  area->writable = (query.vma_flags & kQueryWritable) != 0;
  area->shared = (query.vma_flags & kQueryShared) != 0;
  return Answer::kFound;
}

// One line of /proc/self/maps (proc(5)).
bool parseLine(const std::string& line, Area* area) {
  char rights[5] = {};
  unsigned device_major = 0;
  unsigned device_minor = 0;
  int name_at = 0;
  if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &area->begin,
                  &area->end, rights, &area->offset, &device_major, &device_minor, &area->inode,
                  &name_at) != 7)
    return false;
  area->device = makedev(device_major, device_minor);
  area->readable = rights[0] == 'r';
  area->writable = rights[1] == 'w';
  area->shared = rights[3] == 's';
  area->name = line.substr(static_cast<size_t>(name_at));
  return true;
}

}  // namespace

bool describeArea(uint64_t address, Area* area) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (parseLine(line, area) && address >= area->begin && address < area->end) return true;
  }
  return false;
}

bool findArea(uint64_t address, Area* area) {
  const Answer answer = queryKernel(address, area);
  return answer == Answer::kUnknown ? describeArea(address, area) : answer == Answer::kFound;
}

bool surelyPrivate(uint64_t address) {
  if (kernelKnowsQuery()) return false;  // findArea() is faster then
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  constexpr uint64_t kOfFile = uint64_t{1} << 61;  // of a file, or shared
  uint64_t entry = 0;
  const auto at = static_cast<off_t>(address / page_bytes * sizeof entry);
  if (pread(g_pagemap.get(), &entry, sizeof entry, at) != sizeof entry) return false;
  return (entry & kPresent) != 0 && (entry & kOfFile) == 0;
}

void releaseAddressSpace() {
  g_maps.release();
  g_pagemap.release();
}

void forgetAddressSpace() {
  g_maps.forget();
  g_pagemap.forget();
}

}  // namespace railwise::softdev
