// From a machine's text to a /sys tree and back: what Railwise's own readers, which read as NCCL reads, make
// of it.
#include "cli/device/tree.h"

#include <endian.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "softdev/config/machines.h"
#include "sysfs/pci_devices.h"
#include "tests/ok.h"
#include "tests/scratch.h"
#include "topo/machine/machine.h"
#include "topo/sources/cpu_identity.h"
#include "topo/sources/net_devices.h"
#include "topo/sources/sysfs.h"

namespace railwise::cli {
namespace {

softdev::MachineConfig machineOf(const std::string& text, const std::string& host = "") {
  const auto parsed = softdev::parseMachine(text.c_str(), host);
  EXPECT_OK(parsed) << text;
  if (parsed.ok()) return *parsed;
  softdev::MachineConfig none;
  none.hosts.resize(1);
  return none;
}

// The XML that NCCL 2.30 would make of the tree, without files. (Since 2.31 all NVSwitches are one target.)
topo::XmlDocument xmlOf(const sysfs::FileTree& tree) {
  topo::Settings settings;
  settings.nccl = topo::NcclVersion::k2_30;
  auto xml = topo::readSysfs(tree, std::nullopt, settings, {}, nullptr);
  EXPECT_OK(xml) << (xml.ok() ? "" : xml.error());
  return xml.ok() ? std::move(*xml) : topo::XmlDocument();
}

std::string attribute(const topo::XmlNode* node, const char* name) {
  return node != nullptr && node->has(name) ? node->get(name) : "";
}

TEST(DeviceTree, EveryShippedHostIsReadAsItIsDescribed) {
  for (const softdev::ShippedMachine& shipped : softdev::shippedMachines()) {
    const auto machine = machineOf("@" + std::string(shipped.name));
    for (const softdev::HostConfig& host : machine.hosts) {
      if (!hasTree(host)) continue;
      SCOPED_TRACE(std::string(shipped.name) + " " + host.name);
      const sysfs::MemoryTree tree = deviceTree(host);
      std::map<std::string, const softdev::DeviceConfig*> devices;
      std::size_t ports = 0;
      for (const softdev::DeviceConfig& device : host.devices) {
        devices[device.name] = &device;
        ports += device.portCount();
      }
      topo::Settings settings;
      const auto nets = topo::netDevices(tree, settings, {}, nullptr);
      EXPECT_EQ(nets.size(), ports);
      for (const topo::NetDevice& net : nets) {
        // A port beyond the first has its number in the name, as the plugin names it.
        const std::string name = net.name.substr(0, net.name.find(':'));
        ASSERT_TRUE(devices.count(name)) << net.name;
        const softdev::DeviceConfig& device = *devices[name];
        EXPECT_EQ(net.guid, htobe64(device.system_guid));  // as NCCL has it: in the byte order of the wire
        EXPECT_EQ(net.speed_mbps, static_cast<int>(device.ports[0].speed_mbps));
        EXPECT_EQ(sysfs::pciPath(tree, device.busid()), device.pci);
      }
      std::size_t gpus = 0;
      for (const sysfs::PciDevice& function : sysfs::pciDevices(tree)) gpus += function.isGpu() ? 1 : 0;
      EXPECT_EQ(gpus, host.gpus.size());
      EXPECT_EQ(sysfs::numaNodes(tree).size(), host.numa_nodes);
      EXPECT_EQ(topo::cpuIdentityText(topo::cpuOf(tree).cpu), host.cpu);
    }
  }
}

TEST(DeviceTree, SwitchesLinksAndNodesAsNcclReadsThem) {
  const auto machine = machineOf("@dgx", "B");
  const topo::XmlDocument xml = xmlOf(deviceTree(machine.host()));
  const topo::XmlNode* nic = xml.find("pci", "busid", "0000:9a:00.0");
  const topo::XmlNode* gpu = xml.find("pci", "busid", "0000:9d:00.0");
  ASSERT_TRUE(nic != nullptr && gpu != nullptr);
  EXPECT_EQ(nic->parent, gpu->parent);  // one switch
  EXPECT_EQ(attribute(nic->parent, "busid"), "0000:98:00.0");
  EXPECT_EQ(attribute(nic->parent, "vendor"), "0x1000");
  EXPECT_EQ(attribute(nic, "link_speed"), "32.0 GT/s PCIe");
  EXPECT_EQ(attribute(nic, "link_width"), "16");
  EXPECT_EQ(attribute(gpu, "device"), "0x2330");
  const topo::XmlNode* cpu = nic->parent->parent;
  EXPECT_EQ(attribute(cpu, "numaid"), "1");
  EXPECT_EQ(attribute(cpu, "affinity"), "0000ffff,ffffffff,ff000000,00000000");
  EXPECT_EQ(attribute(cpu, "modelid"), "143");
  const topo::XmlNode* net = xml.find("net", "name", "mlx5_4");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(attribute(net, "speed"), "400000");
}

// "0000:05:00.0 5 0x068000" for each NVLink target of the GPU.
std::string nvlinksOf(const topo::XmlDocument& xml, const std::string& busid) {
  const topo::XmlNode* pci = xml.find("pci", "busid", busid);
  const topo::XmlNode* gpu = pci != nullptr ? pci->child("gpu") : nullptr;
  if (gpu == nullptr) return "no GPU";
  std::string text = "sm " + gpu->get("sm");
  for (const topo::XmlNode* link : gpu->children) {
    if (link->name == "nvlink")
      text += ", " + link->get("target") + " " + link->get("count") + " " + link->get("tclass");
  }
  return text;
}

TEST(DeviceTree, NvlinksAsNcclReadsThem) {
  const topo::XmlDocument switched = xmlOf(deviceTree(machineOf("@dgx").host()));
  EXPECT_EQ(nvlinksOf(switched, "0000:df:00.0"),
            "sm 90, 0000:05:00.0 5 0x068000, 0000:06:00.0 5 0x068000, 0000:07:00.0 4 0x068000, "
            "0000:08:00.0 4 0x068000");
  const topo::XmlDocument mesh = xmlOf(deviceTree(machineOf("@nvlink-mesh", "B").host()));
  EXPECT_EQ(nvlinksOf(mesh, "0000:8a:00.0"),
            "sm 70, 0000:0b:00.0 1 0x030200, 0000:85:00.0 2 0x030200, 0000:86:00.0 1 0x030200, "
            "0000:89:00.0 2 0x030200");
  const topo::XmlDocument hidden = xmlOf(deviceTree(machineOf("@cloud-vm").host()));
  EXPECT_EQ(nvlinksOf(hidden, "0001:00:00.0"), "sm 90, fffffff:ffff:ff 18 0x068000");
  const topo::XmlDocument none = xmlOf(deviceTree(machineOf("@dual-port").host()));
  EXPECT_EQ(nvlinksOf(none, "0000:31:00.0"), "sm 80");
}

TEST(DeviceTree, AnNvswitchIsABridgeByNvidia) {
  const sysfs::MemoryTree tree = deviceTree(machineOf("@dgx").host());
  const auto folder = sysfs::pciPath(tree, "0000:05:00.0");
  ASSERT_TRUE(folder);
  EXPECT_EQ(sysfs::attribute(tree, *folder, "class"), "0x068000");
  EXPECT_EQ(sysfs::attribute(tree, *folder, "vendor"), "0x10de");
  EXPECT_EQ(sysfs::attribute(tree, *folder, "max_link_width"), "2");
  EXPECT_EQ(sysfs::attribute(tree, *folder, "numa_node"), "0");
}

TEST(DeviceTree, ThePeerMemoryModuleIsThereWhereADeviceTakesGpuAddresses) {
  constexpr char kModule[] = "/sys/module/nvidia_peermem/version";  // NCCL's net_ib looks for it
  EXPECT_FALSE(deviceTree(machineOf("@dgx").host()).exists(kModule));
  EXPECT_FALSE(deviceTree(machineOf("@dgx;gpudirect=dmabuf").host()).exists(kModule));
  EXPECT_TRUE(deviceTree(machineOf("@dgx;gpudirect=on").host()).exists(kModule));
}

TEST(DeviceTree, ABridgeSaysWhatItIsTold) {
  const std::string path = "/tmp/railwise_device_tree_" + std::to_string(getpid());
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(
      "host A cores=2\n"
      "bridge pci=0000:10:01.0/11:00.0 pcie=4x8 vendor=0x104c part=0x8232\n"
      "device name=n speed=100000 pci=0000:10:01.0/11:00.0/12:00.0/13:00.0 pcie=5x16 numa=0\n"
      "gpu pci=0000:10:01.0/11:00.0/12:01.0/14:00.0 pcie=3x4 numa=0 vendor=0x1002 part=0x74a1\n",
      file);
  std::fclose(file);
  const auto machine = machineOf(path);
  std::filesystem::remove(path);
  const sysfs::MemoryTree tree = deviceTree(machine.host());
  const std::string root = "/sys/devices/pci0000:10/0000:10:01.0/";
  EXPECT_EQ(sysfs::attribute(tree, root + "0000:11:00.0", "vendor"), "0x104c");
  EXPECT_EQ(sysfs::attribute(tree, root + "0000:11:00.0", "max_link_speed"), "16.0 GT/s PCIe");
  EXPECT_EQ(sysfs::attribute(tree, root + "0000:11:00.0", "max_link_width"), "8");
  // Those that are not described are as fast as what is below.
  EXPECT_EQ(sysfs::attribute(tree, root, "max_link_speed"), "32.0 GT/s PCIe");
  EXPECT_EQ(sysfs::attribute(tree, root + "0000:11:00.0/0000:12:01.0", "max_link_speed"), "8.0 GT/s PCIe");
  const auto functions = sysfs::pciDevices(tree);
  EXPECT_TRUE(std::ranges::any_of(functions, [](const auto& f) { return f.isAmdGpu(); }));
}

TEST(DeviceTree, GidsStatesAndInterfaces) {
  const auto machine = machineOf(
      "name=a,ports=2,speed=25000,port2.link=ib,port2.port_state=down,port1.gid=fe80::1/"
      "v1,port1.gid=10.1.2.3");
  const sysfs::MemoryTree tree = deviceTree(machine.host());
  const std::string ports = "/sys/class/infiniband/a/ports/";
  EXPECT_EQ(sysfs::attribute(tree, ports + "1", "state"), "4: ACTIVE");
  EXPECT_EQ(sysfs::attribute(tree, ports + "1", "rate"), "25 Gb/sec (1X EDR)");
  EXPECT_EQ(sysfs::attribute(tree, ports + "1", "gids/1"), "0000:0000:0000:0000:0000:ffff:0a01:0203");
  EXPECT_EQ(sysfs::attribute(tree, ports + "1", "gid_attrs/types/0"), "IB/RoCE v1");
  EXPECT_EQ(sysfs::attribute(tree, ports + "1", "gid_attrs/types/1"), "RoCE v2");
  EXPECT_EQ(sysfs::attribute(tree, ports + "1", "gid_attrs/ndevs/1"), "en_a");
  EXPECT_EQ(sysfs::attribute(tree, ports + "2", "state"), "1: DOWN");
  EXPECT_EQ(sysfs::attribute(tree, ports + "2", "link_layer"), "InfiniBand");
  EXPECT_EQ(sysfs::attribute(tree, "/sys/class/net/en_a", "speed"), "25000");
  // No place on a bus, yet a folder behind the link that plugins follow.
  const auto place = tree.realPath("/sys/class/infiniband/a/device");
  ASSERT_OK(place);
  EXPECT_FALSE(sysfs::isPciDevice(tree, *place));
  EXPECT_FALSE(hasTree(machine.host()));
}

TEST(DeviceTree, WrittenItIsTheSame) {
  const auto machine = machineOf("@laptop");
  const sysfs::MemoryTree tree = deviceTree(machine.host());
  const test::Scratch folder;
  ASSERT_TRUE(writeTree(tree, folder.path()).ok());
  EXPECT_FALSE(writeTree(tree, folder.path()).ok());  // not empty any more
  const auto written = sysfs::makeLiveTree(folder.path());
  for (const auto& [path, item] : tree.items()) {
    if (!item.is_folder && !item.is_link) EXPECT_EQ(written->read(path), item.content) << path;
    if (item.is_link) {
      const auto there = written->realPath(path);
      const auto here = tree.realPath(path);
      EXPECT_TRUE(there.ok() && here.ok() && *there == *here) << path;
    }
  }
}

}  // namespace
}  // namespace railwise::cli
