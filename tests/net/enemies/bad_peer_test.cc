// A peer that is connected and lies: what the memory of a rank suffers from it (docs/security.md). It has the
// keys that it was given, and may know others.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "loop_connection.h"
#include "tests/wait.h"

namespace railwise::net {
namespace {

constexpr std::size_t kPage = 4096;

// Posts 8 bytes behind the plugin's back, and takes the completion.
ibv_wc_status operate(ibv_qp* qp, ibv_wr_opcode opcode, MemoryKeys own, uint64_t at, uint64_t to,
                      uint32_t key) {
  ibv_sge sge = {at, sizeof(uint64_t), own.local};
  ibv_send_wr work = {};
  work.sg_list = &sge;
  work.num_sge = 1;
  work.opcode = opcode;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma = {to, key};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &work, &bad), 0);
  ibv_wc completion = {};
  for (test::Patience patience; ibv_poll_cq(qp->send_cq, 1, &completion) == 0; patience.again()) {
  }
  return completion.status;
}

// The buffer's first page was registered for one connection; a peer on another connection of the device has
// learnt its key.
struct BadPeer {
  explicit BadPeer(const std::string& devices = "") : loop(2 * kPage, devices) {
    loop.usesDevicesItself();
    loop.useAnother();
    std::memcpy(loop.at(0), "precious", 8);
    std::memcpy(loop.at(kPage), "from bad", 8);
  }
  ibv_wc_status does(Connection& end, ibv_wr_opcode opcode) {
    const MemoryKeys keys = loop.memory()->keys[0].both();
    return operate(queuePairOf(end, 0).qp, opcode, keys, loop.address(kPage), loop.address(0), keys.remote);
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
  EXPECT_EQ(operate(queue_pair.qp, IBV_WR_RDMA_WRITE, bad.loop.memory()->keys[0].both(),
                    bad.loop.address(kPage), reinterpret_cast<uint64_t>(last), queue_pair.peer_window_key),
            IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(last, 8), "from bad");
}

TEST(BadPeer, ReadsNothingOverAConnectionOfMessages) {
  for (const char* setting : {"tcp", "cm"}) {
    SCOPED_TRACE(setting);
    setenv("RAILWISE_CONNECT", setting, 1);
    for (const bool sender : {true, false}) {
      BadPeer bad("link=roce");
      Connection& end = sender ? static_cast<Connection&>(bad.loop.sender()) : bad.loop.receiver();
      EXPECT_EQ(bad.does(end, IBV_WR_RDMA_READ), IBV_WC_REM_ACCESS_ERR);
      EXPECT_EQ(std::string(bad.loop.at(kPage), 8), "from bad");
    }
    unsetenv("RAILWISE_CONNECT");
  }
}

}  // namespace
}  // namespace railwise::net
