#include <memory>

#include "tests/topo/output_machines.h"
#include "topo/outputs/outputs.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(Html, NeedsNothingFromOutside) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_EQ(countOf(html, "http"), 2) << "http-equiv and the namespace of SVG";
  EXPECT_FALSE(has(html, " src="));
  EXPECT_FALSE(has(html, "<link"));
  EXPECT_FALSE(has(html, "@import"));
}

TEST(Html, LetsOnlyItsOwnScriptAndStyleRun) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_TRUE(has(html, "default-src 'none'; script-src 'sha256-"));
  EXPECT_TRUE(has(html, "'; style-src 'sha256-"));
  EXPECT_FALSE(has(html, "unsafe-inline"));
  EXPECT_FALSE(has(html, " style=\"")) << "the policy forbids style attributes";
  EXPECT_FALSE(has(html, " onclick="));
}

TEST(Html, HasTheNicOfEachGpuWithoutScript) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_TRUE(
      has(html,
          "<td>GPU 1</td><td>0000:21:00.0</td><td>NUMA node 1</td><td>mlx5_1</td><td>PIX</td><td>48</td>"
          "<td>on</td>"))
      << html.substr(html.find("<table"));
  EXPECT_TRUE(has(html, "id=\"gpu-1\""));
  EXPECT_TRUE(has(html, "id=\"nic-1\""));
}

TEST(Html, SaysWhatCostsSpeedAndWhatToDo) {
  EXPECT_FALSE(has(htmlText(machineOf(twoSwitches())), "What costs speed"));
  const std::string html = htmlText(machineOf(flat()));
  EXPECT_TRUE(has(html, "What costs speed"));
  EXPECT_TRUE(has(html, "What to do: "));
}

TEST(Html, DoesNotLetANameEscape) {
  const std::string html = htmlText(machineOf(twoSwitches("</script><script>alert(1)</script><!--")));
  EXPECT_EQ(countOf(html, "<script"), 2) << "data and program";
  EXPECT_EQ(countOf(html, "</script>"), 2);
  EXPECT_FALSE(has(html, "<!--"));
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
  EXPECT_TRUE(has(page, "\"facts\": \"NVIDIA H100 80GB HBM3, 80 GiB, 0000:21:00.0, NVML index 1"));
  EXPECT_TRUE(
      has(page, "\"State: 2 ECC errors.\", \"Driver 550.90.07.\", \"MIG \\u003c3g.40gb>: 40 GiB, -.\""));
}

TEST(Html, CarriesTheChannelsAndTheTransports) {
  const std::string html = htmlText(machineOf(twoSwitches()));
  EXPECT_TRUE(has(html, R"({"key": "ring", "name": "Ring", "nodes": 1, "shape": "ring")")) << html;
  EXPECT_TRUE(has(html, R"({"key": "tree", "name": "Tree", "nodes": 2)"));
  EXPECT_TRUE(has(html, R"("here": [[[1, 0]], [[0, 0]]])"));
  EXPECT_TRUE(has(html, R"(["P2P/CUMEM", "NVL \u003c= PXB)"));
}

}  // namespace
}  // namespace railwise::topo
