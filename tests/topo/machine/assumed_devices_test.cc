// Which GPUs and NICs a file alone stands for, and what is said about them.
#include "topo/machine/assumed_devices.h"

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo::test {
namespace {

std::string gpuWith(const std::string& busid, const std::string& attributes) {
  return pci(busid, "0x030200", "<gpu" + (attributes.empty() ? "" : " " + attributes) + "/>\n");
}

std::string nicWith(const std::string& busid, const std::string& attributes) {
  return pci(busid, "0x020700", "<nic>\n<net " + attributes + "/>\n</nic>\n");
}

// The GPUs as "busid dev rank".
std::vector<std::string> gpusOf(const AssumedDevices& devices) {
  std::vector<std::string> all;
  for (const AssumedGpu& gpu : devices.gpus)
    all.push_back(gpu.busid + " " + std::to_string(gpu.dev) + " " + std::to_string(gpu.rank));
  return all;
}

std::vector<std::string> netsOf(const AssumedDevices& devices) {
  std::vector<std::string> all;
  for (const NetDevice& net : devices.nets) all.push_back(net.name);
  return all;
}

bool said(const AssumedDevices& devices, const std::string& part) {
  for (const std::string& remark : devices.remarks)
    if (railwise::test::has(remark, part)) return true;
  return false;
}

using Texts = std::vector<std::string>;

constexpr const char* kFullGpu = "dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"";
constexpr const char* kFullNet = "name=\"a\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x1\" gdr=\"1\"";

TEST(AssumedDevices, NothingIsSaidOfAFileThatSaysAll) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:11:00.0", kFullGpu) + nicWith("0000:12:00.0", kFullNet))));
  const AssumedDevices devices = assumeDevices(document, {});
  EXPECT_EQ(gpusOf(devices), Texts{"0000:11:00.0 0 0"});
  EXPECT_EQ(netsOf(devices), Texts{"a"});
  EXPECT_TRUE(devices.can_merge);
  EXPECT_EQ(devices.remarks, Texts{});
}

TEST(AssumedDevices, GpusWithoutRankAreNumberedInBusOrder) {
  const XmlDocument document = documentOf(
      systemOf(cpu(0, gpuWith("0000:1B:00.0", "dev=\"7\"") + pci("0000:1a:00.0", "0x030200", ""))));
  const AssumedDevices devices = assumeDevices(document, {});
  EXPECT_EQ(gpusOf(devices), (Texts{"0000:1a:00.0 0 0", "0000:1b:00.0 1 1"}));
  EXPECT_EQ(devices.gpus[0].described, nullptr);
  EXPECT_NE(devices.gpus[1].described, nullptr);
  EXPECT_TRUE(said(devices, "does not describe its GPUs: compute capability 8.0 assumed (--gpu-sm=90"));
  EXPECT_TRUE(said(devices, "does not describe its GPUs: no NVLink assumed (--nvswitch-links=18"));
}

TEST(AssumedDevices, TheRanksOfTheFileCountAndTheDriverNumbersInBusOrder) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:1b:00.0", "rank=\"0\" sm=\"90\" mlopart=\"1\"") +
                                     gpuWith("0000:1a:00.0", "rank=\"1\" sm=\"90\""))));
  const AssumedDevices devices = assumeDevices(document, {});
  EXPECT_EQ(gpusOf(devices), (Texts{"0000:1b:00.0 1 0", "0000:1a:00.0 0 1"}));
  EXPECT_EQ(devices.gpus[0].mlopart, "1");
  EXPECT_EQ(devices.gpus[1].mlopart, "-1");
  EXPECT_EQ(devices.remarks, Texts{"the file leaves out dev and gdr of GPUs, which the driver tells NCCL: "
                                   "bus order and GPUDirect assumed"});
}

TEST(AssumedDevices, AMissingSmIsSaidUnlessAnOptionTellsIt) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:11:00.0", "dev=\"0\" rank=\"0\" gdr=\"1\""))));
  EXPECT_EQ(assumeDevices(document, {}).remarks,
            Texts{"the file leaves out sm of GPUs, which the driver tells NCCL: compute capability 8.0 "
                  "(--gpu-sm=90 for Hopper) assumed"});
  EXPECT_EQ(assumeDevices(document, {.gpu_sm = 90}).remarks, Texts{});
}

TEST(AssumedDevices, ARankThatIsThereTwiceMakesTheBusOrderCount) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:1b:00.0", kFullGpu) + gpuWith("0000:1a:00.0", kFullGpu))));
  const AssumedDevices devices = assumeDevices(document, {});
  EXPECT_EQ(gpusOf(devices), (Texts{"0000:1a:00.0 0 0", "0000:1b:00.0 1 1"}));
  ASSERT_EQ(devices.remarks.size(), 1U);
  EXPECT_TRUE(said(devices, "a rank is there twice: NCCL takes the ranks from the job"));
}

TEST(AssumedDevices, DevMinusOneHidesAGpu) {
  // The first <gpu> of a device is that which NCCL fills in.
  const std::string two = pci("0000:12:00.0", "0x030200", "<gpu dev=\"-1\"/>\n<gpu dev=\"1\" rank=\"5\"/>\n");
  const XmlDocument document = documentOf(
      systemOf(cpu(0, gpuWith("0000:11:00.0", "dev=\"-1\" rank=\"0\"") + gpuWith("0000:13:00.0", "") + two)));
  EXPECT_EQ(gpusOf(assumeDevices(document, {})), Texts{"0000:13:00.0 0 0"});
}

TEST(AssumedDevices, AnNvlinkWithoutClassIsSaid) {
  const std::string linked =
      pci("0000:11:00.0", "0x030200",
          std::string("<gpu ") + kFullGpu + ">\n<nvlink target=\"fffffff:ffff:ff\" count=\"18\"/>\n</gpu>\n");
  EXPECT_EQ(assumeDevices(documentOf(systemOf(cpu(0, linked))), {}).remarks,
            Texts{"the file leaves out tclass of NVLinks: the class of the target, or an NVSwitch, assumed"});
}

TEST(AssumedDevices, WhatANetLeavesOutIsAssumedAndSaid) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:11:00.0", kFullGpu) + nicWith("0000:12:00.0", "name=\"a\""))));
  const AssumedDevices devices = assumeDevices(document, {.nic_speed = 200000});
  ASSERT_EQ(devices.nets.size(), 1U);
  const NetDevice& net = devices.nets[0];
  EXPECT_EQ(net.busid, "") << "NCCL finds it by its name";
  EXPECT_EQ(net.speed_mbps, 200000);
  EXPECT_EQ(net.port, 1);
  EXPECT_EQ(net.guid, 0x1000U);
  EXPECT_EQ(net.max_comms, 131072);
  EXPECT_TRUE(net.gdr);
  EXPECT_TRUE(devices.can_merge);
  EXPECT_EQ(
      devices.remarks,
      Texts{"the file leaves out dev, speed, port, guid and gdr of NICs, which the plugin tells NCCL: the "
            "file's order, 200000 Mb/s (--nic-speed), port 1, a guid for each and GPUDirect assumed"});
}

TEST(AssumedDevices, NetsWithoutDevFillTheGaps) {
  const std::string rest = "speed=\"100000\" gdr=\"1\"";
  const auto named = [&](const char* busid, const char* text) { return nicWith(busid, text + rest); };
  const XmlDocument document = documentOf(systemOf(
      cpu(0, gpuWith("0000:11:00.0", kFullGpu) + named("0000:21:00.0", "name=\"d\" dev=\"7\" ") +
                 named("0000:22:00.0", "name=\"b\" ") + named("0000:23:00.0", "name=\"c\" dev=\"2\" ") +
                 named("0000:24:00.0", "name=\"a\" dev=\"0\" "))));
  const AssumedDevices devices = assumeDevices(document, {});
  EXPECT_EQ(netsOf(devices), (Texts{"a", "b", "c", "d"}));
  EXPECT_TRUE(said(devices, "NCCL numbers NICs as the plugin lists them, not by dev: d is 3, not 7 here"));
}

TEST(AssumedDevices, ANetWithoutNameIsADeviceAtItsPlace) {
  const XmlDocument document = documentOf(systemOf(
      cpu(0, gpuWith("0000:11:00.0", kFullGpu) +
                 nicWith("0000:1C:00.0", "dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x1\" gdr=\"0\""))));
  const AssumedDevices devices = assumeDevices(document, {});
  ASSERT_EQ(netsOf(devices), Texts{"mlx5_0"});
  EXPECT_EQ(devices.nets[0].busid, "0000:1c:00.0");
  EXPECT_EQ(devices.nets[0].speed_mbps, 100000);
  EXPECT_FALSE(devices.nets[0].gdr);
  EXPECT_EQ(devices.remarks,
            Texts{"the file leaves out the name of NICs: NCCL adds them anew; named mlx5_N here"});
}

TEST(AssumedDevices, AMadeUpNameIsNotThatOfAnother) {
  const XmlDocument document = documentOf(systemOf(
      cpu(0, gpuWith("0000:11:00.0", kFullGpu) + nicWith("0000:12:00.0", "name=\"mlx5_0\" dev=\"1\"") +
                 nicWith("0000:13:00.0", "dev=\"0\""))));
  EXPECT_EQ(netsOf(assumeDevices(document, {})), (Texts{"mlx5_1", "mlx5_0"}));
}

TEST(AssumedDevices, ANameIsOneDevice) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:11:00.0", kFullGpu) + nicWith("0000:12:00.0", kFullNet) +
                                     nicWith("0000:13:00.0", kFullNet))));
  EXPECT_EQ(netsOf(assumeDevices(document, {})), Texts{"a"});
}

TEST(AssumedDevices, NicsThatNobodyDescribesAreNamedInBusOrder) {
  const XmlDocument document =
      documentOf(systemOf(cpu(0, gpuWith("0000:11:00.0", kFullGpu) + pci("0000:2B:00.0", "0x020700", "") +
                                     pci("0000:2a:00.0", "0x020000", ""))));
  const AssumedDevices devices = assumeDevices(document, {});
  EXPECT_EQ(netsOf(devices), (Texts{"mlx5_0", "mlx5_1"}));
  EXPECT_EQ(devices.nets[1].busid, "0000:2b:00.0");
  EXPECT_TRUE(said(devices, "does not describe its NICs"));
}

}  // namespace
}  // namespace railwise::topo::test
