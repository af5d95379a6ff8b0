#include "net/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/process.h"
#include "net/device/event_watcher.h"
#include "net/patience.h"

namespace railwise::net {
namespace {

// Asked once: sysconf() takes longer than the look-up in the cache.
const uint64_t g_page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

uint64_t pageDown(uint64_t address) { return address & ~(g_page_bytes - 1); }
uint64_t pageUp(uint64_t address) { return pageDown(address + g_page_bytes - 1); }

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

// Makes room for one more item, so that adding it cannot fail. Throws std::bad_alloc.
template <typename Item>
void makeRoom(std::vector<Item>& items) {
  if (items.size() == items.capacity()) items.reserve(std::max<std::size_t>(2 * items.size(), 8));
}

// Asks a device again that refuses memory although it has not failed (Patience::kRefusalPauses). The caller
// holds no lock, because this sleeps.
template <typename GoOn, typename Register>
Result<verbs::Mr> registerPatiently(const RailDomain& rail, GoOn&& goOn, Register&& registerOnce) {
  const auto goesOn = [&] { return !rail.failed() && goOn(); };
  for (const Clock::duration pause : Patience::kRefusalPauses) {
    Result<verbs::Mr> made = registerOnce(true);
    if (made.ok() || !mayPass(made.status()) || !goesOn()) return made;
    std::this_thread::sleep_for(pause);
    if (!goesOn()) return made;
  }
  Result<verbs::Mr> made = registerOnce(false);
  const int error = made.status().sys_errno;
  const Deadline event = Deadline::after(Patience::kFailureFollows);
  while ((error == EIO || error == ENODEV) && goesOn() && !event.passed())
    std::this_thread::sleep_for(Patience::kRefusalPauses.front());
  return made;
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
    : owner_pid_(processId()),
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
  delete spare_.load(std::memory_order_acquire);
}

MemoryCache::Entry::~Entry() {
  if (fd >= 0) close(fd);
}

std::size_t MemoryCache::firstFrom(const std::vector<Listed>& listed, uint64_t start) {
  return static_cast<std::size_t>(std::ranges::lower_bound(listed, start, {}, &Listed::start) -
                                  listed.begin());
}

// `place` receives the place of the first listed entry that begins at the range or behind it.
MemoryHandle* MemoryCache::findLocked(const Range& range, std::size_t* place) {
  const auto& listed = listedAs(range);
  const std::size_t first = *place = firstFrom(listed, range.start);
  const bool same_start = first < listed.size() && listed[first].start == range.start;
  if (!same_start && first == 0) return nullptr;
  Entry* entry = listed[same_start ? first : first - 1].entry;
  if (!entry->range.covers(range)) return nullptr;
  Holders& holders = entry->range == range ? entry->whole : entry->part;
  ++holders.references;
  return &holders;
}

bool MemoryCache::beingRegisteredLocked(const Range& range) const {
  return std::any_of(in_progress_.begin(), in_progress_.end(),
                     [&](const Range* other) { return other->covers(range); });
}

// Adds `fresh`, which no listed entry covers, and removes the smaller entries that it covers from the list.
// The smaller entries live on for their holders. `place`: where the range belongs in the list.
MemoryHandle* MemoryCache::listLocked(std::unique_ptr<Entry> fresh, std::size_t place) {
  Entry& entry = *fresh;
  auto& listed = listedAs(entry.range);
  makeRoom(listed);
  makeRoom(entries_);
  const auto first = listed.begin() + static_cast<std::ptrdiff_t>(place);
  auto last = first;
  for (; last != listed.end() && entry.range.covers(last->entry->range); ++last) last->entry->listed = false;
  const Listed item = {entry.range.start, &entry};
  if (first == listed.end()) {
    listed.push_back(item);
  } else if (first == last) {
    listed.insert(first, item);
  } else {
    *first = item;
    listed.erase(first + 1, last);
  }
  ++list_changes_;
  entry.place = entries_.size();
  entry.place_listed = place;
  entries_.push_back(std::move(fresh));
  entry.listed = true;
  entry.whole.references = 1;
  return &entry.whole;
}

void MemoryCache::unlistLocked(Entry& entry) {
  auto& listed = listedAs(entry.range);
  std::size_t place = entry.place_listed;
  if (place >= listed.size() || listed[place].entry != &entry) place = firstFrom(listed, entry.range.start);
  listed.erase(listed.begin() + static_cast<std::ptrdiff_t>(place));
  ++list_changes_;
  entry.listed = false;
}

std::unique_ptr<MemoryCache::Entry> MemoryCache::takeOutLocked(Entry& entry) {
  const std::size_t place = entry.place;
  std::swap(entries_[place], entries_.back());
  entries_[place]->place = place;
  std::unique_ptr<Entry> taken = std::move(entries_.back());
  entries_.pop_back();
  return taken;
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
// while a device registers. Meanwhile renew() may change the domains; then all are looked at once more.
Status MemoryCache::registerLocked(Entry& entry, const Source& source, std::unique_lock<LightMutex>& lock) {
  std::vector<RailDomain> refused;
  const auto isMissing = [&](std::size_t place) {
    const RailDomain& rail = domains_[place].rail;
    return !entry.registrations[place].isOf(rail) && !rail.failed() &&
           (refused.empty() || std::ranges::find(refused, rail) == refused.end());
  };
  for (std::size_t place = 0; place < domains_.size();) {
    if (!isMissing(place)) {
      ++place;
      continue;
    }
    const Domain domain = domains_[place];
    const uint64_t renewals = renewals_;
    lock.unlock();
    Result<verbs::Mr> region = registerPatiently(
        domain.rail, always, [&](bool again) { return registerWith(domain, source, again); });
    lock.lock();
    if (region.ok()) {
      entry.registrations[place].replace(domain.rail.pd, std::move(*region), entry.earlier);
    } else if (!domain.rail.failed()) {
      if (!domain.rail.mayLack() || !mayPass(region.status())) return region.status();
      refused.push_back(domain.rail);
    }
    place = renewals == renewals_ ? place + 1 : 0;
  }
  for (const RailDomain& rail : refused) rail.device->lackKeys();
  return Status::success();
}

std::unique_ptr<MemoryCache::Entry> MemoryCache::newEntry(const Range& range) {
  std::unique_ptr<Entry> entry(spare_.exchange(nullptr, std::memory_order_acquire));
  if (entry == nullptr) entry = std::make_unique<Entry>();
  entry->id = ++last_id_;
  entry->range = range;
  entry->whole.kind = entry->part.kind = range.kind;
  return entry;
}

// Deregisters the memory of an entry. Nobody holds the entry, and the caller holds no lock: only the number
// of domains is read, which never changes.
void MemoryCache::discard(std::unique_ptr<Entry> entry) {
  for (Registration& each : std::span(entry->registrations).first(domains_.size())) each = {};
  if (!entry->earlier.empty()) entry->earlier.clear();
  entry->further.clear();
  if (entry->fd >= 0) close(std::exchange(entry->fd, -1));
  delete spare_.exchange(entry.release(), std::memory_order_acq_rel);
}

// Flattened, as release(): of the instructions to register new memory a fifth saved registers for functions
// that are called here alone.
[[gnu::flatten]] Result<MemoryHandle*> MemoryCache::acquireRange(const Source& source) {
  const Range& range = source.range;
  std::unique_ptr<Entry> fresh;  // released after the lock when it is not needed
  std::size_t place = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (MemoryHandle* found = findLocked(range, &place)) return found;
    if (in_progress_.empty() || !beingRegisteredLocked(range)) break;
    ++waiting_;
    registered_.wait(lock);
    --waiting_;
  }
  fresh = newEntry(range);
  // Without a copy of the descriptor, the memory cannot be registered with further rails later.
  if (source.fd >= 0) fresh->fd = fcntl(source.fd, F_DUPFD_CLOEXEC, 0);
  fresh->fd_offset = source.fd_offset;
  const uint64_t changes = list_changes_;
  in_progress_.push_back(&range);
  const auto notInProgress = [&] {
    if (!lock.owns_lock()) lock.lock();
    if (in_progress_.back() == &range) in_progress_.pop_back();
    else std::erase(in_progress_, &range);
    const bool waited = waiting_ != 0;
    lock.unlock();
    if (waited) registered_.notify_all();
  };
  Status status;
  MemoryHandle* handle = nullptr;
  try {
    status = registerLocked(*fresh, source, lock);
    if (status.ok()) {
      setKeysLocked(*fresh);
      // A larger one, made meanwhile, serves both.
      if (changes != list_changes_) handle = findLocked(range, &place);
      if (handle == nullptr) handle = listLocked(std::move(fresh), place);
    } else {  // what the other rails made goes before anybody who waits tries again
      lock.unlock();
      fresh.reset();
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

[[gnu::flatten]] void MemoryCache::release(MemoryHandle* handle) {
  if (processId() != owner_pid_) return;
  auto* holders = static_cast<Holders*>(handle);
  Entry* entry = holders->entry;
  std::unique_ptr<Entry> dead;
  {
    const std::lock_guard lock(mutex_);
    assert(holders->references > 0);
    if (--holders->references > 0 || entry->whole.references > 0) return;
    if (entry->listed) unlistLocked(*entry);
    if (entry->part.references == 0) dead = takeOutLocked(*entry);
  }
  if (dead != nullptr) discard(std::move(dead));
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
  ++renewals_;
  bool all = true;
  uint64_t last = 0;  // entries up to this one are not tried again
  for (;;) {
    std::optional<std::size_t> place;
    const Entry* entry = nullptr;
    for (const auto& each : entries_) {
      if (each->id <= last || (entry != nullptr && each->id > entry->id)) continue;
      if (const auto missing = missingLocked(*each, fresh)) {
        entry = each.get();
        place = missing;
      }
    }
    if (entry == nullptr) return all;
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
    const auto still = std::ranges::find(entries_, id, [](const auto& each) { return each->id; });
    if (still == entries_.end()) {  // it was released, and an error may come from that
      if (made.ok()) unneeded_.push_back(std::move(*made));
    } else if (made.ok()) {
      (*still)->registrations[*place].replace(fresh.pd, std::move(*made), (*still)->earlier);
      setKeysLocked(**still);
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
          made.registration.replace(rails[rail].pd, std::move(*region), pages.earlier_);
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
    found->registration.replace(fresh.pd, std::move(*made), earlier_);
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
      earlier_(std::move(other.earlier_)),
      domain_of_rail_(std::move(other.domain_of_rail_)),
      keys_(other.keys_) {}

RegisteredPages& RegisteredPages::operator=(RegisteredPages&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(further_, other.further_);
  std::swap(domains_, other.domains_);
  std::swap(earlier_, other.earlier_);
  std::swap(domain_of_rail_, other.domain_of_rail_);
  std::swap(keys_, other.keys_);
  return *this;
}

RegisteredPages::~RegisteredPages() {
  domains_.clear();
  earlier_.clear();
  further_.reset();
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace railwise::net
