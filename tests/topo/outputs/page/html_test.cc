#include <memory>

#include "tests/ok.h"
#include "tests/topo/json_check.h"
#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(Html, NeedsNothingFromOutside) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_EQ(countOf(html, "http"), 2) << "http-equiv and the namespace of SVG";
  EXPECT_LACKS(html, " src=");
  EXPECT_LACKS(html, "<link");
  EXPECT_LACKS(html, "@import");
}

TEST(Html, LetsOnlyItsOwnScriptAndStyleRun) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_HAS(html, "default-src 'none'; script-src 'sha256-");
  EXPECT_HAS(html, "'; style-src 'sha256-");
  EXPECT_LACKS(html, "unsafe-inline");
  EXPECT_LACKS(html, " style=\"") << "the policy forbids style attributes";
  EXPECT_LACKS(html, " onclick=");
}

TEST(Html, HasTheNicOfEachGpuWithoutScript) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_HAS(html,
             "<td>GPU 1</td><td>0000:21:00.0</td><td>NUMA node 1</td><td>mlx5_1</td><td>PIX</td><td>48</td>"
             "<td>on</td>")
      << html.substr(html.find("<table"));
  EXPECT_HAS(html, "id=\"gpu-1\"");
  EXPECT_HAS(html, "id=\"nic-1\"");
}

TEST(Html, SaysWhatCostsSpeedAndWhatToDo) {
  EXPECT_LACKS(htmlText(machineOf(twoSwitches())), "What costs speed");
  const std::string html = htmlText(machineOf(flat()));
  EXPECT_HAS(html, "What costs speed");
  EXPECT_HAS(html, "What to do: ");
}

// NCCL finds only the first of them.
TEST(Html, DrawsTwoGpusOfOneRank) {
  std::string xml = twoSwitches();
  xml.replace(xml.find("rank=\"1\""), 8, "rank=\"0\"");
  EXPECT_HAS(htmlText(machineOf(xml)), "GPU 0");
}

TEST(Html, DoesNotLetANameEscape) {
  const std::string html = htmlText(machineOf(twoSwitches("</script><script>alert(1)</script><!--")));
  EXPECT_EQ(countOf(html, "<script"), 2) << "data and program";
  EXPECT_EQ(countOf(html, "</script>"), 2);
  EXPECT_LACKS(html, "<!--");
}

TEST(Html, SaysWhatTheVendorSaysOfAGpu) {
  auto machine = machineOf(twoSwitches());
  gpu::GpuTopology answers;
  answers.gpus.resize(2);
  gpu::Device& whole = answers.gpus[0];
  whole.index = 0;
  whole.busid = "0000:21:00.0";
  whole.model = "NVIDIA H100 80GB HBM3";
  whole.memory_bytes = uint64_t{80} << 30;
  whole.driver = "550.90.07";
  whole.health.ecc_uncorrected = 2;
  gpu::Device& part = answers.gpus[1];
  part.index = 1;
  part.parent = 0;
  part.partition = "MIG <3g.40gb>";
  part.memory_bytes = uint64_t{40} << 30;
  machine.gpu_answers = std::make_shared<gpu::GpuTopology>(answers);
  const std::string page = htmlText(machine);
  EXPECT_HAS(page, "\"facts\": \"NVIDIA H100 80GB HBM3, 80 GiB, 0000:21:00.0, NVML index 1");
  EXPECT_HAS(page, "\"State: 2 ECC errors.\", \"Driver 550.90.07.\", \"MIG \\u003c3g.40gb>: 40 GiB, -.\"");
}

TEST(Html, CarriesTheChannelsAndTheTransports) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  const std::size_t begin = html.find("application/json\">") + 18;
  const std::string data = html.substr(begin, html.find("</script>", begin) - begin);
  EXPECT_TRUE(JsonCheck::isJson(data)) << data;
  for (const char* list : {R"("names": ["NUMA)", R"("gpus": [{"node")", R"("nets": [{")"})
    EXPECT_HAS(data, list) << data.substr(0, 1000);
  EXPECT_HAS(html, R"({"key": "ring", "name": "Ring", "nodes": 1, "shape": "ring")");
  EXPECT_HAS(html, R"({"key": "tree", "name": "Tree", "nodes": 2)");
  EXPECT_HAS(html, R"("here": [[[1, 0]], [[0, 0]]])");
  EXPECT_HAS(html, R"(["P2P/CUMEM", "NVL \u003c= PXB)");
}

}  // namespace
}  // namespace railwise::topo
