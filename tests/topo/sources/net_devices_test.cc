// The NICs of a /sys tree as Railwise's plugin and as NCCL's own, net_ib, name and place them.
#include "topo/sources/net_devices.h"

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/flat_tree.h"
#include "topo/machine/machine.h"
#include "topo/sources/record.h"
#include "topo/sources/sysfs.h"

namespace railwise::topo {
namespace {

using namespace test;

Settings netIb() { return {.net_ib = true}; }

// "mlx5_0@0000:00:00.0:1 ..."
std::string netsOf(const sysfs::FileTree& tree, const Settings& settings = {},
                   std::vector<std::string>* remarks = nullptr) {
  std::string text;
  for (const NetDevice& net : netDevices(tree, settings, {}, remarks)) {
    text += (text.empty() ? "" : " ") + net.name + "@" + (net.busid.empty() ? "none" : net.busid) + ":" +
            std::to_string(net.port);
  }
  return text;
}

std::string remarksOf(const sysfs::FileTree& tree, const Settings& settings = {}) {
  std::vector<std::string> remarks;
  (void)readSysfs(tree, std::nullopt, settings, {}, &remarks);
  std::string all;
  for (const std::string& remark : remarks) all += remark + "\n";
  return all;
}

// The NICs in the graph that NCCL would have, by name.
std::string fusedNets(const sysfs::FileTree& tree, const Settings& settings = {}) {
  auto document = readSysfs(tree, std::nullopt, settings, {}, nullptr);
  const Outcome<Machine> machine = makeMachine(std::move(*document), settings, "test");
  std::string text;
  for (int net = 0; net < machine->graph->count(NodeType::kNet); ++net)
    text += (net == 0 ? "" : " ") + machine->graph->of(NodeType::kNet, net).name;
  return text;
}

// --- cards ---

// Two functions of one card, and a function of another slot of that bus.
sysfs::MemoryTree makeCard() {
  FlatPci first = rdma(infinibandVf("0000", 0), "mlx5_1");
  FlatPci second = rdma(infinibandVf("0000", 0), "mlx5_0");
  FlatPci other = rdma(infinibandVf("0000", 0), "mlx5_2");
  second.busid = "0000:00:00.1", other.busid = "0000:00:01.2";
  return makeVm({h100("0001", 0), other, second, first});
}

TEST(NetDevices, AreInTheOrderOfTheirAddressesOrNames) {
  const auto first = [](const std::string& text) { return text.substr(0, text.find('@')); };
  EXPECT_EQ(first(netsOf(makeCard())), "mlx5_1");
  EXPECT_EQ(first(netsOf(makeCard(), {.ib_device_pci_order = 0})), "mlx5_0");
}

TEST(NetDevices, FunctionsOfACardShareAPlaceAndCountAsPorts) {
  EXPECT_EQ(netsOf(makeCard()), "mlx5_1@0000:00:00.0:1 mlx5_0@0000:00:00.0:2 mlx5_2@0000:00:01.2:1");
}

TEST(NetDevices, OfNetIbShareAPlaceOnABus) {
  EXPECT_EQ(netsOf(makeCard(), netIb()), "mlx5_1@0000:00:00.0:1 mlx5_0@0000:00:00.0:2 mlx5_2@0000:00:00.0:3");
}

TEST(NetDevices, OfNetIbWithoutMergeVfsOnlyFunctionsDo) {
  Settings settings = netIb();
  settings.ib_merge_vfs = 0;
  EXPECT_EQ(netsOf(makeCard(), settings), "mlx5_1@0000:00:00.0:1 mlx5_0@0000:00:00.0:2 mlx5_2@none:1")
      << "0000:00:01.0 is not there";
}

// A host's virtual functions are their NIC's.
TEST(NetDevices, AVirtualFunctionIsAtItsNic) {
  FlatPci nic = infinibandVf("0000", 0);
  FlatPci vf = rdma(infinibandVf("0000", 0), "mlx5_3");
  vf.busid = "0000:00:08.2";
  sysfs::MemoryTree tree = makeVm({h100("0001", 0), nic, vf});
  tree.link(*tree.realPath("/sys/bus/pci/devices/0000:00:08.2") + "/physfn", "../0000:00:00.0");
  EXPECT_EQ(netsOf(tree), "mlx5_3@0000:00:00.0:1");
  EXPECT_EQ(netsOf(*recordTree(tree, {})), netsOf(tree));
  EXPECT_EQ(netsOf(tree, {.ib_merge_vfs = 0}), "mlx5_3@0000:00:08.2:1");
}

// Both plugins refuse to fuse ports of InfiniBand and Ethernet; Railwise iWARP and RoCE too.
TEST(NetDevices, PortsOfDifferentLinksStayApart) {
  FlatPci second = rdma(infinibandVf("0101", 0), "mlx5_1");
  second.busid = "0101:00:00.1";
  sysfs::MemoryTree tree = makeVm({h100("0001", 0), rdma(infinibandVf("0101", 0), "mlx5_0"), second});
  EXPECT_EQ(fusedNets(tree), "mlx5_0+mlx5_1");
  const std::string device = *tree.realPath("/sys/class/infiniband/mlx5_1");
  tree.file(device + "/ports/1/link_layer", "Ethernet\n");
  EXPECT_EQ(fusedNets(tree), "mlx5_0 mlx5_1");
  EXPECT_EQ(fusedNets(tree, netIb()), "mlx5_0 mlx5_1");
  tree.file(*tree.realPath("/sys/class/infiniband/mlx5_0") + "/ports/1/link_layer", "Ethernet\n");
  EXPECT_EQ(fusedNets(tree), "mlx5_0+mlx5_1");
  tree.file(device + "/node_type", "4: RNIC\n");
  EXPECT_EQ(fusedNets(tree), "mlx5_0 mlx5_1");
  EXPECT_EQ(fusedNets(*recordTree(tree, {})), "mlx5_0 mlx5_1");
  EXPECT_EQ(fusedNets(tree, netIb()), "mlx5_0+mlx5_1");
}

// As the plugin names them; net_ib gives both the same name, so NCCL finds one.
TEST(NetDevices, TwoPortsOfADeviceHaveNamesOfTheirOwn) {
  sysfs::MemoryTree tree = makeVm({h100("0001", 0), rdma(infinibandVf("0101", 0), "mlx4_0")});
  tree.file(*tree.realPath("/sys/class/infiniband/mlx4_0") + "/ports/2/state", "4: ACTIVE\n");
  EXPECT_EQ(netsOf(tree), "mlx4_0@0101:00:00.0:1 mlx4_0:2@0101:00:00.0:3");
  EXPECT_EQ(netsOf(tree, netIb()), "mlx4_0@0101:00:00.0:1 mlx4_0@0101:00:00.0:3");
}

// AWS's EFA is neither InfiniBand nor Ethernet: net_ib leaves it to AWS's plugin, which merges nothing.
TEST(NetDevices, OtherLinkLayersKeepTheirPlace) {
  FlatPci efa = rdma(infinibandVf("0000", 0), "rdmap16s27");
  efa.busid = "0000:10:1b.0";
  sysfs::MemoryTree tree = makeVm({efa});
  tree.file(*tree.realPath("/sys/class/infiniband/rdmap16s27") + "/ports/1/link_layer", "Unknown\n");
  EXPECT_EQ(netsOf(tree), "rdmap16s27@0000:10:1b.0:1");
  EXPECT_EQ(netsOf(tree, netIb()), "rdmap16s27@0000:10:1b.0:1");
}

TEST(NetDevices, OnlyActivePortsCount) {
  sysfs::MemoryTree tree =
      makeVm({rdma(infinibandVf("0101", 0), "mlx5_0"), rdma(infinibandVf("0102", 0), "mlx5_1")});
  tree.file(*tree.realPath("/sys/class/infiniband/mlx5_0") + "/ports/1/state", "1: DOWN\n");
  EXPECT_EQ(netsOf(tree), "mlx5_1@0102:00:00.0:1");
  EXPECT_HAS(remarksOf(makeVm({h100("0001", 0)})), "no RDMA device");
}

TEST(NetDevices, WhatIsAssumedOfASpeedIsSaid) {
  sysfs::MemoryTree tree = makeVm(
      {h100("0001", 0), rdma(infinibandVf("0101", 0), "mlx5_0"), rdma(infinibandVf("0102", 0), "mlx5_1")});
  const Settings settings;
  EXPECT_LACKS(remarksOf(tree), "--nic-speed");
  const std::string rate = *tree.realPath("/sys/class/infiniband/mlx5_1") + "/ports/1/rate";
  tree.file(rate, "\n");
  EXPECT_HAS(remarksOf(tree), "has no rate of mlx5_1: 400000 Mb/s each are assumed (--nic-speed)");
  const auto assumed = [&](SysfsOptions options) {
    return loadMachine({.tree = &tree, .settings = settings, .options = std::move(options)})
        ->assumed.nic_speed;
  };
  EXPECT_TRUE(assumed({}));
  EXPECT_FALSE(assumed({.detection = {.nic_speed = 100000}})) << "--nic-speed says it";
  tree.file(rate, "100 Gb/sec (2X HDR)\n");
  EXPECT_FALSE(assumed({}));
}

// --- Soft-RoCE: what a kernel shows of rdma_rxe ---

void addRxe(sysfs::MemoryTree& tree, const std::string& name, const std::string& interface) {
  const std::string device = "/sys/devices/virtual/infiniband/" + name;
  tree.file(device + "/parent", interface + "\n").file(device + "/ports/1/state", "4: ACTIVE\n");
  tree.file(device + "/ports/1/rate", "25 Gb/sec (1X EDR)\n");
  tree.file(device + "/ports/1/link_layer", "Ethernet\n");
  tree.link("/sys/class/infiniband/" + name, device);
}

// eth0 of virtio's driver, one level below the function; eth1 of the function itself; a VLAN; an end of a
// veth pair.
sysfs::MemoryTree makeSoftHost() {
  sysfs::MemoryTree tree = makeVm({h100("0001", 0), ethernetVf("0101", 0), ethernetVf("0102", 0)});
  const std::string first = *tree.realPath("/sys/bus/pci/devices/0101:00:00.0") + "/virtio3";
  const std::string second = *tree.realPath("/sys/bus/pci/devices/0102:00:00.0");
  tree.link(first + "/net/eth0/device", first).link("/sys/class/net/eth0", first + "/net/eth0");
  tree.link(second + "/net/eth1/device", second).link("/sys/class/net/eth1", second + "/net/eth1");
  tree.link("/sys/class/net/eth1.7/lower_eth1", "/sys/class/net/eth1").folder("/sys/class/net/veth0");
  return tree;
}

TEST(SoftwareNets, AreAtTheCardOfTheirInterface) {
  sysfs::MemoryTree tree = makeSoftHost();
  addRxe(tree, "rxe0", "eth0"), addRxe(tree, "rxe1", "eth1.7"), addRxe(tree, "rxe2", "veth0");
  std::vector<std::string> remarks;
  EXPECT_EQ(netsOf(tree, {}, &remarks), "rxe0@0101:00:00.0:1 rxe1@0102:00:00.0:1 rxe2@none:1");
  EXPECT_EQ(netsOf(tree, netIb()), "rxe0@none:1 rxe1@none:1 rxe2@none:1");
  ASSERT_EQ(remarks.size(), 3U);
  EXPECT_HAS(remarks[1], "on eth1.7: placed at that interface's card, 0102:00:00.0");
  EXPECT_HAS(remarks[2], "on veth0, which is on no PCI device");
}

TEST(SoftwareNets, HaveNoGpuDirect) {
  sysfs::MemoryTree tree = makeSoftHost();
  addRxe(tree, "rxe0", "eth0");
  EXPECT_FALSE(netDevices(tree, {}, {}, nullptr).at(0).gdr);
}

TEST(SoftwareNets, AreRecordedWithTheirPlace) {
  sysfs::MemoryTree tree = makeSoftHost();
  addRxe(tree, "rxe0", "eth0"), addRxe(tree, "rxe1", "eth1.7"), addRxe(tree, "rxe2", "veth0");
  const Outcome<sysfs::MemoryTree> recorded = recordTree(tree, {});
  ASSERT_OK(recorded);
  EXPECT_EQ(netsOf(*recorded), netsOf(tree));
  EXPECT_EQ(remarksOf(*recorded), remarksOf(tree));
}

// NCCL takes devices without a PCI place for ports of one card and loses what it fuses them to.
TEST(SoftwareNets, WithoutAPlaceAreLostToNetIbAndKeptByRailwise) {
  sysfs::MemoryTree tree = makeSoftHost();
  addRxe(tree, "rxe0", "veth0"), addRxe(tree, "rxe1", "veth1");
  EXPECT_EQ(fusedNets(tree, netIb()), "");
  EXPECT_HAS(remarksOf(tree, netIb()), "rxe0, rxe1 have no PCI place: NCCL makes one NIC of them");
  Settings apart = netIb();
  apart.net_merge_level = PathType::kLoc;
  EXPECT_EQ(fusedNets(tree, apart), "rxe0 rxe1");
  EXPECT_EQ(fusedNets(tree), "rxe0 rxe1");
  EXPECT_LACKS(remarksOf(tree), "NCCL makes one");
}

}  // namespace
}  // namespace railwise::topo
