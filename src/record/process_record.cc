#include "record/process_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace railwise::record {
namespace {

// Slots are added to the file in steps, each with memory behind it: a store to a page for which tmpfs has no
// memory left would kill the process.
constexpr uint32_t kSlotStep = 16;

// NCCL's own shared memory lies in the same folder, and 64 MiB are all that a container has there: the file
// of a record is at most this part of the memory that is free.
constexpr uint64_t kPartOfRoom = 8;

bool hasRoom(const struct statvfs& room, uint64_t bytes) {
  if (room.f_blocks == 0) return true;  // a file system without a limit
  return static_cast<uint64_t>(room.f_bavail) * room.f_frsize >= kPartOfRoom * bytes;
}

// Gives the file memory from `begin` to `end`. Returns an errno.
int reserve(int fd, off_t begin, off_t end) {
  // The kernel would kill the process for a file that grows beyond the limit.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<rlim_t>(end) > limit.rlim_cur) return EFBIG;
  int error = 0;
  do error = posix_fallocate(fd, begin, end - begin);
  while (error == EINTR);
  return error;
}

// Makes the file, and locks it. The lock tells readers that the process lives. It ends with the process, and
// no child inherits it. The file gets its name when it is locked: a record without a lock seems to belong to
// a process that is gone, and may be removed. Returns the descriptor; -1: `errno` says why there is none.
int openLocked(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  const std::string path_at_first = folder + "/." + name;
  const int fd = open(path_at_first.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  (void)fcntl(fd, F_SETLK, &lock);
  if (rename(path_at_first.c_str(), path.c_str()) == 0) return fd;
  const int error = errno;
  (void)unlink(path_at_first.c_str());
  (void)close(fd);
  errno = error;
  return -1;
}

std::string baseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "railwise", "python3 train.py". Further arguments may hold secrets.
std::string programName() {
  const std::string line = beginningOf("/proc/self/cmdline");
  const std::size_t end = line.find('\0');
  std::string name = baseName(line.substr(0, end));
  if (name.rfind("python", 0) == 0 && end != std::string::npos && end + 1 < line.size() &&
      line[end + 1] != '-')
    name += " " + baseName(line.substr(end + 1, line.find('\0', end + 1) - end - 1));
  return name;
}

}  // namespace

std::size_t pageSize() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::size_t slotBytes() { return std::max(kPageBytes, pageSize()); }

std::unique_ptr<Record> Record::make(const WriterSettings& settings, std::string& problem) {
  std::unique_ptr<Record> made(new Record);
  made->owner_ = static_cast<uint32_t>(getpid());
  const uint64_t began = processStat(kThisProcess).start;
  const std::string name = "railwise-" + std::to_string(geteuid()) + "-" + std::to_string(made->owner_) +
                           "-" + std::to_string(began) + (settings.spy ? "-spy" : "");
  made->path_ = settings.folder + "/" + name;
  struct statvfs room = {};
  if (statvfs(settings.folder.c_str(), &room) != 0) {
    problem = "the folder does not exist or cannot be read: " + std::string(std::strerror(errno));
    return nullptr;
  }
  if (!hasRoom(room, kSlotsAt)) {
    problem = "less than 8 MiB are free";
    return nullptr;
  }
  made->fd_ = openLocked(settings.folder, name);
  if (made->fd_ < 0) {
    problem = "the file cannot be made: " + std::string(std::strerror(errno));
    return nullptr;
  }
  const int error = reserve(made->fd_, 0, kSlotsAt);
  if (error == 0) {
    void* const mapped = mmap(nullptr, kSlotsAt, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd_, 0);
    if (mapped != MAP_FAILED) made->base_ = static_cast<std::byte*>(mapped);
  }
  if (made->base_ == nullptr) {
    problem = "there is no room for it: " + std::string(std::strerror(error != 0 ? error : errno)) +
              (error == EFBIG ? " (ulimit -f)" : "");
    made->finish(false);
    return nullptr;
  }
  Header& header = made->header();
  header.version = kVersion;
  header.header_bytes = sizeof(Header);
  header.rails_at = kRailsAt;
  header.rail_bytes = sizeof(RailRecord);
  header.events_at = kEventsAt;
  header.event_bytes = sizeof(EventRecord);
  header.event_places = kEvents;
  header.slots_at = kSlotsAt;
  header.slot_bytes = static_cast<uint32_t>(slotBytes());
  header.most_slots = made->most_slots_ = settings.most_connections;
  header.spy = settings.spy ? 1 : 0;
  header.pid = made->owner_;
  header.process_start = began;
  header.started_ns = nowNs();
  header.started_unix_ns = unixNs();
  header.rank = settings.rank;
  header.ranks = settings.ranks;
  setText(header.boot_id, bootId());
  setText(header.host, settings.host);
  setText(header.program, programName());
  setText(header.plugin, settings.plugin);
  setText(header.plugin_file, settings.plugin_file);
  fence();
  header.magic = kMagic;  // from here on it is a record
  return made;
}

Record::~Record() {
  if (fd_ >= 0) finish(false);
}

void Record::finish(bool keep) {
  if (!keep) (void)unlink(path_.c_str());
  if (base_ != nullptr) (void)munmap(std::exchange(base_, nullptr), kSlotsAt);
  (void)close(std::exchange(fd_, -1));
}

uint16_t Record::find(std::string_view device, int port) {
  for (uint16_t i = 0; i < rails_; ++i) {
    const RailRecord& each = rail(i);
    if (each.port == port && device.substr(0, sizeof each.device - 1) == each.device) return i;
  }
  return kNoRail;
}

uint16_t Record::addRail(const RailDescription& description) {
  const std::lock_guard lock(rails_mutex_);
  if (const uint16_t known = find(description.device, description.port); known != kNoRail) return known;
  Header& its = header();
  if (rails_ == kMostRails) return kNoRail;
  const uint16_t index = rails_;
  RailRecord& added = rail(index);
  increase(its.setup_sequence);
  setText(added.device, description.device);
  added.port = static_cast<uint8_t>(description.port);
  added.link = description.link;
  added.rail = description.rail;
  added.plane = description.plane;
  added.claimed_mbps = description.claimed_mbps;
  added.state = RailState::kUp;
  added.state_since_ns = nowNs();
  its.rails = ++rails_;
  increase(its.setup_sequence);
  return index;
}

void Record::note(EventKind kind, std::string_view text, const EventDetails& details) {
  const std::lock_guard lock(events_mutex_);
  failure_noted_ = failure_noted_ || kind == EventKind::kFailed || kind == EventKind::kConnectFailed ||
                   kind == EventKind::kSlowConnect || kind == EventKind::kSlowMessage;
  const uint64_t number = header().events + 1;
  EventRecord& place = event(number);
  std::atomic_ref<uint64_t>(place.number).store(0, std::memory_order_relaxed);
  fence();
  place.at_ns = nowNs();
  place.kind = kind;
  place.rail = details.rail;
  place.connection = details.connection != nullptr ? details.connection->slot_plus_one : 0;
  place.connection_id = details.connection != nullptr ? details.connection->id : 0;
  std::copy(details.numbers.begin(), details.numbers.end(), place.numbers);
  setText(place.text, text);
  fence();
  std::atomic_ref<uint64_t>(place.number).store(number, std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(header().events).store(number, std::memory_order_relaxed);
}

bool Record::hasFailures() {
  const std::scoped_lock lock(events_mutex_, rails_mutex_);
  bool failures = failure_noted_;
  for (uint16_t i = 0; i < rails_; ++i) {
    const auto& errors = rail(i).counters.errors;
    failures = failures || std::any_of(errors, errors + kErrors, [](uint64_t count) { return count != 0; });
  }
  return failures;
}

bool Record::grow() {
  if (slots_ < reserved_slots_) return true;
  const auto endOf = [](uint32_t slots) { return kSlotsAt + uint64_t{slots} * slotBytes(); };
  const uint64_t end = endOf(reserved_slots_ + kSlotStep);
  struct statvfs room = {};
  if (fstatvfs(fd_, &room) != 0 || !hasRoom(room, end)) return false;
  if (reserve(fd_, static_cast<off_t>(endOf(reserved_slots_)), static_cast<off_t>(end)) != 0) return false;
  try {
    free_slots_.reserve(reserved_slots_ + kSlotStep);  // giveSlot() must not need memory
  } catch (const std::bad_alloc&) {
    return false;
  }
  reserved_slots_ += kSlotStep;
  return true;
}

int64_t Record::mapSlot(std::byte*& end) {
  const std::lock_guard lock(slots_mutex_);
  Header& its = header();
  uint32_t slot = slots_;
  if (!free_slots_.empty()) {
    slot = free_slots_.back();
  } else if (slot == most_slots_ || !grow()) {
    ++its.unrecorded;
    if (!std::exchange(said_full_, true))
      RAILWISE_INFO(log::kNet,
                    "the record of this process holds %u connections and no more "
                    "(RAILWISE_METRICS_CONNECTIONS=%u, and the room in "
                    "%s): further ones are not in railwise top, stuck and metrics",
                    slots_, most_slots_, path_.c_str());
    return -1;
  }
  const std::size_t bytes = slotBytes();
  const off_t at = static_cast<off_t>(kSlotsAt) + static_cast<off_t>(slot) * static_cast<off_t>(bytes);
  void* const wanted = end != nullptr ? end - bytes : nullptr;
  const int fixed = end != nullptr ? MAP_FIXED : 0;
  void* const mapped = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd_, at);
  if (mapped == MAP_FAILED) {
    // The old mapping may be gone by now.
    if (wanted != nullptr)
      (void)mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ++its.unrecorded;
    return -1;
  }
  end = static_cast<std::byte*>(mapped) + bytes;
  auto* const page = reinterpret_cast<ConnectionPage*>(end - kPageBytes);
  const uint32_t life = page->connection.life;
  const uint32_t sequence = page->connection.sequence;
  std::memset(static_cast<void*>(page), 0, kPageBytes);
  page->connection.life = life;
  page->connection.sequence = sequence + (sequence & 1);
  if (slot == slots_) {
    fence();
    its.slots = ++slots_;
  } else {
    free_slots_.pop_back();
  }
  page->connection.slot_plus_one = slot + 1;
  return slot;
}

void Record::giveSlot(int64_t slot) {
  const std::lock_guard lock(slots_mutex_);
  free_slots_.push_back(static_cast<uint32_t>(slot));
}

}  // namespace railwise::record
