// A file descriptor that other processes can make readable: a datagram socket with an abstract name, which
// vanishes with its process. A ring of the doorbell carries no data: the shared segment has the data. A ring
// may be lost while other rings are pending, so the process that wakes up must look at everything.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/status.h"

namespace railwise::softdev {

struct Fabric;

class Doorbell {
 public:
  Doorbell() = default;
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  Status open(const Fabric& fabric);
  int fd() const { return fd_; }       // -1 before open()
  uint32_t id() const { return id_; }  // unique in this process, never 0

  // Takes one ring. Waits for one, unless the fd is non-blocking (the application may set that). False with
  // errno if there is no ring.
  bool take() const;
  bool pending() const;
  // Takes all pending rings. After that the caller must look at everything that was announced, and must ring
  // again for what it leaves.
  void drain() const;

 private:
  int fd_ = -1;
  uint32_t id_ = 0;
  pid_t opener_ = 0;  // a forked child inherits the socket, and must leave it alone
};

// Rings doorbell `id` of the process with `token`. Never blocks. Does nothing if the doorbell is gone.
void ring(const Fabric& fabric, uint32_t token, uint32_t id);

}  // namespace railwise::softdev
