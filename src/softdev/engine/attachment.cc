#include "softdev/engine/attachment.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "softdev/engine/progress.h"
#include "softdev/fabric/membership.h"
#include "softdev/memory/address_space.h"
#include "softdev/memory/agent.h"
#include "softdev/queues/reclaim.h"

namespace railwise::softdev {
namespace {

// Also held during fork(), so that a child never inherits it locked by a thread that the child does not have.
std::mutex g_fabric_mutex;
Fabric* g_attached = nullptr;
std::atomic<uint8_t> g_probe_byte{1};

Status systemError(const char* what) {
  const int error = errno;
  RAILWISE_WARN("software device: %s failed: %s", what, std::strerror(error));
  return {Code::kSystem, error};
}

void forgetInChild() {
  if (g_attached != nullptr) {
    g_attached->forgotten = true;
    close(g_attached->mark_fd);  // otherwise the child would keep the parent's membership alive
    close(g_attached->segment_fd);
    close(g_attached->bell_fd);
    g_attached = nullptr;
  }
  forgetProgress();
  forgetAddressSpace();
  forgetAgent();
  g_fabric_mutex.unlock();
}

void holdAll() {
  g_fabric_mutex.lock();
  holdAgent();
}
void letAllGo() {
  releaseAgent();
  g_fabric_mutex.unlock();
}

void watchForks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(holdAll, letAllGo, forgetInChild); });
}

enum class Opened { kYes, kGone, kRefused, kOtherLayout };

// Opens the segment of `member` as *fd. If /proc refuses access, the member's agent may provide the
// descriptor.
Opened openMember(const std::string& prefix, Member member, int* fd) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(member.pid), member.fd);
  *fd = open(path, O_RDWR | O_CLOEXEC);
  if (*fd < 0 && (errno == ENOENT || errno == ENXIO || errno == ESRCH)) return Opened::kGone;
  if (*fd < 0) *fd = fetchSegment(prefix, member.pid);
  if (*fd < 0) return Opened::kRefused;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(*fd, F_GET_SEALS);
  struct stat file = {};
  struct {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint64_t total_bytes;
  } header{};
  Opened answer = Opened::kYes;
  if (seals < 0 || (seals & kSeals) != kSeals || pread(*fd, &header, sizeof header, 0) != sizeof header ||
      header.magic != kMagic) {
    answer = Opened::kGone;  // the member has left, and the number now belongs to another file
  } else if (fstat(*fd, &file) != 0 || file.st_uid != geteuid()) {
    answer = Opened::kRefused;
  } else if (header.version != kLayoutVersion || header.total_bytes != kSegmentBytes ||
             static_cast<uint64_t>(file.st_size) != kSegmentBytes) {
    answer = Opened::kOtherLayout;
  }
  if (answer != Opened::kYes) close(*fd);
  return answer;
}

// Finds the segment of a live member: its descriptor, or -1 if there is no member.
Result<int> findSegment(const std::string& prefix) {
  for (const Member& member : listMembers(prefix)) {
    int fd = -1;
    switch (openMember(prefix, member, &fd)) {
      case Opened::kYes:
        return fd;
      case Opened::kGone:
        break;
      case Opened::kRefused:
        RAILWISE_WARN(
            "software device: process %d is on the fabric %s but its shared segment cannot be opened "
            "(another "
            "user, or ptrace is restricted and its agent does not run): set mover=agent there, or "
            "fabric=NAME "
            "to use another fabric",
            static_cast<int>(member.pid), prefix.c_str());
        return Status{Code::kSystem, EACCES};
      case Opened::kOtherLayout:
        RAILWISE_WARN(
            "software device: process %d on the fabric %s runs another version of Railwise (shared layout "
            "differs from "
            "%u): stop it or set fabric=NAME",
            static_cast<int>(member.pid), prefix.c_str(), kLayoutVersion);
        return Status{Code::kSystem, EPROTO};
    }
  }
  return -1;
}

Result<int> createSegment() {
  const int fd = memfd_create("railwise-softdev", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return systemError("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(kSegmentBytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return fd;
  const Status status = systemError("sizing the shared segment");
  close(fd);
  return status;
}

Status mapSegment(Fabric& fabric, bool created) {
  void* memory =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fabric.segment_fd, 0);
  if (memory == MAP_FAILED) return systemError("mapping the shared segment");
  (void)madvise(memory, kSegmentBytes, MADV_DONTDUMP);
  fabric.segment = static_cast<Segment*>(memory);
  if (!created) return Status::success();
  fabric.segment->layout_version = kLayoutVersion;
  fabric.segment->total_bytes = kSegmentBytes;
  if (getrandom(&fabric.segment->identity, sizeof fabric.segment->identity, 0) < 0)
    return systemError("getrandom");
  fabric.segment->next_pd.store(1, std::memory_order_relaxed);
  fabric.segment->magic.store(kMagic, std::memory_order_release);
  return Status::success();
}

void claim(Fabric& fabric, uint32_t index) {
  ProcessSlot& slot = fabric.segment->processes[index];
  const uint32_t generation = slot.generation.load(std::memory_order_relaxed) + 1;
  slot.generation.store(generation, std::memory_order_relaxed);
  slot.start_time.store(processStartTime(getpid()), std::memory_order_relaxed);
  slot.probe_address.store(reinterpret_cast<uint64_t>(&g_probe_byte), std::memory_order_relaxed);
  slot.member.store(0, std::memory_order_relaxed);
  slot.pid.store(static_cast<uint32_t>(getpid()), std::memory_order_release);
  fabric.self.token = makeToken(index, generation);
}

// The caller holds the election lock, which makes claims exclusive.
bool claimSlot(Fabric& fabric) {
  const ProcessSlot* slots = fabric.segment->processes;
  fabric.self = {0, slots, fabric.prefix.c_str()};
  for (uint32_t i = 0; i < kMaxProcesses; ++i) {
    if (slots[i].pid.load(std::memory_order_acquire) != 0) continue;
    claim(fabric, i);
    return true;
  }
  // All slots are taken, perhaps by dead processes. Takes the slot of a dead process. Its records carry its
  // token, which never becomes valid again once the slot is ours, so they can be released.
  for (uint32_t i = 0; i < kMaxProcesses; ++i) {
    const uint32_t token = makeToken(i, slots[i].generation.load(std::memory_order_acquire));
    if (tokenAlive(fabric.self, token)) continue;
    claim(fabric, i);
    SharedLockGuard guard(fabric.segment->tables, fabric.self);
    releaseAllOf(fabric, token);
    return true;
  }
  return false;
}

void leaveSlot(Fabric& fabric) {
  fabric.segment->processes[slotOf(fabric.self.token)].pid.store(0, std::memory_order_release);
}

void closeFabric(Fabric* fabric) {
  if (fabric->segment != nullptr) munmap(fabric->segment, kSegmentBytes);
  if (fabric->segment_fd >= 0) close(fabric->segment_fd);
  if (fabric->mark_fd >= 0) close(fabric->mark_fd);
  if (fabric->bell_fd >= 0) close(fabric->bell_fd);
  delete fabric;
}

// The name of the mark contains the number of the segment's descriptor. A child that was just forked may
// still hold the mark of an earlier attachment with the same number. Then this takes another number.
Result<int> bindMark(Fabric& fabric) {
  constexpr int kMostTries = 16;
  for (int tries = 1;; ++tries) {
    Result<int> mark = bindName(memberName(fabric.prefix, {getpid(), fabric.segment_fd}));
    if (mark.ok() || mark.status().sys_errno != EADDRINUSE || tries == kMostTries) return mark;
    const int other = fcntl(fabric.segment_fd, F_DUPFD_CLOEXEC, fabric.segment_fd + 1);
    if (other < 0) return mark;
    close(fabric.segment_fd);
    fabric.segment_fd = other;
  }
}

Status joinSegment(Fabric& fabric, bool may_create) {
  Result<int> found = findSegment(fabric.prefix);
  if (!found.ok()) return found.status();
  const bool create = *found < 0;
  if (create && !may_create) return {Code::kNoDevice, ENOENT};
  Result<int> fd = create ? createSegment() : found;
  if (!fd.ok()) return fd.status();
  fabric.segment_fd = *fd;
  RAILWISE_TRY(mapSegment(fabric, create));
  // Claims the slot first, because reclaiming takes locks with the token of this slot.
  if (!claimSlot(fabric)) {
    RAILWISE_WARN("software device: the fabric %s is full (%u processes): set fabric=NAME",
                  fabric.prefix.c_str(), kMaxProcesses);
    return {Code::kSystem, EAGAIN};
  }
  reclaimDead(fabric);
  Result<int> mark = bindMark(fabric);
  if (!mark.ok()) {
    leaveSlot(fabric);
    errno = mark.status().sys_errno;
    return systemError("binding the fabric membership");
  }
  fabric.mark_fd = *mark;
  fabric.segment->processes[slotOf(fabric.self.token)].member.store(
      static_cast<uint32_t>(fabric.segment_fd) + 1, std::memory_order_release);
  fabric.bell_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fabric.bell_fd >= 0) return Status::success();
  leaveSlot(fabric);
  return systemError("making a socket");
}

Result<Fabric*> attach(const std::string& name, bool may_create) {
  watchForks();
  std::lock_guard lock(g_fabric_mutex);
  const std::string prefix = fabricPrefix(name);
  if (g_attached != nullptr) {
    if (g_attached->prefix != prefix) {
      RAILWISE_WARN("software device: still attached to the fabric %s", g_attached->prefix.c_str());
      return Status{Code::kInvalidUsage, EBUSY};
    }
    ++g_attached->uses;
    return g_attached;
  }
  Result<int> election = lockElection(prefix);
  if (!election.ok()) return election.status();
  auto* fabric = new Fabric;
  fabric->prefix = prefix;
  fabric->uses = 1;
#ifdef PR_SET_PTRACER
  // For Yama scope 1, because peers are no ancestors. Fails without Yama.
  (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
  const Status status = joinSegment(*fabric, may_create);
  close(*election);
  if (!status.ok()) {
    closeFabric(fabric);
    return status;
  }
  RAILWISE_INFO(log::kInit, "software device: attached to the fabric %s", prefix.c_str());
  g_attached = fabric;
  if (agentNeeded()) (void)startAgent(*fabric);
  return fabric;
}

}  // namespace

Result<Fabric*> attachFabric(const std::string& name) { return attach(name, true); }
Result<Fabric*> joinFabric(const std::string& name) { return attach(name, false); }

void detachFabric(Fabric* fabric) {
  std::lock_guard lock(g_fabric_mutex);
  if (--fabric->uses > 0 || fabric->forgotten) return;
  stopProgress();
  stopAgent(*fabric);
  {
    SharedLockGuard guard(fabric->segment->tables, fabric->self);
    releaseAllOf(*fabric, fabric->self.token);
    fabric->segment->processes[slotOf(fabric->self.token)].pid.store(0, std::memory_order_release);
  }
  g_attached = nullptr;
  releaseAddressSpace();
  closeFabric(fabric);
}

}  // namespace railwise::softdev
