#include "gpu/json.h"

#include <cmath>
#include <limits>

#include "tests/gpu/machines.h"
#include "tests/ok.h"

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
    topology.gpus.push_back(device);
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
  topology::GpuNic nic;
  nic.gpu = 1;
  nic.name = "mlx5_0";
  nic.type = topology::PathType::kPxb;
  topology.nics.push_back(nic);
  topology.remarks = {"a remark"};
  return topology;
}

TEST(GpuJsonTest, ComesBackAsItWas) {
  const std::string text = jsonOf(makeTopology());
  const Outcome<GpuTopology> read = parseJson(text);
  ASSERT_OK(read);
  EXPECT_EQ(jsonOf(*read), text);
  EXPECT_EQ(read->gpus[1].health.throttled, true);
  EXPECT_EQ(read->gpus[1].memory_used_bytes, 10u);
  EXPECT_EQ(read->gpus[0].vendor, Vendor::kAmd);
  EXPECT_EQ(read->links[0].kind, LinkKind::kXgmi);
  EXPECT_EQ(read->links[0].latency, LatencyClass::kDirect);
  EXPECT_EQ(read->peers[0].reason, "not supported");
  EXPECT_EQ(read->nics[0].type, topology::PathType::kPxb);
  EXPECT_EQ(read->remarks, std::vector<std::string>{"a remark"});
}

TEST(GpuJsonTest, WhatIsUnknownIsNull) {
  GpuTopology topology;
  topology.gpus.emplace_back();
  const std::string text = jsonOf(topology, "a machine");
  EXPECT_HAS(text, "\"machine\": \"a machine\"");
  for (const char* key : {"index", "rank", "model", "memory_bytes", "memory_used_bytes", "sm", "numa",
                          "parent", "fabric_clique", "processes", "throttled"})
    EXPECT_HAS(text, "\"" + std::string(key) + "\": null") << key;
  const Outcome<GpuTopology> read = parseJson(text);
  ASSERT_OK(read);
  EXPECT_EQ(read->gpus[0].numa, -1);
  EXPECT_EQ(read->gpus[0].processes, std::nullopt);
}

TEST(GpuJsonTest, MistakesNameTheirPlace) {
  const auto problem = [](const std::string& content) {
    return parseJson("{\"schema\": \"railwise-gpus\", \"schema_version\": 1, " + content + "}").error();
  };
  EXPECT_EQ(problem("\"gpus\": [{}, {\"memory_bytes\": \"much\"}]"),
            "gpus[1].memory_bytes is no whole number of its size");
  EXPECT_EQ(problem("\"gpus\": [{\"numa\": 4294967296}]"), "gpus[0].numa is no whole number of its size");
  EXPECT_EQ(problem("\"gpus\": [{\"health\": {\"throttled\": 1}}]"),
            "gpus[0].health.throttled is neither true nor false");
  EXPECT_EQ(problem("\"links\": [{\"kind\": \"rope\"}]"), "links[0].kind is none of the words for it");
  EXPECT_EQ(problem("\"links\": {}"), "links is not a list");
  EXPECT_EQ(problem("\"nics\": [3]"), "nics[0] is not an object");
  EXPECT_EQ(parseJson("GPU").error(), "is not JSON");
  EXPECT_EQ(parseJson("{\"schema\": \"another\"}").error(), "has no \"schema\": \"railwise-gpus\"");
  EXPECT_HAS(parseJson("{\"schema\": \"railwise-gpus\", \"schema_version\": 2}").error(), "it reads 1");
}

TEST(GpuJsonTest, OneThatIsCutIsRefused) {
  const std::string text = jsonOf(makeTopology());
  // The last byte is a newline.
  for (std::size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_FALSE(parseJson(std::string_view(text).substr(0, size)).ok()) << size;
  EXPECT_FALSE(parseJson(text + "x").ok());
}

// A sanitizer, or the checks of the containers, would speak. Whatever is read can be sanitized.
TEST(GpuJsonTest, AByteThatIsWrongDoesNoHarm) {
  const std::string text = jsonOf(makeTopology());
  int read_well = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char wrong : {'\x00', '9', '-', '"', '\xff'}) {
      std::string changed = text;
      changed[at] = wrong;
      Outcome<GpuTopology> read = parseJson(changed);
      if (!read.ok()) continue;
      ++read_well;
      sanitize(*read, "a library");
      const int gpus = static_cast<int>(read->gpus.size());
      for (const Link& link : read->links) {
        EXPECT_TRUE(link.from >= 0 && link.from < gpus && link.to >= -1 && link.to < gpus);
        EXPECT_TRUE(std::isfinite(link.gb_per_s) && link.gb_per_s >= 0);
      }
      for (const Device& gpu : read->gpus) EXPECT_TRUE(gpu.share > 0 && gpu.share <= 1);
    }
  }
  EXPECT_GT(read_well, 0);
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
  topology.gpus[0].memory_bytes = ~uint64_t{0};
  topology.gpus[1].share = std::nan("");
  topology.gpus[1].utilisation_percent = 4000;
  topology.peers[0].to = -1;
  sanitize(topology, "a library");
  EXPECT_TRUE(topology.links.empty());
  EXPECT_TRUE(topology.peers.empty());
  EXPECT_EQ(topology.gpus[0].memory_bytes, 0u);
  EXPECT_EQ(topology.gpus[0].memory_used_bytes, std::nullopt);
  EXPECT_EQ(topology.gpus[1].share, 1);
  EXPECT_EQ(topology.gpus[1].utilisation_percent, std::nullopt);
  EXPECT_REMARK(topology, "GPU 0 is said to have 18446744073709551615 bytes of memory");
}

TEST(SanitizeTest, TextsAreFitForATerminal) {
  GpuTopology topology = makeTopology();
  topology.gpus[0].model = "A\x1b[31m GPU\t\xff \n";
  sanitize(topology, "a library");
  EXPECT_EQ(topology.gpus[0].model, "A?[31m GPU?\xef\xbf\xbd");
}

// They get into the attributes of the XML that NCCL's model is made of.
TEST(SanitizeTest, AddressesAndArchitecturesHaveNoOtherCharacters) {
  GpuTopology topology = makeTopology();
  topology.gpus[0].busid = "0000:01:00.0\" sm=\"1";
  topology.gpus[1].busid = "0000:02:00.0";
  topology.gpus[1].architecture = "gfx942\"/>";
  topology.links[0].to_busid = "<nvlink/>";
  sanitize(topology, "a library");
  EXPECT_EQ(topology.gpus[0].busid, "");
  EXPECT_EQ(topology.gpus[1].busid, "0000:02:00.0");
  EXPECT_EQ(topology.gpus[1].architecture, "");
  EXPECT_EQ(topology.links[0].to_busid, "");
  EXPECT_REMARK(topology, "'<nvlink/>' is said to be the PCI address of a link's other end");
}

}  // namespace
}  // namespace railwise::gpu
