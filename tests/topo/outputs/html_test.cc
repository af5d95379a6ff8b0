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

}  // namespace
}  // namespace railwise::topo
