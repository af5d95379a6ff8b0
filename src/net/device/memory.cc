#include "net/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

#include "base/log.h"
#include "net/device/event_watcher.h"
#include "net/patience.h"

namespace railwise::net {
namespace {

uint64_t pageBytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t pageDown(uint64_t address) { return address & ~(pageBytes() - 1); }
uint64_t pageUp(uint64_t address) { return pageDown(address + pageBytes() - 1); }

// For example a negative size of an old API version.
Status impossibleRange(uint64_t address, std::size_t bytes) {
  RAILWISE_WARN("registering %zu bytes at 0x%lx: that is beyond all memory", bytes,
                static_cast<unsigned long>(address));
  return {Code::kInvalidArgument, 0};
}

// Position of `item` in `items`, where it is appended when it is new.
template <typename Item>
uint8_t placeOf(std::vector<Item>& items, const Item& item) {
  const auto found = std::find(items.begin(), items.end(), item);
  const auto place = static_cast<uint8_t>(found - items.begin());
  if (found == items.end()) items.push_back(item);
  return place;
}

bool mayPass(Status refusal) { return refusal.code == Code::kSystem && verbs::mayPass(refusal.sys_errno); }

// Asks a device again that refuses memory although it has not failed (Patience::kRefusalPauses). The caller
// holds no lock, because this sleeps.
template <typename Register>
Result<verbs::Mr> registerPatiently(const RailDomain& rail, const std::function<bool()>& goOn,
                                    Register&& registerOnce) {
  const auto goesOn = [&] { return !rail.failed() && goOn(); };
  for (const Clock::duration pause : Patience::kRefusalPauses) {
    Result<verbs::Mr> made = registerOnce(true);
    if (made.ok() || !mayPass(made.status()) || !goesOn()) return made;
    std::this_thread::sleep_for(pause);
    if (!goesOn()) return made;
  }
  return registerOnce(false);
}

bool always() { return true; }

}  // namespace

bool RailDomain::failed() const { return device != nullptr && device->fatal(); }

bool RailDomain::mayLack() const { return device != nullptr && device->returned(); }

std::shared_ptr<Renewable> RegisteredMemory::next(std::size_t& at) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Renewable> found;
  while (found == nullptr && at < all_.size()) found = all_[at++].lock();
  return found;
}

MemoryOptions memoryOptions(const Config& config, uint32_t data_direct_rails) {
  return {.relaxed_ordering = verbs::relaxedOrdering(config) != 0, .data_direct_rails = data_direct_rails};
}

MemoryCache::MemoryCache(std::vector<RailDomain> rails, MemoryOptions options)
    : owner_pid_(getpid()),
      access_(verbs::kDataAccess | (options.relaxed_ordering ? verbs::kRelaxedOrdering : 0)) {
  assert(!rails.empty() && rails.size() <= kMaxRails);
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    const Domain domain{rails[rail], (options.data_direct_rails >> rail & 1) != 0};
    domain_of_rail_.push_back(placeOf(domains_, domain));
  }
}

MemoryCache::~MemoryCache() {
  if (!entries_.empty())
    RAILWISE_INFO(log::kReg, "%zu memory registrations were never released", entries_.size());
}

MemoryCache::Entry::~Entry() {
  if (fd >= 0) close(fd);
}

MemoryHandle* MemoryCache::findLocked(const Range& range) {
  auto& listed = listedAs(range);
  const auto after = listed.upper_bound(range.start);
  if (after == listed.begin()) return nullptr;
  Entry* entry = std::prev(after)->second;
  if (!entry->range.covers(range)) return nullptr;
  Holders& holders = entry->range == range ? entry->whole : entry->part;
  ++holders.references;
  return &holders;
}

bool MemoryCache::beingRegisteredLocked(const Range& range) const {
  return std::any_of(in_progress_.begin(), in_progress_.end(),
                     [&](const Range* other) { return other->covers(range); });
}

// Adds the one entry of `fresh`, which no listed entry covers, and removes the smaller entries that it covers
// from the list. The smaller entries live on for their holders.
MemoryHandle* MemoryCache::listLocked(std::list<Entry>& fresh) {
  Entry& entry = fresh.front();
  entry.self = fresh.begin();
  auto& listed = listedAs(entry.range);
  auto next = listed.lower_bound(entry.range.start);
  while (next != listed.end() && entry.range.covers(next->second->range)) {
    next->second->listed = false;
    next = listed.erase(next);
  }
  entry.position = listed.emplace_hint(next, entry.range.start, &entry);
  entries_.splice(entries_.end(), fresh);
  entry.listed = true;
  entry.whole.references = 1;
  return &entry.whole;
}

Result<verbs::Mr> MemoryCache::registerWith(const Domain& domain, const Source& source, bool again) const {
  const Range& range = source.range;
  const std::size_t bytes = range.end - range.start;
  const int access = range.order == MemoryOrder::kStrict ? verbs::kDataAccess : access_;
  if (range.kind == MemoryKind::kDmaBuf)
    return verbs::registerDmaBuf(domain.rail.pd, source.fd_offset, bytes, range.start, source.fd, access,
                                 domain.data_direct, again);
  return verbs::registerMemory(domain.rail.pd, reinterpret_cast<void*>(range.start), bytes, access, again);
}

std::optional<std::size_t> MemoryCache::missingLocked(const Entry& entry, const RailDomain& rail) const {
  for (std::size_t i = 0; i < domains_.size(); ++i) {
    if (domains_[i].rail == rail && !entry.registrations[i].isOf(rail)) return i;
  }
  return std::nullopt;
}

void MemoryCache::setKeysLocked(Entry& entry) const {
  for (std::size_t rail = 0; rail < domain_of_rail_.size(); ++rail)
    entry.whole.keys[rail] = entry.part.keys[rail] = entry.registrations[domain_of_rail_[rail]].keys();
}

// Registers an entry that is not listed yet with all domains. The lock is held before and afterwards, but not
// while a device registers.
Status MemoryCache::registerLocked(Entry& entry, const Source& source, std::unique_lock<std::mutex>& lock) {
  std::vector<RailDomain> refused;
  const auto next = [&]() -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < domains_.size(); ++i) {
      const RailDomain& rail = domains_[i].rail;
      const bool asked = std::ranges::find(refused, rail) != refused.end();
      if (!asked && !entry.registrations[i].isOf(rail) && !rail.failed()) return i;
    }
    return std::nullopt;
  };
  while (const std::optional<std::size_t> place = next()) {
    const Domain domain = domains_[*place];
    lock.unlock();
    Result<verbs::Mr> region = registerPatiently(
        domain.rail, always, [&](bool again) { return registerWith(domain, source, again); });
    lock.lock();
    if (region.ok()) {
      entry.registrations[*place].replace(domain.rail.pd, std::move(*region));
    } else if (!domain.rail.failed()) {
      if (!domain.rail.mayLack() || !mayPass(region.status())) return region.status();
      refused.push_back(domain.rail);
    }
  }
  for (const RailDomain& rail : refused) rail.device->lackKeys();
  return Status::success();
}

Result<MemoryHandle*> MemoryCache::acquireRange(const Source& source) {
  const Range& range = source.range;
  std::list<Entry> fresh;  // released after the lock when it is not needed
  std::unique_lock lock(mutex_);
  for (;;) {
    if (MemoryHandle* found = findLocked(range)) return found;
    if (!beingRegisteredLocked(range)) break;
    registered_.wait(lock);
  }
  Entry& entry = fresh.emplace_back();
  entry.id = ++last_id_;
  entry.range = range;
  entry.whole.entry = entry.part.entry = &entry;
  entry.whole.kind = entry.part.kind = range.kind;
  // Without a copy of the descriptor, the memory cannot be registered with further rails later.
  if (source.fd >= 0) entry.fd = fcntl(source.fd, F_DUPFD_CLOEXEC, 0);
  entry.fd_offset = source.fd_offset;
  in_progress_.push_back(&range);
  const auto notInProgress = [&] {
    if (!lock.owns_lock()) lock.lock();
    std::erase(in_progress_, &range);
    lock.unlock();
    registered_.notify_all();
  };
  Status status;
  MemoryHandle* handle = nullptr;
  try {
    status = registerLocked(entry, source, lock);
    if (status.ok()) {
      setKeysLocked(entry);
      handle = findLocked(range);  // a larger one, made meanwhile, serves both
      if (handle == nullptr) handle = listLocked(fresh);
    } else {  // what the other rails made goes before anybody who waits tries again
      lock.unlock();
      fresh.clear();
    }
  } catch (...) {
    notInProgress();
    throw;
  }
  notInProgress();
  if (handle == nullptr) return status;
  return handle;
}

Result<MemoryHandle*> MemoryCache::acquire(uint64_t address, std::size_t bytes, MemoryKind kind,
                                           MemoryOrder order) {
  const uint64_t end = address + std::max<std::size_t>(bytes, 1);
  const Range range{pageDown(address), pageUp(end), kind, orderOf(order)};
  if (end <= address || range.end <= range.start) return impossibleRange(address, bytes);
  return acquireRange({range, -1, 0});
}

Result<MemoryHandle*> MemoryCache::acquireDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd,
                                                 MemoryOrder order) {
  const uint64_t end = address + std::max<std::size_t>(bytes, 1);
  const Range range{pageDown(address), pageUp(end), MemoryKind::kDmaBuf, orderOf(order)};
  if (end <= address || range.end <= range.start) return impossibleRange(address, bytes);
  // NCCL's offset belongs to `address`; the range grows downwards to its page, and the offset with it.
  const uint64_t head = address - range.start;
  if (offset < head) {
    RAILWISE_WARN("dma-buf %d: offset %lu for an address %lu bytes into its page", fd,
                  static_cast<unsigned long>(offset), static_cast<unsigned long>(head));
    return Status{Code::kInvalidArgument, 0};
  }
  return acquireRange({range, fd, offset - head});
}

void MemoryCache::release(MemoryHandle* handle) {
  if (getpid() != owner_pid_) return;
  auto* holders = static_cast<Holders*>(handle);
  Entry* entry = holders->entry;
  std::list<Entry> dead;  // deregistered after the lock
  const std::lock_guard lock(mutex_);
  assert(holders->references > 0);
  if (--holders->references > 0 || entry->whole.references > 0) return;
  if (entry->listed) {
    listedAs(entry->range).erase(entry->position);
    entry->listed = false;
  }
  if (entry->part.references == 0) dead.splice(dead.end(), entries_, entry->self);
}

Result<MemoryKeys> MemoryCache::keysOn(const MemoryHandle& handle, ibv_pd* pd, bool data_direct) {
  Entry& entry = *static_cast<const Holders&>(handle).entry;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < domains_.size(); ++i) {
      const RailDomain& rail = domains_[i].rail;
      if (rail.pd == pd && domains_[i].data_direct == data_direct && entry.registrations[i].isOf(rail))
        return entry.registrations[i].keys();
    }
  }
  return entry.further.keys(pd, data_direct, [&] {
    return registerWith({pd, data_direct}, {entry.range, entry.fd, entry.fd_offset}, false);
  });
}

// The lock is not held while the device registers, so the entry may be released meanwhile.
bool MemoryCache::renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn) {
  std::unique_lock lock(mutex_);
  for (Domain& domain : domains_) {
    if (domain.rail.pd == before) domain.rail = fresh;
  }
  bool all = true;
  uint64_t last = 0;  // entries up to this one are not tried again
  for (;;) {
    std::optional<std::size_t> place;
    const auto entry = std::ranges::find_if(entries_, [&](const Entry& each) {
      return each.id > last && (place = missingLocked(each, fresh)).has_value();
    });
    if (entry == entries_.end()) return all;
    const uint64_t id = entry->id;
    const Domain domain = domains_[*place];
    const int fd = entry->fd >= 0 ? fcntl(entry->fd, F_DUPFD_CLOEXEC, 0) : -1;
    const Source source = {entry->range, fd, entry->fd_offset};
    lock.unlock();
    if (!goOn()) {
      if (fd >= 0) close(fd);
      return false;
    }
    Result<verbs::Mr> made =
        registerPatiently(fresh, goOn, [&](bool again) { return registerWith(domain, source, again); });
    if (fd >= 0) close(fd);
    lock.lock();
    const auto still = std::ranges::find(entries_, id, &Entry::id);
    if (still == entries_.end()) {  // it was released, and an error may come from that
      if (made.ok()) unneeded_.push_back(std::move(*made));
    } else if (made.ok()) {
      still->registrations[*place].replace(fresh.pd, std::move(*made));
      setKeysLocked(*still);
    } else {
      all = false;
      last = id;
    }
  }
}

std::size_t MemoryCache::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

Result<RegisteredPages> RegisteredPages::create(std::span<const RailDomain> rails, std::size_t bytes) {
  assert(!rails.empty() && rails.size() <= kMaxRails);
  RegisteredPages pages;
  pages.bytes_ = pageUp(bytes);
  pages.further_ = std::make_unique<FurtherRegions>();
  void* memory = mmap(nullptr, pages.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    RAILWISE_WARN("no memory for %zu bytes of connection state", pages.bytes_);
    return Status{Code::kSystem, error};
  }
  pages.memory_ = memory;
  std::vector<RailDomain> domains;
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    const uint8_t place = placeOf(domains, rails[rail]);
    pages.domain_of_rail_.push_back(place);
    if (place == pages.domains_.size()) {
      Domain& made = pages.domains_.emplace_back(Domain{rails[rail], {}});
      if (!rails[rail].failed()) {
        Result<verbs::Mr> region = pages.registerWith(rails[rail], always);
        if (region.ok()) {
          made.registration.replace(rails[rail].pd, std::move(*region));
        } else if (!rails[rail].failed() && !mayPass(region.status())) {
          return region.status();
        }
      }
    }
    pages.keys_[rail] = pages.domains_[place].registration.keys();
  }
  return pages;
}

Result<verbs::Mr> RegisteredPages::registerWith(const RailDomain& domain,
                                                const std::function<bool()>& goOn) const {
  return registerPatiently(domain, goOn, [&](bool again) {
    return verbs::registerMemory(domain.pd, memory_, bytes_, verbs::kDataAccess, again);
  });
}

Result<MemoryKeys> RegisteredPages::keysOn(ibv_pd* pd) const {
  return further_->keys(pd, false,
                        [&] { return verbs::registerMemory(pd, memory_, bytes_, verbs::kDataAccess); });
}

bool RegisteredPages::renew(ibv_pd* before, const RailDomain& fresh, const std::function<bool()>& goOn) {
  const auto found =
      std::ranges::find_if(domains_, [&](const Domain& each) { return each.rail.pd == before; });
  if (found == domains_.end()) return true;
  found->rail = fresh;
  if (!goOn()) return false;
  try {
    Result<verbs::Mr> made = registerWith(fresh, goOn);
    if (!made.ok()) return false;
    found->registration.replace(fresh.pd, std::move(*made));
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (std::size_t rail = 0; rail < domain_of_rail_.size(); ++rail) {
    if (&domains_[domain_of_rail_[rail]] == &*found) keys_[rail] = found->registration.keys();
  }
  return true;
}

RegisteredPages::RegisteredPages(RegisteredPages&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      further_(std::move(other.further_)),
      domains_(std::move(other.domains_)),
      domain_of_rail_(std::move(other.domain_of_rail_)),
      keys_(other.keys_) {}

RegisteredPages& RegisteredPages::operator=(RegisteredPages&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(further_, other.further_);
  std::swap(domains_, other.domains_);
  std::swap(domain_of_rail_, other.domain_of_rail_);
  std::swap(keys_, other.keys_);
  return *this;
}

RegisteredPages::~RegisteredPages() {
  domains_.clear();
  further_.reset();
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace railwise::net
