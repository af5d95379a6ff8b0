#include "verbs/queue_pair.h"

#include "software_device.h"

namespace railwise::verbs {
namespace {

// A device with everything a queue pair needs.
struct Bench {
  explicit Bench(const std::string& more = "")
      : device(more), context(device.open()), pd(library().alloc_pd(context.get())) {
    cq.reset(library().create_cq(context.get(), 16, nullptr, nullptr, 0));
    port = *queryPort(context.get(), 1);
    gid = *chooseGid(context.get(), port, device.config());
  }
  Result<QueuePair> make(QueuePairSize size = {16, 16, 64}) {
    return createQueuePair(pd.get(), cq.get(), port, device.config(), size);
  }
  PathAddress addressOf(const QueuePair& made) const {
    return {made.qp->qp_num, port.lid, port.ethernet, port.mtu, gid.value};
  }

  test::SoftwareDevice device;
  Context context;
  Pd pd;
  Cq cq;
  Port port;
  Gid gid;
};

ibv_qp_attr stateOf(ibv_qp* qp) {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(library().query_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV, &init), 0);
  return attributes;
}

TEST(QueuePair, GoesFromInitToReadyToSend) {
  for (const char* link : {"link=roce", "link=ib"}) {
    Bench bench(link);
    Result<QueuePair> made = bench.make();
    ASSERT_TRUE(made.ok());
    EXPECT_GE(made->inline_bytes, 64U);
    EXPECT_EQ(stateOf(made->qp.get()).qp_state, IBV_QPS_INIT);
    ASSERT_TRUE(readyToReceive(made->qp.get(), bench.port, bench.addressOf(*made), {bench.gid, 0, 0}).ok());
    ASSERT_TRUE(readyToSend(made->qp.get(), bench.port, bench.device.config()).ok());
    EXPECT_EQ(stateOf(made->qp.get()).qp_state, IBV_QPS_RTS);
  }
}

TEST(QueuePair, ThePathsMtuIsTheSmallerOfBothEnds) {
  Bench bench("mtu=4096");
  Result<QueuePair> made = bench.make();
  PathAddress remote = bench.addressOf(*made);
  remote.mtu = IBV_MTU_1024;
  ASSERT_TRUE(readyToReceive(made->qp.get(), bench.port, remote, {bench.gid, 0, 0}).ok());
  EXPECT_EQ(stateOf(made->qp.get()).path_mtu, IBV_MTU_1024);
}

TEST(QueuePair, MoreInlineThanTheDeviceHasIsNoError) {
  Bench bench("max_inline=32");
  Result<QueuePair> made = bench.make({16, 16, 4096});
  ASSERT_TRUE(made.ok());
  EXPECT_LE(made->inline_bytes, 32U);
}

TEST(QueuePair, ImpossibleSizesAreAnError) {
  Bench bench;
  EXPECT_EQ(bench.make({1U << 30, 16, 0}).status().code, Code::kSystem);
}

TEST(QueuePair, ABadPartitionKeyIsAnError) {
  Bench bench;
  Config config = bench.device.config();
  config.ib_pkey_index = 500;
  EXPECT_EQ(createQueuePair(bench.pd.get(), bench.cq.get(), bench.port, config, {16, 16, 0}).status().code,
            Code::kSystem);
}

}  // namespace
}  // namespace railwise::verbs
