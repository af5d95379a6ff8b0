// Registered memory: the cache behind regMr, and pages of our own.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "verbs/memory_region.h"

namespace railwise::net {

enum class MemoryKind : uint8_t { kHost, kDevice, kDmaBuf };

// What NCCL holds as mhandle.
struct MemoryHandle {
  uint32_t local_key;
  uint32_t remote_key;
};

// Registrations of one protection domain, shared by reference count between all callers that name the same
// range: NCCL registers a buffer once per connection. Thread-safe; the lock is not held across ibv_reg_mr. No
// entry outlives its last release().
class MemoryCache {
 public:
  explicit MemoryCache(ibv_pd* pd) : pd_(pd) {}
  ~MemoryCache();

  // A handle for [address, address + bytes), from an entry of the same kind that covers it or from a new
  // registration of the whole pages around it. bytes 0 counts as 1. Errors: kSystem, logged.
  Result<MemoryHandle*> acquire(uint64_t address, std::size_t bytes, MemoryKind kind);
  // The same through a dma-buf; `offset` is where `address` lies in `fd`, which the caller may close
  // afterwards.
  Result<MemoryHandle*> acquireDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd);
  void release(MemoryHandle* handle);

  std::size_t entries() const;

 private:
  struct Range {
    uint64_t start;
    uint64_t end;
    MemoryKind kind;
  };
  struct Entry : MemoryHandle {
    Range range;
    int references;
    verbs::Mr mr;
    std::multimap<uint64_t, Entry*>::iterator position;
  };

  // Whole pages; end <= start when there is no such memory.
  static Range pagesAround(uint64_t address, std::size_t bytes, MemoryKind kind);
  Entry* findLocked(const Range& range);
  template <typename Register>
  Result<MemoryHandle*> acquireRange(const Range& range, Register&& registerRange);

  ibv_pd* const pd_;
  mutable std::mutex mutex_;
  std::multimap<uint64_t, Entry*> by_start_;  // owns the entries
  uint64_t longest_ = 0;                      // bound for the search: no entry is longer
};

// Whole pages of ours, zeroed, registered and shared with nobody (so that MADV_DONTFORK on them hurts no
// neighbour).
class RegisteredPages {
 public:
  static Result<RegisteredPages> create(ibv_pd* pd, std::size_t bytes);
  RegisteredPages() = default;
  RegisteredPages(RegisteredPages&& other) noexcept;
  RegisteredPages& operator=(RegisteredPages&& other) noexcept;
  ~RegisteredPages();

  template <typename T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + offset);
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
  uint32_t localKey() const { return mr_->lkey; }
  uint32_t remoteKey() const { return mr_->rkey; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  verbs::Mr mr_;
};

}  // namespace railwise::net
