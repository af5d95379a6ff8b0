#include "tests/ok.h"
#include "tests/topo/big_machines.h"
#include "tests/topo/output_machines.h"
#include "topo/outputs/drawing/drawing.h"
#include "topo/outputs/outputs.h"
#include "topo/outputs/parts.h"

namespace railwise::topo {
namespace {

using namespace test;

Drawing drawingOf(const Machine& machine) { return drawMachine(machine, explain(machine)); }

int countKind(const Drawing& drawing, const std::string& kind) {
  return static_cast<int>(std::count_if(drawing.boxes.begin(), drawing.boxes.end(),
                                        [&](const Box& box) { return box.kind == kind; }));
}

// Boxes of leaves and switches must not lie on one another.
template <typename Area>
bool overlap(const Area& a, const Area& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

void expectTidy(const Drawing& drawing) {
  for (std::size_t i = 0; i < drawing.boxes.size(); ++i) {
    const Box& box = drawing.boxes[i];
    EXPECT_GE(box.x, 0);
    EXPECT_LE(box.x + box.width, drawing.width);
    EXPECT_LE(box.y + box.height, drawing.height);
    for (std::size_t j = 0; j < i; ++j) {
      if (box.kind == "nic" || drawing.boxes[j].kind == "nic") continue;  // its ports stand in it
      EXPECT_FALSE(overlap(box, drawing.boxes[j])) << box.lines[0] << " and " << drawing.boxes[j].lines[0];
    }
  }
}

TEST(Drawing, TheNumaNodesOfTwoHostsStandBesideEachOther) {
  const auto machine =
      loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/synthetic/mnnvl-2hosts.xml", {}, {});
  ASSERT_OK(machine);
  std::vector<Frame> nodes = drawingOf(*machine).frames;
  std::erase_if(nodes, [](const Frame& frame) { return frame.kind != "numa"; });
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_FALSE(overlap(nodes[0], nodes[1]));
}

TEST(Drawing, HasEveryDeviceAndLink) {
  const Drawing drawing = drawingOf(machineOf(twoSwitches()));
  EXPECT_EQ(countKind(drawing, "cpu"), 2);
  EXPECT_EQ(countKind(drawing, "pci"), 2);
  EXPECT_EQ(countKind(drawing, "gpu"), 2);
  EXPECT_EQ(countKind(drawing, "net"), 2);
  EXPECT_EQ(countKind(drawing, "nvs"), 1);
  EXPECT_EQ(drawing.wires.size(), 6U + 1U + 2U) << "PCIe, between CPUs, NVLink";
  expectTidy(drawing);
}

// A label stands between the two boxes that its line joins.
TEST(Drawing, LabelsTheLinkBetweenACpuAndItsGpu) {
  const auto machine = loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/synthetic/gh200.xml", {}, {});
  ASSERT_OK(machine);
  const Drawing drawing = drawingOf(*machine);
  const auto wire = std::find_if(drawing.wires.begin(), drawing.wires.end(),
                                 [](const Wire& one) { return one.kind == "c2c"; });
  ASSERT_NE(wire, drawing.wires.end());
  EXPECT_GT(wire->label_y, wire->points.front().y);
  EXPECT_LT(wire->label_y, wire->points.back().y);
}

TEST(Drawing, MarksWhatIsBad) {
  const Drawing good = drawingOf(machineOf(twoSwitches()));
  const Drawing bad = drawingOf(machineOf(flat()));
  const auto is_bad = [](const Box& box) { return box.bad; };
  const auto is_slow = [](const Wire& wire) { return wire.slow; };
  EXPECT_EQ(std::count_if(good.boxes.begin(), good.boxes.end(), is_bad), 0);
  EXPECT_EQ(std::count_if(good.wires.begin(), good.wires.end(), is_slow), 0);
  EXPECT_EQ(std::count_if(bad.boxes.begin(), bad.boxes.end(), is_bad), 2) << "both GPUs";
  EXPECT_EQ(std::count_if(bad.wires.begin(), bad.wires.end(), is_slow), 2) << "both NICs";
}

TEST(Drawing, Of72GpusIsTidyAndAboutAsWideAsAScreen) {
  auto document = parseXml(MachineText::nvlinkDomain(18), "nvl72.xml", {.max_nodes = 0});
  ASSERT_OK(document);
  auto machine = makeMachine(std::move(*document), Settings{}, "nvl72.xml");
  ASSERT_OK(machine);
  const Drawing drawing = drawingOf(*machine);
  EXPECT_EQ(countKind(drawing, "gpu"), 72);
  expectTidy(drawing);
  EXPECT_GT(drawing.width / drawing.height, 1);
  EXPECT_LT(drawing.width / drawing.height, 3);
}

TEST(Drawing, OfRealMachinesIsTidy) {
  for (const char* file :
       {"synthetic/dgx1v.xml", "rcclx/topo_8p_942.xml", "synthetic/gb300-directnic.xml",
        "from-sysfs/p5.48xl-topo.xml", "synthetic/power9.xml", "misc/sugarlxn-nccl_topo.xml",
        "synthetic/two-ranks-per-gpu.xml", "rccl/topo_16p1h.xml"}) {
    const auto machine = realMachine(file);
    if (!machine) GTEST_SKIP() << "no ../shared/topologies";
    SCOPED_TRACE(file);
    const Drawing drawing = drawingOf(*machine);
    EXPECT_EQ(countKind(drawing, "net"), machine->graph->count(NodeType::kNet));
    EXPECT_EQ(countKind(drawing, "gpu"), machine->graph->count(NodeType::kGpu));
    expectTidy(drawing);
  }
}

TEST(Svg, StandsAloneInBothColourSchemes) {
  const std::string svg = svgText(machineOf(twoSwitches()));
  EXPECT_EQ(svg.substr(0, 43), "<svg xmlns=\"http://www.w3.org/2000/svg\" cla");
  EXPECT_HAS(svg, "prefers-color-scheme: dark");
  EXPECT_EQ(countOf(svg, "http"), 1) << "the namespace and nothing from outside";
  EXPECT_LACKS(svg, "tabindex") << "only the page is interactive";
}

TEST(Svg, EscapesWhatAFileSays) {
  EXPECT_EQ(escapeXml("<a b=\"c\">&'\x01\n"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\xef\xbf\xbd&#10;");
  const std::string svg = svgText(machineOf(twoSwitches("</text><script>")));
  EXPECT_LACKS(svg, "<script>");
  EXPECT_HAS(svg, "&lt;/text&gt;");
}

TEST(Svg, CutsNamesThatAreTooLong) {
  EXPECT_EQ(fittedText("mlx5_0", 100, 8), "mlx5_0");
  EXPECT_EQ(fittedText("abcdefghij", 46, 8), "abcd\xe2\x80\xa6");
  EXPECT_EQ(fittedText("\xc3\xa9\xc3\xa9\xc3\xa9", 22, 8), "\xc3\xa9\xe2\x80\xa6") << "characters, not bytes";
}

}  // namespace
}  // namespace railwise::topo
