#include "softdev/peer_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "softdev/forbid_call.h"
#include "softdev/queues/objects.h"
#include "tests/one_device.h"

namespace railwise::softdev::test {
namespace {

enum class Command {
  kStart,
  kConnect,
  kSend,
  kReceive,
  kWait,
  kWord,
  kSetWord,
  kSendRounds,
  kState,
  kUnmap,
  kLock,
  kLockCq,
  kExecute
};

struct Request {
  Command command;
  Options options;
  char config[512];
  Address address;
  Send send;
  uint64_t wr_id;
  uint64_t offset;
  uint64_t value;
};

struct Reply {
  int result;
  Address address;
  ibv_wc wc;
  uint64_t value;
};

Reply call(int fd, const Request& request) {
  Reply reply{};
  if (write(fd, &request, sizeof request) != sizeof request || read(fd, &reply, sizeof reply) != sizeof reply)
    throw std::runtime_error("the peer process is gone");
  return reply;
}

Reply answer(Endpoint& endpoint, const Request& request) {
  Reply reply{};
  switch (request.command) {
    case Command::kStart:
      break;
    case Command::kConnect:
      endpoint.connect(request.address);
      break;
    case Command::kSend:
      reply.result = endpoint.send(request.send);
      break;
    case Command::kReceive:
      reply.result = endpoint.receive(request.wr_id, request.offset, static_cast<uint32_t>(request.value));
      break;
    case Command::kWait:
      reply.wc = endpoint.wait();
      break;
    case Command::kWord:
      reply.value = __atomic_load_n(endpoint.word(request.offset), __ATOMIC_ACQUIRE);
      break;
    case Command::kSetWord:
      *endpoint.word(request.offset) = request.value;
      break;
    case Command::kSendRounds:
      reply.result = endpoint.sendRounds(request.send, request.value);
      break;
    case Command::kState:
      reply.value = endpoint.state();
      break;
    case Command::kUnmap:
      break;  // servePeer does it
    case Command::kLock: {
      Fabric& fabric = *as<Context>(endpoint.context).fabric;
      fabric.segment->qps[qpIndexOf(static_cast<uint32_t>(request.value))].responder.lock(fabric.self);
      break;
    }
    case Command::kLockCq: {
      Fabric& fabric = *as<Context>(endpoint.context).fabric;
      fabric.segment->cqs[request.value].lock.lock(fabric.self);
      break;
    }
    case Command::kExecute:
      break;  // servePeer does it
  }
  return reply;
}

// The endpoint with a second region in place of its own, at a mapping that can be taken away.
void useMapping(Endpoint& endpoint, void* memory, size_t bytes) {
  deregMr(endpoint.mr);
  endpoint.mr = regMr(endpoint.pd, memory, bytes, endpoint.options.mr_access);
}

void executeAgain(int fd) {
  char program[] = "/proc/self/exe";
  char flag[] = "--softdev-peer-again";
  char number[16];
  std::snprintf(number, sizeof number, "%d", fd);
  char* arguments[] = {program, flag, number, nullptr};
  execv(program, arguments);
}

// From now on the kernel refuses others access to our memory and descriptors, and us to theirs.
void hide() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  (void)syscall(SYS_capset, &header, none);
  prctl(PR_SET_DUMPABLE, 0);
}

// As container runtimes do.
void filterSystemCalls() {
  (void)forbidCall(SYS_process_vm_readv, EPERM);
  (void)forbidCall(SYS_process_vm_writev, EPERM);
}

}  // namespace

int servePeer(int fd) {
  Request request{};
  if (read(fd, &request, sizeof request) != sizeof request) return 1;
  if (request.options.hidden) hide();
  if (request.options.filtered) filterSystemCalls();
  if (!configure(request.config).ok()) return 1;
  ibv_context* context = openNamed("");
  Endpoint endpoint(context, request.options);
  constexpr size_t kMappingBytes = 4096;
  void* mapping = mmap(nullptr, kMappingBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (;;) {
    if (request.command == Command::kExecute) executeAgain(fd);
    Reply reply = answer(endpoint, request);
    if (request.command == Command::kUnmap) {
      useMapping(endpoint, mapping, kMappingBytes);
      // Nothing, but nothing else may come to lie there either.
      if (mmap(mapping, kMappingBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          MAP_FAILED)
        return 1;
    }
    reply.address = endpoint.address();
    if (request.command == Command::kUnmap) reply.address.memory = reinterpret_cast<uint64_t>(mapping);
    if (write(fd, &reply, sizeof reply) != sizeof reply) return 1;
    if (read(fd, &request, sizeof request) != sizeof request) return 0;
  }
}

int serveAgain(int fd) {
  const Reply reply{};
  return write(fd, &reply, sizeof reply) == sizeof reply ? servePeer(fd) : 1;
}

PeerProcess::PeerProcess(const std::string& fabric, const Options& options, const std::string& devices)
    : config_("fabric=" + fabric + ";" + railwise::test::oneDeviceAtLeast(devices)), options_(options) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0) throw std::runtime_error("socketpair");
  fcntl(fds[0], F_SETFD, FD_CLOEXEC);
  fd_ = fds[0];
  char program[] = "/proc/self/exe";
  char flag[] = "--softdev-peer";
  char number[16];
  std::snprintf(number, sizeof number, "%d", fds[1]);
  char* arguments[] = {program, flag, number, nullptr};
  const int error = posix_spawn(&pid_, program, nullptr, nullptr, arguments, environ);
  close(fds[1]);
  if (error != 0) throw std::runtime_error("posix_spawn");
  start();
}

void PeerProcess::start() {
  Request request{};
  request.command = Command::kStart;
  request.options = options_;
  std::snprintf(request.config, sizeof request.config, "%s", config_.c_str());
  address_ = call(fd_, request).address;
}

void PeerProcess::execute() {
  Request request{};
  request.command = Command::kExecute;
  call(fd_, request);
}

void PeerProcess::lockCq(uint32_t index) {
  Request request{};
  request.command = Command::kLockCq;
  request.value = index;
  call(fd_, request);
}

PeerProcess::~PeerProcess() {
  kill();
  close(fd_);
}

void PeerProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void PeerProcess::connect(const Address& peer) {
  Request request{};
  request.command = Command::kConnect;
  request.address = peer;
  call(fd_, request);
}

int PeerProcess::send(const Send& send) {
  Request request{};
  request.command = Command::kSend;
  request.send = send;
  return call(fd_, request).result;
}

int PeerProcess::receive(uint64_t wr_id, uint64_t offset, uint32_t length) {
  Request request{};
  request.command = Command::kReceive;
  request.wr_id = wr_id;
  request.offset = offset;
  request.value = length;
  return call(fd_, request).result;
}

ibv_wc PeerProcess::wait() {
  Request request{};
  request.command = Command::kWait;
  return call(fd_, request).wc;
}

uint64_t PeerProcess::word(uint64_t offset) {
  Request request{};
  request.command = Command::kWord;
  request.offset = offset;
  return call(fd_, request).value;
}

void PeerProcess::setWord(uint64_t offset, uint64_t value) {
  Request request{};
  request.command = Command::kSetWord;
  request.offset = offset;
  request.value = value;
  call(fd_, request);
}

int PeerProcess::sendRounds(const Send& send, uint64_t rounds) {
  Request request{};
  request.command = Command::kSendRounds;
  request.send = send;
  request.value = rounds;
  return call(fd_, request).result;
}

ibv_qp_state PeerProcess::state() {
  Request request{};
  request.command = Command::kState;
  return static_cast<ibv_qp_state>(call(fd_, request).value);
}

void PeerProcess::unmapBuffer() {
  Request request{};
  request.command = Command::kUnmap;
  address_ = call(fd_, request).address;
}

void PeerProcess::lockResponder(uint32_t qp_num) {
  Request request{};
  request.command = Command::kLock;
  request.value = qp_num;
  call(fd_, request);
}

}  // namespace railwise::softdev::test
