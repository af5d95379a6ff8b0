// A file descriptor that other processes can make readable: a datagram socket with an abstract name, which
// vanishes with its process. Rings carry no data: what they announce lies in the shared segment. A ring may
// be lost only when others are pending, so who was woken looks at everything. Thread-safe.
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
  uint32_t id() const { return id_; }  // unique in this process and never 0

  // Takes one ring; waits for it unless the fd is non-blocking (the application may make it so). False with
  // errno when there is none.
  bool take() const;
  bool pending() const;
  // Takes all rings there are. Who drains looks at everything announced afterwards, and rings for what stays.
  void drain() const;

 private:
  int fd_ = -1;
  uint32_t id_ = 0;
  pid_t opener_ = 0;  // a forked child has the same socket, and leaves it alone
};

// Rings doorbell `id` of the process with `token`. Never blocks; does nothing when it is gone.
void ring(const Fabric& fabric, uint32_t token, uint32_t id);

}  // namespace railwise::softdev
