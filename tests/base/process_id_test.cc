#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

namespace railwise {
namespace {

// The status of a child that knows its own number, also after it has asked once.
constexpr int kKnowsItself = 7;

int statusOfChild() {
  const pid_t child = fork();
  if (child == 0) _exit(processId() == getpid() && processId() == getpid() ? kKnowsItself : 1);
  int status = 0;
  EXPECT_EQ(child, waitpid(child, &status, 0));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessId, IsThatOfThisProcess) {
  EXPECT_EQ(getpid(), processId());
  EXPECT_EQ(getpid(), processId());
}

TEST(ProcessId, AChildHasItsOwn) {
  ASSERT_EQ(getpid(), processId());
  EXPECT_EQ(kKnowsItself, statusOfChild());
  EXPECT_EQ(getpid(), processId());
}

TEST(ProcessId, AGrandchildHasItsOwn) {
  ASSERT_EQ(getpid(), processId());
  const pid_t child = fork();
  if (child == 0) {
    if (processId() != getpid()) _exit(1);
    _exit(statusOfChild());
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(kKnowsItself, WEXITSTATUS(status));
}

}  // namespace
}  // namespace railwise
