#include "topo/machine/known_machines.h"

#include <gtest/gtest.h>

namespace railwise::topo {
namespace {

XmlDocument gpusOf(const char* device, int count, const std::string& inside = "") {
  std::string text = "<system version=\"1\">\n<cpu numaid=\"0\">\n";
  for (int i = 0; i < count; ++i)
    text += "<pci busid=\"0000:0" + std::to_string(i) +
            ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"" + device + "\"" +
            (inside.empty() ? "/>" : ">" + inside + "</pci>") + "\n";
  auto document = parseXml(text + "</cpu>\n</system>\n", "test.xml");
  EXPECT_TRUE(document.ok()) << document.error();
  return std::move(*document);
}

TEST(KnownGpus, GiveWhatAFileLeavesOut) {
  const KnownDetection hopper = knownDetection(gpusOf("0x2330", 8));
  EXPECT_EQ(hopper.gpu_sm, 90);
  EXPECT_EQ(hopper.nvswitch_links, 18);
  // A board of four A100 has no NVSwitch.
  const KnownDetection ampere = knownDetection(gpusOf("0x20b2", 4));
  EXPECT_EQ(ampere.gpu_sm, 80);
  EXPECT_EQ(ampere.nvswitch_links, 0);
}

TEST(KnownGpus, AreKnownByTheNamesOfProducts) {
  EXPECT_EQ(computeCapabilityOf("NVIDIA A100-SXM4-80GB"), 80);
  EXPECT_EQ(computeCapabilityOf("NVIDIA H100 80GB HBM3"), 90);
  EXPECT_EQ(computeCapabilityOf("NVIDIA GB200"), 100);
  EXPECT_EQ(computeCapabilityOf("Tesla V100-SXM2-16GB"), 70);
  EXPECT_EQ(computeCapabilityOf("NVIDIA GeForce RTX 4090"), 89);
  EXPECT_EQ(computeCapabilityOf("NVIDIA RTX A6000"), 86);
  for (const char* unknown :
       {"NVIDIA GeForce RTX 2080 Ti", "NVIDIA RTX 6000 Ada Generation", "NVIDIA T400", ""})
    EXPECT_EQ(computeCapabilityOf(unknown), 0) << unknown;
}

TEST(KnownGpus, SayNothingOfUnknownOrDescribedOnes) {
  EXPECT_EQ(knownDetection(gpusOf("0xffff", 8)).gpu_sm, 0);
  EXPECT_EQ(knownDetection(gpusOf("0x2330", 8, "<gpu dev=\"0\" sm=\"90\" rank=\"0\"/>")).gpu_sm, 0);
  EXPECT_EQ(knownDetection(XmlDocument()).gpu_sm, 0);
}

TEST(KnownMachines, AreRecognisedByTheirSigns) {
  const auto name = [](const MachineSigns& signs) {
    const KnownMachine* machine = knownMachine(signs);
    return std::string(machine == nullptr ? "" : machine->name);
  };
  EXPECT_EQ(name({.sys_vendor = "Amazon EC2", .product_name = "p5.48xlarge"}), "AWS p5.48xlarge");
  EXPECT_EQ(name({.sys_vendor = "Amazon EC2", .product_name = "p5en.48xlarge"}), "AWS p5en.48xlarge");
  EXPECT_EQ(name({.sys_vendor = "Amazon EC2", .product_name = "hpc7a.96xlarge", .efa = true}), "AWS");
  EXPECT_EQ(name({.sys_vendor = "Amazon EC2", .product_name = "c7i.metal"}), "");
  EXPECT_EQ(name({.sys_vendor = "Microsoft Corporation",
                  .product_name = "Virtual Machine",
                  .gpu_device = "0x2330",
                  .gpus = 8}),
            "Azure ND96isr_H100_v5");
  EXPECT_EQ(name({.sys_vendor = "NVIDIA", .product_name = "DGXH100"}), "DGX H100");
  EXPECT_EQ(name({.sys_vendor = "NVIDIA", .product_name = "DGXA100 920-23687-2530-000"}), "DGX A100");
  EXPECT_EQ(name({.chassis_asset_tag = "OracleCloud.com", .gpu_device = "0x2330", .gpus = 8}),
            "Oracle BM.GPU.H100.8");
  EXPECT_EQ(name({.sys_vendor = "LENOVO", .product_name = "ThinkStation"}), "");
  EXPECT_EQ(name({.sys_vendor = "Microsoft Corporation", .product_name = "Virtual Machine"}), "");
}

}  // namespace
}  // namespace railwise::topo
