// Small machines for the tests of explain, diff and the outputs, and those of ../shared/topologies.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/ok.h"
#include "tests/topo/load_file.h"
#include "tests/topo/topologies.h"
#include "topo/document/xml.h"
#include "topo/machine/machine.h"

namespace railwise::topo::test {

inline XmlDocument documentOf(const std::string& xml) {
  auto document = parseXml(xml, "test.xml");
  EXPECT_OK(document);
  return std::move(*document);
}

inline std::string pci(const std::string& busid, const std::string& pci_class, const std::string& inner,
                       const std::string& speed = "32.0 GT/s PCIe") {
  return "<pci busid=\"" + busid + "\" class=\"" + pci_class + "\" link_speed=\"" + speed +
         "\" link_width=\"16\">\n" + inner + "</pci>\n";
}

// `inside`: the elements of the <gpu>; `more`: attributes.
inline std::string gpuWith(int rank, const std::string& busid, const std::string& inside, int sm = 90,
                           const std::string& more = "") {
  const std::string number = std::to_string(rank);
  return pci(busid, "0x030200",
             "<gpu dev=\"" + number + "\" sm=\"" + std::to_string(sm) + "\" rank=\"" + number +
                 "\" gdr=\"1\"" + more + ">\n" + inside + "</gpu>\n");
}

inline std::string gpu(int rank, const std::string& busid) {
  return gpuWith(rank, busid, "<nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/>\n");
}

inline std::string nic(int dev, const std::string& busid, const std::string& name,
                       const std::string& speed = "32.0 GT/s PCIe") {
  const std::string number = std::to_string(dev);
  return pci(busid, "0x020700",
             "<nic>\n<net name=\"" + name + "\" dev=\"" + number +
                 "\" speed=\"400000\" port=\"1\" guid=\"0x" + number + "\" gdr=\"1\"/>\n</nic>\n",
             speed);
}

inline std::string pciSwitch(const std::string& busid, const std::string& inner) {
  return pci(busid, "0x060400", inner);
}

inline std::string cpu(int numa, const std::string& inner) {
  return "<cpu numaid=\"" + std::to_string(numa) + "\" affinity=\"" + (numa == 0 ? "0000000f" : "000000f0") +
         "\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n" + inner + "</cpu>\n";
}

inline std::string systemOf(const std::string& inner) {
  return "<system version=\"1\">\n" + inner + "</system>\n";
}

// Each of two NUMA nodes: a switch with a GPU and a NIC. `name`: of NIC 0.
inline std::string twoSwitches(const std::string& name = "mlx5_0") {
  return systemOf(
      cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", name))) +
      cpu(1, pciSwitch("0000:20:00.0", gpu(1, "0000:21:00.0") + nic(1, "0000:22:00.0", "mlx5_1"))));
}

// The same as a VM shows it: no switches, and NICs of unknown speed.
inline std::string flat() {
  return systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0", "Unknown")) +
                  cpu(1, gpu(1, "0000:21:00.0") + nic(1, "0000:22:00.0", "mlx5_1", "Unknown")));
}

// Four GPUs and four NICs on one CPU, all equally near: NCCL deals them out as 0, 2, 1, 3.
inline std::string equallyNear() {
  std::string inner;
  for (int i = 0; i < 4; ++i) {
    const std::string digit = std::to_string(i);
    inner += gpu(i, "0000:1" + digit + ":00.0") + nic(i, "0000:2" + digit + ":00.0", "mlx5_" + digit);
  }
  return systemOf(cpu(0, inner));
}

// The text with `by` in place of each `what`.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  for (; at != std::string::npos; at = text.find(what, at + by.size())) text.replace(at, what.size(), by);
  return text;
}

inline std::string withoutNvlinks(std::string xml) {
  for (std::size_t at = 0; (at = xml.find("<nvlink", at)) != std::string::npos;)
    xml.erase(at, xml.find("/>", at) + 2 - at);
  return xml;
}

// Two GPUs on PCIe links of one lane, with which NCCL finds no ring: it takes the order of the list.
inline std::string slowPcie(const std::string& more, const std::string& speed = "8.0 GT/s PCIe") {
  const std::string xml =
      withoutNvlinks(systemOf(cpu(0, gpu(0, "0000:11:00.0") + gpu(1, "0000:13:00.0") + more)));
  return replaced(replaced(xml, "link_width=\"16\"", "link_width=\"1\""), "32.0 GT/s PCIe", speed);
}

inline Machine machineOf(const std::string& xml, const Settings& settings = {}) {
  auto document = parseXml(xml, "test.xml");
  EXPECT_OK(document);
  auto machine = makeMachine(std::move(*document), settings, "test.xml");
  EXPECT_OK(machine);
  return std::move(*machine);
}

// A file of the real topologies; none when they are not there.
inline std::optional<Machine> realMachine(const std::string& file, const Detection& detection = {}) {
  const std::string folder = topologiesFolder();
  if (folder.empty()) return std::nullopt;
  auto machine = loadFile(folder + "/machines/" + file, Settings{}, detection);
  EXPECT_OK(machine);
  return std::move(*machine);
}

using railwise::test::countOf;

}  // namespace railwise::topo::test
