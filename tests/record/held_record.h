// Keeps a record "alive" for a test: a child process holds its lock until it is killed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "wait.h"

namespace railwise::test {

// The lock that a writer holds on its record.
inline bool lockRecord(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_SETLK, &lock) == 0;
}

class HeldRecord {
 public:
  explicit HeldRecord(const std::string& path) {
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      if (!lockRecord(open(path.c_str(), O_RDWR | O_CLOEXEC))) _exit(1);
      if (write(ready[1], "", 1) != 1) _exit(1);
      waitToBeKilled();
    }
    close(ready[1]);
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "the child could not lock " << path;
    close(ready[0]);
  }
  ~HeldRecord() { kill9(); }
  HeldRecord(const HeldRecord&) = delete;
  HeldRecord& operator=(const HeldRecord&) = delete;

  // Ends the child, as kill -9 ends a rank.
  void kill9() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  pid_t child_ = -1;
};

}  // namespace railwise::test
