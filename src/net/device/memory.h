// Registered memory: the cache behind regMr, and pages of our own.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "net/limits.h"
#include "verbs/memory_region.h"

namespace railwise::net {

enum class MemoryKind : uint8_t { kHost, kDevice, kDmaBuf };
inline constexpr int kMemoryKinds = 3;

struct MemoryKeys {
  uint32_t local;
  uint32_t remote;
};

// What NCCL holds as mhandle: the keys of one range of memory, by rail of the Device it was registered with.
struct MemoryHandle {
  std::array<MemoryKeys, kMaxRails> keys;
  MemoryKind kind;
};

class DeviceState;

// A rail's protection domain, and what is known of its device (null: nothing). With one that has failed
// nothing is registered: its keys are 0, and connections look for another way (failover.cc).
struct RailDomain {
  RailDomain(ibv_pd* domain, const DeviceState* state = nullptr) : pd(domain), device(state) {}
  bool failed() const;
  bool operator==(const RailDomain&) const = default;

  ibv_pd* pd;
  const DeviceState* device;
};

struct MemoryOptions {
  // Lets the PCIe fabric reorder the writes of data (never of the protocol's own memory); see
  // verbs::relaxedOrdering().
  bool relaxed_ordering = false;
  // Bit r: dma-bufs reach rail r through mlx5's data-direct function.
  uint32_t data_direct_rails = 0;
};
MemoryOptions memoryOptions(const Config& config, uint32_t data_direct_rails = 0);

// Registrations of the same memory with further protection domains, made when a standby rail needs them: a
// few at most. Thread-safe; the lock is held across ibv_reg_mr, which nobody on a good way waits for.
class FurtherRegions {
 public:
  // `data_direct`: through mlx5's data-direct function, which makes other keys.
  template <typename Register>
  Result<MemoryKeys> keys(ibv_pd* pd, bool data_direct, Register&& registerWith) {
    const std::lock_guard lock(mutex_);
    for (const Further& known : regions_) {
      if (known.pd == pd && known.data_direct == data_direct)
        return MemoryKeys{known.region->lkey, known.region->rkey};
    }
    Result<verbs::Mr> made = registerWith();
    if (!made.ok()) return made.status();
    const Further& further = regions_.emplace_back(Further{pd, data_direct, std::move(*made)});
    return MemoryKeys{further.region->lkey, further.region->rkey};
  }

 private:
  struct Further {
    ibv_pd* pd;
    bool data_direct;
    verbs::Mr region;
  };
  std::mutex mutex_;
  std::vector<Further> regions_;
};

// Registrations with the protection domains of one Device's rails, shared by reference count between all
// callers that name the same pages or a part of them: NCCL registers a buffer once per connection, and a part
// of it per operation. Thread-safe. The lock is not held across ibv_reg_mr: threads that want different
// memory register it at the same time, and one that wants what another is just registering waits for that.
//
// The rule that keeps keys from going stale: memory can be unmapped only after those who registered it have
// released it. So an entry is offered to newcomers only as long as somebody holds all of it. When the last
// such holder has gone while holders of parts remain, the entry is never found again, and it dies with the
// last of them (all of its pages stay pinned until then).
class MemoryCache {
 public:
  // One domain per rail, 1 to kMaxRails; rails of one domain share a registration.
  explicit MemoryCache(std::vector<RailDomain> rails, MemoryOptions options = {});
  ~MemoryCache();
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  // A handle for [address, address + bytes), from an entry of the same kind that covers it or from a new
  // registration of the whole pages around it. bytes 0 counts as 1. Errors: kInvalidArgument (beyond all
  // memory), kSystem (one of the rails refused; what the others made is released); logged.
  Result<MemoryHandle*> acquire(uint64_t address, std::size_t bytes, MemoryKind kind);
  // The same through a dma-buf; `offset` is where `address` lies in `fd`, which the caller may close
  // afterwards.
  Result<MemoryHandle*> acquireDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd);
  void release(MemoryHandle* handle);

  // The keys of the same memory through another domain, which is registered now if it was not before, and
  // lives as long. Errors: kSystem, logged: the device does not take it.
  // `data_direct`: a dma-buf goes through mlx5's data-direct function.
  Result<MemoryKeys> keysOn(const MemoryHandle& handle, ibv_pd* pd, bool data_direct = false);

  // Registrations alive, found or not.
  std::size_t entries() const;

 private:
  struct Range {
    uint64_t start;
    uint64_t end;
    MemoryKind kind;

    bool covers(const Range& other) const {
      return kind == other.kind && start <= other.start && end >= other.end;
    }
    bool operator==(const Range&) const = default;
  };
  struct Entry;
  struct Holders : MemoryHandle {
    Entry* entry;
    uint64_t references;
  };
  // NCCL gives back the very pointer it was given, so release() knows whether a holder of all of it or of a
  // part goes.
  struct Entry {
    Holders whole;
    Holders part;
    Range range;
    bool listed;  // in by_start_
    std::map<uint64_t, Entry*>::iterator position;
    std::list<Entry>::iterator self;
    std::array<verbs::Mr, kMaxRails> regions;  // by domain, not by rail
    // For keysOn(). NCCL closes its dma-buf after regMr, so this is a copy of the descriptor; -1: no dma-buf.
    int fd = -1;
    uint64_t fd_offset = 0;
    FurtherRegions further;

    Entry() = default;
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
  };
  // A protection domain as the rails share it.
  struct Domain {
    RailDomain rail;
    bool data_direct;
    bool operator==(const Domain&) const = default;
  };
  using Regions = std::array<verbs::Mr, kMaxRails>;

  MemoryHandle* findLocked(const Range& range);
  bool beingRegisteredLocked(const Range& range) const;
  MemoryHandle* listLocked(std::list<Entry>& fresh);
  template <typename Register>
  Result<MemoryHandle*> acquireRange(const Range& range, int fd, uint64_t fd_offset, Register&& registerWith);

  std::vector<Domain> domains_;
  std::vector<uint8_t> domain_of_rail_;
  const int access_;
  mutable std::mutex mutex_;
  std::condition_variable registered_;
  // Per kind, by start: only ranges that lie in no other one. Of those, the one that begins last at or before
  // an address also ends last, so a single look tells whether any covers a range.
  std::array<std::map<uint64_t, Entry*>, kMemoryKinds> by_start_;
  std::list<Entry> entries_;               // all that are alive
  std::vector<const Range*> in_progress_;  // being registered just now
};

// Whole pages of ours, zeroed, registered and shared with nobody (so that MADV_DONTFORK on them hurts no
// neighbour). Never with relaxed ordering: the CPU polls them.
class RegisteredPages {
 public:
  // With one domain, or with one per rail (rails of one domain share a registration).
  static Result<RegisteredPages> create(ibv_pd* pd, std::size_t bytes) {
    const RailDomain rail(pd);
    return create({&rail, 1}, bytes);
  }
  static Result<RegisteredPages> create(std::span<const RailDomain> rails, std::size_t bytes);
  RegisteredPages() = default;
  RegisteredPages(RegisteredPages&& other) noexcept;
  RegisteredPages& operator=(RegisteredPages&& other) noexcept;
  ~RegisteredPages();

  template <typename T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + offset);
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }
  uint32_t localKey(std::size_t rail = 0) const { return keys_[rail].local; }
  uint32_t remoteKey(std::size_t rail = 0) const { return keys_[rail].remote; }
  // Through another domain, registered now if it was not before. Thread-safe. Errors: kSystem, logged.
  Result<MemoryKeys> keysOn(ibv_pd* pd) const;

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<FurtherRegions> further_;
  std::vector<verbs::Mr> regions_;
  std::array<MemoryKeys, kMaxRails> keys_ = {};
};

}  // namespace railwise::net
