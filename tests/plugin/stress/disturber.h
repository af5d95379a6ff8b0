// A process that does what `railwise device port` does, now and then: a port goes down and comes up again, or
// gets another address. It ends with the one that started it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace railwise::test {

class Disturber {
 public:
  // Of an empty fabric: nothing is disturbed.
  Disturber(const std::string& fabric, uint64_t seed);
  ~Disturber();
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

 private:
  pid_t process_ = -1;
};

// The process itself.
int disturb(const char* fabric, const char* seed);

}  // namespace railwise::test
