#include "verbs/queue_pair.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <set>

#include "software_device.h"
#include "tests/ok.h"
#include "tests/port_control.h"
#include "tests/said.h"

namespace railwise::verbs {
namespace {

// A device with everything a queue pair needs.
struct QueuePairBench {
  explicit QueuePairBench(const std::string& more = "")
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
    QueuePairBench bench(link);
    Result<QueuePair> made = bench.make();
    ASSERT_OK(made);
    EXPECT_GE(made->inline_bytes, 64U);
    EXPECT_EQ(stateOf(made->qp.get()).qp_state, IBV_QPS_INIT);
    ASSERT_OK(readyToReceive(made->qp.get(), bench.port, bench.addressOf(*made), {bench.gid, 0, 0}));
    ASSERT_OK(readyToSend(made->qp.get(), bench.port, bench.device.config()));
    EXPECT_EQ(stateOf(made->qp.get()).qp_state, IBV_QPS_RTS);
  }
}

TEST(QueuePair, ThePathsMtuIsTheSmallerOfBothEnds) {
  QueuePairBench bench("mtu=4096");
  Result<QueuePair> made = bench.make();
  PathAddress remote = bench.addressOf(*made);
  remote.mtu = IBV_MTU_1024;
  ASSERT_OK(readyToReceive(made->qp.get(), bench.port, remote, {bench.gid, 0, 0}));
  EXPECT_EQ(stateOf(made->qp.get()).path_mtu, IBV_MTU_1024);
}

TEST(QueuePair, MoreInlineThanTheDeviceHasIsNoError) {
  QueuePairBench bench("max_inline=32");
  Result<QueuePair> made = bench.make({16, 16, 4096});
  ASSERT_OK(made);
  EXPECT_LE(made->inline_bytes, 32U);
}

TEST(QueuePair, AnInlineSizeThatWasRefusedIsNotAskedForAgain) {
  QueuePairBench bench("max_inline=32");
  InlineLimits limits;
  const auto make = [&](uint32_t bytes) {
    return createQueuePair(bench.pd.get(), bench.cq.get(), bench.port, bench.device.config(), {16, 16, bytes},
                           OutOfOrder::kNo, &limits);
  };
  const Result<QueuePair> first = make(256);
  ASSERT_OK(first);
  EXPECT_EQ(limits.askFor({16, 16, false}, 256), 32U);
  EXPECT_EQ(limits.askFor({16, 16, false}, 32), 32U) << "what was granted";
  EXPECT_EQ(limits.askFor({16, 16, true}, 256), 256U) << "of other queue pairs nothing is known";
  EXPECT_EQ(limits.askFor({32, 16, false}, 256), 256U);
  const Result<QueuePair> second = make(256);
  ASSERT_OK(second);
  EXPECT_EQ(second->inline_bytes, first->inline_bytes);
}

TEST(QueuePair, FlowLabelAndTrafficClassArriveAtTheDevice) {
  QueuePairBench bench("link=roce");
  Result<QueuePair> made = bench.make();
  const PathSettings settings{bench.gid, 3, 106, laneFlowLabel(7, 1)};
  ASSERT_OK(readyToReceive(made->qp.get(), bench.port, bench.addressOf(*made), settings));
  const ibv_ah_attr path = stateOf(made->qp.get()).ah_attr;
  EXPECT_EQ(path.grh.flow_label, laneFlowLabel(7, 1));
  EXPECT_EQ(path.grh.traffic_class, 106);
  EXPECT_EQ(path.sl, 3);
}

TEST(QueuePair, ClearToSendsHaveATrafficClassOfTheirOwnOnRoce) {
  Port port;
  Config config;
  EXPECT_EQ(clearToSendTrafficClass(port, config, 96), 96);
  config.ib_fifo_traffic_class = 106;
  EXPECT_EQ(clearToSendTrafficClass(port, config, 96), 96) << "InfiniBand";
  port.ethernet = true;
  EXPECT_EQ(clearToSendTrafficClass(port, config, 96), 106);
}

ibv_gid gidAt(const QueuePairBench& bench, int index) {
  ibv_gid gid = {};
  EXPECT_EQ(library().query_gid(bench.context.get(), 1, index, &gid), 0);
  return gid;
}

TEST(QueuePair, InfiniBandStaysLocalWithinASubnet) {
  QueuePairBench bench("link=ib");
  Result<QueuePair> made = bench.make();
  ASSERT_OK(readyToReceive(made->qp.get(), bench.port, bench.addressOf(*made), {bench.gid, 0, 0}));
  const ibv_ah_attr path = stateOf(made->qp.get()).ah_attr;
  EXPECT_EQ(path.is_global, 0);
  EXPECT_EQ(path.dlid, bench.port.lid);
}

TEST(QueuePair, APortThatRequiresAGlobalHeaderGetsOne) {
  QueuePairBench bench("link=ib");
  bench.port.grh_required = true;
  Result<QueuePair> made = bench.make();
  ASSERT_OK(readyToReceive(made->qp.get(), bench.port, bench.addressOf(*made), {bench.gid, 0, 0}));
  const ibv_ah_attr path = stateOf(made->qp.get()).ah_attr;
  EXPECT_EQ(path.is_global, 1);
  EXPECT_EQ(path.dlid, bench.port.lid);
}

TEST(QueuePair, AnotherInfiniBandSubnetIsReachedByItsRouter) {
  QueuePairBench bench("link=ib,gid=fec0:0:1111:2::1/ib,gid=fec0:0:1234:1::1/ib");
  Result<QueuePair> made = bench.make();
  const Gid local{.index = 0, .value = gidAt(bench, 0)};
  PathAddress remote = bench.addressOf(*made);
  remote.gid = gidAt(bench, 1);
  ASSERT_OK(readyToReceive(made->qp.get(), bench.port, remote, {local, 0, 0}));
  const ibv_ah_attr path = stateOf(made->qp.get()).ah_attr;
  EXPECT_EQ(path.is_global, 1);
  EXPECT_EQ(path.dlid, 0x1234) << "the FLID of the peer's subnet";
  EXPECT_EQ(gidText(path.grh.dgid), "fec0:0:1234:1::1");
}

// As sender and receiver do it: offer, reduce, take.
TEST(Ece, BothEndsAgreeOnWhatBothHave) {
  QueuePairBench sender("ece=0x7");
  Result<QueuePair> sending = sender.make();
  const std::optional<Ece> offered = queryEce(sending->qp.get(), sender.device.config());
  ASSERT_TRUE(offered.has_value());
  EXPECT_EQ(offered->options, 0x7U);
  Result<QueuePair> receiving = sender.make();
  Ece less = *offered;
  less.options = 0x13;  // as a device with other options offers
  ASSERT_OK(readyToReceive(receiving->qp.get(), sender.port, sender.addressOf(*sending),
                           {.local_gid = sender.gid, .service_level = 0, .traffic_class = 0, .ece = less}));
  const std::optional<Ece> reduced = queryEce(receiving->qp.get(), sender.device.config());
  ASSERT_TRUE(reduced.has_value());
  EXPECT_EQ(reduced->options, 0x3U);
  ASSERT_OK(
      readyToReceive(sending->qp.get(), sender.port, sender.addressOf(*receiving),
                     {.local_gid = sender.gid, .service_level = 0, .traffic_class = 0, .ece = reduced}));
  EXPECT_EQ(queryEce(sending->qp.get(), sender.device.config()), reduced);
}

TEST(Ece, ADeviceWithoutItConnectsAllTheSame) {
  QueuePairBench bench("ece=off");
  Result<QueuePair> made = bench.make();
  EXPECT_FALSE(queryEce(made->qp.get(), bench.device.config()).has_value());
  EXPECT_OK(
      readyToReceive(made->qp.get(), bench.port, bench.addressOf(*made),
                     {.local_gid = bench.gid, .service_level = 0, .traffic_class = 0, .ece = Ece{1, 2, 0}}));
}

TEST(Ece, IsNotOfferedWhenItIsSwitchedOff) {
  QueuePairBench bench;
  Result<QueuePair> made = bench.make();
  Config config = bench.device.config();
  EXPECT_TRUE(queryEce(made->qp.get(), config).has_value());
  config.ib_ece_enable = 0;
  EXPECT_FALSE(queryEce(made->qp.get(), config).has_value());
}

TEST(QueuePair, ReadsAtOnceAreWhatADeviceSendsAndAnswers) {
  ibv_device_attr device = {};
  EXPECT_EQ(readsAtOnce(device), 1);
  device.max_qp_rd_atom = 8;
  device.max_qp_init_rd_atom = 4;
  EXPECT_EQ(readsAtOnce(device), 4);
  device.max_qp_rd_atom = device.max_qp_init_rd_atom = 128;
  EXPECT_EQ(readsAtOnce(device), kReadDepth);
}

TEST(QueuePair, ImpossibleSizesAreAnError) {
  QueuePairBench bench;
  EXPECT_EQ(bench.make({1U << 30, 16, 0}).status().code, Code::kSystem);
}

TEST(QueuePair, ABadPartitionKeyIsAnError) {
  QueuePairBench bench;
  Config config = bench.device.config();
  config.ib_pkey_index = 500;
  EXPECT_EQ(createQueuePair(bench.pd.get(), bench.cq.get(), bench.port, config, {16, 16, 0}).status().code,
            Code::kSystem);
}

// The software device's only key is 0xffff: bit 15 says that it is a full member and does not count.
TEST(QueuePair, ThePartitionKeyIsFoundByItsValue) {
  QueuePairBench bench;
  Config config = bench.device.config();
  config.ib_pkey_index = 500;  // the value goes before it
  const auto status = [&](int value) {
    config.ib_pkey_value = value;
    return createQueuePair(bench.pd.get(), bench.cq.get(), bench.port, config, {16, 16, 0}).status().code;
  };
  EXPECT_EQ(status(0xffff), Code::kOk);
  EXPECT_EQ(status(0x7fff), Code::kOk);
  EXPECT_EQ(status(0x8001), Code::kInvalidUsage);
}

ibv_gid gidFrom(const char* text) {
  ibv_gid gid = {};
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.raw), 1) << text;
  return gid;
}

// The kernel's words: the upper 6 bits folded into the lower 14, at or above 0xc000.
TEST(UdpSourcePort, FoldsTheFlowLabel) {
  EXPECT_EQ(udpSourcePort(0), 0xc000);
  EXPECT_EQ(udpSourcePort(1), 0xc001);
  EXPECT_EQ(udpSourcePort(0x03fff), 0xffff);
  EXPECT_EQ(udpSourcePort(0x04000), 0xc001);
  EXPECT_EQ(udpSourcePort(0xfc000), 0xc03f);
  EXPECT_EQ(udpSourcePort(0xfffff), 0xffc0);
}

TEST(LaneFlowLabel, LanesOfAConnectionLeaveFromDifferentPorts) {
  for (uint32_t entropy : {0U, 1U, 2U, 0x1234U, 0xdeadbeefU, 0xffffffffU}) {
    std::set<uint16_t> ports;
    for (uint32_t lane = 0; lane < 16384; ++lane) {
      const uint32_t label = laneFlowLabel(entropy, lane);
      ASSERT_NE(label, 0U);
      ASSERT_LE(label, 0xfffffU);
      ports.insert(udpSourcePort(label));
    }
    EXPECT_EQ(ports.size(), 16384U) << entropy;
  }
}

TEST(LaneFlowLabel, ConnectionsSpreadOverThePorts) {
  std::set<uint16_t> ports;
  for (uint32_t entropy = 0; entropy < 4096; ++entropy)
    ports.insert(udpSourcePort(laneFlowLabel(entropy, 0)));
  // 4096 draws of 16384 hit 3624 different ones on average.
  EXPECT_GT(ports.size(), 3500U);
}

TEST(OnOtherSubnet, ComparesSubnetNumbersWhereOneGidIsRoutable) {
  const ibv_gid plain = gidFrom("fe80::1");
  const ibv_gid routable1 = gidFrom("fec0:0:7:1::1");  // FLID 7, subnet 1
  const ibv_gid routable2 = gidFrom("fec0:0:9:2::1");
  EXPECT_FALSE(onOtherSubnet(plain, gidFrom("fe80::2")));
  EXPECT_TRUE(onOtherSubnet(plain, gidFrom("fec0::2"))) << "other prefixes, no FLID";
  EXPECT_FALSE(onOtherSubnet(routable1, gidFrom("fec0:0:8:1::2"))) << "two routers of one subnet";
  EXPECT_FALSE(onOtherSubnet(gidFrom("fe80:0:0:1::1"), routable1));
  EXPECT_TRUE(onOtherSubnet(routable1, routable2));
  EXPECT_TRUE(onOtherSubnet(plain, routable2));
}

// A connection that has lost its path asks again and again.
TEST(QueuePair, ADeviceThatRefusesManyIsNotWarnedOfEachTime) {
  QueuePairBench bench;
  test::addFault("device=soft0 verb=create_qp errno=ENOMEM nth=1 every=1");
  test::Said said;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(bench.make().ok());
  const std::string warnings = said.warnings();
  const int told = test::countOf(warnings, "queue pair with 16 send and 16 receive requests cannot be made");
  EXPECT_EQ(told, 2) << warnings;
}

}  // namespace
}  // namespace railwise::verbs
