// The text of --for hwloc-xml; hwloc_test.py lets hwloc read it.
#include "tests/ok.h"
#include "tests/topo/exports/export_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

TEST(ExportHwlocXml, HasNodesBridgesAndDevices) {
  const ExportedText xml = exported(exportHwlocXml(machineOf(twoSwitches()), {.node = "n1"}));
  for (const char* part :
       {"<topology version=\"2.0\">", "<info name=\"HostName\" value=\"n1\"/>",
        "<object type=\"Package\" os_index=\"1\" cpuset=\"0x000000f0\"",
        "<object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[10-12]\"",
        "bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[11-12]\" pci_busid=\"0000:10:00.0\"",
        "pci_type=\"0302 [0000:0000] [0000:0000] 00\" pci_link_speed=\"63.015385\"",
        "<object type=\"OSDev\" subtype=\"NVML\" name=\"nvml1\" osdev_type=\"1\"",
        "<object type=\"OSDev\" name=\"mlx5_1\" osdev_type=\"3\"", "name=\"NVLinkBandwidth\""})
    EXPECT_HAS(xml.text, part);
  EXPECT_EQ(countOf(xml.text, "<object "), countOf(xml.text, "</object>"));
  EXPECT_TRUE(noted(xml, "each NUMA node is written as a package"));
  EXPECT_TRUE(noted(xml, "host bridges are those of the devices' buses"));
}

TEST(ExportHwlocXml, HostBridgesAreThoseOfSys) {
  ExportOptions options;
  options.facts.pcie_roots = {{"0000:10:00.0", "pci0000:0e"}, {"0000:20:00.0", "pci0000:0e"}};
  const ExportedText xml = exported(exportHwlocXml(machineOf(twoSwitches()), options));
  EXPECT_HAS(xml.text, "bridge_pci=\"0000:[0e-12]\"");
  EXPECT_FALSE(noted(xml, "host bridges"));
}

TEST(ExportHwlocXml, SetsHaveTheHighestWordFirst) {
  const ExportedText xml = exported(exportHwlocXml(fileMachine("gb200.xml"), {.node = "n1"}));
  EXPECT_HAS(xml.text, "<object type=\"Package\" os_index=\"0\" cpuset=\"0x000000ff,0xffffffff,0xffffffff\"");
}

TEST(ExportHwlocXml, EscapesWhatXmlCannotHold) {
  const ExportedText xml = exported(exportHwlocXml(machineOf(twoSwitches()), {.node = "<\"&\n>"}));
  EXPECT_HAS(xml.text, "value=\"&lt;&quot;&amp;?&gt;\"/>");
}

TEST(ExportHwlocXml, ReplacesBytesThatAreNotUtf8) {
  std::string odd = twoSwitches();
  odd.replace(odd.find("x86_64"), 6, "x86\xe9\xff");
  const ExportedText xml = exported(exportHwlocXml(machineOf(odd), {.node = "n\xc3(1"}));
  EXPECT_HAS(xml.text, "<info name=\"Architecture\" value=\"x86\xef\xbf\xbd\xef\xbf\xbd\"/>");
  EXPECT_HAS(xml.text, "<info name=\"HostName\" value=\"n\xef\xbf\xbd(1\"/>");
}

TEST(ExportHwlocXml, LeavesOutWhatHasNoPciAddress) {
  std::string odd = twoSwitches();
  odd.replace(odd.find("0000:22:00.0"), 12, "0x22<&>");
  const ExportedText xml = exported(exportHwlocXml(machineOf(odd), {.node = "n1"}));
  EXPECT_LACKS(xml.text, "0x22");
  EXPECT_LACKS(xml.text, "mlx5_1");
  EXPECT_TRUE(noted(xml, "'0x22<&>' is no PCI address")) << xml.notes.back();
}

TEST(ExportHwlocXml, GivesANodeWithoutMaskOneCpu) {
  std::string bare = twoSwitches();
  for (const char* mask : {"0000000f", "000000f0"}) bare.erase(bare.find(mask), 8);
  const ExportedText xml = exported(exportHwlocXml(machineOf(bare), {.node = "n1"}));
  EXPECT_EQ(countOf(xml.text, "type=\"PU\""), 2);
  EXPECT_TRUE(noted(xml, "one CPU for each NUMA node is written"));
}

}  // namespace
}  // namespace railwise::topo
