#include "base/text/json.h"
#include "tests/ok.h"
#include "tests/topo/output_machines.h"
#include "topo/explain/explain.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(JsonRows, StandOnOneLine) {
  JsonWriter json;
  json.beginObject().key("a").beginRow().value("x").value(1.5F).beginArray().value(2).endArray().endRow();
  json.key("b").beginArray().beginRow().endRow().endArray();
  json.key("c").beginInlineObject().key("d").value(true).key("e").null().endInlineObject().endObject();
  EXPECT_EQ(
      json.text(),
      "{\n  \"a\": [\"x\", 1.5, [2]],\n  \"b\": [\n    []\n  ],\n  \"c\": {\"d\": true, \"e\": null}\n}\n");
}

TEST(TopologyJson, HasTheSchemaAndTheDevices) {
  const std::string json = topologyJson(machineOf(twoSwitches()));
  EXPECT_HAS(json,
             "\"schema\": \"railwise-topology\",\n  \"schema_version\": 1,\n  \"machine\": \"test.xml\"");
  EXPECT_HAS(json, "\"nccl\": \"2.31.2\"");
  EXPECT_HAS(json, "\"settings\": {},") << "all are at their defaults";
  EXPECT_HAS(json, "\"id\": \"GPU/1\"");
  EXPECT_HAS(json, "\"name\": \"mlx5_1\"");
  EXPECT_HAS(json, "\"affinity\": \"0-3\"");
  EXPECT_HAS(json, "[\"PCI/0000:10:00.0\", \"CPU/0\", \"PCI\", 48]");
}

TEST(TopologyJson, HasPathsAndChoicesWithReasons) {
  const std::string json = topologyJson(machineOf(twoSwitches()));
  EXPECT_HAS(json,
             "[\"GPU/0\", \"NET/0\", \"PIX\", 48, 4, [\"DEV/0000:11:00.0\", \"PCI/0000:10:00.0\", "
             "\"NIC/0000:12:00.0\"]]");
  EXPECT_HAS(json, "[\"GPU/0\", \"NET/0\", 1, 1, 0, 0, \"distance\", ");
  EXPECT_HAS(json, "\"local_net\": {\n        \"0\": [0],\n        \"1\": [1]\n      }");
}

TEST(TopologyJson, TellsSettingsThatAreSet) {
  Settings settings;
  settings.p2p_level = static_cast<int>(PathType::kSys);
  settings.netdevs_policy = Settings::NetDevsPolicy::kMax;
  settings.netdevs_max = 2;
  const std::string json = topologyJson(machineOf(twoSwitches(), settings));
  EXPECT_HAS(json, "\"NCCL_P2P_LEVEL\": \"SYS\",\n    \"NCCL_NETDEVS_POLICY\": \"MAX:2\"")
      << json.substr(0, 400);
}

TEST(TopologyJson, HasTheRowsThatAreComparedWithNccl) {
  const std::string json = topologyJson(machineOf(twoSwitches()));
  for (const char* table :
       {"gpu_gpu", "gpu_net", "net_gpu", "gpu_cpu", "net_cpu", "cpu_cpu", "net_net", "p2p", "gdr"}) {
    EXPECT_HAS(json, "\"" + std::string(table) + "\": [\n") << table;
  }
  EXPECT_HAS(json, "[\"GPU/0\", \"GPU/1\", 1, 0, -1, \"");
  EXPECT_HAS(json, "[\"GPU/0\", \"NET/1\", 1, 1, 0, 1, \"") << "GPU 1 relays";
  EXPECT_HAS(json, "[0, 1, 0, 1, 1]") << "rank 0 towards a peer of NVML index 1";
}

TEST(TopologyJson, OfTwoHostsHasNoRemotePeers) {
  const auto machine = realMachine("synthetic/mnnvl-2hosts.xml");
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  EXPECT_HAS(topologyJson(*machine), "\"p2p_net\": []");
}

}  // namespace
}  // namespace railwise::topo
