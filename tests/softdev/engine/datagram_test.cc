// Unreliable datagrams: where they arrive, with what, and where they vanish.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "softdev/endpoint.h"

namespace railwise::softdev::test {
namespace {

constexpr uint32_t kQkey = 0x1234;

// An endpoint with a datagram queue pair in RTS.
struct Datagrams {
  explicit Datagrams(ibv_context* context) : end(context) {
    destroyQp(end.qp);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = end.cq;
    init.qp_type = IBV_QPT_UD;
    init.cap = {8, 8, 2, 2, 32};
    end.qp = createQp(end.pd, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    EXPECT_EQ(modifyQp(end.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(modifyQp(end.qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(modifyQp(end.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  ~Datagrams() {
    if (ah != nullptr) destroyAh(ah);
  }
  void aim(const Address& peer) {
    const ibv_qp_attr path = end.rtrAttr(peer);
    ibv_ah_attr attr = path.ah_attr;
    ah = createAh(end.pd, &attr);
    remote_qpn = peer.qp_num;
  }
  int send(uint32_t length, uint32_t qkey = kQkey, uint32_t lkey_change = 0) {
    ibv_sge sge;
    ibv_send_wr wr;
    ibv_send_wr* bad = nullptr;
    end.fill({.opcode = IBV_WR_SEND_WITH_IMM, .length = length, .imm = 5}, &wr, &sge);
    sge.lkey += lkey_change;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = remote_qpn;
    wr.wr.ud.remote_qkey = qkey;
    return ibv_post_send(end.qp, &wr, &bad);
  }

  Endpoint end;
  ibv_ah* ah = nullptr;
  uint32_t remote_qpn = 0;
};

void expectNoDatagram(Endpoint& end) {
  ibv_wc wc;
  EXPECT_EQ(end.poll(&wc), 0);
}

TEST(Datagram, ArrivesBehindItsHeader) {
  for (const char* link : {"link=ib", "link=roce"}) {
    const OpenDevice device(link);
    Datagrams a(device);
    Datagrams b(device);
    a.aim(b.end.address());
    ASSERT_NE(a.ah, nullptr);
    std::strcpy(reinterpret_cast<char*>(a.end.buffer.data()), "hello");
    ASSERT_EQ(b.end.receive(3, 0, 256), 0);
    ASSERT_EQ(a.send(6), 0);
    EXPECT_EQ(a.end.wait().status, IBV_WC_SUCCESS);
    const ibv_wc wc = b.end.wait();
    EXPECT_EQ(wc.wr_id, 3U);
    EXPECT_EQ(wc.byte_len, 46U);
    EXPECT_EQ(wc.src_qp, a.end.qp->qp_num);
    EXPECT_EQ(wc.imm_data, 5U);
    EXPECT_STREQ(reinterpret_cast<const char*>(b.end.buffer.data()) + 40, "hello");
    const bool roce = a.end.address().lid == 0;
    EXPECT_EQ((wc.wc_flags & IBV_WC_GRH) != 0, roce);
    if (!roce) continue;
    const auto* grh = reinterpret_cast<const ibv_grh*>(b.end.buffer.data());
    EXPECT_EQ(std::memcmp(grh->sgid.raw, a.end.address().gid.raw, 16), 0);
    EXPECT_EQ(std::memcmp(grh->dgid.raw, b.end.address().gid.raw, 16), 0);
  }
}

TEST(Datagram, VanishesWhereNobodyWaits) {
  const OpenDevice device;
  Datagrams a(device);
  Datagrams b(device);
  a.aim(b.end.address());
  ASSERT_EQ(a.send(8), 0);  // no receive
  EXPECT_EQ(a.end.wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(b.end.receive(1, 0, 128), 0);
  ASSERT_EQ(a.send(8, kQkey + 1), 0);  // another key
  EXPECT_EQ(a.end.wait().status, IBV_WC_SUCCESS);
  ASSERT_EQ(a.send(100), 0);  // longer than the receive
  EXPECT_EQ(a.end.wait().status, IBV_WC_SUCCESS);
  a.remote_qpn ^= 0x10000;
  ASSERT_EQ(a.send(8), 0);  // no such queue pair
  EXPECT_EQ(a.end.wait().status, IBV_WC_SUCCESS);
  expectNoDatagram(b.end);
  a.remote_qpn ^= 0x10000;
  ASSERT_EQ(a.send(88), 0);
  EXPECT_EQ(b.end.wait().byte_len, 128U);
}

TEST(Datagram, LocalErrorsStopTheSendQueueOnly) {
  const OpenDevice device;
  Datagrams a(device);
  Datagrams b(device);
  a.aim(b.end.address());
  ASSERT_EQ(a.send(5000), 0);  // more than the MTU
  EXPECT_EQ(a.end.wait().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a.end.state(), IBV_QPS_SQE);
  ASSERT_EQ(a.send(8), 0);
  EXPECT_EQ(a.end.wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(a.end.toState(IBV_QPS_RTS), 0);
  ASSERT_EQ(a.send(8, kQkey, 1), 0);
  EXPECT_EQ(a.end.wait().status, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(a.end.toState(IBV_QPS_RTS), 0);
  ASSERT_EQ(b.end.receive(1, 0, 128), 0);
  ASSERT_EQ(a.send(8), 0);
  EXPECT_EQ(a.end.wait().status, IBV_WC_SUCCESS);
}

TEST(Datagram, BadRequestsAndAddresses) {
  const OpenDevice device;
  Datagrams a(device);
  EXPECT_EQ(a.send(8), EINVAL);  // no address
  EXPECT_EQ(a.end.send({.length = 8}), EINVAL);
  ibv_ah_attr attr{};
  attr.port_num = 1;
  EXPECT_EQ(createAh(a.end.pd, &attr), nullptr);  // RoCE without a GID
  EXPECT_EQ(errno, EINVAL);
  attr.is_global = 1;
  attr.port_num = 2;
  EXPECT_EQ(createAh(a.end.pd, &attr), nullptr);
}

}  // namespace
}  // namespace railwise::softdev::test
