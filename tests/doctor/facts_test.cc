// What the doctor reads, and how: trees over trees, the environment, libraries, PCI configuration, masks.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/text/printable.h"
#include "doctor/facts/gather.h"
#include "doctor/facts/libraries.h"
#include "doctor/facts/pci_config.h"
#include "doctor/facts/rdma_ports.h"
#include "doctor/facts/system.h"
#include "doctor/facts/trees.h"
#include "sysfs/peer_memory.h"
#include "tests/doctor/good_machine.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

using namespace test;
using sysfs::MemoryTree;

TEST(System, ReadsRcclsFilesWhereAmdsDriverRuns) {
  MemoryTree tree;
  tree.file("/etc/nccl.conf", "NCCL_IB_SL=1\n").file("/etc/rccl.conf", "NCCL_IB_SL=2\n");
  tree.file("/railwise/environment", "HOME=/home/a\n").file("/home/a/.rccl.conf", "NCCL_IB_TC=3\n");
  const auto whereOf = [&](const char* name) {
    const System system(tree);
    const Variable* const its = system.variable(name);
    return its == nullptr ? "nowhere" : its->where;
  };
  EXPECT_EQ(whereOf("NCCL_IB_SL"), "/etc/nccl.conf:1");
  EXPECT_EQ(whereOf("NCCL_IB_TC"), "nowhere");
  tree.file("/proc/modules", "amdgpu 1 0 - Live 0x0\n");
  EXPECT_EQ(whereOf("NCCL_IB_SL"), "/etc/rccl.conf:1");
  EXPECT_EQ(whereOf("NCCL_IB_TC"), "/home/a/.rccl.conf:1");
}

TEST(OverlayTree, ShowsTheUpperTreeFirst) {
  const MemoryTree base = MemoryTree().file("/a/x", "base x").file("/a/y", "base y");
  const MemoryTree over = MemoryTree().file("/a/x", "over x").file("/a/z", "over z");
  const OverlayTree both(base, over);
  EXPECT_EQ(both.read("/a/x"), "over x");
  EXPECT_EQ(both.read("/a/y"), "base y");
  EXPECT_EQ(both.list("/a"), (std::vector<std::string>{"x", "y", "z"}));
}

TEST(SplitTree, TakesSysOfTheMachineAndTheRestOfTheOther) {
  const MemoryTree rest = MemoryTree().file("/sys/a", "rest").file("/proc/a", "rest").file("/sysfoo", "rest");
  const MemoryTree machine = MemoryTree().file("/sys/b", "machine").file("/proc/a", "machine");
  const SplitTree both(rest, machine);
  EXPECT_FALSE(both.exists("/sys/a"));
  EXPECT_EQ(both.read("/sys/b"), "machine");
  EXPECT_EQ(both.read("/proc/a"), "rest");
  EXPECT_EQ(both.read("/sysfoo"), "rest");
}

TEST(TracingTree, KeepsWhatWasReadAndNothingElse) {
  const MemoryTree tree = MemoryTree()
                              .file("/real/read", "content")
                              .file("/real/unread", "secret")
                              .link("/link", "real")
                              .file("/other/file", "secret");
  const TracingTree traced(tree);
  EXPECT_EQ(traced.read("/link/read"), "content");
  EXPECT_FALSE(traced.exists("/nothing"));
  const MemoryTree& copy = traced.copy();
  EXPECT_EQ(copy.read("/link/read"), "content");
  EXPECT_FALSE(copy.exists("/real/unread"));
  EXPECT_FALSE(copy.exists("/other"));
}

// A report goes to strangers. The kernel's symbols are some MiB, and root reads their addresses.
TEST(TracingTree, KeepsOfTheKernelsSymbolsOnlyWhatIsAskedFor) {
  const std::string all =
      "ffffffff81000000 T _text\nffffffffc0a1b2c3 T ib_register_peer_memory_client\t[ib_core]\n";
  const MemoryTree tree = MemoryTree().folder("/sys/module/amdgpu").file("/proc/kallsyms", all);
  const TracingTree traced(tree);
  EXPECT_EQ(sysfs::peerMemoryModule(traced), "amdgpu");
  EXPECT_EQ(sysfs::peerMemoryModule(traced.copy()), "amdgpu");
  const std::string kept = traced.copy().read("/proc/kallsyms").value_or("");
  EXPECT_EQ(kept.find("_text"), std::string::npos) << kept;
  EXPECT_EQ(kept.find("ffffffff"), std::string::npos) << kept;
}

TEST(TracingTree, AListedFileIsKeptByItsName) {
  const MemoryTree tree = MemoryTree().file("/folder/a", "secret");
  const TracingTree traced(tree);
  EXPECT_EQ(traced.list("/folder").size(), 1U);
  EXPECT_EQ(traced.copy().read("/folder/a"), "");
}

TEST(SystemTest, ReadsVariablesAsNcclDoes) {
  const MemoryTree tree = MemoryTree()
                              .file("/railwise/environment", "HOME=/home/me\nNCCL_DEBUG=INFO\nEMPTY=\n")
                              .file("/home/me/.nccl.conf", "# NCCL_X=1\nNCCL_IB_HCA=mlx5\nNCCL_DEBUG=WARN\n")
                              .file("/etc/nccl.conf", "NCCL_IB_HCA=other\nNCCL_IB_TC=106\r\n=3\n");
  const System system(tree);
  EXPECT_EQ(system.variable("NCCL_DEBUG")->value, "INFO");
  EXPECT_EQ(system.variable("NCCL_IB_HCA")->value, "mlx5");
  EXPECT_EQ(system.variable("NCCL_IB_HCA")->where, "/home/me/.nccl.conf:2");
  EXPECT_EQ(system.variable("NCCL_IB_TC")->value, "106");
  EXPECT_EQ(system.variable("NCCL_X"), nullptr);
  EXPECT_EQ(system.variable("EMPTY"), nullptr);
}

TEST(SystemTest, ReadsNumbersAndVersions) {
  const MemoryTree tree = MemoryTree()
                              .file("/n", " 42 \n")
                              .file("/hex", "0x2a\n")
                              .file("/bad", "4x\n")
                              .file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  const System system(tree);
  EXPECT_EQ(system.number("/n"), 42);
  EXPECT_EQ(system.number("/hex"), 42);
  EXPECT_EQ(system.number("/bad"), std::nullopt);
  EXPECT_EQ(system.number("/missing"), std::nullopt);
  EXPECT_EQ(system.kernel(), std::pair(6, 8));
  EXPECT_EQ(System(MemoryTree()).kernel(), std::pair(0, 0));
}

TEST(SystemTest, InstallCommandsFitTheDistribution) {
  const auto command = [](const char* release) {
    const MemoryTree tree = MemoryTree().file("/etc/os-release", release);
    return System(tree).installCommand("a b", "c");
  };
  EXPECT_EQ(command("ID=debian\n"), "sudo apt-get install a b");
  EXPECT_EQ(command("NAME=\"Pop!_OS\"\nID=pop\nID_LIKE=\"ubuntu debian\"\n"), "sudo apt-get install a b");
  EXPECT_EQ(command("ID=\"rhel\"\n"), "sudo dnf install c");
  EXPECT_EQ(command("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), "sudo dnf install c");
  const std::string both = command("ID=arch\n");
  EXPECT_HAS(both, "apt-get");
  EXPECT_HAS(both, "dnf");
}

TEST(SystemTest, KnowsContainers) {
  EXPECT_EQ(System(MemoryTree()).container(), "");
  const MemoryTree docker = MemoryTree().file("/.dockerenv", "");
  EXPECT_EQ(System(docker).container(), "docker");
  const MemoryTree pod = MemoryTree().file("/railwise/environment", "KUBERNETES_SERVICE_HOST=10.0.0.1\n");
  EXPECT_EQ(System(pod).container(), "kubernetes");
}

TEST(PciConfigTest, FindsCapabilities) {
  const MemoryTree tree =
      MemoryTree().file("/on/config", pciConfig(true, 0x1d)).file("/off/config", pciConfig(false, 0));
  const System system(tree);
  EXPECT_EQ(PciConfig(system, "/on").relaxedOrdering(), true);
  EXPECT_EQ(PciConfig(system, "/on").acsControl(), 0x1d);
  EXPECT_EQ(PciConfig(system, "/off").relaxedOrdering(), false);
  EXPECT_EQ(PciConfig(system, "/off").acsControl(), 0);
}

TEST(PciConfigTest, WithoutRootKnowsNothing) {
  const MemoryTree tree = MemoryTree().file("/nic/config", pciConfig(false, 0x1d).substr(0, 64));
  const PciConfig config(System(tree), "/nic");
  EXPECT_FALSE(config.complete());
  EXPECT_EQ(config.relaxedOrdering(), std::nullopt);
  EXPECT_EQ(config.acsControl(), std::nullopt);
}

// Capabilities that point at one another end the search.
TEST(PciConfigTest, CirclesEnd) {
  std::string bytes(4096, '\0');
  bytes[0x34] = 0x40;
  bytes[0x40] = 0x05;
  bytes[0x41] = 0x40;
  bytes[0x100] = 0x01;
  bytes[0x102] = 0x01;
  bytes[0x103] = 0x10;  // next: 0x100
  const MemoryTree tree = MemoryTree().file("/nic/config", bytes);
  const PciConfig config(System(tree), "/nic");
  EXPECT_EQ(config.relaxedOrdering(), std::nullopt);
  EXPECT_EQ(config.acsControl(), std::nullopt);
}

TEST(Libraries, AreLookedForInTheLinkersOrder) {
  const MemoryTree tree = MemoryTree()
                              .file("/railwise/environment", "LD_LIBRARY_PATH=/first:/missing:/second\n")
                              .file("/first/libother.so", "")
                              .file("/second/libnccl-net-x.so", "")
                              .file("/usr/lib/libnccl-net-x.so", "")
                              .file("/conf/libnccl-net-y.so", "")
                              .file("/etc/ld.so.conf.d/a.conf", "# comment\n/conf\n");
  const System system(tree);
  EXPECT_EQ(librarySearchPath(system), (std::vector<std::string>{"/first", "/second", "/conf", "/usr/lib"}));
  EXPECT_EQ(findLibrary(system, "libnccl-net-x.so"), "/second/libnccl-net-x.so");
  EXPECT_EQ(findLibrary(system, "libnccl-net-y.so"), "/conf/libnccl-net-y.so");
  EXPECT_EQ(findLibrary(system, "libnone.so"), "");
}

TEST(Libraries, FindsEachNcclOnce) {
  const MemoryTree tree =
      MemoryTree()
          .file("/railwise/environment", "VIRTUAL_ENV=/venv\n")
          .file("/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", "")
          .file("/venv/lib/python3.12/site-packages/nvidia_nccl_cu12-2.27.5.dist-info/METADATA", "")
          .file("/usr/lib/x86_64-linux-gnu/libnccl.so.2.29.7", "")
          .link("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.29.7")
          .link("/usr/lib/x86_64-linux-gnu/libnccl.so", "libnccl.so.2")
          .file("/opt/rocm/lib/librccl.so.1.0.70", "");
  const std::vector<NcclLibrary> found = ncclLibraries(System(tree));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].version, "2.27.5");
  EXPECT_EQ(found[1].version, "2.29.7");
  EXPECT_TRUE(found[2].rccl);
}

// What the linker takes for the name that programs are linked to.
TEST(Libraries, TheNcclThatProgramsLoad) {
  MemoryTree tree = MemoryTree()
                        .file("/usr/lib/libnccl.so.2.29.7", "")
                        .link("/usr/lib/libnccl.so.2", "libnccl.so.2.29.7")
                        .file("/usr/lib/libnccl.so.2.30.7", "");
  const auto found = [&] { return ncclOfPrograms(System(tree)); };
  ASSERT_TRUE(found().has_value());
  EXPECT_EQ(found()->path, "/usr/lib/libnccl.so.2");
  EXPECT_EQ(found()->version, "2.29.7") << "the other one is not what the name leads to";
  tree.file("/railwise/environment", "VIRTUAL_ENV=/venv\n")
      .file("/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", "")
      .file("/venv/lib/python3.12/site-packages/nvidia_nccl_cu12-2.27.5.dist-info/METADATA", "");
  EXPECT_EQ(found()->version, "2.27.5") << "the active Python environment";
  tree.file("/first/libnccl.so.2.28.9", "").link("/first/libnccl.so.2", "libnccl.so.2.28.9");
  tree.file("/railwise/environment", "VIRTUAL_ENV=/venv\nLD_LIBRARY_PATH=/first\n");
  EXPECT_EQ(found()->version, "2.28.9");
  tree.file("/own/libnccl.so.2.31.2", "");
  tree.file("/railwise/environment", "LD_LIBRARY_PATH=/first\nLD_PRELOAD=/lib/x.so:/own/libnccl.so.2.31.2\n");
  EXPECT_EQ(found()->version, "2.31.2");
  EXPECT_FALSE(ncclOfPrograms(System(MemoryTree())).has_value());
}

TEST(Libraries, TheTextOfALibraryTellsItsVersion) {
  const std::string path = testing::TempDir() + "/libnccl-with-version";
  std::ofstream(path) << "NCCL version mismatch\nNCCL version %d\n"
                      << std::string(5000, 'x') << "NCCL version 2.28.9+cuda13.0";
  EXPECT_EQ(ncclVersionInside(path), "2.28.9");
  std::ofstream(path) << "NCCL version ";
  EXPECT_EQ(ncclVersionInside(path), "");
  std::remove(path.c_str());
  EXPECT_EQ(ncclVersionInside(path), "");
}

TEST(Libraries, WhatTheirNamesDoNotTell) {
  const std::string folder = testing::TempDir() + "libraries-by-their-text";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/libnccl.so.2") << "NCCL version 2.28.9+cuda13.0";
  std::ofstream(folder + "/libnccl-net.so") << std::string("\0libnccl-net-railwise.so\0", 25);
  sysfs::MemoryTree facts("facts");
  facts.file("/railwise/environment", "LD_LIBRARY_PATH=" + folder + "\n");
  const auto files = sysfs::makeLiveTree();
  const OverlayTree tree(*files, facts);
  const std::string text = librariesText(System(tree));
  EXPECT_HAS(text, folder + "/libnccl.so.2 2.28.9\n");
  EXPECT_HAS(text, folder + "/libnccl-net.so railwise\n");

  std::ofstream(folder + "/libnccl-net-text.so") << "no library";
  facts.file("/railwise/environment", "LD_LIBRARY_PATH=" + folder + "\nNCCL_NET_PLUGIN=text\n");
  EXPECT_HAS(librariesText(System(tree)), folder + "/libnccl-net-text.so broken: it is no shared library\n");
  facts.file("/railwise/environment", "LD_LIBRARY_PATH=" + folder + "\nNCCL_NET_PLUGIN=none\n");
  EXPECT_LACKS(librariesText(System(tree)), "broken") << "a plugin that is not asked for";

  facts.file("/railwise/libraries", text);
  const System known(tree);
  EXPECT_TRUE(isRailwise(known, folder + "/libnccl-net.so"));
  EXPECT_EQ(ncclOfPrograms(known).value_or(NcclLibrary()).version, "2.28.9");
  std::ofstream(folder + "/libnccl-net.so") << "like libnccl-net-railwise.so";
  EXPECT_LACKS(librariesText(System(tree)), "libnccl-net.so") << "a message names it";
  std::filesystem::remove_all(folder);
}

TEST(PhysicalInterfaces, OfABondAreItsMembers) {
  const MemoryTree tree = MemoryTree()
                              .link("/sys/class/net/bond0/lower_ens1f0np0", "../../x")
                              .link("/sys/class/net/bond0/lower_ens1f1np1", "../../y")
                              .file("/sys/class/net/eth0/mtu", "1500\n");
  const System system(tree);
  EXPECT_EQ(physicalInterfaces(system, "bond0"), (std::vector<std::string>{"ens1f0np0", "ens1f1np1"}));
  EXPECT_EQ(physicalInterfaces(system, "eth0"), (std::vector<std::string>{"eth0"}));
}

TEST(MaskTest, HidesAddressesAndKeepsEqualOnesEqual) {
  const MemoryTree tree =
      MemoryTree()
          .file("/proc/sys/kernel/hostname", "node17\n")
          .file("/railwise/environment",
                "MASTER_ADDR=node17\nNCCL_SECRET_TOKEN=hunter2\nNCCL_IB_HCA=mlx5_0\n")
          .file("/railwise/interfaces",
                "eth0 192.168.7.33\nib0 192.168.7.33\nlo 127.0.0.1\neth1 fe80::c42:a1ff:fe54:7e1a\n")
          .file("/guid", "0c42:a103:0054:7e1a\n")
          .file("/gid", "fe80:0000:0000:0000:0c42:a103:0054:7e1a\n")
          .file("/zero", "0000:0000:0000:0000:0000:0000:0000:0000\n")
          .file("/mac", "0c:42:a1:54:7e:1a\n")
          .file("/version", "550.90.07\n")
          .file("/busid", "0000:1b:00.0\n")
          .link("/link", "busid");
  const MemoryTree hidden = masked(tree);
  EXPECT_EQ(hidden.read("/proc/sys/kernel/hostname"), "host\n");
  EXPECT_EQ(hidden.read("/railwise/environment"),
            "MASTER_ADDR=masked\nNCCL_SECRET_TOKEN=masked\nNCCL_IB_HCA=mlx5_0\n");
  EXPECT_LACKS(hidden.read("/railwise/interfaces").value(), "192.168");
  const std::vector<std::string> lines = linesOf(*hidden.read("/railwise/interfaces"));
  EXPECT_EQ(wordsOf(lines[0])[1], wordsOf(lines[1])[1]);
  EXPECT_EQ(lines[2], "lo 127.0.0.1");
  EXPECT_TRUE(wordsOf(lines[3])[1].starts_with("fe80::"));
  EXPECT_TRUE(hidden.read("/gid")->starts_with("fe80:0000:0000:0000:0200:"));
  EXPECT_EQ(hidden.read("/guid")->find("7e1a"), std::string::npos);
  EXPECT_EQ(hidden.read("/zero"), tree.read("/zero"));
  EXPECT_EQ(hidden.read("/mac")->find("7e"), std::string::npos);
  EXPECT_EQ(hidden.read("/version"), "550.90.07\n");
  EXPECT_EQ(hidden.read("/busid"), "0000:1b:00.0\n");
  EXPECT_EQ(hidden.read("/link"), "0000:1b:00.0\n");
}

TEST(Gather, TakesWhatConcernsJobsAndNoSecrets) {
  const char* const environment[] = {
      "NCCL_DEBUG=INFO", "AWS_SECRET_ACCESS_KEY=x",   "SLURM_JWT=x", "SLURM_JOB_ID=7", "RAILWISE_STRICT=1",
      "nothing",         "NCCL_BROKEN=a\nHOME=/evil", nullptr};
  const MemoryTree facts = gatherFacts(
      MemoryTree(), {.watch = std::chrono::milliseconds(0), .environment = environment}, Config());
  EXPECT_EQ(facts.read("/railwise/environment"), "NCCL_DEBUG=INFO\nSLURM_JOB_ID=7\nRAILWISE_STRICT=1\n");
  EXPECT_TRUE(facts.exists("/railwise/access"));
  EXPECT_TRUE(facts.exists("/railwise/interfaces"));
  EXPECT_FALSE(facts.exists("/railwise/later"));
}

TEST(Gather, WatchesTheCounters) {
  const MemoryTree machine = goodMachine();
  Config config;
  config.device = "software:count=1";
  const MemoryTree facts = gatherFacts(machine, {.watch = std::chrono::milliseconds(1)}, config);
  EXPECT_EQ(facts.read("/sys/class/infiniband/mlx5_3/ports/1/counters/symbol_error"), "7\n");
  EXPECT_EQ(facts.read("/railwise/later/sys/class/infiniband/mlx5_3/ports/1/counters/symbol_error"), "7\n");
  EXPECT_TRUE(facts.exists("/railwise/later/milliseconds"));
  // What verbs says of the process's devices, which is software here.
  EXPECT_HAS(facts.read("/railwise/verbs").value(), " 1 active_mtu=");
}

TEST(Netlink, LoopbackHasNeitherPfcNorLinkModes) {
  EXPECT_EQ(dcbText("lo"), "");
  EXPECT_EQ(fastestLinkMode("lo"), 0);
  EXPECT_EQ(dcbText("no-such-interface-at-all"), "");
  EXPECT_EQ(fastestLinkMode("no-such-interface-at-all"), 0);
  EXPECT_TRUE(ethernetCounters("lo").empty());
  EXPECT_TRUE(ethernetCounters("no-such-interface-at-all").empty());
}

// Whatever this machine has: each counter of a driver has a name of its own.
TEST(Ethtool, CountersHaveNames) {
  for (const auto& interface : std::filesystem::directory_iterator("/sys/class/net")) {
    std::set<std::string> names;
    for (const auto& [name, value] : ethernetCounters(interface.path().filename())) {
      EXPECT_FALSE(name.empty());
      EXPECT_EQ(printableAscii(name), name);
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
}

}  // namespace
}  // namespace railwise::doctor
