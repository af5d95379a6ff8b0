#include "tests/doctor/good_machine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/device/tree.h"
#include "gpu/json.h"
#include "softdev/config/config.h"
#include "sysfs/pci_devices.h"

namespace railwise::doctor::test {
namespace {

constexpr int kNics = 8;

std::string machineText(Network network) {
  std::ifstream file(RAILWISE_SOURCE_DIR "/machines/dgx.conf");
  std::ostringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  if (network == Network::kInfiniband) return all;
  const std::string infiniband = "link=ib";
  for (auto at = all.find(infiniband); at != std::string::npos; at = all.find(infiniband))
    all.replace(at, infiniband.size(), "link=roce");
  return all;
}

void addNic(sysfs::MemoryTree& tree, int index, Network network) {
  const std::string name = "mlx5_" + std::to_string(index);
  const std::string port = portFolder(tree, index);
  const std::string device = port.substr(0, port.rfind("/ports"));
  tree.file(device + "/fw_ver", "28.39.1002\n");
  tree.file("/sys/class/infiniband_verbs/uverbs" + std::to_string(index) + "/ibdev", name + "\n");
  append(tree, "/railwise/access", "/dev/infiniband/uverbs" + std::to_string(index) + " ok");
  append(tree, "/railwise/verbs", name + " 1 active_mtu=4096 max_mtu=4096");
  for (const char* counter :
       {"counters/symbol_error", "counters/link_downed", "hw_counters/out_of_sequence"}) {
    tree.file(port + "/" + counter, "7\n");
    tree.file("/railwise/later/sys/class/infiniband/" + name + "/ports/1/" + counter, "7\n");
  }
  if (network == Network::kInfiniband) {
    tree.file(port + "/lid", "0x" + std::to_string(index + 2) + "\n");
    tree.file(port + "/sm_lid", "0x1\n");
  } else {
    tree.file("/railwise/dcb/en_" + name, "pfc 0x08\ndscp 26 3\ntrust dscp\n");
    tree.file("/railwise/ethtool/en_" + name, "400000\n");
  }
}

void addFabric(sysfs::MemoryTree& tree) {
  auto gpus = gpu::parseJson(tree.read("/railwise/gpus.json", 1 << 20).value_or(""));
  ASSERT_TRUE(gpus.ok()) << gpus.error();
  for (gpu::Device& device : gpus->gpus) device.fabric_state = "completed";
  tree.file("/railwise/gpus.json", gpu::jsonOf(*gpus));
}

void addPci(sysfs::MemoryTree& tree) {
  int group = 0;
  for (const sysfs::PciDevice& device : sysfs::pciDevices(tree)) {
    tree.file(device.path + "/config", pciConfig(true, 0));
    const std::string folder = "/sys/kernel/iommu_groups/" + std::to_string(group++);
    tree.file(folder + "/type", "identity\n");
    tree.link(device.path + "/iommu_group", folder);
  }
}

void addProcesses(sysfs::MemoryTree& tree) {
  tree.file("/proc/sys/kernel/hostname", "node17\n")
      .file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
      .file("/proc/sys/kernel/numa_balancing", "0\n")
      .file("/proc/modules",
            "nvidia 1 0 - Live 0x0 (O)\nnvidia_peermem 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\n")
      .file("/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n")
      .file("/proc/driver/nvidia/params", "EnableMSI: 1\nGrdmaPciTopoCheckOverride: 0\n")
      .file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme sse2\n")
      .file("/proc/1/cgroup", "0::/init.scope\n")
      .file("/proc/self/status", "Name:\trailwise\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n")
      .file("/proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max open files            1024                 1048576              files     \n"
            "Max locked memory         unlimited            unlimited            bytes     \n")
      .file("/proc/self/mountinfo",
            "31 28 0:26 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,size=1056786432k\n");
}

void addSoftware(sysfs::MemoryTree& tree) {
  const std::string libraries = "/usr/lib/x86_64-linux-gnu/";
  tree.file("/etc/os-release", "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n")
      .file(libraries + "libc.so.6", "")
      .file(libraries + "libibverbs.so.1.14.44.0", "")
      .link(libraries + "libibverbs.so.1", "libibverbs.so.1.14.44.0")
      .file(libraries + "libibverbs/libmlx5-rdmav34.so", "")
      .file(libraries + "libnccl.so.2.29.7", "")
      .link(libraries + "libnccl.so.2", "libnccl.so.2.29.7")
      .file("/opt/railwise/lib/libnccl-net-railwise.so", "")
      .file("/sys/class/dmi/id/sys_vendor", "NVIDIA\n")
      .file("/sys/class/dmi/id/product_name", "DGXH100\n");
}

}  // namespace

sysfs::MemoryTree goodMachine(Network network) {
  const auto machine = softdev::parseMachineText(machineText(network), "machines/dgx.conf");
  EXPECT_TRUE(machine.ok());
  sysfs::MemoryTree tree = cli::deviceTree(machine->hosts.at(0));
  tree.file("/railwise/environment",
            "HOME=/root\nLD_LIBRARY_PATH=/opt/railwise/lib\nNCCL_NET=Railwise\nNCCL_NET_PLUGIN=railwise\n" +
                std::string(network == Network::kRoce ? "NCCL_IB_TC=106\n" : ""));
  tree.file("/railwise/access", "process_vm_readv ok\n").file("/railwise/verbs", "");
  tree.file("/railwise/interfaces", "eth0 10.0.0.17:0\n").file("/railwise/later/milliseconds", "1000\n");
  for (int index = 0; index < kNics; ++index) addNic(tree, index, network);
  addFabric(tree);
  addPci(tree);
  addProcesses(tree);
  addSoftware(tree);
  return tree;
}

std::string nicFolder(const sysfs::FileTree& tree, int index) {
  return sysfs::realPathOf(tree, "/sys/class/infiniband/mlx5_" + std::to_string(index) + "/device");
}

std::string bridgeFolder(const sysfs::FileTree& tree, int index) {
  const std::string nic = nicFolder(tree, index);
  return nic.substr(0, nic.rfind('/'));
}

std::string portFolder(const sysfs::FileTree& tree, int index) {
  return sysfs::realPathOf(tree, "/sys/class/infiniband/mlx5_" + std::to_string(index) + "/ports/1");
}

std::string pciConfig(bool relaxed_ordering, unsigned acs_control) {
  constexpr std::size_t kExpress = 0x60, kAcs = 0x100;
  std::string bytes(4096, '\0');
  bytes[0x34] = static_cast<char>(kExpress);
  bytes[kExpress] = 0x10;
  bytes[kExpress + 8] = relaxed_ordering ? 0x10 : 0;
  bytes[kAcs] = 0x0d;
  bytes[kAcs + 2] = 0x01;
  bytes[kAcs + 6] = static_cast<char>(acs_control);
  return bytes;
}

void append(sysfs::MemoryTree& tree, const std::string& path, const std::string& line) {
  const auto text = tree.read(path, 1 << 20);
  ASSERT_TRUE(text.has_value()) << path;
  tree.file(sysfs::realPathOf(tree, path), *text + line + "\n");
}

void set(sysfs::MemoryTree& tree, const std::string& path, const std::string& text) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = sysfs::realPathOf(tree, path.substr(0, slash));
  ASSERT_FALSE(folder.empty()) << path;
  tree.file(folder + path.substr(slash), text);
}

sysfs::MemoryTree without(const sysfs::MemoryTree& tree, const std::string& path) {
  sysfs::MemoryTree rest(tree.name());
  for (const auto& [each, item] : tree.items()) {
    if (each == path || each.starts_with(path + "/")) continue;
    if (item.is_link) rest.link(each, item.content);
    else if (item.is_folder) rest.folder(each);
    else rest.file(each, item.content);
  }
  return rest;
}

}  // namespace railwise::doctor::test
