#include "net/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"

namespace railwise::net {
namespace {

uint64_t pageBytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

uint64_t pageDown(uint64_t address) { return address & ~(pageBytes() - 1); }
uint64_t pageUp(uint64_t address) { return pageDown(address + pageBytes() - 1); }

// A negative size of the old API versions, say.
Status impossibleRange(uint64_t address, std::size_t bytes) {
  RAILWISE_WARN("registering %zu bytes at 0x%lx: that is beyond all memory", bytes,
                static_cast<unsigned long>(address));
  return {Code::kInvalidArgument, 0};
}

}  // namespace

MemoryCache::Range MemoryCache::pagesAround(uint64_t address, std::size_t bytes, MemoryKind kind) {
  if (address + bytes < address) return {address, address, kind};
  return {pageDown(address), pageUp(address + std::max<std::size_t>(bytes, 1)), kind};
}

MemoryCache::~MemoryCache() {
  if (!by_start_.empty())
    RAILWISE_INFO(log::kReg, "%zu memory registrations were never released", by_start_.size());
  for (auto& [start, entry] : by_start_) delete entry;
}

MemoryCache::Entry* MemoryCache::findLocked(const Range& range) {
  auto candidate = by_start_.upper_bound(range.start);
  while (candidate != by_start_.begin()) {
    --candidate;
    Entry* entry = candidate->second;
    if (entry->range.start + longest_ < range.end) return nullptr;
    if (entry->range.kind == range.kind && entry->range.end >= range.end) return entry;
  }
  return nullptr;
}

template <typename Register>
Result<MemoryHandle*> MemoryCache::acquireRange(const Range& range, Register&& registerRange) {
  {
    const std::lock_guard lock(mutex_);
    if (Entry* entry = findLocked(range)) {
      ++entry->references;
      return entry;
    }
  }
  Result<verbs::Mr> mr = registerRange();
  if (!mr.ok()) return mr.status();
  const std::lock_guard lock(mutex_);
  if (Entry* entry = findLocked(range)) {  // another thread was faster: its registration serves both
    ++entry->references;
    return entry;
  }
  auto* entry = new Entry{{(*mr)->lkey, (*mr)->rkey}, range, 1, std::move(*mr), {}};
  entry->position = by_start_.emplace(range.start, entry);
  longest_ = std::max(longest_, range.end - range.start);
  return entry;
}

Result<MemoryHandle*> MemoryCache::acquire(uint64_t address, std::size_t bytes, MemoryKind kind) {
  const Range range = pagesAround(address, bytes, kind);
  if (range.end <= range.start) return impossibleRange(address, bytes);
  return acquireRange(range, [&] {
    return verbs::registerMemory(pd_, reinterpret_cast<void*>(range.start), range.end - range.start,
                                 verbs::kDataAccess);
  });
}

Result<MemoryHandle*> MemoryCache::acquireDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset,
                                                 int fd) {
  // NCCL's offset belongs to `address`; the range grows downwards to its page, and the offset with it.
  const Range range{pageDown(address), pageUp(address + std::max<std::size_t>(bytes, 1)),
                    MemoryKind::kDmaBuf};
  const uint64_t head = address - range.start;
  if (offset < head) {
    RAILWISE_WARN("dma-buf %d: offset %lu for an address %lu bytes into its page", fd,
                  static_cast<unsigned long>(offset), static_cast<unsigned long>(head));
    return Status{Code::kInvalidArgument, 0};
  }
  return acquireRange(range, [&] {
    return verbs::registerDmaBuf(pd_, offset - head, range.end - range.start, range.start, fd,
                                 verbs::kDataAccess);
  });
}

void MemoryCache::release(MemoryHandle* handle) {
  auto* entry = static_cast<Entry*>(handle);
  {
    const std::lock_guard lock(mutex_);
    if (--entry->references > 0) return;
    by_start_.erase(entry->position);
  }
  delete entry;
}

std::size_t MemoryCache::entries() const {
  const std::lock_guard lock(mutex_);
  return by_start_.size();
}

Result<RegisteredPages> RegisteredPages::create(ibv_pd* pd, std::size_t bytes) {
  RegisteredPages pages;
  pages.bytes_ = pageUp(bytes);
  void* memory = mmap(nullptr, pages.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    RAILWISE_WARN("no memory for %zu bytes of connection state", pages.bytes_);
    return Status{Code::kSystem, errno};
  }
  pages.memory_ = memory;
  Result<verbs::Mr> mr = verbs::registerMemory(pd, memory, pages.bytes_, verbs::kDataAccess);
  if (!mr.ok()) return mr.status();
  pages.mr_ = std::move(*mr);
  return pages;
}

RegisteredPages::RegisteredPages(RegisteredPages&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), mr_(std::move(other.mr_)) {}

RegisteredPages& RegisteredPages::operator=(RegisteredPages&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(mr_, other.mr_);
  return *this;
}

RegisteredPages::~RegisteredPages() {
  mr_.reset();
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace railwise::net
