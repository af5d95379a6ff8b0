// The lock of a fabric: who holds it may join, and make the fabric if there is none. It is two things at
// once. An abstract name excludes the processes of this user in every mount namespace, and says who holds it;
// but any user can take a name. A range of bytes of a file in /dev/shm that only this user can open excludes
// them too, and no other user can be in its way. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace railwise::softdev {

class Election {
 public:
  // Waits some seconds for the process that holds the lock, then logs a WARN that names it. A name that
  // another user holds is passed over, where there is a file.
  static Result<Election> win(const std::string& prefix);
  ~Election();
  Election(Election&& other) noexcept : fds_(std::move(other.fds_)) { other.fds_.clear(); }
  Election& operator=(Election&&) = delete;
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

 private:
  explicit Election(std::vector<int> fds) : fds_(std::move(fds)) {}

  std::vector<int> fds_;  // as long as they are open the lock is held
};

// The process that holds the lock: "process 4711 (python3), state T". State T means that it is stopped. For
// messages only, since the function looks through all processes.
std::string lockHolder(const std::string& prefix);

}  // namespace railwise::softdev
