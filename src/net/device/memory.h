// Registered memory: the cache behind regMr, and pages that the plugin allocates for itself. Threads: see
// each class.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/light_mutex.h"
#include "net/limits.h"
#include "verbs/memory_region.h"

namespace railwise::net {

enum class MemoryKind : uint8_t { kHost, kDevice, kDmaBuf };
inline constexpr int kMemoryKinds = 3;

struct MemoryKeys {
  uint32_t local;
  uint32_t remote;
};

// The keys of registered memory through one rail. Data paths read them while the thread that opens a failed
// device anew writes the keys of its next generation.
class RailKeys {
 public:
  RailKeys() = default;
  RailKeys(const RailKeys& other) { *this = other; }
  RailKeys& operator=(const RailKeys& other) { return *this = MemoryKeys{other.local(), other.remote()}; }
  RailKeys& operator=(MemoryKeys keys) {
    local_.store(keys.local, std::memory_order_relaxed);
    remote_.store(keys.remote, std::memory_order_relaxed);
    return *this;
  }
  uint32_t local() const { return local_.load(std::memory_order_relaxed); }
  uint32_t remote() const { return remote_.load(std::memory_order_relaxed); }
  MemoryKeys both() const { return {local(), remote()}; }

 private:
  std::atomic<uint32_t> local_{0};
  std::atomic<uint32_t> remote_{0};
};

// What NCCL holds as mhandle: the keys of one range of memory, one pair of keys for each rail of the device.
struct MemoryHandle {
  std::array<RailKeys, kMaxRails> keys;
  MemoryKind kind;
};

// May the PCIe fabric reorder writes to memory, where the settings allow that?
enum class MemoryOrder : uint8_t { kMayRelax, kStrict };
inline constexpr int kMemoryOrders = 2;

class DeviceState;

// A rail's protection domain, and the state of its device (null: unknown). With a device that has failed no
// memory is registered: its keys are 0, or those of the last generation that took it, and connections use
// another path (paths/offer.h).
struct RailDomain {
  RailDomain(ibv_pd* domain, DeviceState* state = nullptr) : pd(domain), device(state) {}
  bool failed() const;
  // A device that has returned after a failure may lack memory, if others have it.
  bool mayLack() const;
  bool operator==(const RailDomain&) const = default;

  ibv_pd* pd;
  DeviceState* device;
};

// A range of memory and the domain that it is registered with: that of the latest generation of the device
// that has taken it. `region` is null if none has.
struct Registration {
  MemoryKeys keys() const {
    return region != nullptr ? MemoryKeys{region->lkey, region->rkey} : MemoryKeys{};
  }
  bool isOf(const RailDomain& domain) const { return region != nullptr && pd == domain.pd; }
  // `earlier` keeps the registration with the last generation. Throws std::bad_alloc, and has changed nothing
  // then.
  void replace(ibv_pd* next_pd, verbs::Mr next, std::vector<verbs::Mr>& earlier) {
    if (region != nullptr) earlier.push_back(std::move(region));
    region = std::move(next);
    pd = next_pd;
  }

  ibv_pd* pd = nullptr;
  verbs::Mr region;
};

// Memory that is registered with a device, and with its next generation once the device was opened anew.
class Renewable {
 public:
  // Registers everything that is registered with the domain `before`, or failed to be, with `fresh` too, and
  // replaces the keys. What is registered from now on is registered with `fresh`. False: some memory is not
  // registered; its keys are 0 or those of an earlier generation. `goOn` is asked before each registration,
  // without a lock; once it is false, nothing more is asked of the device or of verbs. One thread at a time.
  virtual bool renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn) = 0;

 protected:
  ~Renewable() = default;
};

// What is registered with a verbs device, over all its generations. Thread-safe.
class RegisteredMemory {
 public:
  // Held while it is decided which generation of the device memory is registered with, and while the next
  // generation is set.
  std::mutex& mutex() { return mutex_; }
  void addLocked(std::weak_ptr<Renewable> memory) { all_.push_back(std::move(memory)); }
  std::size_t sizeLocked() const { return all_.size(); }
  // The next that still exists, from place `at` on; null: none. `at` receives the place behind it.
  std::shared_ptr<Renewable> next(std::size_t& at) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Renewable>> all_;
};

struct MemoryOptions {
  // Lets the PCIe fabric reorder writes to the memory of messages. Writes to the protocol's own memory are
  // never reordered. See verbs::relaxedOrdering().
  bool relaxed_ordering = false;
  // Bit r: dma-bufs reach rail r through mlx5's data-direct function.
  uint32_t data_direct_rails = 0;
};
MemoryOptions memoryOptions(const Config& config, uint32_t data_direct_rails = 0);

// Registrations of one memory range with further protection domains, made when a standby rail needs them.
// There are few of them. Thread-safe. The lock is held across ibv_reg_mr, but no call on the fast path waits
// for this lock.
class FurtherRegions {
 public:
  // Returns the keys through `pd`, and registers the memory there if needed. `data_direct`: through mlx5's
  // data-direct function, which makes other keys.
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
  // Deregisters all of them. Nobody holds the memory any more.
  void clear() { regions_.clear(); }

 private:
  struct Further {
    ibv_pd* pd;
    bool data_direct;
    verbs::Mr region;
  };
  std::mutex mutex_;
  std::vector<Further> regions_;
};

// Registrations with the protection domains of one device's rails. All callers that name the same pages, or a
// part of them, share a registration by reference count: NCCL registers a buffer once per connection, and a
// part of the buffer per operation. Thread-safe. The lock is not held across ibv_reg_mr: threads that want
// different memory register it at the same time. If a thread wants memory that another thread is just
// registering, it waits until that is done.
//
// The rule that keeps keys from going stale: memory can be unmapped only after everyone who registered it has
// released it. So an entry is offered to new callers only as long as somebody holds all its pages. When the
// last holder of all pages has gone while holders of parts remain, the entry is never found again. The entry
// dies with the last holder of a part; all its pages stay pinned until then. An entry is not found again
// either when a later entry covers it.
class MemoryCache final : public Renewable {
 public:
  // One domain per rail, 1 to kMaxRails. Rails with the same domain share a registration.
  explicit MemoryCache(std::vector<RailDomain> rails, MemoryOptions options = {});
  ~MemoryCache();
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  // Returns a handle for [address, address + bytes), from an entry of the same kind and order that covers it
  // or from a new registration of the whole pages around it. bytes 0 counts as 1. Errors, logged:
  // kInvalidArgument (beyond all memory), kSystem (one of the rails refused; the registrations with the other
  // rails are released). A device that has returned after a failure may lack memory for now: then the keys
  // are 0.
  Result<MemoryHandle*> acquire(uint64_t address, std::size_t bytes, MemoryKind kind,
                                MemoryOrder order = MemoryOrder::kMayRelax);
  // Like acquire(), through a dma-buf. `offset` is the place of `address` in `fd`. The caller may close `fd`
  // afterwards.
  Result<MemoryHandle*> acquireDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd,
                                      MemoryOrder order = MemoryOrder::kMayRelax);
  // In a forked child it does nothing: the registration is the parent's, which may use it.
  void release(MemoryHandle* handle);

  // The keys of the handle's memory through another domain. The memory is registered there now if it was not
  // before, and stays registered as long as the handle's entry. `data_direct`: a dma-buf goes through mlx5's
  // data-direct function. Errors: kSystem, logged (the device refuses it).
  Result<MemoryKeys> keysOn(const MemoryHandle& handle, ibv_pd* pd, bool data_direct = false);

  // A device may still register a range for a moment after its last release().
  bool renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn) override;

  // Number of registrations that are alive, also of those that are never found again.
  std::size_t entries() const;

 private:
  struct Range {
    uint64_t start;
    uint64_t end;
    MemoryKind kind;
    MemoryOrder order;

    bool covers(const Range& other) const {
      return kind == other.kind && order == other.order && start <= other.start && end >= other.end;
    }
    bool operator==(const Range&) const = default;
  };
  struct Entry;
  struct Holders : MemoryHandle {
    Entry* entry;
    uint64_t references = 0;
  };
  struct Listed {
    uint64_t start;
    Entry* entry;
  };
  // NCCL gives back the same pointer that it was given, so release() knows whether a holder of the whole
  // entry or of a part goes.
  struct Entry {
    Holders whole;
    Holders part;
    Range range = {};
    uint64_t id = 0;
    std::size_t place = 0;         // in entries_
    std::size_t place_listed = 0;  // in by_start_ when it was listed; entries before it come and go
    bool listed = false;           // in by_start_
    std::array<Registration, kMaxRails> registrations;  // by domain, not by rail
    std::vector<verbs::Mr> earlier;                     // with earlier generations of the devices
    // NCCL closes its dma-buf after regMr, so this is a copy of the descriptor; -1: no dma-buf.
    int fd = -1;
    uint64_t fd_offset = 0;
    FurtherRegions further;

    Entry() : whole{{}, this}, part{{}, this} {}
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
  };
  // A protection domain that one or more rails share.
  struct Domain {
    RailDomain rail;
    bool data_direct;
    bool operator==(const Domain&) const = default;
  };
  // What a registration needs, apart from the entry, which may be released meanwhile.
  struct Source {
    Range range;
    int fd;
    uint64_t fd_offset;
  };

  // The listed entries of this kind and order.
  std::vector<Listed>& listedAs(const Range& range) {
    return by_start_[static_cast<std::size_t>(range.kind)][static_cast<std::size_t>(range.order)];
  }
  // Without relaxed ordering all memory is registered alike.
  MemoryOrder orderOf(MemoryOrder wanted) const {
    return (access_ & verbs::kRelaxedOrdering) != 0 ? wanted : MemoryOrder::kMayRelax;
  }
  // The place of the first that begins at `start` or behind it.
  static std::size_t firstFrom(const std::vector<Listed>& listed, uint64_t start);
  MemoryHandle* findLocked(const Range& range, std::size_t* place);
  bool beingRegisteredLocked(const Range& range) const;
  MemoryHandle* listLocked(std::unique_ptr<Entry> fresh, std::size_t place);
  void unlistLocked(Entry& entry);
  std::unique_ptr<Entry> takeOutLocked(Entry& entry);
  Result<verbs::Mr> registerWith(const Domain& domain, const Source& source, bool again) const;
  // The place of `rail` among the domains, if the entry is not registered with it.
  std::optional<std::size_t> missingLocked(const Entry& entry, const RailDomain& rail) const;
  void setKeysLocked(Entry& entry) const;
  Status registerLocked(Entry& entry, const Source& source, std::unique_lock<LightMutex>& lock);
  std::unique_ptr<Entry> newEntry(const Range& range);
  void discard(std::unique_ptr<Entry> entry);
  Result<MemoryHandle*> acquireRange(const Source& source);

  const pid_t owner_pid_;
  std::vector<Domain> domains_;  // guarded by mutex_: renew() changes them
  std::vector<uint8_t> domain_of_rail_;
  const int access_;
  mutable LightMutex mutex_;
  std::condition_variable_any registered_;
  std::size_t waiting_ = 0;  // threads that wait for registered_
  // For each kind and order, by start: only ranges that lie in no other range. The range that begins last at
  // or before an address also ends last, so one look-up shows whether any range covers the wanted one.
  std::array<std::array<std::vector<Listed>, kMemoryOrders>, kMemoryKinds> by_start_;
  std::vector<std::unique_ptr<Entry>> entries_;  // all that are alive, in no order
  // One entry that was discarded, for the next registration: an entry takes longer to make than to list.
  std::atomic<Entry*> spare_ = nullptr;
  uint64_t list_changes_ = 0;        // of by_start_
  uint64_t renewals_ = 0;            // of domains_
  std::vector<verbs::Mr> unneeded_;  // renewed for an entry that was released meanwhile
  uint64_t last_id_ = 0;
  std::vector<const Range*> in_progress_;  // ranges that are just being registered
};

// Whole pages that the plugin allocates: zeroed, registered and shared with nobody, so that MADV_DONTFORK on
// them affects no other memory. Never with relaxed ordering, because the CPU polls them.
class RegisteredPages {
 public:
  // With one domain, or with one domain per rail (rails with the same domain share a registration). Where a
  // device has failed, or has refused them for now, the keys are 0, and keysOn() asks again. Errors, logged:
  // kSystem (no memory, or a refusal that cannot pass).
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
  uint32_t localKey(std::size_t rail = 0) const { return keys_[rail].local(); }
  uint32_t remoteKey(std::size_t rail = 0) const { return keys_[rail].remote(); }
  // The keys through another domain. The pages are registered there now if they were not before. Thread-safe.
  // Errors: kSystem, logged.
  Result<MemoryKeys> keysOn(ibv_pd* pd) const;
  // As Renewable::renew(), for these pages.
  bool renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn);

 private:
  struct Domain {
    RailDomain rail;
    Registration registration;
  };
  Result<verbs::Mr> registerWith(const RailDomain& domain, const std::function<bool()>& goOn) const;

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<FurtherRegions> further_;
  std::vector<Domain> domains_;
  std::vector<verbs::Mr> earlier_;  // with earlier generations of the devices
  std::vector<uint8_t> domain_of_rail_;
  std::array<RailKeys, kMaxRails> keys_ = {};
};

}  // namespace railwise::net
