// A forked child has the descriptors of its parent's devices, and the kernel's objects belong to these. What
// the child gives back must stay.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop_connection.h"
#include "net/loop_traffic.h"
#include "verbs/library.h"

namespace railwise::net {
namespace {

int g_calls = 0;

template <typename Object>
int countCall(Object*) {
  ++g_calls;
  return 0;
}

// From now on the devices are told nothing, and what they would have been told is counted.
void countReleases() {
  auto& library = const_cast<verbs::Library&>(verbs::library());
  library.dereg_mr = countCall<ibv_mr>;
  library.dealloc_pd = countCall<ibv_pd>;
  library.destroy_cq = countCall<ibv_cq>;
  library.destroy_qp = countCall<ibv_qp>;
  library.close_device = countCall<ibv_context>;
}

template <typename Act>
int callsInChild(Act&& act) {
  const pid_t child = fork();
  if (child == 0) {
    test::endInTwoMinutes();
    countReleases();
    act();
    _exit(g_calls);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkedChild, DeregistersNothingOfItsParents) {
  LoopConnection loop(2 * kHalf, "count=2");
  EXPECT_EQ(callsInChild([&] { loop.device().memory().release(loop.memory()); }), 0);
  EXPECT_TRUE(Traffic(loop).run(16, 512));
}

// As at the last finalize.
TEST(ForkedChild, ClosesNoDeviceOfItsParents) {
  LoopConnection loop(2 * kHalf, "count=2");
  EXPECT_EQ(callsInChild([] { Net::release(); }), 0);
  EXPECT_TRUE(Traffic(loop).run(16, 512));
}

}  // namespace
}  // namespace railwise::net
