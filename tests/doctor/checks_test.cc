// Each check on a machine with that one fault, and all of them on machines without any.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include "cli/device/tree.h"
#include "doctor/checks/check.h"
#include "doctor/facts/trees.h"
#include "doctor/finding.h"
#include "doctor/fingerprint/manifest.h"
#include "gpu/json.h"
#include "softdev/config/config.h"
#include "sysfs/tar_archive.h"
#include "tests/doctor/found.h"
#include "tests/doctor/good_machine.h"
#include "tests/ok.h"
#include "topo/lint/lint.h"

namespace railwise::doctor {
namespace {

using namespace test;
using sysfs::MemoryTree;

Diagnosis diagnose(const sysfs::FileTree& tree) { return examine(System(tree), {}); }

std::string textOf(const Diagnosis& diagnosis) {
  return reportText(diagnosis.findings, {.subject = "node", .hidden = diagnosis.hidden});
}

TEST(Doctor, AGoodMachineIsFine) {
  for (const Network network : {Network::kInfiniband, Network::kRoce}) {
    const MemoryTree tree = goodMachine(network);
    const Diagnosis diagnosis = diagnose(tree);
    EXPECT_EQ(textOf(diagnosis), "node: fine\n");
    EXPECT_GE(diagnosis.looked.size(), 5U);
  }
}

// Without root a file of PCI configuration has 64 bytes.
TEST(Doctor, WhatNoCheckCouldSeeIsNotFine) {
  MemoryTree tree = goodMachine();
  const auto unjudged = [&](std::vector<std::string> only) {
    return examine(System(tree), {.only = std::move(only)}).unjudged;
  };
  // One device that cannot be read is named, and the others are judged.
  set(tree, bridgeFolder(tree) + "/config", pciConfig(true, 0).substr(0, 64));
  EXPECT_EQ(unjudged({"acs"}), "");
  EXPECT_EQ(examine(System(tree), {.only = {"acs"}}).hidden.size(), 1U);
  for (const std::string& busid : tree.list("/sys/bus/pci/devices"))
    set(tree, "/sys/bus/pci/devices/" + busid + "/config", pciConfig(true, 0).substr(0, 64));
  EXPECT_NE(unjudged({"acs"}), "");
  EXPECT_EQ(unjudged({"acs", "memlock"}), "");
  EXPECT_EQ(unjudged({}), "");
}

TEST(Doctor, ACheckThatFindsNothingToLookAtSaysSo) {
  const MemoryTree tree = goodMachine(Network::kInfiniband);
  const auto examined = [&](std::vector<std::string> only) {
    return examine(System(tree), {.only = std::move(only)});
  };
  const Diagnosis nothing = examined({"pfc", "gid", "manifest"});
  EXPECT_EQ(nothing.unjudged, "no check could look");
  EXPECT_EQ(nothing.hidden,
            (std::vector<std::string>{"manifest: no --manifest FILE", "gid and pfc: no active RoCE port"}));
  const Diagnosis some = examined({"mtu", "gpudirect-amd"});
  EXPECT_EQ(some.unjudged, "");
  EXPECT_EQ(some.hidden, std::vector<std::string>{"gpudirect-amd: no GPU of AMD"});
  EXPECT_EQ(examined({}).hidden, std::vector<std::string>());
  // On no machine at all.
  const std::set<std::string> of_process = {"settings",   "open-files",   "shm-size",
                                            "sys-masked", "host-network", "seccomp"};
  const MemoryTree empty("empty");
  for (const Check& check : allChecks())
    EXPECT_EQ(examine(System(empty), {.only = {check.name}}).unjudged.empty(),
              of_process.contains(check.name))
        << check.name;
}

TEST(Doctor, ASoftwareMachineIsFine) {
  MemoryTree tree = goodMachine();
  for (int i = 0; i < 8; ++i) {
    set(tree, "/sys/class/infiniband/mlx5_" + std::to_string(i) + "/fw_ver", "railwise-0.1.0\n");
    set(tree, portFolder(tree, i) + "/lid", "0x0\n");
    set(tree, portFolder(tree, i) + "/sm_lid", "0x0\n");
  }
  set(tree, "/proc/modules", "");
  set(tree, "/railwise/access", "/dev/infiniband/uverbs0 ENOENT\n");
  set(tree, "/proc/self/limits",
      "Max locked memory         65536                65536                bytes\n");
  EXPECT_EQ(
      textOf(diagnose(tree)),
      "node: fine\n\nNot looked at:\n  simulated: what only hardware has (drivers, GPUDirect, limits)\n");
  EXPECT_NE(examine(System(tree), {.only = {"memlock"}}).unjudged, "");
}

// Makes something of a machine.
using Change = std::function<void(MemoryTree&)>;

// A fault, and what the doctor must say of it.
struct Fault {
  const char* name;
  Network network;
  Change make;
  const char* check;
  Severity severity;
  const char* device;  // of the first thing seen; "": any
  const char* value;   // in the first thing seen
  const char* fix;     // in what to type
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

using enum Severity;
constexpr Network kIb = Network::kInfiniband;
constexpr Network kRoce = Network::kRoce;
const std::string kMlx0 = "/sys/class/infiniband/mlx5_0/ports/1";
const std::string kNic0 = "/sys/class/infiniband/mlx5_0/device";
constexpr const char* kNoGid = "0000:0000:0000:0000:0000:0000:0000:0000\n";

Change each(std::vector<Change> changes) {
  return [=](MemoryTree& tree) {
    for (const Change& change : changes) change(tree);
  };
}

// Writes a file. Its path may lead through links; what is not there of it is made.
Change file(const std::string& path, const std::string& text) {
  return [=](MemoryTree& tree) {
    auto slash = path.rfind('/');
    while (slash > 0 && !tree.exists(path.substr(0, slash))) slash = path.rfind('/', slash - 1);
    tree.file(sysfs::realPathOf(tree, path.substr(0, slash)) + path.substr(slash), text);
  };
}
Change line(const std::string& path, const std::string& line) {
  return [=](MemoryTree& tree) { append(tree, path, line); };
}
// Removes a file or folder. Its folder's path may lead through links.
Change missing(const std::string& path) {
  return [=](MemoryTree& tree) {
    const auto slash = path.rfind('/');
    tree = without(tree, sysfs::realPathOf(tree, path.substr(0, slash)) + path.substr(slash));
  };
}

Change variables(const std::string& lines) { return line("/railwise/environment", lines); }
// Lines of the good machine's environment that begin so are left out.
Change unset(const std::string& name) {
  return [=](MemoryTree& tree) {
    std::string rest;
    for (const std::string& line : linesOf(*tree.read("/railwise/environment")))
      if (!line.starts_with(name + "=")) rest += line + "\n";
    tree.file("/railwise/environment", rest);
  };
}
Change plugin(const std::string& value) {
  return each({unset("NCCL_NET_PLUGIN"), variables("NCCL_NET_PLUGIN=" + value)});
}
Change topology(const std::string& text) {
  return each({variables("NCCL_TOPO_FILE=/etc/topo.xml"), file("/etc/topo.xml", text)});
}

// A file of each port, and of each GID of mlx5_0.
Change ofEachPort(const std::string& name, const std::string& text) {
  return [=](MemoryTree& tree) {
    for (int i = 0; i < 8; ++i) set(tree, portFolder(tree, i) + name, text);
  };
}
Change ofEachGid(const std::string& folder, const std::string& text) {
  return [=](MemoryTree& tree) {
    for (const std::string& index : tree.list(kMlx0 + "/gids")) set(tree, kMlx0 + folder + index, text);
  };
}
// Of each PCI device one of whose files begins so, another file.
Change ofEachDevice(const std::string& file, const std::string& begins, const std::string& other,
                    const std::string& text) {
  return [=](MemoryTree& tree) {
    for (const std::string& busid : tree.list("/sys/bus/pci/devices")) {
      const std::string folder = "/sys/bus/pci/devices/" + busid;
      if (tree.read(folder + file).value_or("").starts_with(begins)) set(tree, folder + other, text);
    }
  };
}

// A counter of mlx5_0's network interface, as the first and as the second look finds it.
Change ethernetCounter(const std::string& name, const char* before, const char* after) {
  const std::string path = "/railwise/ethernet_counters/en_mlx5_0/" + name;
  return each({file(path, before), file("/railwise/later" + path, after)});
}

void container(MemoryTree& tree) { tree.file("/.dockerenv", ""); }

Change driver(const std::string& version) {
  return file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX " + version + "\n");
}
// A library of the system, and the link to it.
Change library(const std::string& link, const std::string& name) {
  return [=](MemoryTree& tree) {
    const std::string folder = "/usr/lib/x86_64-linux-gnu/";
    tree.file(folder + name, "").link(folder + link, name);
  };
}
Change otherNccl(const std::string& version) {
  return each({missing("/usr/lib/x86_64-linux-gnu/libnccl.so.2.29.7"),
               library("libnccl.so.2", "libnccl.so." + version)});
}

Change changeGpus(void (*change)(gpu::Device&)) {
  return [=](MemoryTree& tree) {
    auto gpus = gpu::parseJson(tree.read("/railwise/gpus.json", 1 << 20).value_or(""));
    ASSERT_TRUE(gpus.ok()) << gpus.error();
    for (gpu::Device& device : gpus->gpus) change(device);
    tree.file("/railwise/gpus.json", gpu::jsonOf(*gpus));
  };
}
void joinDomain(gpu::Device& device) { device.fabric_cluster = "8d1a1fa6-c5b0-4e0f-9a3b-2c4d5e6f7081"; }

// All NVIDIA GPUs become those with another PCI id, or AMD's.
Change makeGpus(const std::string& device) {
  return ofEachDevice("/class", "0x0302", "/device", device + "\n");
}
const Change kAmdGpus =
    each({makeGpus("0x74a1"), ofEachDevice("/class", "0x0302", "/vendor", "0x1002\n"),
          ofEachDevice("/class", "0x0302", "/class", "0x120000\n"), missing("/railwise/gpus.json"),
          line("/proc/modules", "amdgpu 1 0 - Live 0x0")});
const Change kLittleMemory =
    file("/proc/self/limits", "Max locked memory         8388608              8388608              bytes\n");
const Change kNoThirdCard = [](MemoryTree& tree) {
  const std::string card = nicFolder(tree, 3);
  tree = without(without(tree, card), "/sys/class/infiniband/mlx5_3");
};
const std::string kGpu0 = "/sys/bus/pci/devices/0000:1b:00.0";
const Change kNoFirstGpu = [](MemoryTree& tree) {
  tree = without(without(tree, sysfs::realPathOf(tree, kGpu0)), kGpu0);
};
const Change kFourSlowPorts = [](MemoryTree& tree) {
  for (int i = 0; i < 4; ++i) set(tree, portFolder(tree, i) + "/rate", "200 Gb/sec (2X NDR)\n");
};
const Change kNoRdma = each({missing("/sys/class/infiniband"), missing("/railwise/verbs")});

// The port of mlx5_0 becomes a bond of two.
Change bond(const std::string& mode, const std::string& joined, const std::string& second) {
  const std::string bond = "/sys/class/net/en_mlx5_0/bonding";
  return each({file(bond + "/mode", mode + "\n"), file(bond + "/slaves", "ens1f0 ens1f1\n"),
               file(bond + "/ad_num_ports", joined + "\n"),
               file("/sys/class/net/ens1f0/bonding_slave/mii_status", "up\n"),
               file("/sys/class/net/ens1f1/bonding_slave/mii_status", second + "\n")});
}

const Fault kFaults[] = {
    {"the fabric is not complete", kIb,
     changeGpus([](gpu::Device& device) { device.fabric_state = "in progress"; }), "fabric-manager", kError,
     "GPU 0000:1b:00.0", "in progress", "systemctl status nvidia-fabricmanager"},
    {"no Fabric Manager before Hopper", kIb,
     each({makeGpus("0x20b2"), missing("/railwise/gpus.json"),
           file("/proc/driver/nvidia-nvswitch/permissions", "")}),
     "fabric-manager", kError, "",
     "nv-fabricmanager.pid", "systemctl status nvidia-fabricmanager"},
    {"no IMEX channel", kIb,
     each({changeGpus(joinDomain),
           file("/proc/devices", "Character devices:\n 234 nvidia-caps-imex-channels\n")}),
     "imex", kError,
     "GPU 0000:1b:00.0", "/dev/nvidia-caps-imex-channels", "mknod"},
    {"NVLink between hosts switched off", kIb,
     each({changeGpus(joinDomain), variables("NCCL_CUMEM_ENABLE=0")}), "imex", kAdvice, "",
     "NCCL_CUMEM_ENABLE=0", "unset NCCL_CUMEM_ENABLE"},
    {"a GPU in MIG mode", kIb, changeGpus([](gpu::Device& device) { device.partitioned = true; }), "nvls",
     kAdvice, "GPU 0000:1b:00.0", "MIG mode: on", "-mig 0"},
    {"NCCL older than the GPU", kIb, each({makeGpus("0x2901"), otherNccl("2.24.3")}), "nccl-too-old",
     kWarning, "GPU 0000:1b:00.0", "2.24.3; code for the B200 since 2.25.1", "nvidia-nccl"},
    {"a port of the bond down", kRoce, bond("802.3ad 4", "1", "down"), "bond", kWarning, "mlx5_0 port 1",
     "ens1f1 is down", "/proc/net/bonding/en_mlx5_0"},
    {"LACP takes one port of two", kRoce, bond("802.3ad 4", "1", "up"), "bond", kWarning, "mlx5_0 port 1",
     "1 of 2 ports", "LACP"},
    {"a bond of one port at a time", kRoce, bond("active-backup 1", "1", "up"), "bond", kAdvice,
     "mlx5_0 port 1", "active-backup", "802.3ad"},
    {"a NIC of Grace in no IOMMU group, since 595", kIb,
     each({driver("Open Kernel Module for aarch64  595.45.04  Release Build"), makeGpus("0x2342"),
           missing(kNic0 + "/iommu_group")}),
     "gpudirect-override", kWarning,
     "mlx5_0", "no root port in common", "SMMU"},
    {"timeout without end", kIb, variables("NCCL_IB_TIMEOUT=0"), "hiding-setting", kWarning,
     "NCCL_IB_TIMEOUT", "NCCL_IB_TIMEOUT=0", "unset NCCL_IB_TIMEOUT"},
    {"timeout beyond five bits", kIb, variables("NCCL_IB_TIMEOUT=32"), "hiding-setting", kWarning,
     "NCCL_IB_TIMEOUT", "NCCL_IB_TIMEOUT=32", "unset NCCL_IB_TIMEOUT"},
    {"a broken NVLink that stays hidden", kIb, variables("NCCL_IGNORE_DISABLED_P2P=2"), "hiding-setting",
     kAdvice, "NCCL_IGNORE_DISABLED_P2P", "=2", "unset NCCL_IGNORE_DISABLED_P2P"},
    {"an algorithm left from a test", kIb, variables("NCCL_ALGO=Ring"), "hiding-setting", kAdvice,
     "NCCL_ALGO", "NCCL_ALGO=Ring", "unset NCCL_ALGO"},
    {"ECE left off", kIb, variables("NCCL_IB_ECE_ENABLE=0"), "hiding-setting", kAdvice, "NCCL_IB_ECE_ENABLE",
     "=0", "unset NCCL_IB_ECE_ENABLE"},
    {"a fixed GID index", kRoce, variables("NCCL_IB_GID_INDEX=3"), "hiding-setting", kAdvice,
     "NCCL_IB_GID_INDEX", "=3", "unset NCCL_IB_GID_INDEX"},
    {"no RDMA driver", kIb, kNoRdma, "rdma-devices", kError, "0000:18:00.0", "0x15b3:0x1021",
     "modprobe mlx5_ib"},
    {"no RDMA driver of another vendor", kIb,
     each({ofEachDevice("/vendor", "0x15b3", "/vendor", "0x1dd8\n"), kNoRdma}), "rdma-devices", kError,
     "0000:18:00.0", "0x1dd8:0x1021", "modprobe ionic_rdma"},
    {"no RDMA driver of EFA", kIb,
     each({ofEachDevice("/vendor", "0x15b3", "/device", "0xefa1\n"),
           ofEachDevice("/vendor", "0x15b3", "/vendor", "0x1d0f\n"), kNoRdma}),
     "rdma-devices", kError, "0000:18:00.0", "0x1d0f:0xefa1", "modprobe efa"},
    {"one card without its device", kIb,
     each({missing("/sys/class/infiniband/mlx5_3"), missing("/railwise/environment")}), "rdma-devices",
     kWarning, "0000:5e:00.0", "no RDMA device", "modprobe mlx5_ib"},
    {"a GPU without the NIC that others have", kIb, kNoThirdCard, "gpu-nic-root", kWarning, "GPU 0000:61:00.0", "0 NICs on root pci0000:5b, 1 at most other GPUs", "railwise explain"},
    {"no device node", kIb, file("/railwise/access", "/dev/infiniband/uverbs0 ENOENT\n"), "rdma-nodes",
     kError, "mlx5_0", "ENOENT", "modprobe ib_uverbs"},
    {"no right to a device node", kIb, file("/railwise/access", "/dev/infiniband/uverbs3 EACCES\n"),
     "rdma-nodes", kError, "mlx5_3", "EACCES", "chmod a+rw"},
    {"device node forbidden in a container", kIb,
     each({container, file("/railwise/access", "/dev/infiniband/uverbs0 EPERM\n")}), "rdma-nodes", kError,
     "mlx5_0", "EPERM", "--device=/dev/infiniband"},
    {"a device that verbs cannot open", kIb, line("/railwise/verbs", "mlx5_4 0 open=EIO"), "rdma-open",
     kError, "mlx5_4", "EIO", "dmesg"},
    {"verbs does not answer", kIb, line("/railwise/verbs", "* 0 answer=late"), "rdma-open", kError, "",
     "no answer", "dmesg"},
    {"the device's own traffic class", kRoce,
     file("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=32\n"), "traffic-class", kWarning,
     "mlx5_0 port 1", "DSCP 8, priority 1", "tc/1/traffic_class"},
    {"no libibverbs", kIb, missing("/usr/lib/x86_64-linux-gnu/libibverbs.so.1"), "rdma-provider", kError,
     "mlx5_0", "no libibverbs.so.1", "apt-get install libibverbs1 ibverbs-providers"},
    {"no provider, on RHEL", kIb,
     each({file("/etc/os-release", "ID=\"rhel\"\n"),
           missing("/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so")}),
     "rdma-provider", kError,
     "mlx5_0", "libmlx5-rdmav", "dnf install libibverbs"},
    {"old rdma-core", kIb, library("libibverbs.so.1", "libibverbs.so.1.8.28.0"), "rdma-versions", kWarning,
     "", "rdma-core 28", "apt-get install rdma-core"},
    {"NCCL_IB_HCA chooses nothing", kIb, variables("NCCL_IB_HCA=bnxt"), "hca-selection", kError, "",
     "NCCL_IB_HCA=bnxt", "unset NCCL_IB_HCA"},
    {"NCCL_IB_HCA names what is not there", kIb, variables("NCCL_IB_HCA==mlx5_0,mlx5_9"), "hca-selection",
     kWarning, "mlx5_9", "mlx5_9", "ls /sys/class/infiniband"},
    {"NCCL_IB_HCA with a space", kIb, variables("NCCL_IB_HCA==mlx5_0 ,mlx5_1,mlx5_2,mlx5_3,mlx5_4"),
     "hca-selection", kWarning, "\"mlx5_0 \"", "mlx5_0 ,mlx5_1",
     "export NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4"},
    {"NCCL_IB_HCA with a fifth field", kIb, variables("NCCL_IB_HCA=mlx5:1:1:1:1"), "hca-selection", kAdvice,
     "mlx5:1:1:1:1", "mlx5:1:1:1:1", "name:port:rail:plane"},
    {"NCCL_IB_HCA leaves out most", kIb, variables("NCCL_IB_HCA==mlx5_1"), "hca-selection", kAdvice, "",
     "NCCL_IB_HCA==mlx5_1", "unset NCCL_IB_HCA"},
    {"NCCL_IB_HCA leaves out what is not there", kIb, variables("NCCL_IB_HCA=^=mlx5_9"), "hca-selection",
     kAdvice, "mlx5_9", "mlx5_9", "ls /sys/class/infiniband"},
    {"NCCL_IB_HCA chooses more than its names", kIb,
     [](MemoryTree& tree) {
       const std::string to = nicFolder(tree, 7) + "/infiniband/mlx5_10";
       for (const char* file : {"/fw_ver", "/hca_type", "/board_id"})
         tree.file(to + file, *tree.read(std::string("/sys/class/infiniband/mlx5_7") + file));
       for (const char* file : {"/state", "/rate", "/link_layer", "/lid", "/sm_lid"})
         tree.file(to + "/ports/1" + file,
                   *tree.read(std::string("/sys/class/infiniband/mlx5_7/ports/1") + file));
       tree.link("/sys/class/infiniband/mlx5_10", to).link(to + "/device", nicFolder(tree, 7));
       append(tree, "/railwise/environment", "NCCL_IB_HCA=mlx5_1,mlx5_2");
     },
     "hca-selection", kWarning, "mlx5_1", "NCCL_IB_HCA=mlx5_1", "NCCL_IB_HCA==mlx5_1,mlx5_2"},
    {"firmware differs", kIb, file("/sys/class/infiniband/mlx5_5/fw_ver", "28.36.1010\n"), "firmware",
     kWarning, "mlx5_5", "28.36.1010", "mstflint"},
    {"port down", kRoce,
     each({file(kMlx0 + "/state", "1: DOWN\n"), file(kMlx0 + "/phys_state", "3: Disabled\n")}), "port-state",
     kWarning, "mlx5_0 port 1", "DOWN, phys_state 3: Disabled", "ip link set en_mlx5_0 up"},
    {"all ports down", kIb, ofEachPort("/state", "1: DOWN\n"), "port-state", kError, "mlx5_0 port 1", "DOWN",
     "mlxlink"},
    {"no subnet manager", kIb, file(kMlx0 + "/state", "2: INIT\n"), "ib-sm", kError, "mlx5_0 port 1", "INIT",
     "opensm"},
    {"LID 0", kIb, file(kMlx0 + "/lid", "0x0\n"), "ib-sm", kError, "mlx5_0 port 1", "0x0", "sminfo"},
    {"limited members", kIb, ofEachPort("/pkeys/0", "0x7fff\n"), "pkeys", kError, "mlx5_0 port 1", "0x7fff",
     "full member"},
    {"the key is at another index", kIb,
     each({ofEachPort("/pkeys/0", "0x0000\n"), ofEachPort("/pkeys/1", "0x8023\n")}), "pkeys", kError,
     "mlx5_0 port 1", "0x8023", "NCCL_IB_PKEY=1"},
    {"a rail in another partition", kIb, file(kMlx0 + "/pkeys/0", "0x8044\n"), "pkeys", kWarning,
     "mlx5_0 port 1", "0x8044", "subnet manager"},
    {"slow port", kIb, file(kMlx0 + "/rate", "100 Gb/sec (4X EDR)\n"), "port-speed", kWarning,
     "mlx5_0 port 1", "100 Gb/sec", "mlxlink"},
    {"narrow link", kIb, ofEachPort("/rate", "100 Gb/sec (1X NDR)\n"), "port-speed", kWarning,
     "mlx5_0 port 1", "1X", "mlxlink"},
    {"slower than the module can", kRoce, ofEachPort("/rate", "200 Gb/sec (4X HDR)\n"), "port-speed", kAdvice,
     "mlx5_0 port 1", "200 Gb/sec", "ethtool en_mlx5_0"},
    {"half of the ports slow", kIb, kFourSlowPorts, "port-speed", kWarning, "mlx5_0 port 1", "200 Gb/sec",
     "mlxlink"},
    {"a state that is empty", kIb, file(kMlx0 + "/state", ""), "port-state", kAdvice, "mlx5_0 port 1", "empty",
     "dmesg"},
    {"a rate that is none", kIb, file(kMlx0 + "/rate", "garbage\n"), "port-speed", kAdvice, "mlx5_0 port 1",
     "garbage", "dmesg"},
    {"a port that stays ARMED", kIb, file(kMlx0 + "/state", "3: ARMED\n"), "ib-sm", kError, "mlx5_0 port 1",
     "ARMED, LID 2", "its log names the port"},
    {"one LID of two ports", kIb, file(kMlx0 + "/lid", "0x4\n"), "ib-sm", kWarning, "mlx5_0 port 1", "0x4",
     "sminfo -C mlx5_0 -P 1"},
    {"a node GUID of zeros", kIb,
     file("/sys/class/infiniband/mlx5_2/node_guid", "0000:0000:0000:0000\n"), "ib-sm", kWarning, "mlx5_2",
     "node_guid", "mstflint -d 0000:4f:00.0"},
    {"an EFA port down", kIb,
     each({ofEachDevice("/vendor", "0x15b3", "/vendor", "0x1d0f\n"), ofEachPort("/link_layer", "Unspecified\n"),
           file(kMlx0 + "/state", "1: DOWN\n")}),
     "port-state", kWarning, "mlx5_0 port 1", "DOWN", "dmesg | grep -i efa"},
    {"NICs without a NUMA node", kIb, file(kNic0 + "/numa_node", "-1\n"), "nic-numa", kAdvice, "mlx5_0", "-1",
     "BIOS"},
    {"a GPU on four lanes", kIb, file(kGpu0 + "/current_link_width", "4\n"), "gpu-link", kWarning,
     "GPU 0000:1b:00.0", "32 GT/s x4; GPU and slot can 32 GT/s x16", "lspci -vv -s 0000:1b:00.0"},
    {"a GPU in a slow slot", kIb,
     each({file(kGpu0 + "/max_link_speed", "16.0 GT/s PCIe\n"),
           file(kGpu0 + "/current_link_speed", "16.0 GT/s PCIe\n")}),
     "gpu-link", kWarning, "GPU 0000:1b:00.0", "16 GT/s x16 at most; most GPUs here 32 GT/s x16",
     "lspci -vv -s 0000:1b:00.0"},
    {"a GPU that fell off the bus", kIb, kNoFirstGpu, "gpu-driver", kError, "GPU 0000:1b:00.0", "not there",
     "fallen off"},
    {"fewer GPUs than the machine has", kIb, each({kNoFirstGpu, missing("/railwise/gpus.json")}),
     "known-machine", kWarning, "", "7 GPUs", "xid"},
    {"fewer GPUs than the board has", kIb,
     each({kNoFirstGpu, missing("/railwise/gpus.json"), missing("/sys/class/dmi")}), "known-machine", kWarning,
     "", "7 GPUs", "xid"},
    {"symbol errors now", kIb,
     file("/railwise/later/sys/class/infiniband/mlx5_2/ports/1/counters/symbol_error", "19\n"), "port-errors",
     kWarning, "mlx5_2 port 1", "7 -> 19 in 1000 ms", "mlxlink"},
    {"flapping link", kIb,
     file("/railwise/later/sys/class/infiniband/mlx5_2/ports/1/counters/link_downed", "8\n"), "port-errors",
     kError, "mlx5_2 port 1", "7 -> 8", "cable"},
    {"packets discarded in spite of flow control", kRoce, ethernetCounter("rx_prio3_discards", "4\n", "9\n"),
     "port-errors", kWarning, "mlx5_0 port 1", "4 -> 9 in 1000 ms", "discard"},
    {"a pause storm", kRoce, ethernetCounter("tx_pause_storm_error_events", "0\n", "1\n"), "port-errors",
     kError, "mlx5_0 port 1", "0 -> 1", "PFC"},
    {"the switch pauses the port", kRoce, ethernetCounter("rx_prio3_pause", "10\n", "90\n"), "port-errors",
     kAdvice, "mlx5_0 port 1", "10 -> 90", "pause"},
    {"no GID", kRoce, ofEachGid("/gids/", kNoGid), "gid", kError, "mlx5_0 port 1", "empty", "ip addr add"},
    {"RoCE v1 alone", kRoce, ofEachGid("/gid_attrs/types/", "IB/RoCE v1\n"), "gid", kWarning, "mlx5_0 port 1",
     "IB/RoCE v1", "roce_mode=2"},
    {"link-local alone", kRoce, ofEachGid("/gids/", "fe80:0000:0000:0000:0c42:a1ff:fe54:7e1a\n"), "gid",
     kWarning, "mlx5_0 port 1", "fe80", "ip addr add"},
    {"GID index that does not exist", kRoce, variables("NCCL_IB_GID_INDEX=17"), "gid-index", kError,
     "mlx5_0 port 1", "NCCL_IB_GID_INDEX=17", "unset NCCL_IB_GID_INDEX"},
    {"GID index of RoCE v1", kRoce,
     [](MemoryTree& tree) {
       append(tree, "/railwise/environment", "NCCL_IB_GID_INDEX=9");
       for (const std::string index : {"4", "5", "6", "7", "8"}) ofEachPort("/gids/" + index, kNoGid)(tree);
       ofEachPort("/gids/9", "0000:0000:0000:0000:0000:ffff:0a00:0011\n")(tree);
       ofEachPort("/gid_attrs/types/9", "IB/RoCE v1\n")(tree);
     },
     "gid-index", kWarning, "mlx5_0 port 1", "NCCL_IB_GID_INDEX=9", "unset NCCL_IB_GID_INDEX"},
    {"MTU smaller than the others'", kRoce,
     [](MemoryTree& tree) {
       std::string text = *tree.read("/railwise/verbs");
       text.replace(text.find("mlx5_0 1 active_mtu=4096"), 24, "mlx5_0 1 active_mtu=1024");
       tree.file("/railwise/verbs", text);
       set(tree, "/sys/class/net/en_mlx5_0/mtu", "1500\n");
     },
     "mtu", kWarning, "mlx5_0 port 1", "1024", "ip link set en_mlx5_0 mtu 9000"},
    {"MTU of the partition", kIb,
     [](MemoryTree& tree) {
       std::string text;
       for (int i = 0; i < 8; ++i) text += "mlx5_" + std::to_string(i) + " 1 active_mtu=2048 max_mtu=4096\n";
       tree.file("/railwise/verbs", text);
     },
     "mtu", kAdvice, "mlx5_0 port 1", "2048", "smpquery -C mlx5_0 -P 1 -D portinfo 0 1"},
    {"no PFC", kRoce, file("/railwise/dcb/en_mlx5_0", "pfc 0x00\n"), "pfc", kAdvice, "mlx5_0 port 1", "off",
     "dcb pfc set dev en_mlx5_0"},
    {"no ECN", kRoce, file("/sys/class/net/en_mlx5_0/ecn/roce_np/enable/3", "0\n"), "ecn", kAdvice,
     "mlx5_0 port 1", "roce_np/enable/3", "sudo tee"},
    {"no GPUDirect with AMD's GPUs", kIb,
     each({kAmdGpus,
           file("/boot/config-6.8.0-45-generic",
                "CONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n")}),
     "gpudirect-amd", kError, "", "no CONFIG_DMABUF_MOVE_NOTIFY=y", "uname -r"},
    {"dma-bufs that RCCL leaves alone", kIb,
     each({kAmdGpus,
           file("/boot/config-6.8.0-45-generic", "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n")}),
     "gpudirect-amd", kWarning, "", "no peer-memory client", "NCCL_DMABUF_ENABLE=1"},
    {"a path for an old NCCL", kIb,
     each({plugin("/opt/railwise/lib/libnccl-net-railwise.so"), otherNccl("2.18.5")}), "plugin-form", kError,
     "", "2.18.5", "NCCL_NET_PLUGIN=railwise"},
    {"traffic class without PFC", kRoce, unset("NCCL_IB_TC"), "traffic-class", kWarning, "mlx5_0 port 1",
     "DSCP 0, priority 0", "export NCCL_IB_TC=104"},
    {"PCIe link downgraded", kIb,
     each({file(kNic0 + "/current_link_speed", "8.0 GT/s PCIe\n"),
           file(kNic0 + "/current_link_width", "8\n")}),
     "pci-link", kWarning, "mlx5_0", "8 GT/s x8; the card can 32 GT/s x16", "lspci -vv -s 0000:18:00.0"},
    {"slot slower than the card", kIb,
     [](MemoryTree& tree) {
       for (const std::string& folder : {nicFolder(tree), bridgeFolder(tree)})
         set(tree, folder + "/current_link_speed", "8.0 GT/s PCIe\n");
       set(tree, bridgeFolder(tree) + "/max_link_speed", "8.0 GT/s PCIe\n");
     },
     "pci-link", kWarning, "mlx5_0", "8 GT/s x16", "faster slot"},
    {"relaxed ordering off", kIb, file(kNic0 + "/config", pciConfig(false, 0)), "relaxed-ordering", kWarning,
     "mlx5_0", "RlxdOrd-", "setpci -s 0000:18:00.0"},
    {"relaxed ordering switched off", kIb, variables("NCCL_IB_PCI_RELAXED_ORDERING=0"), "relaxed-ordering",
     kWarning, "", "=0", "unset NCCL_IB_PCI_RELAXED_ORDERING"},
    {"ACS redirect", kIb,
     [](MemoryTree& tree) { set(tree, bridgeFolder(tree) + "/config", pciConfig(true, 0x1d)); }, "acs",
     kError, "bridge 0000:17:00.0", "ReqRedir+ CmpltRedir+", "ECAP_ACS+6.w=0000"},
    {"IOMMU translates", kIb, file(kNic0 + "/iommu_group/type", "DMA-FQ\n"), "iommu", kWarning, "mlx5_0",
     "DMA-FQ", "iommu=pt"},
    {"NVIDIA driver not loaded", kIb, file("/proc/modules", "mlx5_ib 1 0 - Live 0x0\n"), "gpu-driver", kError,
     "GPU 0000:1b:00.0", "no nvidia", "modprobe nvidia"},
    {"no GPUDirect", kIb,
     each({driver("x86_64 Kernel Module  535.161.08"), file("/proc/modules", "nvidia 1 0 - Live 0x0\n")}),
     "gpudirect", kError, "", "Kernel Module  535", "modprobe nvidia-peermem"},
    {"peermem loaded, not registered", kIb, driver("x86_64 Kernel Module  535.161.08"), "gpudirect", kError,
     "", "535", "dkms build nvidia"},
    {"the driver's check of IOMMU groups", kIb, file("/sys/class/iommu/smmu3.0x0/name", ""),
     "gpudirect-override", kWarning, "GPU 0000:1b:00.0", "GrdmaPciTopoCheckOverride: 0",
     "NVreg_GrdmaPciTopoCheckOverride=1"},
    {"Data Direct switched off", kIb,
     each({file(kNic0 + "/device", "0x1023\n"),
           file("/sys/class/infiniband/mlx5_1/device/device", "0x2100\n"),
           variables("NCCL_IB_DATA_DIRECT=0")}),
     "data-direct", kWarning, "", "NCCL_IB_DATA_DIRECT=0", "unset NCCL_IB_DATA_DIRECT"},
    {"topology file is a folder", kIb, variables("NCCL_TOPO_FILE=/sys"), "topology-file", kError, "",
     "no regular file", "ls -l /sys"},
    {"topology file that is not there", kIb, variables("NCCL_TOPO_FILE=/etc/topo.xml"), "topology-file",
     kError, "", "no such file", "NCCL_TOPO_FILE"},
    {"topology file that NCCL refuses", kIb,
     topology("<system version=\"1\">\n<cpu numaid=\"0\">\n</system>\n"), "topology-file", kError, "",
     "topo.xml", "railwise topo lint /etc/topo.xml"},
    {"topology file of another machine", kIb,
     topology("<system version=\"1\">\n"
              "  <cpu numaid=\"0\" affinity=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
              "modelid=\"143\">\n"
              "    <pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
              "link_width=\"16\"/>\n"
              "  </cpu>\n</system>\n"),
     "topology-fit", kWarning, "0001:00:00.0", "not in /sys/bus/pci/devices", "railwise topo generate"},
    {"topology file of RCCL", kIb,
     topology("<system version=\"2\">\n"
              "  <cpu numaid=\"0\" affinity=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
              "modelid=\"143\"/>\n</system>\n"),
     "topology-fit", kError, "", "version 2", "unset NCCL_TOPO_FILE"},
    {"NUMA balancing", kIb, file("/proc/sys/kernel/numa_balancing", "1\n"), "numa-balancing", kAdvice, "",
     "1", "kernel.numa_balancing=0"},
    {"fewer NICs than the machine has", kIb, missing("/sys/class/infiniband/mlx5_7"), "known-machine",
     kWarning, "", "7 ports", "lspci"},
    {"memlock", kIb, kLittleMemory, "memlock", kError, "", "8192 KiB", "limits.d"},
    {"memlock in a container", kIb, each({container, kLittleMemory}), "memlock", kError, "", "8192 KiB",
     "--ulimit memlock=-1"},
    {"open files", kIb,
     file("/proc/self/limits",
          "Max open files            1024                 1024                 files\n"
          "Max locked memory         unlimited            unlimited            bytes\n"),
     "open-files", kWarning, "", "1024", "nofile"},
    {"small /dev/shm", kIb,
     file("/proc/self/mountinfo", "31 28 0:26 / /dev/shm rw - tmpfs shm rw,size=65536k\n"), "shm-size",
     kWarning, "", "65536 KiB", "--shm-size"},
    {"masked /sys", kIb, each({container, missing("/sys/devices/system/node")}), "sys-masked", kWarning, "",
     "empty or missing", "-v /sys:/sys:ro"},
    {"own network namespace", kRoce, each({container, missing("/sys/class/net/en_mlx5_0")}), "host-network",
     kError, "mlx5_0 port 1", "missing", "--network host"},
    {"seccomp", kIb, file("/railwise/access", "process_vm_readv EPERM\n"), "seccomp", kAdvice, "", "EPERM",
     "SYS_PTRACE"},
    {"plugin not found", kIb, unset("LD_LIBRARY_PATH"), "plugin", kError, "", "NCCL_NET_PLUGIN=railwise",
     "LD_LIBRARY_PATH"},
    {"plugin cut off", kIb,
     each({file("/plugins/libnccl-net-cut.so", ""),
           file("/railwise/libraries", "/plugins/libnccl-net-cut.so broken: it is cut off\n"),
           plugin("/plugins/libnccl-net-cut.so")}),
     "plugin", kError, "", "it is cut off", "cp "},
    {"plugin misspelt", kIb, plugin("Railwise"), "plugin", kError, "", "NCCL_NET_PLUGIN=Railwise",
     "NCCL_NET_PLUGIN=railwise"},
    {"NCCL_NET without NCCL_NET_PLUGIN", kIb, unset("NCCL_NET_PLUGIN"), "plugin", kError, "",
     "NCCL_NET=Railwise", "NCCL_NET_PLUGIN=railwise"},
    {"NCCL_NET with NCCL_NET_PLUGIN=none", kIb, plugin("none"), "settings", kError, "NCCL_NET",
     "NCCL's init fails", "unset NCCL_NET"},
    {"a plugin that nobody asked for", kIb,
     each({unset("NCCL_NET_PLUGIN"), unset("NCCL_NET"), file("/opt/hpcx/lib/libnccl-net.so", ""),
           file("/etc/ld.so.conf.d/hpcx.conf", "/opt/hpcx/lib\n")}),
     "plugin-unasked", kAdvice, "",
     "libnccl-net.so", "NCCL_NET_PLUGIN=railwise"},
    {"silent fallback", kIb, unset("NCCL_NET"), "plugin-fallback", kAdvice, "", "not set",
     "NCCL_NET=Railwise"},
    {"two versions of NCCL", kIb,
     each({file("/usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2", ""),
           file("/usr/local/lib/python3.12/dist-packages/nvidia_nccl_cu12-2.27.5.dist-info/METADATA", "")}),
     "nccl-version", kAdvice, "", "2.27.5", "torch.cuda.nccl.version"},
    {"NCCL newer than the rules", kIb, otherNccl("2.32.3"), "nccl-version", kAdvice, "", "2.32.3",
     "NCCL_DEBUG"},
    {"misspelt setting", kIb, variables("NCCL_IB_HCS=mlx5"), "settings", kWarning, "NCCL_IB_HCS",
     "NCCL_IB_HCA", "unset NCCL_IB_HCS; export NCCL_IB_HCA=mlx5"},
    {"misspelt setting in nccl.conf", kIb, file("/etc/nccl.conf", "# ours\nNCCL_IB_HCS=mlx5\n"), "settings",
     kWarning, "NCCL_IB_HCS", "NCCL_IB_HCA", "sed -i '2s/^/#/' /etc/nccl.conf; export NCCL_IB_HCA=mlx5"},
    {"spaces around = in nccl.conf", kIb, file("/etc/nccl.conf", "NCCL_IB_TIMEOUT = 20\n"), "settings",
     kWarning, "NCCL_IB_TIMEOUT ", "NCCL_IB_TIMEOUT",
     "sed -i '1s/^/#/' /etc/nccl.conf; export NCCL_IB_TIMEOUT=20"},
    {"export in nccl.conf", kIb, file("/etc/nccl.conf", "export NCCL_ALGO=Ring\n"), "settings", kWarning,
     "export NCCL_ALGO", "no \"export\"", "strike out \"export\" in /etc/nccl.conf"},
    {"a tuner that is not there", kIb, variables("NCCL_TUNER_PLUGIN=/no/tuner.so"), "settings", kWarning,
     "NCCL_TUNER_PLUGIN", "no such file", "unset NCCL_TUNER_PLUGIN"},
    {"RDMA turned off", kIb, each({unset("NCCL_NET_PLUGIN"), unset("NCCL_NET"), variables("NCCL_NET=Socket")}),
     "hiding-setting", kWarning, "NCCL_NET", "NCCL_NET=Socket", "unset NCCL_NET"},
    {"value of nccl.conf out of range", kIb, file("/etc/nccl.conf", "\nNCCL_CROSS_NIC=5\n"), "settings",
     kWarning, "NCCL_CROSS_NIC", "out of range", "sed -i '2s/^/#/' /etc/nccl.conf"},
    {"a device that is none", kIb, variables("RAILWISE_DEVICE=foo"), "settings", kError, "RAILWISE_DEVICE",
     "RAILWISE_DEVICE=foo is not accepted: init will fail", "unset RAILWISE_DEVICE"},
    {"a topology that is not there", kIb, variables("RAILWISE_TOPOLOGY=/no/topo.xml"), "settings", kWarning,
     "RAILWISE_TOPOLOGY", "no such file", "unset RAILWISE_TOPOLOGY"},
    {"a tuner's file with a mistake", kIb,
     each({file("/t.csv", "allreduce,0,65536,treee,ll,-1,-1,-1\n"),
           variables("RAILWISE_TUNER_CONFIG=/t.csv")}),
     "settings", kError, "RAILWISE_TUNER_CONFIG", "/t.csv:1:19: 'treee'", "unset RAILWISE_TUNER_CONFIG"},
    {"a configuration that is not there", kIb, variables("NCCL_CONF_FILE=/no/nccl.conf"), "settings",
     kWarning, "NCCL_CONF_FILE", "no such file", "unset NCCL_CONF_FILE"},
    {"value out of range", kIb, variables("NCCL_CROSS_NIC=5"), "settings", kWarning, "NCCL_CROSS_NIC",
     "out of range", "unset NCCL_CROSS_NIC"},
    {"huge timeout", kIb, variables("NCCL_IB_TIMEOUT=31"), "settings", kWarning, "NCCL_IB_TIMEOUT",
     "NCCL_IB_TIMEOUT", "unset NCCL_IB_TIMEOUT"},
    {"bootstrap over nothing", kIb, variables("NCCL_SOCKET_IFNAME=bond0"), "bootstrap-interface", kError, "",
     "NCCL_SOCKET_IFNAME=bond0", "NCCL_SOCKET_IFNAME="},
    {"bootstrap over the loopback", kIb,
     each({variables("NCCL_SOCKET_IFNAME==lo"),
           file("/railwise/interfaces", "eth0 10.0.0.1:0\nlo 127.0.0.1:0\n")}),
     "bootstrap-interface", kAdvice, "", "lo (127.0.0.1", "NCCL_SOCKET_IFNAME="},
    {"bootstrap over docker0", kIb, file("/railwise/interfaces", "docker0 172.17.0.1:0\n"),
     "bootstrap-interface", kWarning, "", "docker0", "NCCL_SOCKET_IFNAME="},
    {"MASTER_ADDR is loopback", kIb, variables("MASTER_ADDR=localhost\nWORLD_SIZE=16\nLOCAL_WORLD_SIZE=8"),
     "launcher", kError, "", "MASTER_ADDR=localhost", "MASTER_ADDR="},
};

TEST(Settings, FilesThatTheyNameAreLookedForOnTheMachineItself) {
  const auto foundWith = [](const std::string& variable) {
    MemoryTree facts;
    facts.file("/railwise/environment", variable + "\n");
    const OverlayTree tree(sysfs::liveTree(), facts);
    return std::pair(examine(System(tree), {.only = {"settings"}}).findings.all().size(),
                     examine(System(facts), {.only = {"settings"}}).findings.all().size());
  };
  EXPECT_EQ(foundWith("RAILWISE_TUNER_CONFIG=/no/t.csv"), std::pair(1UL, 0UL))
      << "a recording has no such file";
  const std::string here = "settings_named_file";
  std::ofstream(here) << "allreduce,0,65536,tree,ll,-1,-1,-1\n";
  EXPECT_EQ(foundWith("RAILWISE_TUNER_CONFIG=" + here).first, 0U);
  EXPECT_EQ(foundWith("RAILWISE_TOPOLOGY=./" + here).first, 0U);
  std::remove(here.c_str());
}

TEST(Settings, AFixCanBeTypedAndWhyIsTrue) {
  MemoryTree tree = goodMachine();
  append(tree, "/railwise/environment", "RAILWISE_FAILOVER=0\nRAILWISE_FAILOVER_TIMEOUT=20");
  const Findings two = examine(System(tree), {.only = {"settings"}}).findings;
  ASSERT_EQ(two.all().size(), 1U);
  EXPECT_EQ(two.all()[0].fix, "unset RAILWISE_FAILOVER, or unset RAILWISE_FAILOVER_TIMEOUT");
  EXPECT_LACKS(two.all()[0].why, "default") << "the job runs with RAILWISE_FAILOVER=0";
  tree = goodMachine();
  append(tree, "/railwise/environment", "RAILWISE_FAILOVER=7");
  const Findings one = examine(System(tree), {.only = {"settings"}}).findings;
  ASSERT_EQ(one.all().size(), 1U);
  EXPECT_EQ(one.all()[0].fix,
            "unset RAILWISE_FAILOVER    (its default then counts; or correct it: accepted: 0 to 1)");
  EXPECT_HAS(one.all()[0].why, "default");
}

// The manifest of the good machine, and what the doctor says of a machine by it.
std::string manifestOf(const MemoryTree& tree) {
  const auto gpus = gpu::parseJson(tree.read("/railwise/gpus.json", 1 << 20).value_or(""));
  return fingerprint::manifestOf(tree, gpus.ok() ? *gpus : gpu::GpuTopology());
}

Findings byManifest(const MemoryTree& tree, const std::string& manifest) {
  return examine(System(tree),
                 {.only = {"manifest"}, .manifest_file = "h100.json", .manifest_text = manifest})
      .findings;
}

TEST(Manifest, ANodeFitsItsOwn) {
  for (const Network network : {kIb, kRoce}) {
    MemoryTree tree = goodMachine(network);
    tree.file("/etc/nccl.conf", "NCCL_IB_HCA=mlx5\n");
    const Diagnosis diagnosis =
        examine(System(tree),
                {.only = {"manifest"}, .manifest_file = "h100.json", .manifest_text = manifestOf(tree)});
    EXPECT_EQ(textOf(diagnosis), "node: fine\n");
    EXPECT_EQ(diagnosis.looked.size(), 4U);  // the manifest is named
  }
}

TEST(Manifest, AStarNeedsAValueAndNullComparesNothing) {
  MemoryTree tree = goodMachine();
  tree.folder("/sys/module").folder("/usr/local");
  const auto status = [&](const std::string& manifest) { return byManifest(tree, manifest).exitStatus(); };
  EXPECT_EQ(status(R"({"ports": null, "gpu": null, "nics": null, "modules": null, "settings": null})"), 0);
  EXPECT_EQ(status(R"({"settings": {"NCCL_ALGO": "*"}})"), 1);
  EXPECT_EQ(status(R"({"modules": {"amdgpu": "*"}})"), 1);
  EXPECT_EQ(status(R"({"kernel": "*", "modules": {"amdgpu": null}})"), 0);
}

TEST(Manifest, WhatTheMachineDoesNotTellIsNotLookedAt) {
  MemoryTree tree = goodMachine();
  for (const char* const file :
       {"/proc/sys/kernel/osrelease", "/sys/class/infiniband/mlx5_2/fw_ver", "/railwise/environment"})
    tree = without(tree, sysfs::realPathOf(tree, file));
  const std::string manifest =
      R"({"kernel": "6.8.*", "nics": [{"firmware": "28.39.*", "count": 8}], "settings": {"NCCL_ALGO": "Ring"}})";
  const Diagnosis diagnosis =
      examine(System(tree), {.only = {"manifest"}, .manifest_file = "h100.json", .manifest_text = manifest});
  EXPECT_EQ(diagnosis.findings.exitStatus(), 0) << textOf(diagnosis);
  for (const char* const key : {"manifest: kernel: ", "manifest: nics: ", "manifest: settings.NCCL_ALGO: "})
    EXPECT_HAS(textOf(diagnosis), key);
}

// What is not known of some NICs, ports or GPUs fits the others too.
TEST(Manifest, ANodeOfWhichSomeFieldsAreNotKnownFitsItsOwn) {
  const std::string kNic = "/sys/class/infiniband/mlx5_";
  for (const char* const file : {"/fw_ver", "/board_id", "/hca_type", "/ports/1/rate", "/ports/1/state"}) {
    MemoryTree tree = goodMachine();
    for (const char* const nic : {"0", "3"}) tree = without(tree, sysfs::realPathOf(tree, kNic + nic + file));
    const std::string manifest = manifestOf(tree);
    EXPECT_EQ(byManifest(tree, manifest).exitStatus(), 0) << file << manifest;
    tree = without(tree, kNic + "5");  // of which all is known
    EXPECT_EQ(byManifest(tree, manifest).exitStatus(), 2) << file << manifest;
  }
  const std::string narrow_last =
      R"({"nics": [{"type": "MT*", "count": 1}, {"firmware": "28.39.1*", "count": 7}]})";
  MemoryTree tree = goodMachine();
  set(tree, kNic + "5/fw_ver", "28.36.1010\n");
  EXPECT_EQ(byManifest(tree, narrow_last).exitStatus(), 0);
}

struct ManifestCase {
  const char* name;
  Change make;
  Severity severity;
  const char* key;
  const char* expected;
  const char* found;
};

TEST(Manifest, EachDifferenceIsAFindingWithBothValues) {
  const ManifestCase cases[] = {
      {"a port is slower", file(kMlx0 + "/rate", "200 Gb/sec (4X HDR)\n"), kError, "ports",
       "8 x InfiniBand, 400 Gb/s, active", "7, and 1 x InfiniBand, 200 Gb/s, active"},
      {"a port is down", file(kMlx0 + "/state", "1: DOWN\n"), kError, "ports",
       "8 x InfiniBand, 400 Gb/s, active", "down"},
      {"a NIC is missing", missing("/sys/class/infiniband/mlx5_7"), kError, "nics", "8 x MT4129", "found 7"},
      {"other firmware", file("/sys/class/infiniband/mlx5_5/fw_ver", "28.36.1010\n"), kError, "nics",
       "28.39.1002", "28.36.1010"},
      {"a GPU is missing", kNoFirstGpu, kError, "gpu.models", "8 x NVIDIA H100", "found 7"},
      {"another kernel", file("/proc/sys/kernel/osrelease", "6.8.0-47-generic\n"), kWarning, "kernel",
       "6.8.0-45-generic", "6.8.0-47-generic"},
      {"a setting is gone", missing("/etc/nccl.conf"), kWarning, "settings.NCCL_IB_HCA", "mlx5", "not set"},
  };
  for (const ManifestCase& each : cases) {
    MemoryTree tree = goodMachine();
    tree.file("/etc/nccl.conf", "NCCL_IB_HCA=mlx5\n");
    const std::string manifest = manifestOf(tree);
    each.make(tree);
    const Findings findings = byManifest(tree, manifest);
    const Finding* const at =
        findingOf(findings, [&](const Finding& finding) { return finding.seen.at(0).device == each.key; });
    ASSERT_NE(at, nullptr) << each.name;
    EXPECT_EQ(at->severity, each.severity) << each.name;
    EXPECT_HAS(at->seen[0].value, each.expected);
    EXPECT_HAS(at->seen[0].value, each.found);
  }
}

// A person writes only what matters.
TEST(Manifest, WhatIsLeftOutMayVary) {
  const MemoryTree tree = goodMachine();
  const auto severity = [&](const std::string& manifest) { return byManifest(tree, manifest).exitStatus(); };
  EXPECT_EQ(severity("{}"), 0);
  EXPECT_EQ(severity(R"({"nics": [{"firmware": "28.39.*", "count": 8}], "kernel": null})"), 0);
  EXPECT_EQ(severity(R"({"kernel": ["5.15.*", "6.8.*"]})"), 0);
  EXPECT_EQ(severity(R"({"kernel": ["5.15.*", "6.9.*"]})"), 1);
  EXPECT_EQ(severity(R"({"ports": [{"gbps": 400, "count": 8}], "settings": {"NCCL_ALGO": null}})"), 0);
  EXPECT_EQ(severity(R"({"ports": [{"gbps": 400, "count": 4}]})"), 2);
  EXPECT_EQ(severity(R"({"nics": []})"), 2);  // and the node has some
  EXPECT_EQ(severity(R"({"kernel": "5.15.*", "nics": []})"), 2);
  EXPECT_EQ(severity(R"({"settings": {"NCCL_NET": null}})"), 1);
}

TEST(Manifest, ABadOneIsNamedWithLineAndKey) {
  const auto errorOf = [](const std::string& text) {
    const auto read = fingerprint::compareWithManifest(text, "h100.json", goodMachine(), {});
    return read.ok() ? std::string() : read.error();
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\n\"kernl\": \"6.8\"}", "h100.json:2: kernl is no key of a manifest; did you mean kernel?"},
      {"{\"nics\": [\n{\"type\": \"a\", \"count\": 1},\n{\"tipe\": \"b\", \"count\": 1}]}",
       "h100.json:3: nics.tipe "},
      {"{\n\n\"ports\": [{\"gbps\": \"fast\", \"count\": 8}]}", "h100.json:3: ports.gbps "},
      {"{\"ports\": [{\"gbps\": 400}]}", "h100.json:1: ports has a group without count"},
      {"{\"kernel\": 6}", "h100.json:1: kernel "},
      {"{\"gpu\": 8}", "h100.json:1: gpu "},
      {"{\n\"kernel\": \"6.8\",\n", "h100.json:3: "},
      {"{\"settings\": {\n\"NCLL_ALGO\": null}}", "h100.json:2: settings.NCLL_ALGO "},
      {"{\"modules\": {\n\"bnxt_re\": \"*\"}}", "h100.json:2: modules.bnxt_re "},
      {"{\"railwise\": \"0.1\"}", "h100.json:1: railwise "},
      {"{\"kernel\": []}", "h100.json:1: kernel "},
      {"{\"ports\": 1e999}", "h100.json: a number "},
      {"{\"ports\": [{\"gbps\": -1e999, \"count\": 8}]}", "h100.json: a number "},
      {"{\"kernel\": \"\xff\"}", "h100.json:1: "},
      {"[]", "h100.json:1: "},
      {"", "h100.json:1: "}};
  for (const auto& [text, begin] : cases) EXPECT_TRUE(errorOf(text).starts_with(begin)) << errorOf(text);
}

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, IsFoundWithWhatToType) {
  const Fault& fault = GetParam();
  MemoryTree tree = goodMachine(fault.network);
  fault.make(tree);
  const Diagnosis diagnosis = diagnose(tree);
  const Finding* const found = findingOf(diagnosis.findings, [&](const Finding& finding) {
    return finding.check == fault.check && finding.severity == fault.severity;
  });
  ASSERT_NE(found, nullptr) << textOf(diagnosis);
  const Seen& seen = found->seen.at(0);
  if (*fault.device != '\0') EXPECT_EQ(seen.device, fault.device) << textOf(diagnosis);
  const bool value = std::ranges::any_of(found->seen, [&](const Seen& each) {
    return (each.where + ": " + each.value).find(fault.value) != std::string::npos;
  });
  EXPECT_TRUE(value) << textOf(diagnosis);
  EXPECT_HAS(found->fix, fault.fix) << textOf(diagnosis);
  EXPECT_FALSE(found->why.empty());
}

std::string testName(const Fault& fault) {
  std::string name = fault.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kFaults),
                         [](const auto& each) { return testName(each.param); });

// One fault makes one kind of finding: what is broken elsewhere is not claimed.
TEST(Doctor, AFaultIsNotTakenForAnother) {
  const std::set<std::string> companions = {
      "no RDMA driver/known-machine",  // no device at all is fewer than eight
      "no RDMA driver of another vendor/known-machine",
      "no RDMA driver of EFA/known-machine",
      "one card without its device/known-machine",
      "a GPU without the NIC that others have/known-machine",
      "fewer NICs than the machine has/rdma-devices",  // the card is still there
      "a GPU that fell off the bus/known-machine",
  };
  for (const Fault& fault : kFaults) {
    MemoryTree tree = goodMachine(fault.network);
    fault.make(tree);
    const Diagnosis diagnosis = diagnose(tree);
    for (const Finding& finding : diagnosis.findings.all()) {
      if (companions.contains(std::string(fault.name) + "/" + finding.check)) continue;
      EXPECT_EQ(finding.check, fault.check) << fault.name << "\n" << textOf(diagnosis);
    }
  }
}

TEST(Doctor, EveryCheckHasAFault) {
  // These need a machine of another shape, and have tests below.
  std::set<std::string> without_fault = {"hidden-tree", "nic-far", "nccl-init", "manifest"};
  for (const Fault& fault : kFaults) without_fault.insert(fault.check);
  for (const Check& check : allChecks()) EXPECT_TRUE(without_fault.contains(check.name)) << check.name;
}

// What is as it should be, near each fault of the GPUs' fabric, of bonds and of settings.
TEST(Doctor, WhatIsMeantIsNoFault) {
  const std::tuple<const char*, Network, Change> meant[] = {
      {"Fabric Manager runs", kIb,
       each({makeGpus("0x20b2"), missing("/railwise/gpus.json"),
             file("/proc/driver/nvidia-nvswitch/permissions", ""),
             file("/var/run/nvidia-fabricmanager/nv-fabricmanager.pid", "2939\n")})},
      {"dma-buf with RCCL", kIb,
       each({kAmdGpus,
             file("/boot/config-6.8.0-45-generic", "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n"),
             variables("NCCL_DMABUF_ENABLE=1")})},
      {"an IMEX channel", kIb,
       each({changeGpus(joinDomain),
             file("/proc/devices", "Character devices:\n 234 nvidia-caps-imex-channels\n"),
             file("/dev/nvidia-caps-imex-channels/channel0", "")})},
      {"NVLink between hosts is not wanted", kIb,
       each({changeGpus(joinDomain), variables("NCCL_MNNVL_ENABLE=0")})},
      {"the first NCCL for the GPU", kIb, each({makeGpus("0x2901"), otherNccl("2.25.1")})},
      {"a bond of two ports", kRoce, bond("802.3ad 4", "2", "up")},
      {"NICs in IOMMU groups", kIb,
       each({makeGpus("0x2342"), driver("Open Kernel Module for aarch64  595.45.04  Release Build")})},
      {"settings with a meaning", kIb,
       variables("NCCL_IB_TIMEOUT=22\nNCCL_IGNORE_NET_MISMATCH=1\nNCCL_NVLS_ENABLE=0\nNCCL_IB_ECE_ENABLE=1")},
      // The device's own class goes over the job's.
      {"a global traffic class", kRoce,
       [](MemoryTree& tree) {
         unset("NCCL_IB_TC")(tree);
         for (int i = 0; i < 8; ++i)
           file("/sys/class/infiniband/mlx5_" + std::to_string(i) + "/tc/1/traffic_class",
                "Global tclass=106\n")(tree);
       }},
      {"an idle GPU", kIb, file(kGpu0 + "/current_link_speed", "2.5 GT/s PCIe\n")},
      {"a board of eight lanes for each GPU", kIb,
       each({ofEachDevice("/class", "0x0302", "/max_link_width", "8\n"),
             ofEachDevice("/class", "0x0302", "/current_link_width", "8\n")})},
      {"a NIC left out by name", kIb, variables("NCCL_IB_HCA=^=mlx5_0:1,mlx5_2")},
      {"a subnet for each rail", kIb, ofEachPort("/lid", "0x1\n")},
      // Half-width links are sold as such: HDR100.
      {"links of two lanes", kIb, ofEachPort("/rate", "100 Gb/sec (2X HDR)\n")},
  };
  for (const auto& [what, network, change] : meant) {
    MemoryTree tree = goodMachine(network);
    change(tree);
    EXPECT_EQ(textOf(diagnose(tree)), "node: fine\n") << what;
  }
}

TEST(Doctor, WhatNobodyToldOfTheFabricIsSaid) {
  const MemoryTree tree = without(goodMachine(), "/railwise/gpus.json");
  const Diagnosis diagnosis = examine(System(tree), {.only = {"fabric-manager"}});
  EXPECT_EQ(diagnosis.findings.exitStatus(), 0);
  EXPECT_NE(diagnosis.unjudged, "");
  ASSERT_EQ(diagnosis.hidden.size(), 1U);
}

TEST(Doctor, APreflightWantsGpus) {
  MemoryTree tree;
  tree.file("/railwise/environment", "RAILWISE_DEVICE=software\n").folder("/sys/bus/pci/devices");
  const auto status = [&](bool preflight) {
    return examine(System(tree), {.only = {"gpu-driver"}, .preflight = preflight}).findings.exitStatus();
  };
  EXPECT_EQ(status(false), 0);
  EXPECT_EQ(status(true), 2);
}

TEST(Doctor, WhatCostsBandwidthComesBeforeFirmware) {
  MemoryTree tree = goodMachine();
  set(tree, "/sys/class/infiniband/mlx5_6/fw_ver", "28.36.1010\n");
  set(tree, portFolder(tree, 5) + "/rate", "200 Gb/sec (2X NDR)\n");
  set(tree, nicFolder(tree, 2) + "/current_link_width", "8\n");
  const Findings findings = diagnose(tree).findings;
  EXPECT_EQ(checksOf(findings), "port-speed pci-link firmware");
  EXPECT_EQ(found(findings, "firmware").seen.size(), 1U);
  EXPECT_HAS(found(findings, "firmware").why, "The others have 28.39.1002 (mlx5_0, mlx5_1");
}

TEST(Doctor, TwoHalvesAreBothNamed) {
  MemoryTree tree = goodMachine();
  kFourSlowPorts(tree);
  const Finding speed = found(diagnose(tree).findings, "port-speed");
  EXPECT_EQ(speed.seen.size(), 4U);
  EXPECT_HAS(speed.why, "4 ports of this kind run at 400 Gb/s (mlx5_4 port 1, ");
  for (int i = 0; i < 4; ++i)
    set(tree, "/sys/class/infiniband/mlx5_" + std::to_string(i) + "/fw_ver", "1.0\n");
  EXPECT_EQ(found(diagnose(tree).findings, "firmware").seen.size(), 8U);
}

// EFA has neither an interface, nor RoCE, nor a transceiver.
TEST(Doctor, EfaGetsNoAdviceForOtherNics) {
  MemoryTree tree = goodMachine();
  each({ofEachDevice("/vendor", "0x15b3", "/device", "0xefa1\n"),
        ofEachDevice("/vendor", "0x15b3", "/vendor", "0x1d0f\n"), ofEachPort("/link_layer", "Unspecified\n"),
        file(kMlx0 + "/state", "1: DOWN\n"), missing("/sys/class/infiniband/mlx5_3")})(tree);
  const Findings findings = diagnose(tree).findings;
  EXPECT_HAS(found(findings, "rdma-devices").fix, "modprobe efa");
  for (const char* const check : {"rdma-devices", "port-state"})
    for (const char* const word : {"enable_roce", "ip link", "transceiver"})
      EXPECT_LACKS(found(findings, check).fix, word);
}

// On this machine the doctor stands in the job's folder; another machine's nobody knows.
TEST(Doctor, ARelativePathIsOfTheFolderOfTheJob) {
  const std::string topology = "doctor_relative.xml", settings = "doctor_relative.conf";
  std::ofstream(topology) << "<system version=\"1\">\n<cpu numaid=\"0\">\n</system>\n";
  std::ofstream(settings) << "NCCL_IB_HCS=mlx5\n";
  MemoryTree facts;
  facts.file("/railwise/environment", "NCCL_TOPO_FILE=" + topology + "\nNCCL_CONF_FILE=./" + settings + "\n");
  const std::vector<std::string> only = {"topology-file", "topology-fit", "settings"};
  const Findings here = examine(System(OverlayTree(sysfs::liveTree(), facts)), {.only = only}).findings;
  std::filesystem::remove(topology);
  std::filesystem::remove(settings);
  EXPECT_EQ(found(here, "topology-file").what, "NCCL refuses the topology file");
  EXPECT_HAS(found(here, "settings").seen.at(0).where, settings + ":1");

  facts.file("/railwise/environment", "NCCL_TOPO_FILE=t.xml\nNCCL_CONF_FILE=c\nNCCL_GRAPH_FILE=g.xml\n");
  const Diagnosis elsewhere = examine(System(facts), {.only = only});
  EXPECT_TRUE(elsewhere.findings.empty()) << textOf(elsewhere);
  for (const char* const name : {"NCCL_TOPO_FILE=t.xml: ", "NCCL_CONF_FILE=c: ", "NCCL_GRAPH_FILE=g.xml: "})
    EXPECT_HAS(textOf(elsewhere), name);
  EXPECT_NE(examine(System(facts), {.only = {"topology-file"}}).unjudged, "");
}

// A recording has no environment. With cards and GPUs it is of a node, and without GPUs perhaps of PCI alone.
TEST(Doctor, ARecordedNodeThatLostAllItsDevicesIsNotFine) {
  MemoryTree tree = without(goodMachine(), "/railwise/environment");
  EXPECT_EQ(diagnose(tree).findings.exitStatus(), 0) << textOf(diagnose(tree));
  kNoRdma(tree);
  const Finding lost = found(diagnose(tree).findings, "rdma-devices");
  EXPECT_EQ(lost.severity, Severity::kError);
  EXPECT_EQ(lost.seen.size(), 8U);
  tree.folder("/sys/class/infiniband");
  EXPECT_EQ(found(diagnose(tree).findings, "rdma-devices").severity, Severity::kError);

  MemoryTree nothing;
  nothing.folder("/sys/class/infiniband");
  const Diagnosis unseen = diagnose(nothing);
  EXPECT_EQ(unseen.unjudged, "the recording has no RDMA devices");
  EXPECT_HAS(textOf(unseen), "RDMA devices: the recording has none in /sys/class/infiniband");
  const Diagnosis strict = examine(System(nothing), {.preflight = true});
  EXPECT_EQ(checksOf(strict.findings), "rdma-devices gpu-driver");
  EXPECT_EQ(strict.findings.exitStatus(), 2);
}

TEST(Doctor, WithoutACardTheSettingsDecideHowBadThatIs) {
  const auto severityWith = [](const std::vector<std::string>& variables) {
    MemoryTree tree;
    tree.file("/proc/self/limits", "");
    tree.file("/railwise/environment", "");
    for (const std::string& variable : variables) append(tree, "/railwise/environment", variable);
    const Diagnosis diagnosis = diagnose(tree);
    for (const Finding& finding : diagnosis.findings.all())
      if (finding.check == "rdma-devices") return finding.severity;
    ADD_FAILURE() << textOf(diagnosis);
    return Severity::kWarning;
  };
  EXPECT_EQ(severityWith({}), Severity::kAdvice);
  EXPECT_EQ(severityWith({"NCCL_NET=Socket"}), Severity::kAdvice);
  EXPECT_EQ(severityWith({"NCCL_NET=Railwise"}), Severity::kError);
  EXPECT_EQ(severityWith({"RAILWISE_STRICT=1"}), Severity::kError);
  EXPECT_EQ(severityWith({"NCCL_NET=Railwise", "RAILWISE_DEVICE=software"}), Severity::kAdvice);
}

TEST(Doctor, SaysWhatAJobDoesWithoutNicsWithTheseSettings) {
  const auto whyWith = [](const char* variables) {
    MemoryTree tree = goodMachine();
    unset("NCCL_NET")(tree);
    append(tree, "/railwise/environment", std::string("NCCL_IB_HCA=bnxt\n") + variables);
    const Findings found = examine(System(tree), {.only = {"hca-selection"}}).findings;
    return found.all().empty() ? "" : found.all()[0].why;
  };
  EXPECT_HAS(whyWith("NCCL_NET_PLUGIN=railwise"), "falls back to TCP sockets");
  EXPECT_HAS(whyWith("NCCL_NET=Railwise"), "fails when it starts");
  EXPECT_HAS(whyWith("NCCL_NET=socket"), "falls back to TCP sockets");
}

TEST(Doctor, TheSoftwareDeviceIsAdvisedWithItsPackageWhereItIsNotInstalled) {
  const auto reportOf = [](MemoryTree tree) {
    tree.file("/proc/self/limits", "").file("/railwise/environment", "");
    return textOf(diagnose(tree));
  };
  EXPECT_HAS(reportOf(MemoryTree()),
             "install the package railwise-device, and export RAILWISE_DEVICE=software");
  const std::string installed = reportOf(MemoryTree().file("/railwise/software_device", "/x/device.so"));
  EXPECT_HAS(installed, "without a card: export RAILWISE_DEVICE=software");
}

// A pod with one virtual function of SR-IOV sees its neighbours' devices in /sys too.
TEST(Doctor, DevicesOfOtherPodsAreNoFault) {
  MemoryTree tree = goodMachine(kRoce);
  tree.file("/.dockerenv", "");
  set(tree, "/railwise/access", "/dev/infiniband/uverbs0 ok\n");
  for (int i = 1; i < 8; ++i) {
    append(tree, "/railwise/access", "/dev/infiniband/uverbs" + std::to_string(i) + " EPERM");
    set(tree, portFolder(tree, i) + "/state", "1: DOWN\n");
    tree = without(tree, "/sys/class/net/en_mlx5_" + std::to_string(i));
  }
  EXPECT_EQ(textOf(diagnose(tree)), "node: fine\n");
  append(tree, "/railwise/environment", "NCCL_IB_HCA==mlx5_0,mlx5_3");
  const Diagnosis named = diagnose(tree);
  EXPECT_EQ(named.findings.exitStatus(), 2) << textOf(named);
}

TEST(Doctor, TheSparkIsTold) {
  MemoryTree tree = goodMachine();
  tree.file("/sys/class/dmi/id/product_name", "DGX Spark\n");
  std::string gpu;
  for (const std::string& busid : tree.list("/sys/bus/pci/devices")) {
    const std::string folder = sysfs::realPathOf(tree, "/sys/bus/pci/devices/" + busid);
    if (!tree.read(folder + "/class").value_or("").starts_with("0x0302")) continue;
    if (gpu.empty()) tree.file((gpu = folder) + "/device", "0x2e12\n");
    else tree.file(folder + "/class", "0x088000\n");  // a machine of one GPU
  }
  const Diagnosis diagnosis = diagnose(tree);
  const bool told = std::ranges::any_of(diagnosis.looked, [](const std::string& line) {
    return line.find("one QSFP port is two RDMA devices") != std::string::npos;
  });
  EXPECT_TRUE(told) << textOf(diagnosis);
}

TEST(Doctor, EveryCheckHasItsHeading) {
  std::ifstream page(RAILWISE_SOURCE_DIR "/docs/doctor.md");
  std::set<std::string> headings;
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("### ")) headings.insert(line.substr(4));
  for (const Check& check : allChecks()) EXPECT_TRUE(headings.erase(check.name) == 1) << check.name;
  EXPECT_TRUE(headings.empty()) << *headings.begin();
}

// The table of complaints names tests.
TEST(Doctor, TheNamedTestsExist) {
  std::ifstream page(RAILWISE_SOURCE_DIR "/tests/doctor/complaints.md");
  std::ostringstream whole;
  whole << page.rdbuf();
  std::set<std::string> tests = {"AGpuThatIsFartherThanOthersIsTold", "TheSparkIsTold"};
  for (const Fault& fault : kFaults) tests.insert(testName(fault));
  const std::string text = whole.str();
  int named = 0;
  for (auto at = text.find("(test"); at != std::string::npos; at = text.find("(test", at + 1)) {
    std::string names = text.substr(at, text.find(')', at) - at);
    for (auto tick = names.find('`'); tick != std::string::npos; tick = names.find('`')) {
      const auto end = names.find('`', tick + 1);
      EXPECT_TRUE(tests.contains(names.substr(tick + 1, end - tick - 1))) << names;
      names.erase(0, end + 1);
      ++named;
    }
  }
  EXPECT_GE(named, 12);
}

// A VM: its devices on buses of their own, without a switch.
MemoryTree virtualMachine() {
  const auto machine = softdev::parseMachine("@" RAILWISE_SOURCE_DIR "/machines/cloud-vm.conf");
  EXPECT_TRUE(machine.ok());
  MemoryTree tree = cli::deviceTree(machine->hosts.at(0));
  tree.file("/railwise/environment", "HOME=/root\n").file("/proc/cpuinfo", "flags : fpu hypervisor vme\n");
  tree.file("/proc/modules", "nvidia 1 0 - Live 0x0\n");
  return tree;
}

TEST(Doctor, AVirtualMachineThatHidesItsTreeIsTold) {
  MemoryTree tree = virtualMachine();
  const Diagnosis diagnosis = diagnose(tree);
  ASSERT_FALSE(diagnosis.findings.empty());
  const Finding& first = diagnosis.findings.all()[0];
  EXPECT_EQ(first.check, "hidden-tree") << textOf(diagnosis);
  EXPECT_HAS(first.fix, "RAILWISE_TOPOLOGY=auto");

  append(tree, "/railwise/environment", "RAILWISE_TOPOLOGY=auto");
  EXPECT_HAS(textOf(diagnose(tree)), "RAILWISE_TOPOLOGY=auto, which only Railwise reads");
  append(tree, "/railwise/environment", "NCCL_NET_PLUGIN=/opt/lib/libnccl-net-railwise.so");
  EXPECT_LACKS(textOf(diagnose(tree)), "hidden-tree");
}

TEST(Doctor, AMachineWithWhichNcclsInitFailsIsTold) {
  const auto errorsOf = [](const std::string& file) {
    MemoryTree tree;
    tree.file("/railwise/environment", "NCCL_TOPO_FILE=/etc/topo.xml\n");
    std::ifstream in(std::string(RAILWISE_SOURCE_DIR "/tests/topo/machines/init/") + file);
    std::stringstream text;
    text << in.rdbuf();
    tree.file("/etc/topo.xml", text.str());
    std::string errors;
    const Diagnosis diagnosis = examine(System(tree), {.only = {"topology"}});
    for (const Finding& finding : diagnosis.findings.all())
      if (finding.severity == Severity::kError)
        errors += finding.check + ": " + finding.seen[0].value + ": " + finding.fix;
    return errors;
  };
  const std::string nvls = errorsOf("nvls-one-gpu-without-nvlink.xml");
  EXPECT_TRUE(nvls.starts_with("nccl-init: the search for NVLS")) << nvls;
  EXPECT_HAS(nvls, "set NCCL_NVLS_ENABLE=0");
  const std::string pcilink = errorsOf("one-way-pcilink-lint.xml");
  EXPECT_TRUE(pcilink.starts_with("topology-file: the PCIe switch 0000:20:00.0")) << pcilink;
}

// One GPU of eight has lost the NIC below its switch.
TEST(Doctor, AGpuThatIsFartherThanOthersIsTold) {
  // Without NVLink: by PXN another GPU would send in its place.
  MemoryTree tree = without(goodMachine(), "/sys/class/infiniband/mlx5_3");
  auto gpus = gpu::parseJson(tree.read("/railwise/gpus.json", 1 << 20).value_or(""));
  ASSERT_TRUE(gpus.ok()) << gpus.error();
  gpus->links.clear();
  tree.file("/railwise/gpus.json", gpu::jsonOf(*gpus));
  std::set<std::string> checks;
  const Diagnosis diagnosis = diagnose(tree);
  for (const Finding& finding : diagnosis.findings.all()) {
    checks.insert(finding.check);
    if (finding.check == "nic-far") EXPECT_EQ(finding.seen[0].device, "GPU 3");
  }
  EXPECT_TRUE(checks.contains("nic-far")) << textOf(diagnosis);
}

TEST(Doctor, AGpuOnARootWithoutANicIsTold) {
  const MemoryTree good = goodMachine();
  MemoryTree tree = good;
  // mlx5_3 has been put into the slot beside mlx5_2.
  const std::string to = bridgeFolder(tree, 2) + "/0000:4f:00.1";
  const std::string from = nicFolder(tree, 3);
  for (const auto& [path, item] : good.items()) {
    if (!path.starts_with(from + "/") || item.is_folder) continue;
    if (item.is_link) tree.link(to + path.substr(from.size()), item.content);
    else tree.file(to + path.substr(from.size()), item.content);
  }
  tree = without(tree, from);
  tree.link("/sys/class/infiniband/mlx5_3", to + "/infiniband/mlx5_3");
  tree.link(to + "/infiniband/mlx5_3/device", to);
  const Diagnosis diagnosis = diagnose(tree);
  const Finding* const found = findingOf(diagnosis.findings, "gpu-nic-root");
  ASSERT_NE(found, nullptr) << textOf(diagnosis);
  EXPECT_EQ(found->seen[0].device, "GPU 0000:61:00.0");
}

// ---- machines that others have recorded

std::string sharedTopologies() {
  const char* named = std::getenv("RAILWISE_TOPOLOGIES");
  return named != nullptr ? named : RAILWISE_SOURCE_DIR "/../shared/topologies";
}

TEST(Doctor, RecordedMachinesAreFine) {
  const std::filesystem::path folder = sharedTopologies() + "/sysfs";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no recorded machines in " << folder;
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto tree = sysfs::openTree(entry.path());
    ASSERT_TRUE(tree.ok()) << tree.error();
    const Diagnosis diagnosis = diagnose(**tree);
    EXPECT_TRUE(diagnosis.findings.empty()) << entry.path() << "\n" << textOf(diagnosis);
    // Some were recorded without RDMA devices, and say so.
    const bool devices = !(*tree)->list("/sys/class/infiniband").empty();
    EXPECT_EQ(diagnosis.hidden.size(), devices ? 0U : 1U) << entry.path() << "\n" << textOf(diagnosis);
    EXPECT_EQ(diagnosis.unjudged.empty(), devices) << entry.path();
    ++machines;
  }
  EXPECT_GE(machines, 10);
}

// Of topology files alone: only what `railwise topo lint` calls an error, and GPUs that are farther than
// others.
TEST(Doctor, TopologyFilesAreFineIfLintHasNoError) {
  const std::filesystem::path folder = sharedTopologies() + "/machines";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no machines in " << folder;
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".xml") continue;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    const MemoryTree nothing;
    const Diagnosis diagnosis =
        examine(System(nothing), {.topology_file = entry.path(), .topology_text = text.str()});
    const auto lint = topo::lintFile(entry.path());
    const bool error = std::ranges::any_of(
        lint.findings, [](const topo::Finding& f) { return f.severity == topo::Finding::kError; });
    EXPECT_EQ(diagnosis.findings.exitStatus(), error ? 2 : 0) << entry.path() << "\n" << textOf(diagnosis);
    ++files;
  }
  EXPECT_GE(files, 100);
}

// ---- damaged trees

std::vector<std::string> filesOf(const MemoryTree& tree) {
  std::vector<std::string> files;
  for (const auto& [path, item] : tree.items())
    if (!item.is_folder && !item.is_link) files.push_back(path);
  return files;
}

constexpr unsigned kSeedsOfATest = DAMAGED_TREES;

// A tenth of the trees, counted from its parameter.
class DamagedTrees : public testing::TestWithParam<unsigned> {
 protected:
  unsigned first() const { return GetParam() * kSeedsOfATest + 1; }
  unsigned last() const { return first() + kSeedsOfATest - 1; }
};

// What is not known is not wrong: an attribute that cannot be read (its driver refuses: the content is empty)
// makes no finding but advice.
TEST_P(DamagedTrees, LostAttributesMakeNoClaim) {
  for (unsigned seed = first(); seed <= last(); seed += 3) {
    std::mt19937 random(seed);
    MemoryTree whole = goodMachine(seed % 2 == 0 ? kIb : kRoce);
    MemoryTree tree(whole.name());
    for (const auto& [path, item] : whole.items()) {
      const bool attribute =
          path.starts_with("/sys/devices/pci") || path.starts_with("/sys/kernel/iommu_groups");
      if (item.is_folder) tree.folder(path);
      else if (item.is_link) tree.link(path, item.content);
      else tree.file(path, attribute && random() % 8 == 0 ? "" : item.content);
    }
    const Diagnosis diagnosis = diagnose(tree);
    EXPECT_EQ(diagnosis.findings.exitStatus(), 0) << "seed " << seed << "\n" << textOf(diagnosis);
  }
}

std::string damaged(const std::string& text, std::mt19937& random) {
  static constexpr const char* kValues[] = {
      "",        "\n",         "-1",   "99999999999999999999", "0x", "4: ", "\xff\xfe\x00x", "x=y=z",
      "Unknown", "0x7fffffff", "%s%n", "unlimited unlimited"};
  switch (random() % 4) {
    case 0:
      return kValues[random() % std::size(kValues)];
    case 1:
      return text.substr(0, random() % (text.size() + 1));
    case 2:
      return text + text;
    default: {
      std::string bytes = text;
      for (char& byte : bytes)
        if (random() % 4 == 0) byte = static_cast<char>(random());
      return bytes;
    }
  }
}

TEST_P(DamagedTrees, DoNotBreakTheDoctor) {
  const MemoryTree good[] = {goodMachine(kIb), goodMachine(kRoce)};
  const std::vector<std::string> files[] = {filesOf(good[0]), filesOf(good[1])};
  for (unsigned seed = first(); seed <= last(); ++seed) {
    std::mt19937 random(seed);
    const std::size_t which = seed % 2;
    MemoryTree tree = without(good[which], "/nothing");
    for (auto i = random() % 40 + 1; i > 0; --i) {
      const std::string& path = files[which][random() % files[which].size()];
      const auto kind = random() % 10;
      if (kind == 0) tree.link(path, path);
      else if (kind == 1) tree.link(path, "../../../../../../../../..");
      else tree.file(path, damaged(tree.read(path, 1 << 16).value_or(""), random));
    }
    const Diagnosis diagnosis = diagnose(tree);
    for (const Finding& finding : diagnosis.findings.all()) {
      ASSERT_FALSE(finding.what.empty() || finding.why.empty() || finding.fix.empty() || finding.seen.empty())
          << "seed " << seed << ", " << finding.check;
      ASSERT_TRUE(isCheckOrFamily(finding.check)) << finding.check;
    }
    JsonWriter json;
    json.beginObject();
    writeReportJson(json, diagnosis.findings, {.subject = "node"});
    json.endObject();
    ASSERT_EQ(json.text(), cleanUtf8(json.text())) << "seed " << seed;
  }
}

// A thousand in all; fewer with sanitizers.
INSTANTIATE_TEST_SUITE_P(Thousand, DamagedTrees, testing::Range(0U, 10U));

}  // namespace
}  // namespace railwise::doctor
