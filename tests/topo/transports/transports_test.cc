#include "topo/transports/transports.h"

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

constexpr const char* kSwitched = "<nvlink target=\"fffffff:ffff:ff\" count=\"12\" tclass=\"0x068000\"/>\n";

std::string link(const std::string& busid) {
  return "<nvlink target=\"" + busid + "\" count=\"2\" tclass=\"0x030200\"/>\n";
}

std::string gpuOf(int rank, int sm, const std::string& nvlinks = "") {
  return gpuWith(rank, "0000:" + std::to_string(rank) + "1:00.0", nvlinks, sm);
}

// Each of two NUMA nodes: a switch with a GPU and a NIC of 400 Gb/s.
std::string twoNodes(int sm, const std::string& nvlinks = "") {
  std::string text;
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i);
    text += cpu(i, pciSwitch("0000:" + number + "0:00.0",
                             gpuOf(i, sm, nvlinks) + nic(i, "0000:" + number + "2:00.0", "mlx5_" + number)));
  }
  return systemOf(text);
}

// The NVLinks of three GPUs make a line.
std::string line() {
  return systemOf(cpu(0, gpuOf(0, 70, link("0000:11:00.0")) +
                             gpuOf(1, 70, link("0000:01:00.0") + link("0000:21:00.0")) +
                             gpuOf(2, 70, link("0000:11:00.0"))));
}

// Two GPUs on the root ports of one CPU, and a slow NIC.
std::string rootPorts() {
  return systemOf(cpu(0, gpuOf(0, 86) + gpuOf(1, 86) + nic(0, "0000:30:00.0", "mlx5_0", "2.5 GT/s PCIe")));
}

Transport transport(const Machine& machine, const RankPair& pair, const Job& job = {}) {
  return Transports(machine, job).between(pair);
}

std::string nameOn(const std::string& xml, const Settings& settings = {}, const Job& job = {}) {
  const Machine machine = machineOf(xml, settings);
  return transportName(transport(machine, {.from = 0, .to = 1}, job));
}

TEST(Transports, ProcessesShareMemoryByCumemAndThreadsByPointers) {
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched)), "P2P/CUMEM");
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched), {}, {.one_process = true}), "P2P/direct pointer");
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched), {}, {.cumem = false}), "P2P/IPC");
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched), {.cumem_enable = 0}), "P2P/IPC");
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched), {.cumem_enable = 1}, {.cumem = false}), "P2P/CUMEM");
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched), {.p2p_direct_disable = 1}, {.one_process = true}), "P2P/CUMEM");
}

TEST(Transports, TheReceiverReadsOnA100WithNvlink) {
  EXPECT_EQ(nameOn(twoNodes(80, kSwitched)), "P2P/CUMEM/read");
  EXPECT_EQ(nameOn(twoNodes(80, kSwitched), {.p2p_read_enable = 0}), "P2P/CUMEM");
  EXPECT_EQ(nameOn(twoNodes(90, kSwitched), {.p2p_read_enable = 1}), "P2P/CUMEM/read");
}

TEST(Transports, ACopyEngineWritesAndNeedsNoPointer) {
  EXPECT_EQ(nameOn(twoNodes(80, kSwitched), {.p2p_use_cuda_memcpy = 1}, {.one_process = true}),
            "P2P/CUMEM/CE");
}

TEST(Transports, AThirdGpuIsBetween) {
  const Machine machine = machineOf(line());
  const Transport found = transport(machine, {.from = 0, .to = 2});
  EXPECT_EQ(transportName(found), "P2P/indirect");
  EXPECT_EQ(found.intermediate_rank, 1);
  const Machine copying = machineOf(line(), {.p2p_use_cuda_memcpy = 1});
  EXPECT_EQ(transportName(transport(copying, {.from = 0, .to = 2})), "SHM");
}

TEST(Transports, BeyondTheLevelOfP2pItIsSharedMemory) {
  const Machine machine = machineOf(rootPorts());
  const Transport found = transport(machine, {.from = 0, .to = 1});
  EXPECT_EQ(transportName(found), "SHM");
  ASSERT_EQ(found.steps.size(), 2U);
  EXPECT_HAS(found.steps[0].reason, "PHB > PXB");
  EXPECT_EQ(nameOn(rootPorts(), {.p2p_level = static_cast<int>(PathType::kSys)}), "P2P/CUMEM");
}

TEST(Transports, WithoutSharedMemoryASlowNicLeavesNothing) {
  const Machine machine = machineOf(rootPorts(), {.net_disable_intra = 1, .shm_disable = 1});
  const Transport found = transport(machine, {.from = 0, .to = 1});
  EXPECT_EQ(transportName(found), "none");
  EXPECT_HAS(found.warning, "fails");
  EXPECT_HAS(transportReason(found), "NCCL_SHM_DISABLE=1");
}

// NICs at 48 GB/s, and 22 between the CPUs: NCCL makes two parts of the host.
TEST(Transports, PartsOfAHostDependOnTheVersion) {
  EXPECT_EQ(nameOn(twoNodes(86), {.nccl = NcclVersion::k2_28}), "NET/GDRDMA");
  EXPECT_EQ(nameOn(twoNodes(86), {.nccl = NcclVersion::k2_30}), "SHM");
  EXPECT_EQ(nameOn(twoNodes(86), {.nccl = NcclVersion::k2_30, .shm_disable = 1}), "NET/GDRDMA");
  EXPECT_EQ(nameOn(twoNodes(86), {.nccl = NcclVersion::k2_28, .net_disable_intra = 1}), "SHM");
}

TEST(Transports, TheGpuNearThePeersNicSendsToAnotherHost) {
  const Machine machine = machineOf(twoNodes(90, kSwitched));
  const Transport found = transport(machine, {.from = 0, .to = 1, .other_host = true});
  EXPECT_EQ(transportName(found), "NET/GDRDMA");
  EXPECT_EQ(found.sender.net, 1);
  EXPECT_EQ(found.sender.proxy_rank, 1);
  EXPECT_EQ(found.receiver.net, 1);
  EXPECT_HAS(found.pxn_reason, "GPU 1 sends for GPU 0");
}

TEST(Transports, WithoutPxnEachEndUsesItsOwnNic) {
  const Machine machine = machineOf(twoNodes(90, kSwitched), {.pxn_disable = 1});
  const Transport found = transport(machine, {.from = 0, .to = 1, .other_host = true});
  EXPECT_EQ(found.sender.net, 0);
  EXPECT_EQ(found.sender.proxy_rank, 0);
  EXPECT_EQ(found.receiver.net, 1);
  EXPECT_EQ(found.pxn_reason, "");
}

TEST(Transports, PxnLevel1CrashesNccl) {
  const Machine machine = machineOf(twoNodes(90, kSwitched), {.p2p_pxn_level = 1});
  EXPECT_HAS(transport(machine, {.from = 0, .to = 1, .other_host = true}).warning, "crashes");
  EXPECT_EQ(transport(machine, {.from = 0, .to = 1}).warning, "");
}

TEST(Transports, NeverFindsItsOwnHostBeyondTheNetwork) {
  const Machine machine = machineOf(twoNodes(90, kSwitched));
  EXPECT_EQ(transport(machine, {.from = 0, .to = 0, .other_host = true}).kind, TransportKind::kNet);
}

// What NVML says of the two GPUs of twoNodes().
Machine answered(const std::string& xml, const Settings& settings, const std::string& driver, bool allowed) {
  Machine machine = machineOf(xml, settings);
  gpu::GpuTopology answers;
  for (int i = 0; i < 2; ++i) {
    gpu::Device device;
    device.index = i;
    device.busid = "0000:" + std::to_string(i) + "1:00.0";
    device.driver = driver;
    answers.gpus.push_back(device);
    answers.peers.push_back({.from = i, .to = 1 - i, .allowed = allowed, .reason = "chipset not supported"});
  }
  machine.gpu_answers = std::make_shared<gpu::GpuTopology>(std::move(answers));
  return machine;
}

TEST(Transports, TheDriverCanForbidP2p) {
  const Settings everywhere{.p2p_level = static_cast<int>(PathType::kSys)};
  const Machine machine = answered(rootPorts(), everywhere, "570.10", false);
  const Transport found = transport(machine, {.from = 0, .to = 1});
  EXPECT_EQ(transportName(found), "SHM");
  EXPECT_HAS(found.steps[0].reason, "chipset not supported");
  EXPECT_EQ(found.warning, "");
  const Machine permitting = answered(rootPorts(), everywhere, "570.10", true);
  EXPECT_EQ(transportName(transport(permitting, {.from = 0, .to = 1})), "P2P/CUMEM");
}

TEST(Transports, NcclFailsWhereTheDriverForbidsP2pOverNvlink) {
  const Machine machine = answered(twoNodes(90, kSwitched), {}, "570.10", false);
  EXPECT_HAS(transport(machine, {.from = 0, .to = 1}).warning, "NCCL fails its init");
  const Machine going_on = answered(twoNodes(90, kSwitched), {.ignore_disabled_p2p = 1}, "570.10", false);
  EXPECT_EQ(transport(going_on, {.from = 0, .to = 1}).warning, "");
  const Machine ignoring = answered(twoNodes(90, kSwitched), {.ignore_disabled_p2p = 2}, "570.10", false);
  EXPECT_EQ(transportName(transport(ignoring, {.from = 0, .to = 1})), "P2P/CUMEM");
}

TEST(Transports, AnOldDriverHasNoCumem) {
  const Machine old = answered(twoNodes(90, kSwitched), {}, "470.82.01", true);
  EXPECT_EQ(transportName(transport(old, {.from = 0, .to = 1}, jobOn(old))), "P2P/IPC");
  const Machine now = answered(twoNodes(90, kSwitched), {}, "570.10", true);
  EXPECT_EQ(transportName(transport(now, {.from = 0, .to = 1}, jobOn(now))), "P2P/CUMEM");
}

Machine twoHosts(const Settings& settings) {
  auto machine =
      loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/synthetic/mnnvl-2hosts.xml", settings, {});
  EXPECT_OK(machine);
  return std::move(*machine);
}

TEST(Transports, HostsOfAnNvlinkDomainReachEachOtherByNvlink) {
  const Machine machine = twoHosts({});
  EXPECT_EQ(transportName(transport(machine, {.from = 0, .to = 3})), "P2P/MNNVL");
  EXPECT_EQ(transportName(transport(machine, {.from = 0, .to = 3, .other_host = true})).substr(0, 3), "NET");
  const Machine apart = twoHosts({.mnnvl_enable = 0});
  EXPECT_EQ(transportName(transport(apart, {.from = 0, .to = 3})).substr(0, 3), "NET");
  EXPECT_EQ(transportName(transport(apart, {.from = 0, .to = 1})), "P2P/CUMEM");
}

TEST(Transports, NvlsNeedsNvswitchesAndH100) {
  const auto why = [](const std::string& xml, const Settings& settings = {}) {
    const Machine machine = machineOf(xml, settings);
    const NvlsAnswer answer = Transports(machine, {}).nvls(0);
    return (answer.used ? "yes: " : "no: ") + answer.reason;
  };
  EXPECT_HAS(why(twoNodes(90, kSwitched)), "yes: ");
  EXPECT_HAS(why(twoNodes(80, kSwitched)), "no: GPUs of sm 80");
  EXPECT_HAS(why(twoNodes(90)), "no: ");
  EXPECT_EQ(why(twoNodes(90, kSwitched), {.nvls_enable = 0}), "no: NCCL_NVLS_ENABLE=0");
}

TEST(Transports, LogLinesAreNccls) {
  const auto lines = [](const std::string& xml, const RankPair& pair, const Settings& settings = {}) {
    const Machine machine = machineOf(xml, settings);
    const Transports transports(machine, {});
    std::string all;
    for (const std::string& text : transports.logLines(pair, transports.between(pair))) all += text + "\n";
    return all;
  };
  EXPECT_EQ(lines(twoNodes(80, kSwitched), {.from = 0, .to = 1}),
            "Channel 00/1 : 0[0] -> 1[1] via P2P/CUMEM/read\n");
  EXPECT_EQ(lines(line(), {.from = 2, .to = 0}), "Channel 00/1 : 2[2] -> 0[0] via P2P/indirect/1[1]\n");
  EXPECT_EQ(lines(rootPorts(), {.from = 0, .to = 1}), "Channel 00 : 0[0] -> 1[1] via SHM/direct\n");
  EXPECT_EQ(lines(rootPorts(), {.from = 0, .to = 1}, {.nccl = NcclVersion::k2_28}),
            "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n");
  EXPECT_EQ(lines(twoNodes(90, kSwitched), {.from = 0, .to = 1, .other_host = true, .channel = 3}),
            "Channel 03/1 : 0[0] -> 3[1] [send] via NET/Railwise/1(1)/GDRDMA\n"
            "Channel 03/1 : 0[0] -> 3[1] [receive] via NET/Railwise/1/GDRDMA\n");
}

TEST(TransportTable, PutsEqualPairsTogether) {
  const Machine machine = machineOf(line());
  const Transports transports(machine, {});
  const TransportTable table = tabulate(transports, {});
  ASSERT_EQ(table.classes.size(), 2U);
  EXPECT_EQ(table.classes[0].pairs, 4);
  EXPECT_EQ(table.classes[1].name, "P2P/indirect");
  EXPECT_EQ(table.classes[1].pairs, 2);
  EXPECT_EQ(table.rows.size(), 6U);
  EXPECT_EQ(tabulate(transports, {.from = 1}).rows.size(), 2U);
  EXPECT_EQ(tabulate(transports, {.from = 1, .to = 2}).rows.size(), 1U);
}

// Whatever machine it is, both ends agree and something connects them.
TEST(Transports, EveryPairOfTheRealMachinesIsConnected) {
  for (const char* file : {"azure/ndv2-topo.xml", "misc/nebius-h100-v1.xml", "rcclx/topo_8p_942.xml",
                           "synthetic/two-ranks-per-gpu.xml", "synthetic/gb300-directnic.xml"}) {
    const auto machine = realMachine(file, {.gpu_sm = 70});
    if (!machine) GTEST_SKIP() << "no ../shared/topologies";
    const Transports transports(*machine, {});
    for (const TransportClass& each : tabulate(transports, {}).classes) {
      EXPECT_EQ(each.first.warning, "") << file << ": " << each.reason;
      EXPECT_NE(each.reason, "") << file;
    }
  }
}

}  // namespace
}  // namespace railwise::topo
