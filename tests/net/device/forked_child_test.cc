// A forked child has the descriptors of its parent's devices, and the kernel's objects belong to these. What
// the child gives back must stay.
#include <gtest/gtest.h>

#include <string>

#include "loop_connection.h"
#include "net/in_child.h"
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

// From now on calls that release an object do nothing but count.
void countReleases() {
  auto& library = const_cast<verbs::Library&>(verbs::library());
  library.dereg_mr = countCall<ibv_mr>;
  library.dealloc_pd = countCall<ibv_pd>;
  library.destroy_cq = countCall<ibv_cq>;
  library.destroy_qp = countCall<ibv_qp>;
  library.close_device = countCall<ibv_context>;
}

// Runs `act` in a child. "": the child has told the devices nothing, and parent and child are well.
template <typename Act>
std::string releasesInChild(Act&& act) {
  return inChild([&]() -> std::string {
    countReleases();
    act();
    return g_calls == 0 ? "" : std::to_string(g_calls) + " calls of the driver";
  });
}

TEST(ForkedChild, DeregistersNothingOfItsParents) {
  LoopConnection loop(2 * kHalf, "count=2");
  EXPECT_EQ(releasesInChild([&] { loop.device().memory().release(loop.memory()); }), "");
  EXPECT_TRUE(Traffic(loop).run(16, 512));
}

// As at the last finalize.
TEST(ForkedChild, ClosesNoDeviceOfItsParents) {
  LoopConnection loop(2 * kHalf, "count=2");
  EXPECT_EQ(releasesInChild([] { Net::release(); }), "");
  EXPECT_TRUE(Traffic(loop).run(16, 512));
}

class ClosedInAForkedChild : public testing::TestWithParam<const char*> {};

// The objects of a forked child are its parent's.
TEST_P(ClosedInAForkedChild, TouchesNoDevice) {
  setenv("RAILWISE_FAILOVER", "0", 1);
  LoopConnection loop(2 * kHalf, std::string("count=1,link=") + GetParam());
  unsetenv("RAILWISE_FAILOVER");
  Traffic traffic(loop);
  ASSERT_TRUE(traffic.run(16, 512));
  EXPECT_EQ("", inChild([&]() -> std::string {
              Context::close(&loop.sender());
              Context::close(&loop.receiver());
              return "";
            }));
  EXPECT_TRUE(traffic.run(16, 512));
}
INSTANTIATE_TEST_SUITE_P(, ClosedInAForkedChild, testing::Values("ib", "roce", "iwarp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace railwise::net
