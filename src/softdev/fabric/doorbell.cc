#include "softdev/fabric/doorbell.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "softdev/fabric/fabric.h"
#include "softdev/fabric/membership.h"

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

// A new fabric counts tokens from the beginning again. A process that is just leaving the old fabric, or its
// forked child, may still have a doorbell with our token. Then the name is taken, and this tries the next id.
Status Doorbell::open(const Fabric& fabric) {
  constexpr int kMostTries = 1024;
  static std::atomic<uint32_t> last{0};
  for (int tries = 1;; ++tries) {
    id_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
    Result<int> bound = bindName(bellName(fabric, fabric.self.token, id_));
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
}

void ring(const Fabric& fabric, uint32_t token, uint32_t id) {
  sockaddr_un address{};
  const socklen_t length = abstractAddress(bellName(fabric, token, id), &address);
  const char something = 1;
  if (length == 0) return;
  (void)sendto(fabric.bell_fd, &something, sizeof something, MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace railwise::softdev
