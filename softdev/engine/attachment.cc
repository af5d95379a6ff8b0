#include "softdev/engine/attachment.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "softdev/engine/progress.h"
#include "softdev/fabric/joining/election.h"
#include "softdev/fabric/joining/membership.h"
#include "softdev/fabric/joining/unlike_configuration.h"
#include "softdev/fabric/process_locks.h"
#include "softdev/memory/address_space.h"
#include "softdev/memory/agent.h"
#include "softdev/memory/file_size_limit.h"
#include "softdev/queues/reclaim.h"

namespace railwise::softdev {
namespace {

Fabric* g_attached = nullptr;
std::atomic<uint8_t> g_probe_byte{1};

Status systemError(const char* what) {
  const int error = errno;
  RAILWISE_WARN("software device: %s failed: %s", what, std::strerror(error));
  return {Code::kSystem, error};
}

void prepareToFork() {
  takeProcessLocks();
  prepareToForgetProgress();
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
  releaseProcessLocks();
}

constexpr const char* kSegmentName = "railwise-softdev";  // in /proc/PID/fd

enum class Opened { kYes, kGone, kForeign, kRefused, kOtherLayout };

// The user of a process: its effective one, as /proc says also of a process that may not be looked into.
// Nothing: the process is gone or hidden.
std::optional<uid_t> userOfProcess(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    unsigned user = 0;
    if (std::sscanf(line.c_str(), "Uid: %*u %u", &user) == 1) return user;
  }
  return std::nullopt;
}

// Opens the segment of `member` as *fd. If /proc refuses access, the member's agent may provide the
// descriptor.
Opened openMember(const std::string& prefix, Member member, int* fd) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(member.pid), member.fd);
  // Any user can bind a name that points to any descriptor of any process, so this looks before it opens.
  const std::string wanted = std::string("/memfd:") + kSegmentName;
  char link[64] = "";
  const ssize_t length = readlink(path, link, sizeof link);
  *fd = -1;
  if (length < 0 && (errno == ENOENT || errno == ESRCH)) return Opened::kGone;
  if (length >= 0) {
    if (!std::string_view(link, static_cast<size_t>(length)).starts_with(wanted)) return Opened::kGone;
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0 && (errno == ENOENT || errno == ENXIO || errno == ESRCH)) return Opened::kGone;
  }
  if (*fd < 0) *fd = fetchSegment(prefix, member.pid);
  if (*fd < 0) return userOfProcess(member.pid) == geteuid() ? Opened::kRefused : Opened::kForeign;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(*fd, F_GET_SEALS);
  struct stat file = {};
  struct {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint64_t total_bytes;
    uint64_t fabric;
  } header{};
  Opened answer = Opened::kYes;
  if (seals < 0 || (seals & kSeals) != kSeals || pread(*fd, &header, sizeof header, 0) != sizeof header ||
      header.magic != kMagic) {
    answer = Opened::kGone;  // the member has left, and the number now belongs to another file
  } else if (fstat(*fd, &file) != 0 || file.st_uid != geteuid()) {
    answer = Opened::kForeign;
  } else if (header.version != kLayoutVersion || header.total_bytes != kSegmentBytes ||
             static_cast<uint64_t>(file.st_size) != kSegmentBytes) {
    answer = Opened::kOtherLayout;
  } else if (header.fabric != fabricNumber(prefix)) {
    answer = Opened::kGone;  // a name that another user has forged
  }
  if (answer != Opened::kYes) close(*fd);
  return answer;
}

// Finds the segment of a live member: its descriptor, or -1 if there is no member. A member that lets nobody
// in is passed over as long as another does; names that other users have bound always are.
Result<int> findSegment(const std::string& prefix) {
  pid_t refusing = 0;
  for (const auto& [member, socket] : listMembers(prefix)) {
    // Asked one by one, until a member lets us in: there may be hundreds, and others wait for the lock.
    if (foreign(socket)) continue;
    int fd = -1;
    switch (openMember(prefix, member, &fd)) {
      case Opened::kYes:
        return fd;
      case Opened::kGone:
        break;
      case Opened::kForeign:
        RAILWISE_INFO(log::kInit, "software device: %s is another user's name, and is ignored",
                      socket.name.c_str());
        break;
      case Opened::kRefused:
        refusing = member.pid;
        break;
      case Opened::kOtherLayout:
        RAILWISE_WARN(
            "software device: process %d on the fabric %s runs another version of Railwise (shared layout "
            "differs from %u): stop it or set fabric=NAME",
            static_cast<int>(member.pid), prefix.c_str(), kLayoutVersion);
        return Status{Code::kSystem, EPROTO};
    }
  }
  if (refusing == 0) return -1;
  RAILWISE_WARN(
      "software device: process %d is on the fabric %s but its shared segment cannot be opened (ptrace is "
      "restricted, and its agent does not run): set mover=agent there, or fabric=NAME to use another fabric",
      static_cast<int>(refusing), prefix.c_str());
  return Status{Code::kSystem, EACCES};
}

Result<int> createSegment() {
  if (fileSizeLimit() < kSegmentBytes) {
    RAILWISE_WARN(
        "software device: the shared segment has %.1f GiB of addresses (few of them become memory), and "
        "RLIMIT_FSIZE allows files of %.1f GiB: raise it (ulimit -f unlimited), or run another process on "
        "the fabric first",
        static_cast<double>(kSegmentBytes) / 0x1p30, static_cast<double>(fileSizeLimit()) / 0x1p30);
    return Status{Code::kSystem, EFBIG};
  }
  const int fd = memfd_create(kSegmentName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
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
  fabric.segment->fabric = fabricNumber(fabric.prefix);
  fabric.segment->identity = uint64_t{randomNumber()} << 32 | randomNumber();
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

// Undoes a half-finished attach.
struct Abandon {
  void operator()(Fabric* fabric) const {
    if (fabric->self.token != 0) leaveSlot(*fabric);
    closeFabric(fabric);
  }
};

// Binds the name that says where the segment can be opened.
Result<int> bindMark(Fabric& fabric) {
  constexpr int kMostTries = 16;  // a random number is hardly ever taken
  ProcessSlot& slot = fabric.segment->processes[slotOf(fabric.self.token)];
  for (int tries = 1;; ++tries) {
    const Member member{getpid(), fabric.segment_fd, randomNumber()};
    Result<int> mark = bindName(memberName(fabric.prefix, member));
    if (!mark.ok() && mark.status().sys_errno == EADDRINUSE && tries < kMostTries) continue;
    if (!mark.ok()) return mark;
    slot.member_number.store(member.number, std::memory_order_relaxed);
    slot.member.store(static_cast<uint32_t>(member.fd) + 1, std::memory_order_release);
    return mark;
  }
}

// `choice`: null for a tool, which joins a fabric whatever its configuration, and makes none.
Status joinSegment(Fabric& fabric, const FabricChoice* choice) {
  Result<int> found = findSegment(fabric.prefix);
  if (!found.ok()) return found.status();
  const bool create = *found < 0;
  if (create && choice == nullptr) return {Code::kNoDevice, ENOENT};
  Result<int> fd = create ? createSegment() : found;
  if (!fd.ok()) return fd.status();
  fabric.segment_fd = *fd;
  RAILWISE_TRY(mapSegment(fabric, create));
  if (create) {
    noteMaker(*fabric.segment, *choice);
  } else if (choice != nullptr) {
    RAILWISE_TRY(checkMaker(*fabric.segment, *choice));
  }
  // Claims the slot first, because reclaiming takes locks with the token of this slot.
  if (!claimSlot(fabric)) {
    RAILWISE_WARN("software device: the fabric %s is full (%u processes): set fabric=NAME",
                  fabric.prefix.c_str(), kMaxProcesses);
    return {Code::kSystem, EAGAIN};
  }
  reclaimDead(fabric);
  Result<int> mark = bindMark(fabric);
  if (!mark.ok()) {
    errno = mark.status().sys_errno;
    return systemError("binding the fabric membership");
  }
  fabric.mark_fd = *mark;
  fabric.bell_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fabric.bell_fd >= 0) return Status::success();
  return systemError("making a socket");
}

Result<Fabric*> attach(const std::string& name, const FabricChoice* choice) {
  watchForks();
  std::lock_guard lock(processLock(ProcessLock::kFabric));
  const std::string prefix = fabricPrefix(name);
  if (g_attached != nullptr) {
    if (g_attached->prefix != prefix) {
      RAILWISE_WARN("software device: still attached to the fabric %s", g_attached->prefix.c_str());
      return Status{Code::kInvalidUsage, EBUSY};
    }
    ++g_attached->uses;
    return g_attached;
  }
  std::optional<Result<Election>> election(Election::win(prefix));
  if (!election->ok()) return election->status();
  std::unique_ptr<Fabric, Abandon> fabric(new Fabric);
  fabric->prefix = prefix;
  fabric->uses = 1;
#ifdef PR_SET_PTRACER
  // For Yama scope 1, because peers are no ancestors. Fails without Yama.
  (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
  RAILWISE_TRY(joinSegment(*fabric, choice));
  election.reset();
  RAILWISE_INFO(log::kInit, "software device: attached to the fabric %s", prefix.c_str());
  if (agentNeeded()) (void)startAgent(*fabric);
  g_attached = fabric.release();
  return g_attached;
}

}  // namespace

void watchForks() {
  static std::once_flag once;
  std::call_once(once, [] {
    prepareToForgetProgress();  // makes the object now: destroying a queue pair uses it, and must not
                                // allocate
    pthread_atfork(prepareToFork, releaseProcessLocks, forgetInChild);
  });
}

Result<Fabric*> attachFabric(const FabricChoice& choice) { return attach(choice.name, &choice); }
Result<Fabric*> joinFabric(const std::string& name) { return attach(name, nullptr); }

void detachFabric(Fabric* fabric) {
  std::lock_guard lock(processLock(ProcessLock::kFabric));
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
