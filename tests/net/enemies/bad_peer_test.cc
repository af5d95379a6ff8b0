// A peer that is connected and lies: what the memory of a rank suffers from it (docs/security.md). It has the
// keys that it was given, and may know others.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "loop_connection.h"
#include "net/loopback.h"

namespace railwise::net {
namespace {

constexpr std::size_t kPage = 4096;

// The buffer's first page was registered for one connection; a peer on another connection of the device has
// learnt its key.
struct BadPeer {
  explicit BadPeer(const std::string& devices = "") : loop(2 * kPage, devices) {
    loop.usesDevicesItself();
    loop.useAnother();
    std::memcpy(loop.at(0), "precious", 8);
    std::memcpy(loop.at(kPage), "from bad", 8);
  }
  MemoryKeys keys() { return loop.memory()->keys[0].both(); }
  ibv_sge own() { return {loop.address(kPage), sizeof(uint64_t), keys().local}; }
  ibv_wc_status does(Connection& end, ibv_wr_opcode opcode) {
    return test::operate(queuePairOf(end, 0).qp, opcode, own(), loop.address(0), keys().remote);
  }
  LoopConnection loop;
};

// All peers share a protection domain: keys are all that is between them. The figures of what would end this:
// docs/develop/decisions.md.
TEST(BadPeer, WritesMemoryThatWasRegisteredForAnother) {
  BadPeer bad;
  EXPECT_EQ(bad.does(bad.loop.sender(), IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(bad.loop.at(0), 8), "from bad");
}

// Windows of a device lie in one registration, so for these it need not even learn a key.
TEST(BadPeer, WritesTheWindowOfAnotherConnection) {
  BadPeer bad;
  const Window& other = *bad.loop.connect()->link().window;
  const LaneQueuePair& queue_pair = queuePairOf(bad.loop.receiver(), 0);
  auto* const last = other.at<char>(other.bytes() - 8);
  ASSERT_NE(other.address(), bad.loop.sender().link().window->address());
  EXPECT_EQ(test::operate(queue_pair.qp, IBV_WR_RDMA_WRITE, bad.own(), reinterpret_cast<uint64_t>(last),
                          queue_pair.peer_window_key),
            IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(last, 8), "from bad");
}

TEST(BadPeer, ReadsNothingOverAConnectionOfMessages) {
  for (const char* setting : {"tcp", "cm"}) {
    SCOPED_TRACE(setting);
    const test::Setting connect("RAILWISE_CONNECT", setting);
    for (const bool sender : {true, false}) {
      BadPeer bad("link=roce");
      Connection& end = sender ? static_cast<Connection&>(bad.loop.sender()) : bad.loop.receiver();
      EXPECT_EQ(bad.does(end, IBV_WR_RDMA_READ), IBV_WC_REM_ACCESS_ERR);
      EXPECT_EQ(std::string(bad.loop.at(kPage), 8), "from bad");
    }
  }
}

}  // namespace
}  // namespace railwise::net
