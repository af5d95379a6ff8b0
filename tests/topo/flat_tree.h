// /sys trees of VMs as tests build them: every device alone on the root bus of its own PCI domain, as on
// Azure.
#pragma once

#include <string>
#include <vector>

#include "sysfs/file_tree.h"

namespace railwise::topo::test {

struct FlatPci {
  std::string busid;
  std::string vendor;
  std::string device;
  std::string device_class;
  int numa = -1;
  std::string speed = "Unknown";  // as a VF says
  std::string width = "0";
  std::string infiniband;  // name of its RDMA device
};

inline FlatPci rdma(FlatPci device, const std::string& name) {
  device.infiniband = name;
  return device;
}
inline FlatPci h100(const std::string& domain, int numa) {
  return {domain + ":00:00.0", "0x10de", "0x2330", "0x030200", numa, "32.0 GT/s PCIe", "16"};
}
inline FlatPci a100(const std::string& domain, int numa) {
  return {domain + ":00:00.0", "0x10de", "0x20b0", "0x030200", numa, "16 GT/s", "16"};
}
inline FlatPci mi300x(const std::string& domain, int numa) {
  return {domain + ":00:00.0", "0x1002", "0x74b5", "0x120000", numa, "32.0 GT/s PCIe", "16"};
}
inline FlatPci infinibandVf(const std::string& domain, int numa) {
  return {domain + ":00:00.0", "0x15b3", "0x101e", "0x020700", numa, "Unknown", "0"};
}
inline FlatPci ethernetVf(const std::string& domain, int numa) {
  return {domain + ":00:00.0", "0x15b3", "0x101a", "0x020000", numa, "Unknown", "255"};
}

// Below a VMBus device, or `ports`: PCI bridges, "/0000:00:01.0". Azure's real folder names are GUIDs.
inline void addPci(sysfs::MemoryTree& tree, const FlatPci& pci, const std::string& ports = "") {
  const std::string domain = pci.busid.substr(0, 4);
  const std::string bus = pci.busid.substr(0, 7);
  const std::string host = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-" + domain +
                           "-0000-3130-444531334632/pci" + bus;
  const std::string folder = host + ports + "/" + pci.busid;
  tree.file(folder + "/class", pci.device_class + "\n").file(folder + "/vendor", pci.vendor + "\n");
  tree.file(folder + "/device", pci.device + "\n")
      .file(folder + "/numa_node", std::to_string(pci.numa) + "\n");
  tree.file(folder + "/subsystem_vendor", "0x10de\n").file(folder + "/subsystem_device", "0x16c1\n");
  tree.file(folder + "/max_link_speed", pci.speed + "\n").file(folder + "/max_link_width", pci.width + "\n");
  tree.link(folder + "/subsystem", "/sys/bus/pci");
  tree.link("/sys/bus/pci/devices/" + pci.busid, folder);
  tree.folder(host + "/pci_bus/" + bus);
  tree.link("/sys/class/pci_bus/" + bus, host + "/pci_bus/" + bus);
  if (pci.infiniband.empty()) return;
  const std::string device = folder + "/infiniband/" + pci.infiniband;
  tree.link(device + "/device", folder).link("/sys/class/infiniband/" + pci.infiniband, device);
  tree.file(device + "/ports/1/state", "4: ACTIVE\n").file(device + "/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  tree.file(device + "/ports/1/link_layer", "InfiniBand\n");
  tree.file(device + "/sys_image_guid", "0c42:a103:0054:7e1a\n");
}

// masks: one per NUMA node.
inline sysfs::MemoryTree makeFlatTree(const std::vector<std::string>& masks,
                                      const std::vector<FlatPci>& devices, const std::string& cpu) {
  sysfs::MemoryTree tree("test tree");
  for (std::size_t node = 0; node < masks.size(); ++node) {
    tree.file("/sys/devices/system/node/node" + std::to_string(node) + "/cpumap", masks[node] + "\n");
  }
  for (const FlatPci& device : devices) addPci(tree, device);
  tree.file("/railwise/cpu", cpu + "\n");
  return tree;
}

// A VM with 16 cores on one node.
inline sysfs::MemoryTree makeVm(const std::vector<FlatPci>& devices) {
  return makeFlatTree({"0000ffff"}, devices, "x86_64,GenuineIntel,6,143");
}

// Azure ND H100 v5.
inline sysfs::MemoryTree makeNdv5() {
  std::vector<FlatPci> devices;
  int index = 0;
  for (const char* domain : {"0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"}) {
    devices.push_back(h100(domain, index / 4));
    devices.push_back(infinibandVf("010" + std::to_string(index + 1), index / 4));
    ++index;
  }
  devices.push_back(ethernetVf("7870", 0));
  return makeFlatTree({"00000000,0000ffff,ffffffff", "ffffffff,ffff0000,00000000"}, devices,
                      "x86_64,GenuineIntel,6,143");
}

// Azure ND A100 v4: NUMA nodes and PCI domains in different orders.
inline sysfs::MemoryTree makeNdv4() {
  struct Pair {
    const char* gpu;
    const char* nic;
    int node;
  };
  std::vector<FlatPci> devices;
  for (const Pair& pair :
       {Pair{"0001", "0101", 1}, Pair{"0002", "0102", 1}, Pair{"0003", "0103", 0}, Pair{"0004", "0104", 0},
        Pair{"000b", "0105", 3}, Pair{"000c", "0106", 3}, Pair{"000d", "0107", 2}, Pair{"000e", "0108", 2}}) {
    devices.push_back(a100(pair.gpu, pair.node));
    devices.push_back(infinibandVf(pair.nic, pair.node));
  }
  devices.push_back(ethernetVf("7870", 0));
  return makeFlatTree({"00000000,00000000,00ffffff", "00000000,0000ffff,ff000000",
                       "000000ff,ffff0000,00000000", "ffffff00,00000000,00000000"},
                      devices, "x86_64,AuthenticAMD,23,49");
}

}  // namespace railwise::topo::test
