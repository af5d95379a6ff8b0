#include "softdev/fabric/joining/process_table.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softdev/fabric/joining/membership.h"

namespace railwise::softdev {
namespace {

struct ProcessStat {
  char state = 0;
  unsigned flags = 0;
  uint64_t start_time = 0;
};

// kUnknown: this process cannot look, because it lacks file descriptors or memory. The other process may live
// or not.
enum class Look { kFound, kGone, kUnknown };

// Fields 3, 9 and 22 of the stat file of the first thread (proc(5)). qemu-user answers a read of the
// process's own /proc/<pid>/stat itself, with another start time than the other processes see, but not this
// file.
Look readStat(pid_t pid, ProcessStat* stat) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", static_cast<int>(pid), static_cast<int>(pid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || errno == ESRCH ? Look::kGone : Look::kUnknown;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof text - 1);
  const int error = length < 0 ? errno : 0;
  close(fd);
  if (length < 0 && error != ESRCH) return Look::kUnknown;
  if (length <= 0) return Look::kGone;
  text[length] = 0;
  const char* after_name = std::strrchr(text, ')');  // the name itself may contain spaces and parentheses
  if (after_name == nullptr) return Look::kUnknown;
  unsigned long long start = 0;
  const int fields = std::sscanf(
      after_name + 1, " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
      &stat->state, &stat->flags, &start);
  stat->start_time = start;
  return fields == 3 ? Look::kFound : Look::kUnknown;
}

// 1: exited. 0: running. -1: unknown (no pidfd here). Unlike the state in /proc, this is correct for a
// process whose first thread has ended.
int pidfdExited(pid_t pid) {
#ifdef SYS_pidfd_open
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH ? 1 : -1;
  pollfd poller{fd, POLLIN, 0};
  const int ready = poll(&poller, 1, 0);
  close(fd);
  return ready < 0 ? -1 : ready;
#else
  (void)pid;
  return -1;
#endif
}

// Is the membership that the process has noted certainly gone?
bool membershipGone(const LockOwner& self, const ProcessSlot& process) {
  const uint32_t member = process.member.load(std::memory_order_acquire);
  const auto pid = static_cast<pid_t>(process.pid.load(std::memory_order_acquire));
  const uint32_t number = process.member_number.load(std::memory_order_relaxed);
  return member != 0 && memberGone(self.prefix, {pid, static_cast<int>(member - 1), number});
}

// Has the process executed another program? It then keeps its pid and start time, but its sockets are closed.
// If our own membership cannot be found either, we have moved to another network namespace and know nothing.
bool leftByExec(const LockOwner& self, const ProcessSlot& process) {
  const ProcessSlot* own =
      self.token != 0 ? &self.processes[slotOf(self.token)] : nullptr;  // null while this process is joining
  return &process != own && membershipGone(self, process) && (own == nullptr || !membershipGone(self, *own));
}

}  // namespace

uint64_t processStartTime(pid_t pid) {
  ProcessStat stat;
  return readStat(pid, &stat) == Look::kFound ? stat.start_time : 0;
}

bool processAlive(pid_t pid, uint64_t start_time) {
  ProcessStat stat;
  const Look look = readStat(pid, &stat);
  if (look == Look::kGone || (look == Look::kFound && stat.start_time != start_time)) return false;
  const int exited = pidfdExited(pid);
  if (exited >= 0) return exited == 0;
  if (look == Look::kUnknown) return kill(pid, 0) == 0 || errno != ESRCH;
  return stat.state != 'Z' && stat.state != 'X';
}

bool processLeaving(pid_t pid, uint64_t start_time) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel's sched.h
  ProcessStat stat;
  const Look look = readStat(pid, &stat);
  if (look == Look::kGone || (look == Look::kFound && stat.start_time != start_time)) return true;
  return (stat.flags & kExiting) != 0 || !processAlive(pid, start_time);
}

bool tokenAlive(const LockOwner& self, uint32_t token) {
  const uint32_t slot = slotOf(token);
  if (slot >= kMaxProcesses) return false;
  const ProcessSlot& process = self.processes[slot];
  const uint32_t pid = process.pid.load(std::memory_order_acquire);
  const uint64_t start_time = process.start_time.load(std::memory_order_relaxed);  // stored before `pid`
  if (pid == 0 ||
      (process.generation.load(std::memory_order_acquire) & kGenerationMask) != generationOf(token))
    return false;
  return processAlive(static_cast<pid_t>(pid), start_time) && !leftByExec(self, process);
}

}  // namespace railwise::softdev
