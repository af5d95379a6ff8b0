// The time model: completions become ready when the ports' speed, PCIe links and latency allow.
#include "softdev/engine/pacing.h"

#include <gtest/gtest.h>

#include "softdev/endpoint.h"
#include "softdev/fabric/monotonic.h"
#include "tests/ok.h"

namespace railwise::softdev::test {
namespace {

// Ports that no fabric has, far enough in the future for the clock not to matter.
struct Model {
  Model() : segment(new Segment{}) {}
  PortRecord& port(uint32_t index, uint32_t mbps, uint32_t latency_ns = 0) {
    PortRecord& record = segment->ports[index];
    record.paced.store(1);
    record.speed_mbps.store(mbps);
    record.latency_ns.store(latency_ns);
    return record;
  }
  std::unique_ptr<Segment> segment;
};

constexpr uint64_t kMegabyte = 1'000'000;

TEST(Pacing, BandwidthOfTheSlowerPort) {
  const auto model = std::make_unique<Model>();
  PortRecord& fast = model->port(0, 400'000);
  PortRecord& slow = model->port(1, 100'000);
  const uint64_t start = monotonicNs();
  Passage last;
  for (int i = 0; i < 1000; ++i) last = travel(*model->segment, fast, slow, kMegabyte, monotonicNs());
  // 1000 MB at 100 Gb/s: 80 ms, and 30 bytes of headers each.
  EXPECT_GE(last.arrived_ns - start, 80'000'000U);
  EXPECT_LE(last.arrived_ns - start, 80'010'000U + (monotonicNs() - start));
}

TEST(Pacing, DirectionsAreIndependent) {
  const auto model = std::make_unique<Model>();
  PortRecord& a = model->port(0, 100'000);
  PortRecord& b = model->port(1, 100'000);
  for (int i = 0; i < 100; ++i) travel(*model->segment, a, b, kMegabyte, monotonicNs());
  const uint64_t start = monotonicNs();
  const Passage back = travel(*model->segment, b, a, kMegabyte, monotonicNs());
  EXPECT_LT(back.arrived_ns - start, 80'000U * 2 + (monotonicNs() - start));
}

TEST(Pacing, LatencyCountsOnceThereAndOnceBack) {
  const auto model = std::make_unique<Model>();
  PortRecord& a = model->port(0, 400'000, 5'000);
  PortRecord& b = model->port(1, 400'000, 3'000);
  const uint64_t start = monotonicNs();
  const Passage passage = travel(*model->segment, a, b, 8, monotonicNs());
  EXPECT_GE(passage.arrived_ns - start, 5'000U);
  EXPECT_EQ(passage.acknowledged_ns - passage.arrived_ns, 5'000U);
}

TEST(Pacing, PortsOfOnePcieLinkShareIt) {
  const auto model = std::make_unique<Model>();
  PortRecord& first = model->port(0, 400'000);
  PortRecord& second = model->port(1, 400'000);
  PortRecord& far = model->port(2, 800'000);
  second.pcie_link = 1;  // the clock of port 0
  first.pcie_mbps.store(400'000);
  second.pcie_mbps.store(400'000);
  const uint64_t start = monotonicNs();
  Passage last;
  for (int i = 0; i < 500; ++i) {
    (void)travel(*model->segment, first, far, kMegabyte, monotonicNs());
    last = travel(*model->segment, second, far, kMegabyte, monotonicNs());
  }
  // 1000 MB over 400 Gb/s of PCIe: 20 ms, though each port alone would need 10.
  EXPECT_GE(last.arrived_ns - start, 20'000'000U);
}

TEST(Pacing, UnpacedPortsTakeNoTime) {
  const auto segment = std::make_unique<Segment>();
  const uint64_t start = monotonicNs();
  const Passage passage =
      travel(*segment, segment->ports[0], segment->ports[1], 1000 * kMegabyte, monotonicNs());
  EXPECT_LE(passage.acknowledged_ns - start, monotonicNs() - start);
}

TEST(Pacing, CompletionsComeNoSoonerThanTheWireAllows) {
  Pair pair("pacing=on,speed=10000,latency_ns=20000");
  const uint64_t start = monotonicNs();
  for (int i = 0; i < 16; ++i) ASSERT_EQ(pair.a.send({.length = 60'000}), 0);
  for (int i = 0; i < 16; ++i) {
    ASSERT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    // i + 1 messages of 48 us at 10 Gb/s, and the latency there and back
    ASSERT_GE(monotonicNs() - start, 48'000U * static_cast<uint64_t>(i + 1) + 40'000U);
  }
}

TEST(Pacing, SlowQueuePairHoldsNoOtherBack) {
  ASSERT_OK(configure(("fabric=" + uniqueFabric() +
                       ";name=fast,speed=400000;name=slow,speed=10000,pacing=on,latency_ns=200000000")
                          .c_str()));
  ibv_context* fast = openNamed("fast");
  ibv_context* slow = openNamed("slow");
  {
    Endpoint receiver(slow);
    Endpoint sender(slow);
    connectEnds(receiver, sender);
    ASSERT_EQ(receiver.receive(1, 0, 64), 0);
    ASSERT_EQ(sender.send({.opcode = IBV_WR_SEND, .length = 8}), 0);
    const uint64_t start = monotonicNs();
    Pair quick(fast);
    ibv_wc wc{};
    ASSERT_EQ(quick.a.send({.length = 8}), 0);
    EXPECT_EQ(quick.a.poll(&wc), 1);
    EXPECT_EQ(receiver.wait().wr_id, 1U);
    EXPECT_GE(monotonicNs() - start, 190'000'000U);
    EXPECT_EQ(sender.wait().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(closeDevice(fast), 0);
  EXPECT_EQ(closeDevice(slow), 0);
}

// One completion queue for a slow port and a fast one: what is ready passes what is not, and leaves no gap
// that would count as full.
TEST(Pacing, ReadyCompletionsPassOthersInOneQueue) {
  const OpenDevice device(
      "ports=2,pacing=on,port1.speed=10000,port1.latency_ns=300000000,port2.speed=400000");
  Options options;
  options.cqe = 64;
  Pair slow(device, options);
  Options second = options;
  second.port = 2;
  second.shared_cq = slow.a.cq;
  Endpoint from(device, second);
  second.shared_cq = nullptr;
  Endpoint to(device, second);
  connectEnds(from, to);
  ASSERT_EQ(slow.a.send({.length = 8, .wr_id = 1000}), 0);
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(from.send({.length = 8, .wr_id = i}), 0);
    ASSERT_EQ(from.wait().wr_id, i);
  }
  EXPECT_EQ(slow.a.wait().wr_id, 1000U);
}

}  // namespace
}  // namespace railwise::softdev::test
