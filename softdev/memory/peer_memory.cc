#include "softdev/memory/peer_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>

#include "base/log.h"
#include "softdev/fabric/process_locks.h"
#include "softdev/memory/agent.h"
#include "softdev/memory/mover.h"

namespace railwise::softdev {

// /proc/PID/mem of a peer: one for all queue pairs. It stays with the process for which it was opened, even
// if another process gets the pid later. Writes ignore read-only protection (FOLL_FORCE), so it is used only
// if the configuration says so.
class ProcMem {
 public:
  explicit ProcMem(int fd) : fd_(fd) {}
  ~ProcMem() { close(fd_); }
  ProcMem(const ProcMem&) = delete;
  ProcMem& operator=(const ProcMem&) = delete;

  // Returns 0 or an errno.
  int write(const iovec& local, const iovec& remote) const {
    const ssize_t bytes = pwrite64(fd_, local.iov_base, local.iov_len,
                                   static_cast<off64_t>(reinterpret_cast<uint64_t>(remote.iov_base)));
    if (bytes == static_cast<ssize_t>(local.iov_len)) return 0;
    // 0: the memory of the process is gone. Less than all: the rest is not mapped.
    return bytes == 0 ? ESRCH : bytes > 0 || errno == EIO ? EFAULT : errno;
  }

 private:
  int fd_;
};

namespace {

std::shared_ptr<ProcMem> openProcMem(pid_t pid, uint32_t token) {
  std::lock_guard lock(processLock(ProcessLock::kPeerMemory));
  static auto* opened = new std::map<uint32_t, std::weak_ptr<ProcMem>>;
  if (std::shared_ptr<ProcMem> known = (*opened)[token].lock()) return known;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/mem", static_cast<int>(pid));
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  std::erase_if(*opened, [](const auto& entry) { return entry.second.expired(); });
  auto file = std::make_shared<ProcMem>(fd);
  (*opened)[token] = file;
  return file;
}

void warnRefused(Fabric& fabric, uint32_t token, pid_t pid) {
  if (fabric.warned[slotOf(token)].exchange(token, std::memory_order_relaxed) == token) return;
  RAILWISE_WARN(
      "software device: process %d may not access the memory of process %d, whose agent does not run (yet): "
      "check Yama (kernel.yama.ptrace_scope), the container's seccomp profile, and that both share a user "
      "namespace; or set mover=agent in both",
      static_cast<int>(getpid()), static_cast<int>(pid));
}

}  // namespace

bool PeerMemory::connect(Fabric& fabric, uint32_t token, MoverChoice mover) {
  fabric_ = &fabric;
  token_ = token;
  pid_ = static_cast<pid_t>(fabric.segment->processes[slotOf(token)].pid.load(std::memory_order_acquire));
  mapping_ = mover == MoverChoice::kAuto || mover == MoverChoice::kRemap;
  regions_.clear();
  file_ = nullptr;
  by_agent_ = !peerReachable(fabric, token) || (mover == MoverChoice::kAgent && agentReady(fabric, token));
  if (by_agent_) {
    mapping_ = false;
    if (agentReady(fabric, token)) return true;
    warnRefused(fabric, token, pid_);
    return false;
  }
  if (mover == MoverChoice::kMem) file_ = openProcMem(pid_, token);
  return true;
}

uint64_t PeerMemory::transfer(bool write, iovec* local, int locals, iovec* remote, int remotes, int* error,
                              uint64_t* calls) {
  if (by_agent_) return agentTransfer(*fabric_, token_, write, local, locals, remote, remotes, error, calls);
  constexpr uint64_t kProcMemBytes = 4096;  // above this size process_vm_writev is faster
  uint64_t moved = 0;
  if (file_ != nullptr && write && locals == 1 && remotes == 1 && local->iov_len <= kProcMemBytes &&
      kernelKeepsOrder()) {
    ++*calls;
    *error = file_->write(*local, *remote);
    moved = *error == 0 ? local->iov_len : 0;
  } else {
    if (write && !kernelKeepsOrder()) {
      cutAtLastWords(local, locals, remote, remotes, &cut_,
                     kernelKeepsLocalPieces() ? nullptr : &remote_cut_);
      local = cut_.data();
      locals = static_cast<int>(cut_.size());
      if (!kernelKeepsLocalPieces()) {
        remote = remote_cut_.data();
        remotes = static_cast<int>(remote_cut_.size());
      }
    }
    moved = softdev::transfer(pid_, write, local, locals, remote, remotes, error, calls);
  }
  // The memory may be such that the kernel allows only its owner to access it. A process that registers such
  // memory starts an agent.
  if (*error != EFAULT || !agentReady(*fabric_, token_)) [[likely]]
    return moved;
  int agents_error = 0;
  moved += agentTransfer(*fabric_, token_, write, local, locals, remote, remotes, &agents_error, calls);
  if (agents_error == 0) *error = 0;
  return moved;
}

}  // namespace railwise::softdev
