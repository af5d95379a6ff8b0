#include "softdev/fabric/doorbell.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include "softdev/fabric/fabric.h"
#include "softdev/fabric/joining/membership.h"

namespace railwise::softdev {
namespace {

std::string bellName(const Fabric& fabric, uint32_t token, uint32_t id) {
  return fabric.prefix + "bell/" + std::to_string(token) + "." + std::to_string(id);
}

}  // namespace

Doorbell::~Doorbell() {
  if (fd_ < 0) return;
  // Wakes threads that wait for a ring: they get end of file.
  if (opener_ == getpid()) (void)shutdown(fd_, SHUT_RDWR);
  close(fd_);
}

// The id is random: other users, who see all names, could bind the next one of a row. If the name is taken
// all the same, this tries another.
Status Doorbell::open(const Fabric& fabric) {
  constexpr int kMostTries = 1024;
  // A ring carries the identity of the fabric, which only its user can read. The kernel drops all else before
  // it arrives: other users can send to any name, and an empty datagram would look like the end of file.
  uint32_t words[2];
  static_assert(sizeof words == sizeof fabric.segment->identity);
  std::memcpy(words, &fabric.segment->identity, sizeof words);
  sock_filter program[] = {
      // each jump of a comparison that fails ends at the last line
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, sizeof words, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[0]), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof words[0]),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[1]), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog filter{std::size(program), program};
  for (int tries = 1;; ++tries) {
    id_ = randomNumber();
    if (id_ == 0) continue;
    Result<int> bound = bindName(bellName(fabric, fabric.self.token, id_), &filter);
    if (!bound.ok() && bound.status().sys_errno == EADDRINUSE && tries < kMostTries) continue;
    if (!bound.ok()) return bound.status();
    fd_ = *bound;
    opener_ = getpid();
    return Status::success();
  }
}

bool Doorbell::take() const {
  char nothing = 0;
  for (;;) {
    const ssize_t taken = recv(fd_, &nothing, sizeof nothing, 0);
    if (taken > 0) return true;
    if (taken == 0) errno = EBADF;  // the doorbell is being closed
    if (taken == 0 || errno != EINTR) return false;
  }
}

bool Doorbell::pending() const {
  char nothing = 0;
  return recv(fd_, &nothing, sizeof nothing, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

void Doorbell::drain() const {
  char nothing = 0;
  while (recv(fd_, &nothing, sizeof nothing, MSG_DONTWAIT) > 0) continue;
  fullFence();  // the caller looks only now; see ring()
}

void ring(const Fabric& fabric, uint32_t token, uint32_t id) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(bellName(fabric, token, id), &address);
  const uint64_t identity = fabric.segment->identity;
  if (length == 0) return;
  // If the queue of the socket is full, the reader that empties it sees what was stored before. The kernel
  // looks at the length of that queue without a lock.
  fullFence();
  (void)sendto(fabric.bell_fd, &identity, sizeof identity, MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace railwise::softdev
