// NCCL's decisions and the reasons we give for them.
#include "topo/paths/policy.h"

#include <gtest/gtest.h>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo::test {
namespace {

std::vector<std::vector<int>> netsOfAll(const Machine& machine) {
  std::vector<std::vector<int>> all;
  for (int g = 0; g < machine.graph->count(NodeType::kGpu); ++g) {
    const auto nets = localNets(*machine.paths, g);
    EXPECT_OK(nets);
    all.push_back(nets.ok() ? *nets : std::vector<int>{});
  }
  return all;
}

std::string equalMachine(int gpus, int nics) {
  std::string inner;
  char busid[32];
  for (int i = 0; i < gpus; ++i) {
    std::snprintf(busid, sizeof busid, "0000:%02x:00.0", 0x10 + i);
    inner += gpu(i, busid);
  }
  for (int i = 0; i < nics; ++i) {
    std::snprintf(busid, sizeof busid, "0000:%02x:00.0", 0x40 + i);
    inner += nic(i, busid, "mlx5_" + std::to_string(i));
  }
  return systemOf(cpu(0, inner));
}

// Confirmed by NCCL 2.30.7's own code (facts, section 7).
TEST(PolicyTest, EquallyNearNicsAreDealtOutByBitReversal) {
  using Nets = std::vector<std::vector<int>>;
  EXPECT_EQ(netsOfAll(machineOf(equalMachine(4, 4))), (Nets{{0}, {2}, {1}, {3}}));
  EXPECT_EQ(netsOfAll(machineOf(equalMachine(4, 8))), (Nets{{0, 1}, {4, 5}, {2, 3}, {6, 7}}));
  EXPECT_EQ(netsOfAll(machineOf(equalMachine(4, 2))), (Nets{{0}, {1}, {0}, {1}}));
  EXPECT_EQ(netsOfAll(machineOf(equalMachine(4, 3))), (Nets{{0}, {1}, {2}, {0}}));
}

TEST(PolicyTest, NetDevsPolicyChangesHowMany) {
  Settings all{.netdevs_policy = Settings::NetDevsPolicy::kAll};
  EXPECT_EQ(netsOfAll(machineOf(equalMachine(2, 4), all))[0], (std::vector<int>{0, 1, 2, 3}));
  Settings two{.netdevs_policy = Settings::NetDevsPolicy::kMax, .netdevs_max = 1};
  EXPECT_EQ(netsOfAll(machineOf(equalMachine(2, 4), two))[0], (std::vector<int>{0}));
}

TEST(PolicyTest, BandwidthGoesBeforeDistance) {
  // The near NIC has a Gen3 link (12 GB/s), the one on the other socket 22 GB/s.
  const Machine machine = machineOf(
      systemOf(cpu(0, pciSwitch("0000:10:00.0",
                                gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0", "8.0 GT/s PCIe"))) +
               cpu(1, pciSwitch("0000:20:00.0", nic(1, "0000:22:00.0", "mlx5_1")))));
  EXPECT_EQ(netsOfAll(machine)[0], std::vector<int>{1});
}

TEST(PolicyTest, GdrByDistanceSaysWhatToSet) {
  const Machine machine = machineOf(flat());
  const auto answer = checkGdr(*machine.paths, 0, 0, false);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->mode, GdrMode::kOff);
  EXPECT_EQ(answer->rule, "distance");
  EXPECT_EQ(answer->reason,
            "PHB > P2C: distance limit, set NCCL_NET_GDR_LEVEL=PHB or give the switch in a topology file");
  Settings allowed{.net_gdr_level = static_cast<int>(PathType::kPhb)};
  EXPECT_EQ(checkGdr(*machineOf(flat(), allowed).paths, 0, 0, false)->mode, GdrMode::kOn);
}

TEST(PolicyTest, GdrNeedsBothEnds) {
  const std::string xml = replaced(twoSwitches(), "guid=\"0x0\" gdr=\"1\"", "guid=\"0x0\" gdr=\"0\"");
  EXPECT_EQ(checkGdr(*machineOf(xml).paths, 0, 0, false)->rule, "net-gdr");
  std::string gpu_without = twoSwitches();
  gpu_without.replace(gpu_without.find("gdr=\"1\""), 7, "gdr=\"0\"");
  EXPECT_EQ(checkGdr(*machineOf(gpu_without).paths, 0, 0, false)->rule, "gpu-gdr");
}

std::string twoGpusAtASwitch() {
  return systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + gpu(1, "0000:13:00.0") +
                                                       nic(0, "0000:12:00.0", "mlx5_0"))));
}

TEST(PolicyTest, OldGpusAreReadOnlyWithAnNvlinkPeer) {
  const std::string old = replaced(twoGpusAtASwitch(), "sm=\"90\"", "sm=\"70\"");
  EXPECT_EQ(checkGdr(*machineOf(old).paths, 0, 0, true)->mode, GdrMode::kOn);
  EXPECT_EQ(checkGdr(*machineOf(withoutNvlinks(old)).paths, 0, 0, true)->rule, "read");
  EXPECT_EQ(checkGdr(*machineOf(withoutNvlinks(old)).paths, 0, 0, false)->mode, GdrMode::kOn);
}

TEST(PolicyTest, P2pWithItsLevel) {
  const Machine machine = machineOf(flat());
  const auto nvlink = checkP2p(*machine.paths, 0, 1);
  ASSERT_OK(nvlink);
  EXPECT_TRUE(nvlink->allowed);
  EXPECT_EQ(nvlink->reason, "NVL <= PXB");
  const Machine disabled = machineOf(flat(), {.p2p_level = static_cast<int>(PathType::kLoc)});
  EXPECT_FALSE(checkP2p(*disabled.paths, 0, 1)->allowed);
}

TEST(PolicyTest, TwoGpusOnAmdUseP2pAcrossSockets) {
  const std::string xml = replaced(flat(), "GenuineIntel", "AuthenticAMD");
  EXPECT_EQ(checkP2p(*machineOf(xml).paths, 0, 1)->level, PathType::kSys);
}

TEST(PolicyTest, FlushByComputeCapability) {
  EXPECT_EQ(needFlush(*machineOf(twoSwitches()).paths, 0, 0).flush, Flush::kNone);
  EXPECT_EQ(needFlush(*machineOf(twoSwitches(), {.net_force_flush = 1}).paths, 0, 0).flush, Flush::kAlways);
  const std::string old = replaced(twoSwitches(), "sm=\"90\"", "sm=\"80\"");
  EXPECT_EQ(needFlush(*machineOf(old).paths, 0, 0).flush, Flush::kAlways);
}

// RCCL: always a flush, and GPUs of one host never prefer the network (its NCCL_NET_DISABLE_INTRA is 1).
TEST(PolicyTest, RcclFilesAreAnsweredByRcclsRules) {
  const std::string xml = replaced(withoutNvlinks(twoSwitches()), "version=\"1\"", "version=\"2\"");
  const Machine rccl = machineOf(xml);
  EXPECT_EQ(needFlush(*rccl.paths, 0, 0).flush, Flush::kAlways);
  EXPECT_FALSE(rccl.paths->networkPreferred(0, 1));
  Settings as_nccl{.xgmi_as_nvlink = true};
  EXPECT_EQ(needFlush(*machineOf(xml, as_nccl).paths, 0, 0).flush, Flush::kNone);
  EXPECT_TRUE(machineOf(xml, as_nccl).paths->networkPreferred(0, 1));
}

TEST(PolicyTest, TowardsAPeerTheNicOfItsTwinIsUsed) {
  const Machine machine = machineOf(twoSwitches());
  const auto answer = netTowardsPeer(*machine.paths, 0, 1, 0);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->net, 1);
  EXPECT_EQ(answer->proxy_rank, 1);
  const auto own = netTowardsPeer(*machineOf(twoSwitches(), {.p2p_pxn_level = 0}).paths, 0, 1, 0);
  EXPECT_EQ(own->net, 0);
  EXPECT_EQ(own->proxy_rank, 0);
}

TEST(PolicyTest, NoNetIsAnError) {
  const Machine machine = machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0"))));
  const auto net = localNet(*machine.paths, 0, 0);
  ASSERT_FALSE(net.ok());
  EXPECT_EQ(net.error(), "rank 0 reaches no network device");
}

// The expected values of the tests below are the answers of NCCL 2.30.7's own code.

TEST(PolicyTest, GpusOfSm80AreReadWithoutAnNvlinkPeer) {
  const std::string xml = withoutNvlinks(twoGpusAtASwitch());
  const auto reads = [&](const std::string& sm) {
    const auto answer =
        checkGdr(*machineOf(replaced(xml, "sm=\"90\"", std::string("sm=\"").append(sm).append("\""))).paths,
                 0, 0, true);
    return answer.ok() && answer->mode == GdrMode::kOn;
  };
  EXPECT_TRUE(reads("80"));
  EXPECT_FALSE(reads("79"));
  EXPECT_FALSE(reads("75"));
}

TEST(PolicyTest, PartitionsHaveGpuDirectOnlyWhenAllowed) {
  const std::string xml = replaced(
      systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0")))),
      "sm=\"90\"", "sm=\"90\" mlopart=\"0\"");
  const auto off = checkGdr(*machineOf(xml).paths, 0, 0, false);
  ASSERT_OK(off);
  EXPECT_EQ(off->mode, GdrMode::kOff);
  EXPECT_EQ(off->rule, "mlopart");
  Settings allowed{.net_gdr_mlopart = 1};
  EXPECT_EQ(checkGdr(*machineOf(xml, allowed).paths, 0, 0, false)->mode, GdrMode::kOn);
  EXPECT_EQ(checkGdr(*machineOf(xml, allowed).paths, 0, 0, true)->mode, GdrMode::kOn);
}

// Two sockets: the GPUs of each share its NICs only.
std::string twoSockets(int gpus, int nics) {
  std::string cpus;
  char busid[32];
  for (int numa = 0; numa < 2; ++numa) {
    std::string inner;
    for (int i = 0; i < gpus; ++i) {
      std::snprintf(busid, sizeof busid, "0000:%02x:00.0", 0x10 + numa * 0x40 + i);
      inner += gpu(numa * gpus + i, busid);
    }
    for (int i = 0; i < nics; ++i) {
      std::snprintf(busid, sizeof busid, "0000:%02x:00.0", 0x30 + numa * 0x40 + i);
      inner += nic(numa * nics + i, busid, "mlx5_" + std::to_string(numa * nics + i));
    }
    cpus += cpu(numa, inner);
  }
  return systemOf(cpus);
}

using Nets = std::vector<std::vector<int>>;

TEST(PolicyTest, DealingOutStartsAgainOnTheSecondSocketIn2307) {
  const auto nets = [&](int gpus, int nics) {
    return netsOfAll(machineOf(twoSockets(gpus, nics), {.nccl = NcclVersion::k2_30}));
  };
  EXPECT_EQ(nets(4, 2), (Nets{{0}, {1}, {0}, {1}, {2}, {3}, {2}, {3}}));
  EXPECT_EQ(nets(4, 3), (Nets{{0}, {1}, {2}, {0}, {3}, {4}, {5}, {3}}));
  EXPECT_EQ(nets(3, 2), (Nets{{0}, {1}, {0}, {2}, {3}, {2}}));
}

TEST(PolicyTest, DealingOutGoesOnOnTheSecondSocketBeforeAndAfter) {
  for (const NcclVersion release : {NcclVersion::k2_28, NcclVersion{23004}, NcclVersion::k2_31}) {
    Settings settings{.nccl = release};
    EXPECT_EQ(netsOfAll(machineOf(twoSockets(3, 2), settings)), (Nets{{0}, {1}, {0}, {3}, {2}, {3}}));
    EXPECT_EQ(netsOfAll(machineOf(twoSockets(4, 3), settings)),
              (Nets{{0}, {1}, {2}, {0}, {4}, {5}, {3}, {4}}));
  }
}

// NCCL 2.31 counts places among the sharing GPUs for Blackwell with a ConnectX-8, and where the variable says
// so.
TEST(PolicyTest, DealingOutStartsAgainWithConnectX8AndBlackwellIn231) {
  const Nets again = {{0}, {1}, {0}, {2}, {3}, {2}};
  const Nets on = {{0}, {1}, {0}, {3}, {2}, {3}};
  const auto nets = [](const std::string& sm, const std::string& ids) {
    const std::string xml = replaced(twoSockets(3, 2), "sm=\"90\"", "sm=\"" + sm + "\"");
    return netsOfAll(machineOf(replaced(xml, "class=\"0x020700\"", "class=\"0x020700\" " + ids)));
  };
  EXPECT_EQ(nets("100", R"(vendor="0x15b3" device="0x1023")"), again);
  EXPECT_EQ(nets("120", R"(vendor="0x15b3" device="0x2100")"), again);
  EXPECT_EQ(nets("100", R"(vendor="0x15b3" device="0x1021")"), on);
  EXPECT_EQ(nets("100", R"(vendor="0x1000" device="0x1023")"), on);
  EXPECT_EQ(nets("90", R"(vendor="0x15b3" device="0x1023")"), on);
  EXPECT_EQ(netsOfAll(machineOf(twoSockets(3, 2), {.topo_scatter_start_net = 1})), again);
}

TEST(PolicyTest, RelayingOverC2cCanBeSwitchedOff) {
  const std::string xml = readFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/gb200.xml");
  const auto with = netTowardsPeer(*machineOf(xml).paths, 0, 2, 0);
  ASSERT_OK(with);
  EXPECT_EQ(with->net, 2);
  EXPECT_EQ(with->proxy_rank, 2);
  const auto without = netTowardsPeer(*machineOf(xml, {.pxn_c2c = 0}).paths, 0, 2, 0);
  ASSERT_OK(without);
  EXPECT_EQ(without->net, 0);
  EXPECT_EQ(without->proxy_rank, 0);
}

TEST(PolicyTest, WithoutCrossNicThePeersNicIsUsedEvenWithoutPxn) {
  for (const bool disabled : {false, true}) {
    Settings settings{.cross_nic = 0};
    if (disabled) settings.pxn_disable = 1;
    if (!disabled) settings.p2p_pxn_level = 0;
    const auto answer = netTowardsPeer(*machineOf(twoSwitches(), settings).paths, 0, 1, 0);
    ASSERT_OK(answer);
    EXPECT_EQ(answer->net, 1);
    EXPECT_EQ(answer->proxy_rank, 0);
  }
}

TEST(PolicyTest, PxnLevelOneRelaysWhereThePathDoes) {
  const auto answer = netTowardsPeer(*machineOf(twoSwitches(), {.p2p_pxn_level = 1}).paths, 0, 1, 0);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->net, 1);
  EXPECT_EQ(answer->proxy_rank, 1);
}

// What helps depends on whose GPU it is and on what the device is.
TEST(PolicyTest, ANicWithoutGpuDirectSaysWhatHelps) {
  const std::string xml = replaced(twoSwitches(), "gdr=\"1\"/>", "gdr=\"0\"/>");
  const auto reason = [](const std::string& text) {
    return checkGdr(*machineOf(text).paths, 0, 0, false)->reason;
  };
  EXPECT_HAS(reason(xml), "load nvidia-peermem");
  EXPECT_HAS(reason(xml), "Soft-RoCE and soft-iWARP have none");
  const std::string sockets = reason(replaced(xml, "port=\"1\"", "port=\"0\""));
  EXPECT_HAS(sockets, "socket device");
  EXPECT_LACKS(sockets, "peermem");
  const std::string amd = reason(replaced(replaced(xml, "version=\"1\"", "version=\"2\""), "nvlink", "xgmi"));
  EXPECT_HAS(amd, "amdgpu");
  EXPECT_LACKS(amd, "nvidia");
}

}  // namespace
}  // namespace railwise::topo::test
