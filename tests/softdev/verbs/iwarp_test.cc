// What iWARP devices do differently.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "softdev/cm_end.h"

namespace railwise::softdev::test {
namespace {

// Two queue pairs that the connection manager has connected.
class IwarpPair {
 public:
  explicit IwarpPair(ibv_context* context, const Options& options = {})
      : a(context, options),
        b(context, options),
        listener_(listenOn(events_, context)),
        caller_((init(), calling(calls_, context, cmAddress(context, portOf(listener_)),
                                 parameters("", a.qp->qp_num)))),
        accepted_(events_.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id) {
    rdma_conn_param reply = parameters("", b.qp->qp_num);
    EXPECT_EQ(cm::accept(accepted_, &reply), 0);
    calls_.expect(RDMA_CM_EVENT_ESTABLISHED);
    events_.expect(RDMA_CM_EVENT_ESTABLISHED);
    a.peer = b.address();
    b.peer = a.address();
  }

  Endpoint a;
  Endpoint b;

  rdma_cm_id* caller() { return caller_; }
  CmChannel& events() { return events_; }

 private:
  void init() {
    EXPECT_EQ(a.toInit(), 0);
    EXPECT_EQ(b.toInit(), 0);
  }
  CmChannel calls_;
  CmChannel events_;
  CmId listener_;
  CmId caller_;
  CmId accepted_;
};

TEST(Iwarp, SaysWhatItIs) {
  OpenDevice device("link=iwarp");
  ibv_context* context = device;
  EXPECT_EQ(context->device->transport_type, IBV_TRANSPORT_IWARP);
  EXPECT_EQ(context->device->node_type, IBV_NODE_RNIC);
  ibv_device_attr attr{};
  ASSERT_EQ(queryDevice(device, &attr), 0);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_NONE);
  EXPECT_EQ(attr.max_sge_rd, 1);
  ibv_port_attr port{};
  ASSERT_EQ(queryPort(device, 1, &port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.gid_tbl_len, 1);
  ibv_gid gid{};
  ASSERT_EQ(queryGid(device, 1, 0, &gid), 0);
  constexpr uint8_t kNothing[10] = {};
  EXPECT_EQ(std::memcmp(gid.raw + 6, kNothing, sizeof kNothing), 0);  // six bytes of MAC address
  EXPECT_EQ(gid.raw[0], 2);
  ibv_gid addresses[4];
  EXPECT_EQ(cm::localAddresses(device, 1, addresses, 4), 2);
  EXPECT_EQ(addresses[0].raw[12], 10);  // IPv4 first, then link-local
  EXPECT_EQ(addresses[1].raw[0], 0xfe);
}

TEST(Iwarp, OnlyTheConnectionManagerConnects) {
  OpenDevice device("link=iwarp");
  Endpoint a(device);
  Endpoint b(device);
  ASSERT_EQ(a.toInit(), 0);
  ASSERT_EQ(b.toInit(), 0);
  EXPECT_EQ(a.toRtr(b.address()), EINVAL);
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
}

TEST(Iwarp, RefusesWhatItHasNot) {
  OpenDevice device("link=iwarp");
  IwarpPair pair(device);
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE})
    EXPECT_EQ(pair.a.send({.opcode = opcode, .length = 8}), EINVAL) << opcode;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = pair.a.cq;
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(createQp(pair.a.pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(Iwarp, MovesData) {
  OpenDevice device("link=iwarp");
  Options options;
  options.mr_access |= IBV_ACCESS_REMOTE_READ;
  IwarpPair pair(device, options);
  *pair.a.word(0) = 11;
  ASSERT_EQ(pair.a.send({.length = 8, .remote_offset = 64}), 0);
  EXPECT_EQ(pair.a.wait().opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(*pair.b.word(64), 11U);
  EXPECT_EQ(
      sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_READ, .offset = 128, .length = 8, .remote_offset = 64}),
      IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.a.word(128), 11U);
}

// The answer of a read is a write to its sink.
TEST(Iwarp, TheSinkOfAReadIsWrittenRemotely) {
  OpenDevice device("link=iwarp");
  Options options;
  options.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  IwarpPair pair(device, options);
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_RDMA_READ, .offset = 128, .length = 8}),
            IBV_WC_LOC_PROT_ERR);
}

TEST(Iwarp, ASendWithoutAReceiveEndsTheConnection) {
  OpenDevice device("link=iwarp");
  IwarpPair pair(device);
  EXPECT_EQ(sendAndWait(pair.a, {.opcode = IBV_WR_SEND, .length = 8}), IBV_WC_REM_OP_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(Iwarp, AWriteIsSeenAfterASendAndNotBefore) {
  OpenDevice device("link=iwarp,adversarial=on");
  IwarpPair pair(device);
  ASSERT_EQ(pair.b.receive(1, 1024, 64), 0);
  for (size_t i = 0; i < 4; ++i) {
    *pair.a.word(8 * i) = 100 + i;
    ASSERT_EQ(pair.a.send({.offset = 8 * i, .length = 8, .remote_offset = 8 * i, .wr_id = i}), 0);
    const ibv_wc wc = pair.a.wait();  // the buffer is ours again, and that is all
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
    *pair.a.word(8 * i) = 0;
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(*pair.b.word(8 * i), 0U);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .offset = 512, .length = 8, .wr_id = 9}), 0);
  EXPECT_EQ(pair.b.wait().opcode, IBV_WC_RECV);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(*pair.b.word(8 * i), 100 + i);
  EXPECT_EQ(pair.a.wait().wr_id, 9U);
}

// The same with an engine: what was posted is copied before it is held.
TEST(Iwarp, AnEngineHoldsWritesToo) {
  OpenDevice device("link=iwarp,adversarial=on,engine=on");
  IwarpPair pair(device);
  ASSERT_EQ(pair.b.receive(1, 1024, 64), 0);
  *pair.a.word(0) = 100;
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .remote_offset = 8}), IBV_WC_SUCCESS);
  EXPECT_EQ(*pair.b.word(8), 0U);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .offset = 512, .length = 8}), 0);
  EXPECT_EQ(pair.b.wait().opcode, IBV_WC_RECV);
  EXPECT_EQ(*pair.b.word(8), 100U);
}

TEST(Iwarp, ABadWriteThatWasHeldFailsTheSend) {
  OpenDevice device("link=iwarp,adversarial=on");
  IwarpPair pair(device);
  ASSERT_EQ(pair.b.receive(1, 1024, 64), 0);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8, .remote_offset = 1 << 30}), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.a.send({.opcode = IBV_WR_SEND, .length = 8, .wr_id = 9}), 0);
  const ibv_wc wc = pair.a.wait();
  EXPECT_EQ(wc.wr_id, 9U);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
}

TEST(Iwarp, DisconnectingFlushesTheOtherEnd) {
  OpenDevice device("link=iwarp");
  IwarpPair pair(device);
  ASSERT_EQ(pair.b.receive(5, 0, 64), 0);
  ASSERT_EQ(cm::disconnect(pair.caller()), 0);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  pair.events().expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  const ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.wr_id, 5U);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

// Nobody will take it: a connection of iWARP does not come back.
TEST(Iwarp, ASendToAnEndThatHasLeftFailsAtOnce) {
  OpenDevice device("link=iwarp");
  IwarpPair pair(device);
  ASSERT_EQ(pair.b.toState(IBV_QPS_ERR), 0);
  EXPECT_EQ(sendAndWait(pair.a, {.length = 8}), IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace railwise::softdev::test
