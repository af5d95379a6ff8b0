// Outputs of other programs, known by the form of their lines. Names and numbers are invented.
#include "doctor/log/pastes/pastes.h"

#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

const Finding* findingOf(const Pastes& pastes, std::string_view check) {
  for (const Finding& finding : pastes.findings)
    if (finding.check == check) return &finding;
  return nullptr;
}
std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// As the terminal shows it (tabs), and as a web page has it (blanks).
std::string matrix(const std::string& gap, const std::string& nic_of_gpu1) {
  std::string text;
  for (const std::vector<std::string>& row :
       {std::vector<std::string>{"", "\033[4mGPU0", "GPU1", "NIC0", "NIC1", "CPU Affinity",
                                 "NUMA Affinity\033[0m"},
        {"GPU0", " X ", "NV12", "PXB", "NODE", "0-31", "0"},
        {"GPU1", "NV12", " X ", nic_of_gpu1, "NODE", "32-63", "1"},
        {"NIC0", "PXB", nic_of_gpu1, " X ", "SYS"},
        {"NIC1", "NODE", "NODE", "SYS", " X "}}) {
    for (const std::string& cell : row) text += cell + gap;
    text += "\n";
  }
  return text +
         "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: roce7\n  "
         "NIC1: roce9\n";
}

TEST(Pastes, TheMatrixOfNvidiaSmi) {
  for (const char* const gap : {"\t", "    "}) {
    const Pastes some = readPastes("m", matrix(gap, "SYS"));
    ASSERT_EQ(some.kinds.size(), 1U) << gap;
    EXPECT_EQ(some.kinds[0], "m: nvidia-smi topo -m, 2 GPUs and 2 NICs");
    ASSERT_EQ(some.findings.size(), 2U);
    EXPECT_EQ(some.findings[0].severity, Severity::kWarning);
    EXPECT_EQ(some.findings[0].what, "GPU1 has no NIC close by (PIX or PXB)");
    EXPECT_EQ(some.findings[1].seen[0].value, "roce9: NODE to every GPU");
    EXPECT_HAS(some.findings[1].fix, "NCCL_IB_HCA==roce7");
    EXPECT_EQ(some.looked[0], "GPU0: roce7 (PXB)");
  }
  const Pastes close = readPastes("m", matrix("\t", "PIX"));
  EXPECT_EQ(close.findings.size(), 1U) << "only the NIC that is far from all";
  EXPECT_TRUE(readPastes("m", "<system version=\"1\"/>").empty());
  EXPECT_TRUE(readPastes("m", "GPU0 is fine\nGPU1 is fine\n").empty());
}

TEST(Pastes, StatesOfPorts) {
  const Pastes ibstat = readPastes(
      "i", all({"CA 'ibp3'", "\tCA type: MT4129", "\tPort 1:", "\t\tState: Active",
                "\t\tPhysical state: LinkUp", "\t\tRate: 400", "\t\tLink layer: InfiniBand", "CA 'ibp4'",
                "\tPort 1:", "\t\tState: Initializing", "\t\tPhysical state: LinkUp", "\t\tRate: 400"}));
  ASSERT_NE(findingOf(ibstat, "port-down"), nullptr);
  EXPECT_EQ(findingOf(ibstat, "port-down")->seen[0].device, "ibp4");
  EXPECT_EQ(findingOf(ibstat, "port-down")->fix.substr(0, 6), "sminfo");
  const Pastes devinfo = readPastes(
      "d",
      all({"hca_id:\troce2", "\t\tport:\t1", "\t\t\tstate:\t\t\tPORT_ACTIVE (4)",
           "\t\t\tmax_mtu:\t\t4096 (5)", "\t\t\tactive_mtu:\t\t1024 (3)", "\t\t\tlink_layer:\t\tEthernet"}));
  EXPECT_EQ(devinfo.findings.size(), 1U);
  EXPECT_NE(findingOf(devinfo, "port-mtu"), nullptr);
}

TEST(Pastes, AddressesOfShowGids) {
  const auto paste = [](const std::string& line) {
    return readPastes(
        "g", all({"DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV", "---\t----\t-----\t---\t---", line}));
  };
  EXPECT_TRUE(
      paste("roce2\t1\t3\t0000:0000:0000:0000:0000:ffff:0a03:0001\t10.3.0.1\tv2\tens9").findings.empty());
  EXPECT_NE(
      findingOf(paste("roce2\t1\t0\tfe80:0000:0000:0000:0000:00ff:fe03:0001\t\tv1\tens9"), "port-address"),
      nullptr);
}

TEST(Pastes, AcsAndLinksOfLspci) {
  const auto paste = [](const std::string& bits) {
    return readPastes("l",
                      all({"0000:63:01.0 PCI bridge: Broadcom / LSI PEX890xx (prog-if 00 [Normal decode])",
                           "\tCapabilities: [170 v1] Access Control Services",
                           "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir" + bits + " CmpltRedir" + bits}));
  };
  ASSERT_NE(findingOf(paste("+"), "acs-on"), nullptr);
  EXPECT_EQ(findingOf(paste("+"), "acs-on")->seen[0].device, "0000:63:01.0");
  EXPECT_EQ(findingOf(paste("-"), "acs-on"), nullptr);
  const Pastes link =
      readPastes("l", all({"63:00.0 Infiniband controller: Mellanox Technologies MT2910 Family",
                           "\t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)"}));
  EXPECT_NE(findingOf(link, "pcie-link"), nullptr);
}

TEST(Pastes, CountersOfEthtool) {
  const Pastes pastes = readPastes(
      "e", all({"NIC statistics:", "     rx_packets: 12345678901", "     rx_discards_phy: 17",
                "     rx_symbol_err_phy: 0", "     link_down_events_phy: 3", "     rx_prio3_pause: 99"}));
  ASSERT_EQ(pastes.findings.size(), 2U);
  EXPECT_EQ(pastes.findings[0].seen[0].value, "link_down_events_phy 3");
  EXPECT_EQ(pastes.findings[1].seen[0].value, "rx_discards_phy 17");
  // One sample has no rate: they may have grown years ago.
  for (const Finding& finding : pastes.findings)
    EXPECT_EQ(finding.severity, Severity::kAdvice) << finding.what;
  EXPECT_HAS(pastes.looked[0], "rx_prio3_pause 99");
}

TEST(Pastes, RanksThatAreBehindInRas) {
  const Pastes pastes = readPastes(
      "r", all({"Job summary", "===========", "", "Errors", "======", "", "DEAD",
                "  1 job process is considered dead (unreachable via the RAS network)",
                "  Process 77 on node sara managing GPU 3", "", "Warnings", "========", "",
                "#0-0 (00ab) MISMATCH", "  Communicator ranks have different AllReduce operation counts",
                "  3 ranks have launched up to operation 9",
                "  Rank 2 has launched up to operation 8 -- GPU 2 managed by process 76 on node sara"}));
  ASSERT_EQ(pastes.findings.size(), 2U);
  EXPECT_HAS(pastes.findings[0].seen[1].value, "Process 77 on node sara");
  EXPECT_HAS(pastes.findings[1].seen[1].value, "Rank 2 has launched up to operation 8");
}

// The kernel's lines and NCCL's stand on one time line: what came first is the first error.
TEST(Pastes, AKernelLogBesideAJob) {
  const std::string failed =
      "[2026-11-28 12:04:27] sara:70:88 [0] transport/net_ib.cc:2200 NCCL WARN NET/IB: Got completion from "
      "peer "
      "10.3.0.2<4> with status=12 opcode=0 len=0 vendor err 129 (Send)\n";
  const std::string down = "[Sat Nov 28 12:04:07 2026] mlx5_core 0000:63:00.1 ens9: Link down\n";
  const Findings both = judged(failed + down);
  EXPECT_EQ(both.all()[0].check, "port-event");
  EXPECT_HAS(both.all()[0].why, "came later");
  const std::string later = "Nov 28 12:09:07 sara kernel: mlx5_core 0000:63:00.1 ens9: Link down\n";
  EXPECT_EQ(judged(failed + later).all()[0].check, "completion-error");
  EXPECT_EQ(judged(failed + "[ 4711.120001] mlx5_core 0000:63:00.1 ens9: Link up\n").all()[0].check,
            "completion-error");
}

// A line that names its host is that host's, whoever runs the process of that number elsewhere.
TEST(Pastes, AKernelLineNamesItsHost) {
  const std::string lost = "NVRM: Xid (PCI:0000:50:00): 79, pid=1004, GPU has fallen off the bus.\n";
  const std::string job = "sara:1004:88 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n";
  const auto label = [&](const std::string& text) { return judged(text).all()[0].seen[0].device; };
  EXPECT_EQ(label("Nov 28 12:09:07 node07 kernel: " + lost), "node07");
  EXPECT_EQ(label("2026-11-28T12:09:07.250000+00:00 node07.site kernel: [912.500012] " + lost),
            "node07.site");
  EXPECT_EQ(label("node07: [  912.500012] " + lost), "node07");
  EXPECT_EQ(label("node07: [Sat Nov 28 12:04:07 2026] " + lost), "node07");
  EXPECT_EQ(label("srun: error: node07: task 5: Killed\n"), "rank 5 (node07)");
  EXPECT_EQ(label("railwise: rank 2 (pid 7) was killed by signal 9 (Killed)\n"), "rank 2");
  EXPECT_EQ(label(job + "node07: [Sat Nov 28 12:04:07 2026] " + lost), "process 1004 (sara)") << "its node";
  EXPECT_EQ(label(job + "Nov 28 12:09:07 sara.site kernel: " + lost), "process 1004 (sara)");
  const std::string other = "node08:1005:88 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n";
  EXPECT_EQ(label(job + other + "Nov 28 12:09:07 node08 kernel: " + lost), "node08");
  EXPECT_EQ(label("[3]: DistBackendError: [3] ncclRemoteError\n"), "");
  EXPECT_EQ(label("torch.distributed.DistBackendError: [3] ncclRemoteError\n"), "") << "no host";

  const Findings two = judged("node07: [912.5] " + lost + "node08: [912.5] " + lost);
  ASSERT_EQ(two.all()[0].seen.size(), 2U);
  EXPECT_EQ(two.all()[0].seen[1].device, "node08");
}

TEST(Pastes, TheFixNamesTheNic) {
  const Findings failed = judged("[ 88.1] mlx5_core 0000:63:00.1: health compromised\n");
  EXPECT_HAS(failed.all()[0].fix, "mstflint -d 0000:63:00.1 query");
  EXPECT_HAS(judged("sara:70:88 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event\n").all()[0].fix,
             "mstlink -d <PCI address> -m");
}

TEST(Pastes, ALinkThatCameUpAgainIsNoError) {
  const std::string nic = "mlx5_core 0000:63:00.1 ";
  const std::string down =
      "[ 22.0] " + nic + "ens9: Link down\n[ 22.1] " + nic + "mlx5_2: Port: 1 Link DOWN\n";
  const std::string up = "[ 24.0] " + nic + "ens9: Link up\n[ 24.1] " + nic + "mlx5_2: Port: 1 Link ACTIVE\n";
  const auto worst = [](const std::string& text) { return judged(text).all()[0].what; };
  const std::string error = "first error of the job: the kernel saw a port of a NIC go down";
  EXPECT_EQ(worst(down), error);
  EXPECT_EQ(worst(up + down), error);
  EXPECT_EQ(found(judged(down + up), "port-event").severity, Severity::kAdvice);
  const std::string failed =
      "sara:70:88 [0] transport/net_ib.cc:2200 NCCL WARN NET/IB: Got completion from peer 10.3.0.2<4> with "
      "status=12 opcode=0 len=0 vendor err 129 (Send)\n";
  EXPECT_EQ(worst(down + up + failed), error) << "the connection did not wait for the link";
}

// A rank that begins at 08:00 and fails at 08:09, and what the kernels of two hosts logged.
TEST(Pastes, WhatTheKernelLoggedBeforeTheJobIsNoCause) {
  const std::string job =
      "[2026-11-30 08:00:00] sara:70:70 [0] NCCL INFO " + initLine(0, 2, "START") +
      "\n[2026-11-30 08:09:10] sara:70:88 [0] transport/net_ib.cc:2200 NCCL WARN NET/IB: Got completion from "
      "peer 10.3.0.2<4> with status=12 opcode=0 len=0 vendor err 129 (Send)\n";
  const auto kernel = [](const char* host, const char* clock, const std::string& words) {
    return std::string(host) + ": [Mon Nov 30 " + clock + " 2026] " + words + "\n";
  };
  const std::string down = "mlx5_core 0000:5e:00.0 ens5: Link down",
                    up = "mlx5_core 0000:5e:00.0 ens5: Link up";
  const std::string of_job = kernel("omar", "08:08:58", down);
  const auto first = [](const std::string& text) {
    const Finding finding = judged(text).all()[0];
    std::string seen = finding.check;
    for (const Seen& each : finding.seen) seen += " " + each.device;
    return seen;
  };
  const std::string earlier = kernel("sara", "07:08:58", down) + kernel("sara", "07:09:58", up);
  EXPECT_EQ(first(job + of_job + earlier), "port-event omar");
  EXPECT_EQ(first(job + kernel("sara", "08:08:50", down) + of_job), "port-event rank 0 (sara) omar");
  EXPECT_EQ(first(job + earlier + kernel("sara", "08:08:58", down)), "port-event rank 0 (sara)")
      << "it fell again";
  EXPECT_EQ(first(job + earlier), "completion-error rank 0 (sara)");
  EXPECT_EQ(first(job + kernel("sara", "08:02:00", down) + kernel("sara", "08:03:00", up)),
            "completion-error rank 0 (sara)");
  EXPECT_EQ(first(job + kernel("sara", "08:08:00", down) + kernel("sara", "08:08:30", up)),
            "port-event rank 0 (sara)")
      << "NICs tried again all the time";
  EXPECT_EQ(first(job + kernel("sara", "08:08:50", down) + kernel("omar", "08:08:59", up)),
            "port-event rank 0 (sara)")
      << "a link of another host";
  const std::string lost = "NVRM: Xid (PCI:0000:50:00): 79, GPU has fallen off the bus.";
  const Findings before = judged(job + kernel("sara", "07:00:00", lost));
  EXPECT_EQ(before.all()[0].check, "completion-error");
  EXPECT_EQ(found(before, "gpu-fault").severity, Severity::kWarning);
  EXPECT_HAS(found(before, "gpu-fault").why, "60 min before the job began");
  EXPECT_EQ(first(job + kernel("sara", "07:00:00", lost) + kernel("sara", "08:09:00", lost)),
            "gpu-fault rank 0 (sara)");
}

// Seconds since boot cannot be compared with the job's times: the order of files counts, and nothing is
// later.
TEST(Pastes, AKernelLogWithoutTimesOfDay) {
  const auto failed = [](const char* second, int rank) {
    return std::string("[2026-11-28 12:04:") + second + "] sara:7" + std::to_string(rank) +
           ":88 [0] transport/net_ib.cc:2200 NCCL WARN NET/IB: Got completion from peer 10.3.0.2<4> with "
           "status=12 opcode=0 len=0 vendor err 129 (Send)\n";
  };
  const std::string job = failed("27", 0) + failed("07", 1);
  const std::string lost = "[99999.000000] NVRM: Xid (PCI:0000:50:00): 79, pid=1004, GPU has fallen off\n";
  const Findings before = judged(lost + job), behind = judged(job + lost);
  EXPECT_EQ(before.all()[0].check, "gpu-fault");
  EXPECT_EQ(behind.all()[0].check, "completion-error");
  EXPECT_HAS(behind.all()[0].seen[0].where, ":2") << "the job's own times still count";
  for (const Findings& findings : {before, behind}) {
    EXPECT_HAS(findings.all()[0].why, "may be consequences");
    EXPECT_HAS(findings.all()[1].what, "another error: ");
  }
}

TEST(Pastes, FaultsInTheKernelsLog) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[ 88.1] NVRM: Xid (PCI:0000:63:00): 79, pid=7, name=python, GPU has fallen off the bus.",
       "gpu-fault"},
      {"[ 88.1] NVRM: Xid (PCI:0000:63:00): 999, something", "gpu-fault"},
      {"[ 88.1] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
       "gpu-fault"},
      {"[ 88.1] mlx5_core 0000:63:00.0: poll_health: device's health compromised - reached miss count",
       "nic-fault"},
      {"[ 88.1] pcieport 0000:60:01.0: AER: Uncorrected (Fatal) error received: 0000:63:00.0", "pcie-error"},
      {"[ 88.1] DMAR: [DMA Read NO_PASID] Request device [63:00.0] fault addr 0x0", "iommu-fault"},
      {"[ 88.1] Out of memory: Killed process 77 (python) total-vm:1kB", "process-killed"},
      {"[ 88.1] mlx5_core 0000:63:00.0: Port module event[error]: module 0, Cable error, Bus stuck",
       "port-event"},
      {"[ 88.1] mlx5_core 0000:63:00.0 mlx5_2: Port: 1 Link DOWN", "port-event"},
      {"[ 88.1] mlx5_core 0000:63:00.0: poll_health:801:(pid 0): Fatal error 3 detected", "nic-fault"},
      {"[ 88.1] infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 err -12",
       "nic-fault"},
      {"[ 88.1] infiniband rdmap16s27: Failed to process command CREATE_QP (opcode 1) err -22", "nic-fault"},
      {"[ 88.1] NVRM: Xid (PCI:0000:63:00): 149, pid=7, name=python, NETIR_LINK_EVT Fatal XC1 i0 Link 05 "
       "(0x0)",
       "gpu-fault"},
      {"[ 88.1] NVRM: GPU 0000:63:00.0: RmInitAdapter failed! (0x26:0x56:1474)", "gpu-fault"},
      {"[ 88.1] nvidia-peermem nv_mem_get_pages:220 ERROR error -22 while calling nvidia_p2p_get_pages()",
       "memory-registration"},
      {"[ 88.1] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0)",
       "host-fault"},
      {"[ 88.1] watchdog: BUG: soft lockup - CPU#12 stuck for 23s! [python3:77]", "host-fault"},
      {"[ 88.1] INFO: task python3:77 blocked for more than 120 seconds.", "host-fault"}};
  for (const auto& [line, check] : kCases) {
    const auto known = explainOther(line);
    ASSERT_TRUE(known) << line;
    EXPECT_EQ(known->check, check) << line;
    EXPECT_EQ(known->kind, EventKind::kCause) << line;
  }
  for (const char* line :
       {"[ 1.0] pcieport 0000:60:01.0: AER: Corrected error received: 0000:63:00.0",
        "[ 1.0] NVRM: Xid (PCI:0000:63:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)",
        "[ 1.0] mce: [Hardware Error]: Machine check events logged",
        "[ 1.0] EDAC MC0: 1 CE memory read error on x",
        "[ 1.0] nfs: server fs01 not responding, still trying",
        "[ 1.0] mlx5_core 0000:63:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 "
        "link"}) {
    ASSERT_TRUE(explainOther(line)) << line;
    EXPECT_EQ(explainOther(line)->kind, EventKind::kRemark) << line;
  }
  EXPECT_HAS(explainOther("NVRM: Xid (PCI:0000:63:00): 149, pid=7, NETIR Fatal XC0 i0")->what, "NVLink");
  EXPECT_EQ(
      explainOther("NVRM: Xid (PCI:0000:dc:00): 45, pid=7, Ch 00000001 caused by previous Xid 149")->kind,
      EventKind::kConsequence);
  EXPECT_FALSE(explainOther("[ 1.0] mlx5_core 0000:63:00.0: firmware version: 28.39.1002"));
  EXPECT_EQ(readPastes("d", all({"[ 1.0] x", "[ 2.0] nvidia: loaded", "[ 3.0] y"})).kinds[0],
            "d: a kernel log, 3 lines");
  EXPECT_TRUE(readPastes("d", all({"[ 1.0] step 7", "[ 2.0] step 8"})).kinds.empty());
}

}  // namespace
}  // namespace railwise::doctor
