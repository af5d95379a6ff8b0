// The text of --for dra; kubernetes_test.py holds it against the rules of the API.
#include "tests/topo/exports/export_machines.h"
#include "tests/topo/json_check.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(ExportDra, HasGpusAndNicsWithTypedAttributes) {
  const ExportedText dra = exported(exportDra(machineOf(twoSwitches()), {.node = "n1"}));
  EXPECT_TRUE(JsonCheck::isJson(dra.text));
  EXPECT_TRUE(has(dra.text, "\"name\": \"n1-railwise.example.com-0\""));
  EXPECT_TRUE(has(dra.text,
                  "        \"name\": \"gpu-1\",\n"
                  "        \"attributes\": {\n"
                  "          \"type\": {\"string\": \"gpu\"},\n"
                  "          \"index\": {\"int\": 1},\n"
                  "          \"cudaComputeCapability\": {\"version\": \"9.0.0\"},\n"
                  "          \"resource.kubernetes.io/pciBusID\": {\"string\": \"0000:21:00.0\"},\n"
                  "          \"resource.kubernetes.io/numaNode\": {\"int\": 1},\n"
                  "          \"nvlinks\": {\"int\": 18},\n"
                  "          \"nvswitch\": {\"bool\": true},\n"
                  "          \"nics\": {\"string\": \"mlx5_1\"},\n"
                  "          \"nicPathType\": {\"string\": \"PIX\"},\n"
                  "          \"nicPathMBps\": {\"int\": 48000},\n"
                  "          \"gpuDirect\": {\"bool\": true},\n"
                  "          \"rail\": {\"int\": 1}\n"))
      << dra.text;
  EXPECT_TRUE(has(dra.text, "\"name\": \"nic-mlx5-1\""));
  EXPECT_TRUE(noted(dra, "pcieRoot is left out"));
  EXPECT_TRUE(noted(dra, "--driver=DOMAIN"));
}

TEST(ExportDra, TakesPcieRootsFromSys) {
  ExportOptions options{.node = "n1", .driver = "topo.acme.org"};
  for (const char* busid : {"0000:11:00.0", "0000:12:00.0", "0000:21:00.0", "0000:22:00.0"})
    options.facts.pcie_roots[busid] = "pci0000:0e";
  const ExportedText dra = exported(exportDra(machineOf(twoSwitches()), options));
  EXPECT_EQ(countOf(dra.text, "\"resource.kubernetes.io/pcieRoot\": {\"string\": \"pci0000:0e\"}"), 4);
  EXPECT_TRUE(has(dra.text, "\"driver\": \"topo.acme.org\""));
  EXPECT_FALSE(noted(dra, "pcieRoot"));
}

TEST(ExportDra, SplitsWhatASliceCannotHold) {
  std::string nics;
  for (int i = 0; i < 130; ++i) {
    char busid[16];
    std::snprintf(busid, sizeof busid, "0001:%02x:00.0", i);
    nics += nic(i, busid, "mlx5_" + std::to_string(i));
  }
  auto document = parseXml(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nics)), "test.xml", {.max_nodes = 0});
  ASSERT_OK(document);
  const auto machine = makeMachine(std::move(*document), {}, "test.xml");
  ASSERT_OK(machine);
  const ExportedText dra = exported(exportDra(*machine, {.node = "n1"}));
  EXPECT_TRUE(has(dra.text, "\"kind\": \"List\""));
  EXPECT_EQ(countOf(dra.text, "\"kind\": \"ResourceSlice\""), 2);
  EXPECT_EQ(countOf(dra.text, "\"resourceSliceCount\": 2"), 2);
  EXPECT_TRUE(noted(dra, "2 slices in a List"));
}

TEST(ExportDra, NamesStayApartAndTextsAreCut) {
  const ExportedText dra = exported(exportDra(machineOf(twoSwitches("mlx5.1")), {.node = "n1"}));
  EXPECT_TRUE(has(dra.text, "\"name\": \"nic-mlx5-1\""));
  EXPECT_TRUE(has(dra.text, "\"name\": \"nic-mlx5-1-2\""));
  const std::string merged = std::string(40, 'a') + "+" + std::string(40, 'b');
  EXPECT_TRUE(
      noted(exported(exportDra(machineOf(twoSwitches(merged)), {.node = "n1"})), "cut to 64 characters"));
}

TEST(ExportDra, NamesOfSlicesStayBelowTheLimitAndApart) {
  const std::string label(62, 'n');
  const auto sliceName = [&](const std::string& last) {
    const std::string node = label + "." + label + "." + label + "." + last;
    const std::string text =
        exported(exportDra(machineOf(twoSwitches()), {.node = node, .driver = "topology.acme.org"})).text;
    EXPECT_TRUE(has(text, "\"nodeName\": \"" + node + "\""));
    const std::size_t begin = text.find("\"name\": \"") + 9;
    return text.substr(begin, text.find('"', begin) - begin);
  };
  const std::string one = sliceName(std::string(60, 'a') + "1");
  const std::string two = sliceName(std::string(60, 'a') + "2");
  EXPECT_LE(one.size(), 253U);
  EXPECT_TRUE(one.starts_with(label) && one.ends_with("-0")) << one;
  EXPECT_NE(one, two);
}

TEST(ExportDra, RefusesNamesThatKubernetesRefuses) {
  const Machine machine = machineOf(twoSwitches());
  for (const char* node : {"", "a_b", "-a"}) {
    const auto dra = exportDra(machine, {.node = node});
    ASSERT_FALSE(dra.ok()) << node;
    EXPECT_TRUE(has(dra.error(), "--node=NAME"));
  }
  EXPECT_TRUE(has(exported(exportDra(machine, {.node = "Node"})).text, "\"nodeName\": \"node\""));
  const auto dra = exportDra(machine, {.node = "n1", .driver = "My Driver"});
  ASSERT_FALSE(dra.ok());
  EXPECT_TRUE(has(dra.error(), "--driver: 'My Driver'"));
}

}  // namespace
}  // namespace railwise::topo
