#include "gpu/answer.h"

#include <cmath>
#include <limits>

#include "tests/gpu/machines.h"

namespace railwise::gpu {
namespace {

using namespace test;

GpuTopology makeTopology() {
  GpuTopology topology;
  for (int i = 0; i < 2; ++i) {
    Device device;
    device.index = i;
    device.vendor = Vendor::kAmd;
    device.model = "a GPU";
    device.memory_bytes = 1000;
    device.memory_used_bytes = 10;
    device.partitioned = true;
    device.partition = "CPX";
    device.share = 0.5;
    device.health.throttled = i == 1;
    device.health.throttle_reason = "power";
    device.processes = 3;
    topology.devices.push_back(device);
  }
  Link link;
  link.from = 0;
  link.to = 1;
  link.kind = LinkKind::kXgmi;
  link.latency = LatencyClass::kDirect;
  link.gb_per_s = 50;
  topology.links.push_back(link);
  PeerStatus peer;
  peer.from = 1;
  peer.to = 0;
  peer.reason = "not supported";
  topology.peers.push_back(peer);
  topology.remarks = {"a remark"};
  return topology;
}

TEST(AnswerTest, ComesBackAsItWas) {
  const GpuTopology topology = makeTopology();
  const std::string bytes = encodeAnswer(topology);
  EXPECT_TRUE(answerIsWhole(bytes));
  Outcome<GpuTopology> read = decodeAnswer(bytes);
  ASSERT_OK(read);
  EXPECT_EQ(read->devices, topology.devices);
  EXPECT_EQ(read->links, topology.links);
  EXPECT_EQ(read->peers, topology.peers);
  EXPECT_EQ(read->remarks, topology.remarks);
}

TEST(AnswerTest, OneThatIsCutIsRefused) {
  const std::string bytes = encodeAnswer(makeTopology());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(answerIsWhole(std::string_view(bytes).substr(0, size))) << size;
    EXPECT_FALSE(decodeAnswer(std::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(decodeAnswer(bytes + "x").ok());
}

// A sanitizer, or the checks of the containers, would speak. Whatever is read can be sanitized.
TEST(AnswerTest, AByteThatIsWrongDoesNoHarm) {
  const std::string bytes = encodeAnswer(makeTopology());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const char wrong : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[at] = wrong;
      Outcome<GpuTopology> read = decodeAnswer(changed);
      if (!read.ok()) continue;
      sanitize(*read, "a library");
      const int devices = static_cast<int>(read->devices.size());
      for (const Link& link : read->links) {
        EXPECT_TRUE(link.from >= 0 && link.from < devices && link.to >= -1 && link.to < devices);
        EXPECT_TRUE(std::isfinite(link.gb_per_s) && link.gb_per_s >= 0);
      }
      for (const Device& device : read->devices) EXPECT_TRUE(device.share > 0 && device.share <= 1);
    }
  }
}

TEST(SanitizeTest, LinksToNowhereAreLeftOut) {
  GpuTopology topology = makeTopology();
  topology.links[0].to = 7;
  sanitize(topology, "a library");
  EXPECT_TRUE(topology.links.empty());
  EXPECT_REMARK(topology,
                "a library gave a wrong answer, which is left out here: a link goes from GPU 0 to GPU 7, and "
                "there is no such GPU");
}

TEST(SanitizeTest, FiguresBeyondSenseAreLeftOut) {
  GpuTopology topology = makeTopology();
  topology.links[0].gb_per_s = std::numeric_limits<double>::infinity();
  topology.devices[0].memory_bytes = ~uint64_t{0};
  topology.devices[1].share = std::nan("");
  topology.devices[1].utilisation_percent = 4000;
  topology.peers[0].to = -1;
  sanitize(topology, "a library");
  EXPECT_TRUE(topology.links.empty());
  EXPECT_TRUE(topology.peers.empty());
  EXPECT_EQ(topology.devices[0].memory_bytes, 0u);
  EXPECT_EQ(topology.devices[0].memory_used_bytes, std::nullopt);
  EXPECT_EQ(topology.devices[1].share, 1);
  EXPECT_EQ(topology.devices[1].utilisation_percent, std::nullopt);
  EXPECT_REMARK(topology, "GPU 0 is said to have 18446744073709551615 bytes of memory");
}

TEST(SanitizeTest, TextsAreFitForATerminal) {
  GpuTopology topology = makeTopology();
  topology.devices[0].model = "A\x1b[31m GPU\n\xff ";
  sanitize(topology, "a library");
  EXPECT_EQ(topology.devices[0].model, "A [31m GPU \xef\xbf\xbd");
}

}  // namespace
}  // namespace railwise::gpu
