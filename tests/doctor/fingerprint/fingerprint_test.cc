#include "doctor/fingerprint/fingerprint.h"

#include <functional>
#include <set>

#include "tests/doctor/fingerprint/nodes.h"
#include "tests/ok.h"

namespace railwise::doctor::fingerprint {
namespace {

using test::makeNode;

TEST(Fingerprint, IsOneLine) {
  EXPECT_EQ(textOf(makeNode()),
            "node1 " + hashOf(makeNode()) +
                "  Railwise: 0.1.0; kernel: 6.8.0-45-generic; GPUs: 8 x NVIDIA H100 80GB HBM3; GPU driver: "
                "550.90.07; GPU firmware: 96.00.89.00.01; CUDA: 12.4.1; ROCm: -; module mlx5_core: "
                "24.04-0.7.0; module nvidia: 550.90.07; NICs: 8 x MT4129 (MT_0000000838), 1 x MT4125; NIC "
                "firmware: MT4129 (MT_0000000838) 28.39.1002, MT4125 22.39.1002; rdma-core: 50.0\n");
}

TEST(Fingerprint, WhatIsNotKnownIsADash) {
  EXPECT_EQ(textOf(Fingerprint()),
            "- " + hashOf(Fingerprint()) +
                "  Railwise: -; kernel: -; GPUs: none; GPU driver: -; GPU firmware: -; CUDA: -; "
                "ROCm: -; NICs: none; NIC firmware: -; rdma-core: -\n");
}

TEST(Fingerprint, CountsFirmwareOnlyWhereItDiffersWithinTheNode) {
  Fingerprint node = makeNode();
  node.gpu_firmware = {{"96.00.74.00.01", 1}, {"96.00.89.00.01", 7}};
  node.nics = {{"MT4129", "", "28.36.1010", 1}, {"MT4129", "", "28.39.1002", 7}};
  const std::string text = textOf(node);
  EXPECT_HAS(text, "GPU firmware: 1 x 96.00.74.00.01, 7 x 96.00.89.00.01;");
  EXPECT_HAS(text, "NICs: 8 x MT4129; NIC firmware: MT4129 1 x 28.36.1010, MT4129 7 x 28.39.1002;");
}

TEST(Fingerprint, TheHashIsStable) {
  // People compare the hash with one that another version of Railwise has printed: it must not change without
  // a reason.
  EXPECT_EQ(hashOf(makeNode()), "90978d51");
  Fingerprint other = makeNode();
  other.host = "node2";
  EXPECT_EQ(hashOf(other), hashOf(makeNode())) << "the name of the host is no field";
}

TEST(Fingerprint, EveryFieldIsInTheHash) {
  const std::function<void(Fingerprint&)> changes[] = {
      [](Fingerprint& node) { node.railwise = "0.2.0"; },
      [](Fingerprint& node) { node.kernel = "6.8.0-49-generic"; },
      [](Fingerprint& node) { node.gpus[0].count = 7; },
      [](Fingerprint& node) { node.gpus[0].name = "NVIDIA H200"; },
      [](Fingerprint& node) { node.gpus.clear(); },
      [](Fingerprint& node) { node.gpu_driver = "550.54.15"; },
      [](Fingerprint& node) { node.gpu_firmware[0].name = "96.00.74.00.01"; },
      [](Fingerprint& node) { node.cuda = ""; },
      [](Fingerprint& node) { node.rocm = "6.2.0"; },
      [](Fingerprint& node) { node.modules["mlx5_core"] = "24.10-1.1.4"; },
      [](Fingerprint& node) { node.nics[0].count = 7; },
      [](Fingerprint& node) { node.nics[0].type = "MT4131"; },
      [](Fingerprint& node) { node.nics[0].board = "DEL0000000041"; },
      [](Fingerprint& node) { node.nics[0].firmware = "28.36.1010"; },
      [](Fingerprint& node) { node.rdma_core = "44.0"; },
  };
  std::set<std::string> hashes = {hashOf(makeNode())};
  for (const auto& change : changes) {
    Fingerprint node = makeNode();
    change(node);
    EXPECT_TRUE(hashes.insert(hashOf(node)).second) << "change " << &change - changes;
  }
}

TEST(Fingerprint, JsonIsOneLine) {
  const std::string json = jsonOf(makeNode());
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_HAS(json, "\"hash\": \"" + hashOf(makeNode()) + "\"");
  EXPECT_HAS(json, "\"rocm\": null");
}

}  // namespace
}  // namespace railwise::doctor::fingerprint
