// Causes that hang on what the rest of a log says: each a kind that people have posted, with invented names.
// A fact removed changes the cause.

#include <fstream>
#include <regex>

#include "doctor/log/judging/judge.h"
#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

// Two hosts, sara and omar, with one rank each.
struct TwoHosts {
  std::string version = "2.27.3+cuda12.9";
  std::string nics = "[0]mlx5_2:1/RoCE [1]mlx5_3:1/RoCE";
  std::string nics_of_omar;  // "": the same
  std::string network = "IB";
  std::vector<std::string> more = {};  // lines of both ranks
  bool complete = true;

  std::string text() const {
    std::string all;
    for (int rank = 0; rank < 2; ++rank) {
      const std::string host = rank == 0 ? "sara" : "omar";
      std::vector<std::string> lines = {"Bootstrap: Using enp7:10.3.0." + std::to_string(rank + 1) + "<0>",
                                        "NCCL version " + version};
      lines.insert(lines.end(), more.begin(), more.end());
      if (network == "IB")
        lines.push_back("NET/IB : Using " + (rank == 1 && !nics_of_omar.empty() ? nics_of_omar : nics) +
                        " [RO]; OOB enp7:10.3.0." + std::to_string(rank + 1) + "<0>");
      lines.push_back("Using network " + network);
      lines.push_back(initLine(rank, 2, "START"));
      if (complete) lines.push_back(initLine(rank, 2, "COMPLETE"));
      for (const std::string& line : lines) all += host + ":70:70 [0] NCCL INFO " + line + "\n";
    }
    return all;
  }
};

std::string warns(const std::string& host, const std::string& source, const std::string& text) {
  return host + ":70:88 [0] " + source + " NCCL WARN " + text + "\n";
}
std::string says(const std::string& host, const std::string& text) {
  return host + ":70:88 [0] NCCL INFO " + text + "\n";
}

const std::string kGidsOfTwoRails = " localGid ::ffff:172.30.7.5 remoteGids::ffff:172.30.9.6 hca mlx5_3";
const std::string kGidsOfOneRail = " localGid ::ffff:172.30.7.5 remoteGids::ffff:172.30.7.6 hca mlx5_3";

std::string failed(int status, const std::string& rest = "") {
  return warns("sara", "transport/net_ib.cc:2200",
               "NET/IB: Got completion from peer 10.3.0.2<41000> with status=" + std::to_string(status) +
                   " opcode=0 len=0 vendor err 81 (Send)" + rest);
}

// The first line to type of the worst finding, which must be of the check.
std::string typed(const std::string& text, std::string_view check) {
  const Findings findings = judged(text);
  if (findings.empty() || findings.all()[0].check != check)
    return "not " + std::string(check) + ": " + checksOf(findings);
  return findings.all()[0].fix;
}

TEST(Rules, AProtectionErrorWithGpuDirectIsAcs) {
  const std::string gdr = says("sara", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA");
  const std::string with = typed(TwoHosts{}.text() + gdr + failed(4), "completion-error");
  EXPECT_HAS(with, "ACSCtl");
  EXPECT_HAS(with, "NCCL_NET_GDR_LEVEL=LOC");
  EXPECT_HAS(with, "sara and omar");
  EXPECT_LACKS(with, "authors");
  const std::string through_host = says("sara", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0");
  const std::string without = typed(TwoHosts{}.text() + through_host + failed(4), "completion-error");
  EXPECT_HAS(without, "authors");
  EXPECT_LACKS(without, "ACSCtl");
}

TEST(Rules, EndsInTwoSubnetsMayLackARoute) {
  const std::string two = typed(TwoHosts{}.text() + failed(12, kGidsOfTwoRails), "completion-error");
  EXPECT_TRUE(two.starts_with("ping -I 172.30.7.5 172.30.9.6")) << two;
  EXPECT_HAS(two, "ibstat") << "it is a guess, beside the others";
  const std::string one = typed(TwoHosts{}.text() + failed(12, kGidsOfOneRail), "completion-error");
  EXPECT_HAS(one, "ibstat");
  EXPECT_LACKS(one, "CROSS_NIC");
  const std::string connecting =
      "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next "
      "state RTR, local GID index 3, local GID ::ffff:172.30.7.5, remote GID ::ffff:172.30.9.6";
  const std::string call =
      typed(TwoHosts{}.text() + warns("sara", "misc/ibvwrap.cc:376", connecting), "queue-pair");
  EXPECT_TRUE(call.starts_with("ping -I 172.30.7.5 172.30.9.6")) << call;
  EXPECT_HAS(call, "show_gids");
  const std::string why = judged(warns("sara", "misc/ibvwrap.cc:376", connecting)).all()[0].why;
  EXPECT_HAS(why, "may be in different subnets");
  EXPECT_LACKS(why, "<peer>");
  // Link-local addresses have one prefix everywhere.
  const std::string local = " localGid fe80::a288:c2ff:fe12:1 remoteGids fe80::ba3f:d2ff:fe12:2";
  EXPECT_LACKS(typed(TwoHosts{}.text() + failed(12, local), "completion-error"), "CROSS_NIC");
  const std::string mixed = " localGid fe80::a288:c2ff:fe12:1 remoteGids::ffff:172.30.9.6 hca mlx5_3";
  const std::string kinds = typed(TwoHosts{}.text() + failed(12, mixed), "completion-error");
  EXPECT_TRUE(kinds.starts_with("show_gids")) << kinds;
  EXPECT_LACKS(kinds, "ibstat");
}

TEST(Rules, SettingsThatExplainAnError) {
  const std::string invalid =
      warns("sara", "misc/ibvwrap.cc:376", "Call to ibv_modify_qp failed with error Invalid argument");
  const std::string index =
      typed(TwoHosts{.more = {"NCCL_IB_GID_INDEX set by environment to 5."}}.text() + invalid, "queue-pair");
  EXPECT_TRUE(index.starts_with("unset NCCL_IB_GID_INDEX")) << index;
  const std::string ordering =
      typed(TwoHosts{.more = {"NCCL_IB_PCI_RELAXED_ORDERING set by environment to 1."}}.text() +
                warns("sara", "transport/net_ib.cc:1800",
                      "NET/IB : req 0/1 tag 8 peer 10.3.0.2<4> posted incorrect receive info: size 0"),
            "mismatched-collective");
  EXPECT_TRUE(ordering.starts_with("unset NCCL_IB_PCI_RELAXED_ORDERING")) << ordering;
}

TEST(Rules, MixedLinkLayersInOneList) {
  const std::string fix = typed(
      TwoHosts{.nics = "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_9:1/RoCE"}.text() +
          warns("sara", "misc/ibvwrap.cc:376", "Call to ibv_modify_qp failed with error Invalid argument"),
      "queue-pair");
  EXPECT_HAS(fix, "NCCL_IB_HCA=mlx5_0,mlx5_1 ");
}

TEST(Rules, AddressesOfOtherNamespacesInAPod) {
  const std::string line =
      warns("sara", "transport/net_ib.cc:331",
            "NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument") +
      says("sara", "transport/net_ib.cc:402 -> 2") +
      warns("sara", "proxy.cc:1521",
            "[Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2") +
      warns("omar", "misc/socket.cc:50",
            "socketProgress: Connection closed by remote peer sara.pods.svc<4123>");
  const std::string text = TwoHosts{.version = "2.24.3", .complete = false}.text() + line;
  const Findings findings = judged(text);
  EXPECT_EQ(checksOf(findings), "gid-type") << "wrapper, consequence, and the peer's are one event";
  EXPECT_HAS(findings.all()[0].fix, "2.26");
  EXPECT_HAS(findings.all()[0].fix, "2.24.3");
  EXPECT_EQ(findings.all()[0].seen.size(), 3U);
  EXPECT_HAS(findings.all()[0].why, "never completed");
  EXPECT_LACKS(typed(TwoHosts{.version = "2.28.3", .complete = false}.text() + line, "gid-type"),
               "use NCCL 2.26");
}

TEST(Rules, NamesComeFromTheLogs) {
  const std::string none = warns("omar", "misc/socket.cc:483", "Bootstrap : no socket interface found");
  const std::string set =
      "sara:70:70 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ens9\n"
      "sara:70:70 [0] NCCL INFO Bootstrap : Using ens9:10.3.0.1<0>\n"
      "omar:70:70 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ens9\n";
  const std::string list = typed(set + none, "socket-interface");
  EXPECT_TRUE(list.starts_with("export NCCL_SOCKET_IFNAME=ens9,<the name on omar>")) << list;
  EXPECT_HAS(typed(none, "socket-interface"), "NCCL_SOCKET_IFNAME=<interface>") << "no name is known";

  const std::string veth = "Bootstrap : Using [0]ens9:10.3.0.%<0> [1]vethab12:fe80::12%vethab12<0>";
  std::string text;
  for (const std::string host : {"sara", "omar"}) {
    std::string its = veth;
    text += says(host, its.replace(its.find('%'), 1, host == "sara" ? "1" : "2"));
  }
  text += warns("sara", "include/socket.h:403",
                "Connect to fe80::77%vethab12<4650> failed : Connection timed out");
  const std::string common = typed(text, "connection-refused");
  EXPECT_TRUE(common.starts_with("export NCCL_SOCKET_IFNAME=ens9 ")) << common;
}

// The name of an interface that is in use already is no advice.
TEST(Rules, APeerThatDoesNotAnswerAtItsOwnAddress) {
  const std::string refused =
      warns("omar", "misc/socket.cc:538",
            "socketStartConnect: Connect to 10.3.0.1<40001> failed : Connection refused");
  const std::string fix = typed(TwoHosts{.complete = false}.text() + refused, "connection-refused");
  EXPECT_TRUE(fix.starts_with("look at the log of sara"));
  EXPECT_LACKS(fix, "IFNAME");
}

TEST(Rules, WhyTheNetworkIsSocketIsOneFinding) {
  const std::string fallback = says("sara", "NET/IB : No device found.") +
                               says("sara", "Using network Socket") +
                               says("sara", initLine(0, 1, "COMPLETE")) +
                               says("sara", "Channel 00 : 0[4000] -> 1[4000] [send] via NET/Socket/0");
  const std::string closed =
      warns("sara", "misc/ibvwrap.cc:212", "Call to ibv_open_device failed") +
      warns("sara", "transport/net_ib.cc:148", "NET/IB : Unable to open device mlx5_bond_7");
  const Findings one = judged(closed + fallback);
  EXPECT_EQ(checksOf(one), "socket-network");
  EXPECT_TRUE(one.all()[0].fix.starts_with("docker run --device=/dev/infiniband --ulimit memlock=-1"))
      << one.all()[0].fix;
  EXPECT_HAS(one.all()[0].why, "mlx5_bond_7");
  const std::string library =
      typed(says("sara", "Failed to open libibverbs.so[.1]") + fallback, "socket-network");
  EXPECT_TRUE(library.starts_with("apt install libibverbs1")) << library;
  const std::string efa = typed(
      warns("sara", "nccl_net_ofi_create_plugin:204", "NET/OFI Failed to initialize rdma protocol") +
          warns("sara", "nccl_net_ofi_create_plugin:333", "NET/OFI aws-ofi-nccl initialization failed") +
          fallback,
      "socket-network");
  EXPECT_TRUE(efa.starts_with("fi_info -p efa")) << efa;
}

TEST(Rules, AVirtualFunctionOfAnotherContainerIsNoError) {
  const Findings findings = judged(
      warns("sara", "misc/ibvwrap.cc:212", "Call to ibv_open_device failed") +
      warns("sara", "transport/net_ib.cc:148", "NET/IB : Unable to open device mlx5_11") + TwoHosts{}.text());
  EXPECT_EQ(checksOf(findings), "device-closed");
  EXPECT_EQ(findings.exitStatus(), 1);
  EXPECT_HAS(findings.all()[0].fix, "NCCL_IB_HCA=mlx5_2,mlx5_3");
}

TEST(Rules, TheGpuSideOfTheFabric) {
  const std::string nvls =
      typed(TwoHosts{.complete = false}.text() +
                warns("sara", "transport/nvls.cc:244", "Cuda failure 1 'invalid argument'") +
                warns("omar", "transport/nvls.cc:244", "Cuda failure 1 'invalid argument'"),
            "nvls-setup");
  EXPECT_HAS(nvls, "fabricmanager");
  EXPECT_HAS(nvls, "NCCL_NVLS_ENABLE=0");
  EXPECT_LACKS(nvls, "ECC");
  const std::string fabric = typed(
      "# nThread 1 nGpus 8\nhedda: Test CUDA failure common.cu:1005 'system not yet initialized'\n"
      " .. hedda pid 4: Test failure common.cu:900\n",
      "fabric-manager");
  EXPECT_HAS(fabric, "systemctl status nvidia-fabricmanager");
  EXPECT_LACKS(fabric, "NCCL_DEBUG");
  EXPECT_EQ(checksOf(judged("x: Test CUDA failure common.cu:1 'system not yet initialized'\n")),
            "fabric-manager");
  EXPECT_HAS(typed("RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
                   "nccl-too-old"),
             "compute_cap");
  EXPECT_HAS(
      typed(warns("sara", "mnnvl.cc:74",
                  "MNNVL (cliqueSize 8) is available but not working. Check /dev/nvidia-caps-imex-channels"),
            "mnnvl-imex"),
      "as NCCL says: Check /dev/nvidia-caps-imex-channels");
}

TEST(Rules, AUnixSocketHasNoInterface) {
  const std::string fix = typed(
      TwoHosts{.complete = false}.text() +
          warns("sara", "misc/ipcsocket.cc:295",
                "UDS: Sending data over socket /tmp/nccl-socket-1-77aa failed : Connection refused (111)") +
          warns("sara", "proxy.cc:1180", "ncclProxyClientGetFd call to tpRank 1 handle 0x7 failed : 2"),
      "unix-socket");
  EXPECT_HAS(fix, "--network host");
  EXPECT_HAS(fix, "NCCL_CUMEM_ENABLE=0");
  EXPECT_LACKS(fix, "SOCKET_IFNAME");
}

TEST(Rules, TheHostThatLacksANicIsNamed) {
  TwoHosts job{.nics_of_omar = "[0]mlx5_2:1/RoCE", .complete = false};
  const std::string own = warns("sara", "init.cc:1433",
                                "Detected mixed local Net device counts across ranks (min 1, max 2). Set "
                                "NCCL_IGNORE_NET_MISMATCH=1 to continue.");
  const Findings findings = judged(job.text() + own);
  EXPECT_EQ(checksOf(findings), "mixed-nics");
  EXPECT_HAS(findings.all()[0].fix, "on omar: why is mlx5_3 not there");
  EXPECT_HAS(findings.all()[0].fix, "leave NCCL_IGNORE_NET_MISMATCH=0");
  EXPECT_LACKS(findings.all()[0].fix, "as NCCL says") << "its remedy hangs";
  job.complete = true;
  EXPECT_EQ(findingOf(judged(job.text()), "differ-nics")->severity, Severity::kWarning);
  job.more = {"NCCL_IGNORE_NET_MISMATCH set by environment to 1."};
  EXPECT_HAS(typed(job.text(), "differ-nics"), "export NCCL_IGNORE_NET_MISMATCH=0");
}

TEST(Rules, SettingsThatHideFaults) {
  for (const char* value : {"0", "32"})
    EXPECT_HAS(
        typed(TwoHosts{.more = {std::string("NCCL_IB_TIMEOUT set by environment to ") + value + "."}}.text(),
              "hiding-setting"),
        "unset NCCL_IB_TIMEOUT");
  // 278 is 22 in the eight bits that NCCL hands on; the default of IGNORE_NET_MISMATCH is 1.
  for (const char* said :
       {"NCCL_IB_TIMEOUT set by environment to 22.", "NCCL_IB_TIMEOUT set by environment to 278.",
        "NCCL_IGNORE_NET_MISMATCH set by environment to 1."})
    EXPECT_EQ(checksOf(judged(TwoHosts{.more = {said}}.text())), "") << said;
}

TEST(Chains, TwoLinesOfOneCompletion) {
  const Findings findings = judged(
      TwoHosts{.version = "2.30.7"}.text() +
      warns("sara", "transport/net_ib/p2p.cc:854",
            "NET/IB: Got CQE with error (devIndex=0, req=0x7f, comm=0x7e (Send), wr_id=1, qp_num=2345)") +
      warns("sara", "transport/net_ib/p2p.cc:84",
            "NET/IB: Got completion from peer 10.3.0.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 hca mlx5_2"));
  EXPECT_EQ(checksOf(findings), "completion-error");
  EXPECT_HAS(findings.all()[0].why, "queue pair 2345");
  EXPECT_HAS(findings.all()[0].what, "status 12");
}

TEST(Chains, OneCauseOnManyRanksIsOneFinding) {
  std::string text;
  for (int rank = 0; rank < 8; ++rank)
    text += saidBy(rank, {initLine(rank, 8, "START")}) + "node" + std::to_string(rank) +
            ":100:100 [0] x.cc:1 NCCL WARN Cuda failure 700 'an illegal memory access'\n";
  const Findings findings = judged(text);
  EXPECT_EQ(checksOf(findings), "cuda-failure");
  EXPECT_EQ(findings.all()[0].seen.size(), 8U);
}

TEST(Chains, WhoGoesOnHasNoError) {
  const std::string warning =
      warns("sara", "misc/cudawrap.cc:200", "Failed to find a function of the driver");
  EXPECT_EQ(judged(warning + TwoHosts{}.text()).exitStatus(), 1) << "its init completed afterwards";
  EXPECT_EQ(judged(TwoHosts{}.text() + warning).exitStatus(), 2);
}

// A program that handles an error ends its communicators in order: it has died all the same.
TEST(Chains, WhoOnlyEndsItsCommunicatorDoesNotGoOn) {
  const std::string end = "sara:70:70 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - ";
  const std::string fatal = warns("sara", "x.cc:1", "Cuda failure 700 'an illegal memory access'");
  for (const char* const state : {"Destroy COMPLETE\n", "Finalize COMPLETE\n"}) {
    const Findings findings = judged(TwoHosts{}.text() + fatal + end + state);
    EXPECT_EQ(findings.exitStatus(), 2) << state;
    EXPECT_HAS(findings.all()[0].why, "Nothing after it shows");
    const std::string unknown = warns("sara", "x.cc:1", "the moon is in the way");
    EXPECT_EQ(judged(TwoHosts{}.text() + unknown + end + state).exitStatus(), 1) << state;
    EXPECT_EQ(judged(fatal + end + state + TwoHosts{}.text()).exitStatus(), 1)
        << "the process has started again after " << state;
  }
}

TEST(Rate, ABondThatCarriesOnePort) {
  const auto checks = [](const std::string& text, double gb_per_s) {
    const Job job = readJob(text);
    Findings findings;
    judgeRate(Ranks(job, 0), {.gb_per_s = gb_per_s, .where = "log:9"}, findings);
    return checksOf(findings);
  };
  const TwoHosts bond{.nics = "[0]mlx5_bond_3:1/RoCE"};
  EXPECT_EQ(checks(bond.text(), 48.9), "bond-one-port");
  EXPECT_EQ(checks(bond.text(), 33.0), "") << "no port has this rate";
  EXPECT_EQ(checks(TwoHosts{.nics = "[0]mlx5_3:1/RoCE"}.text(), 48.9), "");
  EXPECT_EQ(
      checks(
          TwoHosts{.nics = bond.nics, .more = {"NCCL_IB_QPS_PER_CONNECTION set by environment to 4."}}.text(),
          48.9),
      "");
}

TEST(Rate, EceBesideALowResult) {
  const std::string ece =
      "NET/IB: IbDev 0 Port 1 qpn 77 set_ece={supported=1, vendor_id=0x15b3, options=0x30000002, "
      "comp_mask=0x0}";
  const Job job = readJob(TwoHosts{.more = {ece}}.text());
  Findings low, good;
  judgeRate(Ranks(job, 0), {.gb_per_s = 20, .where = "log:9", .below_model = true}, low);
  judgeRate(Ranks(job, 0), {.gb_per_s = 20, .where = "log:9"}, good);
  EXPECT_EQ(checksOf(low), "ece-in-use");
  EXPECT_EQ(checksOf(good), "");
}

// What is typed has names of the log, or placeholders: no table has the name of an interface or a NIC in it.
TEST(Rules, NoNameIsInvented) {
  const std::regex name("\\b(eth|ens|enp|eno|bond|mlx5_|roce|ib)[0-9]+\\b");
  const std::regex quoted("\"(?:[^\"\\\\]|\\\\.)*\"");
  std::size_t texts = 0;
  for (const char* file : {"families.cc", "known_other.cc", "rules.cc", "judge_network.cc", "judge_errors.cc",
                           "judge_ranks.cc"}) {
    std::ifstream stream(std::string(RAILWISE_SOURCE_DIR) + "/src/doctor/log/judging/" + file);
    for (std::string line; std::getline(stream, line);) {
      if (railwise::test::has(line, "// ")) continue;
      for (std::sregex_iterator at(line.begin(), line.end(), quoted), end; at != end; ++at, ++texts)
        EXPECT_FALSE(std::regex_search(at->str(), name)) << file << ": " << at->str();
    }
  }
  EXPECT_GT(texts, 500U);
}

TEST(Rules, AnErrorOfARankExplainsTheWaitForOthers) {
  const Findings findings = judged(saidBy(0, {initLine(0, 4, "START")}) +
                                   "node0:100:100 [0] graph/xml.cc:9 NCCL WARN Could not find real "
                                   "path of /sys/class/pci_bus/0001:00/../../0001:00:1c.0\n" +
                                   saidBy(0, {"graph/xml.cc:500 -> 2"}));
  EXPECT_EQ(checksOf(findings), "device-place missing-ranks");
  EXPECT_EQ(findings.all()[1].severity, Severity::kAdvice);
}

// Memory of another GPU may be another host's where the GPUs share an NVLink domain.
TEST(Rules, ACudaFailureOfP2pInADomainOfSeveralHosts) {
  const auto check = [](const std::string& uuid, const char* source, const char* text) {
    return judged(says("sara", "MNNVL busId 0x901000 fabric UUID " + uuid +
                                   " cliqueId 0x7ffe state 3 healthMask 0x0") +
                  warns("sara", source, text))
        .all()[0]
        .check;
  };
  const char* const kOrdinal = "Cuda failure 101 'invalid device ordinal'";
  EXPECT_EQ(check("5a5a5a5a.5a5a5a5a", "transport/p2p.cc:275", kOrdinal), "mnnvl-imex");
  EXPECT_EQ(check("5a5a5a5a.5a5a5a5a", "transport/p2p.cc:296", "Cuda failure 999 'unknown error'"),
            "mnnvl-imex");
  EXPECT_EQ(check("0.0", "transport/p2p.cc:275", kOrdinal), "cuda-failure") << "one host alone";
  EXPECT_EQ(check("5a5a5a5a.5a5a5a5a", "init.cc:275", kOrdinal), "cuda-failure");
  EXPECT_EQ(check("5a5a5a5a.5a5a5a5a", "transport/p2p.cc:275", "Cuda failure 2 'out of memory'"),
            "cuda-failure");
}

}  // namespace
}  // namespace railwise::doctor
