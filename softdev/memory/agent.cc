#include "softdev/memory/agent.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "base/background_thread.h"
#include "base/clock.h"
#include "base/log.h"
#include "softdev/fabric/doorbell.h"
#include "softdev/fabric/joining/membership.h"
#include "softdev/fabric/process_locks.h"
#include "softdev/fabric/tables.h"
#include "softdev/memory/file_size_limit.h"
#include "softdev/memory/mover.h"

namespace railwise::softdev {
namespace {

// Agents add a random number, so that nobody can bind their name first.
std::string serviceName(const std::string& prefix, pid_t pid) {
  return prefix + "agent/" + std::to_string(pid) + ".";
}

int listenOn(const std::string& name) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(name, &address);
  const int fd = length != 0 ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
  if (fd < 0) return -1;
  constexpr int kBacklog = 64;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 && listen(fd, kBacklog) == 0)
    return fd;
  close(fd);
  return -1;
}

void sendDescriptor(int socket_fd, int fd) {
  char byte = 0;
  iovec content{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  (void)sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int receiveDescriptor(int socket_fd) {
  char byte = 0;
  iovec content{&byte, 1};
  int fd = -1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof fd))
    return -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

class Agent {
 public:
  explicit Agent(Fabric& fabric)
      : fabric_(fabric), record_(fabric.segment->agents[slotOf(fabric.self.token)]) {}
  ~Agent() {
    if (listener_ >= 0) close(listener_);
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  Status start() {
    if (fileSizeLimit() < kSegmentBytes) return {Code::kSystem, EFBIG};  // a write there would be SIGXFSZ
    RAILWISE_TRY(bell_.open(fabric_));
    listener_ = listenOn(serviceName(fabric_.prefix, getpid()) + std::to_string(randomNumber()));
    uint64_t bounce = 0;
    if (!allocatePages(fabric_, kAgentBounceBytes, &bounce)) return {Code::kSystem, ENOMEM};
    {
      SharedLockGuard guard(record_.lock, fabric_.self);
      record_.bounce = bounce;
      record_.doorbell = bell_.id();
      // Relaxed: posters come after us by the lock, and by `ready`.
      record_.done.store(record_.posted.load(std::memory_order_relaxed), std::memory_order_relaxed);
      record_.ready.store(fabric_.self.token, std::memory_order_release);
    }
    try {
      thread_ = startBackgroundThread([this] { run(); });
    } catch (const std::exception&) {  // no thread or no memory for one
      retireAgent(fabric_, fabric_.self.token);
      releasePages(fabric_, bounce, kAgentBounceBytes);
      return {Code::kSystem, EAGAIN};
    }
    return Status::success();
  }

  void closeListener() const {
    if (listener_ >= 0) close(listener_);
  }

  void stop() {
    const uint64_t bounce = record_.bounce;
    retireAgent(fabric_, fabric_.self.token);
    stopping_.store(true, std::memory_order_release);
    ring(fabric_, fabric_.self.token, bell_.id());
    thread_.join();
    releasePages(fabric_, bounce, kAgentBounceBytes);
  }

 private:
  void run() {
    pollfd polls[2] = {{bell_.fd(), POLLIN, 0}, {listener_, POLLIN, 0}};
    constexpr int kRestMs = 200;  // of the listener, which stays readable where no descriptor is left
    bool rests = false;
    while (!stopping_.load(std::memory_order_acquire)) {
      if (poll(polls, rests ? 1 : 2, rests ? kRestMs : -1) < 0) continue;
      if ((polls[0].revents & POLLIN) != 0) (void)bell_.take();
      serve();
      rests = !rests && (polls[1].revents & POLLIN) != 0 && !handOut();
    }
  }

  void serve() {
    const uint32_t posted = record_.posted.load(std::memory_order_acquire);
    if (record_.done.load(std::memory_order_relaxed) == posted) return;
    uint32_t claim = kOffered;
    if (record_.claim.compare_exchange_strong(claim, kTaken, std::memory_order_acq_rel)) {
      execute();
    } else {  // nobody waits for the request, and its memory may belong to the application again
      record_.moved = 0;
      record_.error = ECANCELED;
    }
    record_.done.store(posted, std::memory_order_release);
    (void)syscall(SYS_futex, &record_.done, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  // Copies through the segment's file. The kernel then reports memory that does not exist, instead of killing
  // the process. It needs no right to access processes (seccomp), and it accesses all memory of this process
  // (memory from a device's driver, memfd_secret). Uses syscall() instead of libc's functions: the thread
  // sanitizer would take libc's calls for an access of a thread, but they stand for an access of a device,
  // which only the protocol above verbs orders.
  void execute() {
    const bool write = record_.write != 0;
    const uint32_t count = std::min(record_.count, kAgentPieces);
    const bool at_once = !write || kernelKeepsOrder();
    uint64_t moved = 0;
    bool whole = true;
    for (uint32_t i = 0; i < count && whole; ++i) {
      const AgentPiece piece = record_.pieces[i];
      whole = piece.length <= kAgentBounceBytes - moved;
      for (uint64_t done = 0; done < piece.length && whole;) {
        const uint64_t address = piece.address + done;
        const uint64_t left = piece.length - done;
        const uint64_t bytes = at_once ? left : bytesOfPiece(address, left);
        const uint64_t copied = copy(write, address, moved, bytes);
        moved += copied;
        done += copied;
        whole = copied == bytes;
      }
    }
    record_.moved = moved;
    record_.error = whole ? 0 : EFAULT;
  }

  // Copies between our memory and the bounce pages, `at` bytes from their start. Returns the number of bytes.
  uint64_t copy(bool write, uint64_t address, uint64_t at, uint64_t bytes) const {
    auto* const memory = reinterpret_cast<std::byte*>(address);  // NOLINT: an address of ours
    const auto offset = static_cast<off_t>(kArenaOffset + record_.bounce + at);
    const long copied =
        syscall(write ? SYS_pread64 : SYS_pwrite64, fabric_.segment_fd, memory, bytes, offset);
    return copied > 0 ? static_cast<uint64_t>(copied) : 0;
  }

  // False: nobody could be let in.
  bool handOut() const {
    const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) return false;
    if (peerIsOurs(peer)) sendDescriptor(peer, fabric_.segment_fd);
    close(peer);
    return true;
  }

  Fabric& fabric_;
  AgentRecord& record_;
  Doorbell bell_;
  int listener_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

Agent* g_agent = nullptr;
bool g_failed = false;

}  // namespace

Status startAgent(Fabric& fabric) {
  std::lock_guard lock(processLock(ProcessLock::kAgent));
  if (g_agent != nullptr || fabric.forgotten) return Status::success();
  auto agent = std::make_unique<Agent>(fabric);
  const Status status = agent->start();
  if (status.ok()) {
    g_agent = agent.release();
    RAILWISE_INFO(log::kInit, "software device: an agent copies for peers that may not reach this process");
  } else if (!g_failed) {
    g_failed = true;
    RAILWISE_WARN("software device: cannot start the agent that copies for peers: %s",
                  std::strerror(status.sys_errno));
  }
  return status;
}

void stopAgent(Fabric&) {
  std::lock_guard lock(processLock(ProcessLock::kAgent));
  if (g_agent == nullptr) return;
  g_agent->stop();
  delete g_agent;
  g_agent = nullptr;
}

void forgetAgent() {
  if (g_agent != nullptr) g_agent->closeListener();  // otherwise the name would outlive the parent
  g_agent = nullptr;
}

bool agentNeeded() {
  if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1) return true;
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope >= 2;
}

// Waits for the answer, not for ever: a member that is stopped does not answer. Signals (a profiler's) do not
// shorten the wait.
static bool readable(int socket_fd) {
  using std::chrono::milliseconds;
  const Deadline deadline = Deadline::after(milliseconds(2'000));
  pollfd answer{socket_fd, POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline.at() - Clock::now()).count();
    const int ready = poll(&answer, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready >= 0 || errno != EINTR || deadline.passed()) return ready == 1;
  }
}

// Asks the agent that listens at `name`. -1 with EAGAIN: its queue of callers is full.
static int askAgent(const std::string& name) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(name, &address);
  errno = ENAMETOOLONG;
  const int peer = length != 0 ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
  if (peer < 0) return -1;
  int fd = -1;
  int error = 0;
  if (connect(peer, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    error = errno;
  } else if (peerIsOurs(peer)) {
    if (readable(peer)) fd = receiveDescriptor(peer);
  }
  close(peer);
  errno = error;
  return fd;
}

// The caller holds the election lock of the fabric: all that want to join wait meanwhile.
int fetchSegment(const std::string& prefix, pid_t pid) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(2));
  for (bool busy = true; busy; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    busy = false;
    for (const NamedSocket& agent : listNames(serviceName(prefix, pid))) {
      if (foreign(agent)) continue;
      if (const int fd = askAgent(agent.name); fd >= 0) return fd;
      if (errno == EAGAIN) busy = true;
      if (deadline.passed()) return -1;
    }
  }
  return -1;
}

}  // namespace railwise::softdev
