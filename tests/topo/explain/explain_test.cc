#include "topo/explain/explain.h"

#include <algorithm>

#include "tests/ok.h"
#include "tests/topo/output_machines.h"

namespace railwise::topo {
namespace {

using namespace test;

std::string textOf(const Outcome<std::string>& text) { return text.ok() ? *text : "error: " + text.error(); }

std::string textOf(const Machine& machine, int rank = -1, int channel = -1) {
  return textOf(explainText(machine, explain(machine), {.rank = rank, .channel = channel, .each = true}));
}

std::vector<std::string> kinds(const std::vector<Problem>& problems) {
  std::vector<std::string> list;
  for (const Problem& problem : problems) list.push_back(problem.kind);
  return list;
}

const RejectedNic& rejected(const GpuExplanation& gpu, int net) {
  static const RejectedNic kNone;
  for (const RejectedNic& nic : gpu.rejected) {
    if (nic.view.net == net) return nic;
  }
  ADD_FAILURE() << "NIC " << net << " was not rejected";
  return kNone;
}

TEST(Explain, TellsTheChosenNicAndItsWay) {
  const auto all = explain(machineOf(twoSwitches()));
  ASSERT_EQ(all.gpus.size(), 2U);
  ASSERT_EQ(all.gpus[0].chosen.size(), 1U);
  const ChosenNic& nic = all.gpus[0].chosen[0];
  EXPECT_EQ(nic.view.net, 0);
  EXPECT_EQ(viewText(nic.view), "PIX, 48 GB/s");
  EXPECT_EQ(stepsText(nic.view.steps), "--PCIe 48--> PCIe switch 0000:10:00.0 --PCIe 48--> mlx5_0");
  EXPECT_STREQ(gdrSummary(nic), "on");
  EXPECT_TRUE(all.gpus[0].problems.empty());
  EXPECT_TRUE(all.problems.empty());
}

TEST(Explain, AMachineWithoutNicSaysWhereNcclHasThemFrom) {
  const auto all = explain(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0")))));
  ASSERT_EQ(kinds(all.problems), std::vector<std::string>{"no-nic"});
  EXPECT_HAS(all.problems[0].text, "its network plugin finds on the machine");
  EXPECT_HAS(all.problems[0].fix, "railwise devices");
  EXPECT_TRUE(all.gpus[0].problems.empty());
}

TEST(Explain, RejectsByDistance) {
  const auto all = explain(machineOf(twoSwitches()));
  EXPECT_EQ(rejected(all.gpus[0], 1).rule, "distance");
  EXPECT_EQ(rejected(all.gpus[0], 1).reason, "same bandwidth, longer path: PXN instead of PIX");
}

TEST(Explain, RejectsByBandwidthEvenTheNearer) {
  const std::string xml =
      systemOf(cpu(0, pciSwitch("0000:10:00.0",
                                gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "slow", "8.0 GT/s PCIe"))) +
               cpu(1, nic(1, "0000:22:00.0", "fast")));
  const auto all = explain(machineOf(xml));
  EXPECT_EQ(all.gpus[0].nets, std::vector<int>{1});
  EXPECT_EQ(rejected(all.gpus[0], 0).rule, "bandwidth");
  EXPECT_EQ(
      rejected(all.gpus[0], 0).reason,
      "less bandwidth: 12 < 22 GB/s, though it is nearer (PIX before SYS): NCCL looks at bandwidth first");
  const auto problems = kinds(all.gpus[0].problems);
  EXPECT_EQ(std::count(problems.begin(), problems.end(), "nearer-nic-lost"), 1);
  ASSERT_EQ(problems[0], "slow-link");
  EXPECT_HAS(all.gpus[0].problems[0].text,
             "the link between CPUs from NUMA node 0 to NUMA node 1 carries 22 GB/s");
}

// NCCL would rather relay through a neighbour than use a GPU's own slow NIC: somebody must say so.
TEST(Explain, FindsTheSlowNicThatPxnHides) {
  const std::string xml = systemOf(
      cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0", "Unknown")) +
                 pciSwitch("0000:20:00.0", gpu(1, "0000:21:00.0") + nic(1, "0000:22:00.0", "mlx5_1"))));
  const auto all = explain(machineOf(xml));
  EXPECT_EQ(all.gpus[0].nets, std::vector<int>{1});
  EXPECT_EQ(kinds(all.gpus[0].problems), (std::vector<std::string>{"nearer-nic-lost", "slow-link"}));
  EXPECT_TRUE(all.gpus[1].problems.empty());
}

TEST(Explain, RejectsByTurn) {
  const auto all = explain(machineOf(equallyNear()));
  EXPECT_EQ(all.gpus[1].nets, std::vector<int>{2});
  EXPECT_EQ(rejected(all.gpus[1], 1).rule, "turn");
  EXPECT_EQ(rejected(all.gpus[1], 1).reason, "equally near, but it is the turn of GPU 2");
  EXPECT_EQ(rejected(all.gpus[1], 1).deal,
            "4 GPUs share 4 equally near NICs, 1 for each; GPU 1 takes mlx5_2 by bit reversal");
}

TEST(Explain, NamesTheLimitThatAnUserSet) {
  const std::string xml =
      systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "a") + nic(1, "0000:13:00.0", "b")));
  Settings settings{.netdevs_policy = Settings::NetDevsPolicy::kMax, .netdevs_max = 1};
  EXPECT_EQ(explain(machineOf(xml)).gpus[0].nets, (std::vector<int>{0, 1}));
  const auto all = explain(machineOf(xml, settings));
  EXPECT_EQ(all.gpus[0].nets, std::vector<int>{0});
  EXPECT_EQ(rejected(all.gpus[0], 1).rule, "limit");
  EXPECT_HAS(rejected(all.gpus[0], 1).deal, "NCCL_NETDEVS_POLICY=MAX:1");
}

TEST(Explain, SaysWhatIsBadAndWhatToDo) {
  const auto all = explain(machineOf(flat()));
  EXPECT_EQ(kinds(all.gpus[0].problems), (std::vector<std::string>{"slow-link", "far-nic", "gpudirect-off"}));
  EXPECT_HAS(all.gpus[0].problems[0].text, "link_speed=\"Unknown\"");
  EXPECT_HAS(all.gpus[0].problems[1].fix, "railwise topo generate");
  EXPECT_HAS(all.gpus[0].problems[2].text, "between GPU 0 and mlx5_0 is off for sending and receiving");
  EXPECT_HAS(all.gpus[0].problems[2].fix, "NCCL_NET_GDR_LEVEL=PHB");
  for (const Problem& problem : all.gpus[0].problems) EXPECT_FALSE(problem.fix.empty()) << problem.kind;
  std::string gen4 = flat();
  gen4.replace(gen4.find("Unknown"), 7, "16.0 GT/s PCIe");
  EXPECT_HAS(explain(machineOf(gen4)).gpus[0].problems[0].fix, "where LnkSta is lower, the slot");
}

TEST(Explain, ANicBelowTheSwitchOfTheGpuIsNotFarWhereGpuDirectIsOff) {
  std::string xml =
      systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0"))));
  EXPECT_TRUE(explain(machineOf(xml)).gpus[0].problems.empty());
  const auto gdr = xml.rfind("gdr=\"1\"");
  ASSERT_NE(gdr, std::string::npos);
  const auto all = explain(machineOf(xml.replace(gdr, 7, "gdr=\"0\"")));
  EXPECT_EQ(kinds(all.gpus[0].problems), (std::vector<std::string>{"gpudirect-off"}));
}

// The dealing out is told by our own account of NCCL's rule: it must come to what the policy answers.
TEST(Explain, AgreesWithThePolicyOnEveryMachine) {
  for (const char* file :
       {"synthetic/equal-4gpu-8nic.xml", "synthetic/equal-4gpu-2nic.xml", "synthetic/dgx1v.xml",
        "misc/sugarlxn-nccl_topo.xml", "from-sysfs/p5.48xl-topo.xml"}) {
    const auto machine = realMachine(file);
    if (!machine) GTEST_SKIP() << "no ../shared/topologies";
    for (const GpuExplanation& gpu : explain(*machine).gpus) {
      EXPECT_EQ(gpu.chosen.size() + gpu.rejected.size(),
                static_cast<std::size_t>(machine->graph->count(NodeType::kNet)));
      for (const RejectedNic& nic : gpu.rejected) EXPECT_FALSE(nic.reason.empty()) << file;
    }
  }
}

TEST(Explain, NamesANicThatIsNotTheNicOfAnyGpu) {
  const auto all =
      explain(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5_0") +
                                            nic(1, "0000:13:00.0", "slow", "8.0 GT/s PCIe")))));
  ASSERT_EQ(kinds(all.problems), std::vector<std::string>{"idle-nic"});
  EXPECT_EQ(all.problems[0].text, "slow is not the NIC of any GPU");
}

TEST(Explain, TwoGpusThatOnlyNicsJoinAreSeparateNodes) {
  const auto all = explain(machineOf(withoutNvlinks(twoSwitches())));
  ASSERT_FALSE(all.problems.empty());
  EXPECT_EQ(all.problems[0].kind, "split");
  EXPECT_HAS(all.problems[0].text, "2 separate nodes (GPU 0 and GPU 1)");
}

TEST(Explain, TellsOfDomains) {
  const auto machine = realMachine("azure/ndv5-topo.xml", {.gpu_sm = 90});
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  const auto all = explain(*machine);
  EXPECT_EQ(kinds(all.problems)[0], "split");
  EXPECT_HAS(all.problems[0].text, "2 separate nodes (GPU 0-3 and GPU 4-7)");
  EXPECT_EQ(all.problems[1].kind, "p2p-off");
  EXPECT_EQ(all.problems[1].text.rfind("12 pairs of GPUs", 0), 0U)
      << "six in each part: those of different parts use their NICs: " << all.problems[1].text;
}

TEST(ExplainText, CallsTheLinksOfAmdByTheirName) {
  const auto machine = realMachine("rcclx/topo_8p_942.xml");
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  EXPECT_HAS(textOf(*machine, 0), "over xGMI to this host's GPU k");
}

TEST(ExplainText, SaysNothingOfNvidiaOnAMachineOfAmd) {
  const auto machine = realMachine("rcclx/topo_8p_942.xml");
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  const std::string text = textOf(*machine);
  EXPECT_HAS(text, "\nHow RCCL chooses\n");
  EXPECT_HAS(text, "by their GPU");
  for (const char* word : {"NVLink", "NVML", "nvidia", " NCCL "}) EXPECT_LACKS(text, word);
  EXPECT_HAS(meaningText(*machine->graph, PathType::kPxn), "xGMI to another GPU");
}

TEST(ExplainText, TellsOfSeveralRanksOnAGpu) {
  std::string xml = twoSwitches();
  for (const std::string rank : {"0", "1"}) {
    const std::string head = "<gpu dev=\"" + rank + "\" sm=\"90\" rank=\"";
    const std::size_t at = xml.find(head);
    const std::size_t end = xml.find("</gpu>\n", at) + 7;
    xml.insert(end, head + (rank == "0" ? "2" : "3") + "\" gdr=\"1\"/>\n");
  }
  const std::string text = textOf(machineOf(xml));
  EXPECT_HAS(text, "test.xml: 2 GPUs with 2 ranks each, 2 NICs");
  EXPECT_HAS(text, "  Shared     this is rank 0; on the same device is rank 2\n");
  EXPECT_HAS(text, "  Shared     this is rank 3; on the same device is rank 1\n");
  EXPECT_LACKS(textOf(machineOf(twoSwitches())), "Shared");
}

// A NIC without a PCI address hangs on its CPU and beats those that have one.
TEST(Explain, TellsOfAVirtualNic) {
  const std::string lost =
      "<nic>\n<net name=\"mlx5_an0\" dev=\"9\" speed=\"400000\" port=\"1\" guid=\"0x9\" "
      "gdr=\"1\"/>\n</nic>\n";
  const Machine machine =
      machineOf(systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0")) +
                                    nic(0, "0000:12:00.0", "mlx5_0", "8.0 GT/s PCIe") + lost)));
  const auto all = explain(machine);
  EXPECT_EQ(all.gpus[0].nets, std::vector<int>{1});
  EXPECT_HAS(stepsText(all.gpus[0].chosen[0].view.steps), "--virtual 5000--> mlx5_an0");
  ASSERT_FALSE(all.problems.empty());
  EXPECT_EQ(all.problems[0].kind, "virtual-nic");
  EXPECT_HAS(all.problems[0].text, "the PCI address of mlx5_an0 is not known to NCCL");
  EXPECT_HAS(all.problems[0].text, "5000 GB/s from the CPU; so GPU 0 takes it");
  EXPECT_HAS(all.problems[0].fix, "NCCL_IB_MERGE_VFS=0");
  EXPECT_HAS(all.problems[0].fix, "NCCL_IB_HCA");
  const auto only = explain(machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + lost))));
  EXPECT_TRUE(only.problems.empty()) << "where none has an address, that is how the file is written";
}

TEST(Explain, TellsNicsOfOneNameApart) {
  const Machine machine =
      machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "mlx5") +
                                    nic(9, "0000:13:00.0", "mlx5") + nic(2, "0000:14:00.0", "other"))));
  EXPECT_EQ(netName(*machine.graph, 0), "mlx5 (device 0)");
  EXPECT_EQ(netName(*machine.graph, 1), "mlx5 (device 9)");
  EXPECT_EQ(netName(*machine.graph, 2), "other");
}

TEST(ExplainText, ReadsFromChoiceToReason) {
  const std::string text = textOf(machineOf(twoSwitches()), 0);
  EXPECT_HAS(text, "GPU 0 (0000:11:00.0, NUMA node 0) uses mlx5_0\n");
  EXPECT_HAS(text, "  GPUDirect  on: the NIC is near enough (PIX; the limit is P2C)\n");
  EXPECT_HAS(text, "  Rejected   mlx5_1: same bandwidth, longer path: PXN instead of PIX\n");
  EXPECT_LACKS(text, "\nGPU 1 (") << "only the asked one";
}

TEST(ExplainText, OfGpusThatAreAlikeTheFirstIsWritten) {
  const Machine machine = machineOf(twoSwitches());
  const std::string text = textOf(explainText(machine, explain(machine)));
  EXPECT_HAS(text, "\nGPU 0 (");
  EXPECT_LACKS(text, "\nGPU 1 (");
  EXPECT_HAS(text, "  Alike      GPU 1 is like this but for names");
  EXPECT_HAS(textOf(explainText(machine, explain(machine), {.rank = 1})), "\nGPU 1 (");
}

TEST(ExplainText, GpusThatDifferAreWritten) {
  const Machine machine = machineOf(
      systemOf(cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "near"))) +
               cpu(1, gpu(1, "0000:21:00.0"))));
  const std::string text = textOf(explainText(machine, explain(machine)));
  EXPECT_HAS(text, "\nGPU 0 (");
  EXPECT_HAS(text, "\nGPU 1 (");
}

TEST(ExplainText, BrieflyHasTheTableAndWhatIsWrong) {
  const Machine machine = machineOf(
      systemOf(cpu(0, gpu(0, "0000:11:00.0") + gpu(1, "0000:13:00.0") + nic(0, "0000:12:00.0", "far"))));
  const std::string text = textOf(explainText(machine, explain(machine), {.brief = true}));
  EXPECT_HAS(text, "\nGPU 0  far ");
  EXPECT_HAS(text, "\nGPUs 0, 1\n  ! Problem  ");
  EXPECT_HAS(text, "\nWhat to do\n");
  EXPECT_LACKS(text, "Rejected");
  EXPECT_LACKS(text, "How NCCL chooses");
}

TEST(ExplainText, FitsTheColumns) {
  const Machine machine = machineOf(twoSwitches());
  const std::string text = textOf(explainText(machine, explain(machine), {.columns = 60}));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 60U) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(ExplainText, OfAChannel) {
  const std::string xml =
      systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "a") + nic(1, "0000:13:00.0", "b")));
  const std::string text = textOf(machineOf(xml), 0, 3);
  EXPECT_HAS(text, "uses b\n");
  EXPECT_HAS(text, "a: the turn of another channel");
}

TEST(ExplainText, RefusesAGpuThatIsNotThere) {
  EXPECT_EQ(textOf(machineOf(twoSwitches()), 7), "error: test.xml: no GPU 7; there are 2, the first is 0");
}

TEST(ExplainJson, IsComplete) {
  const Machine machine = machineOf(flat());
  const std::string json = textOf(explainJson(machine, explain(machine)));
  EXPECT_HAS(json, "\"schema\": \"railwise-explain\"");
  EXPECT_HAS(json, "\"rule\": \"distance\"");
  EXPECT_HAS(json, "\"kind\": \"slow-link\"");
  EXPECT_HAS(json, "{\"link\": \"PCIe\", \"bandwidth\": 12, \"to\": \"mlx5_0\"}");
  EXPECT_HAS(json, "{\"peer_dev\": 1, \"channel\": 0, \"net\": \"NET/0\", \"proxy_rank\": 0}");
  EXPECT_EQ(countOf(json, "\"mode\": 0"), 6) << "receive, send and flush of each GPU";
}

TEST(ExplainJson, OfAChannel) {
  const Machine machine = machineOf(
      systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "a") + nic(1, "0000:13:00.0", "b"))));
  const std::string json = textOf(explainJson(machine, explain(machine), 0, 3));
  const std::string rejected = json.substr(json.find("\"rejected\""));
  EXPECT_HAS(rejected, "\"name\": \"a\"");
  EXPECT_HAS(rejected, "\"rule\": \"channel\"");
}

// Which NICs serve one-sided communication.

// The NIC is in a dump of NCCL, with what it is used for.
std::string withUse(std::string xml, const std::string& nic, const std::string& use) {
  const std::size_t at = xml.find("<net name=\"" + nic + "\"");
  EXPECT_NE(at, std::string::npos);
  return xml.insert(at + 5, use + " ");
}

MachineExplanation withOneSided(const Machine& machine) {
  MachineExplanation all = explain(machine);
  addOneSided(machine, all);
  return all;
}

std::string shownText(const Machine& machine) {
  const auto text = explainText(machine, withOneSided(machine), {.each = true});
  EXPECT_OK(text);
  return *text;
}

using NicNames = std::vector<std::string>;
constexpr char kEverything[] = "net=\"1\" gin=\"1\" rma=\"1\"";
constexpr char kNetAlone[] = "net=\"1\"";
constexpr char kAtGpu[] = "One-sided  communication (below) takes ";
constexpr char kLegend[] = "communication (windows, host RMA, GIN) gets NICs by 1 to 3 too";

std::string dump(const char* first, const char* second) {
  return withUse(withUse(twoSwitches(), "mlx5_0", first), "mlx5_1", second);
}

TEST(ExplainOneSided, TheNicsOfThePlugin) {
  const Machine machine = machineOf(dump(kEverything, kEverything));
  const MachineExplanation all = withOneSided(machine);
  EXPECT_EQ(all.gpus[0].one_sided, NicNames{"mlx5_0"});
  EXPECT_EQ(all.gpus[1].one_sided, NicNames{"mlx5_1"});
  EXPECT_HAS(shownText(machine), kLegend);
  EXPECT_LACKS(shownText(machine), kAtGpu) << "nothing to say of the GPUs: the NICs are the same";
}

TEST(ExplainOneSided, ANicThatServesCollectivesAlone) {
  const Machine machine = machineOf(dump(kNetAlone, kEverything));
  const MachineExplanation all = withOneSided(machine);
  EXPECT_EQ(all.gpus[0].one_sided, NicNames{"mlx5_1"});
  EXPECT_EQ(all.gpus[1].one_sided, NicNames{"mlx5_1"});
  EXPECT_HAS(shownText(machine), std::string(kAtGpu) + "mlx5_1");
  const auto json = explainJson(machine, all);
  ASSERT_OK(json);
  EXPECT_HAS(*json, "\"one_sided\": [\"mlx5_1\"]");
}

TEST(ExplainOneSided, ANicOfItsOwnThatIsNoNicOfCollectives) {
  const Machine machine = machineOf(dump("net=\"0\" gin=\"1\" rma=\"1\"", kEverything));
  EXPECT_EQ(withOneSided(machine).gpus[0].one_sided, NicNames{"mlx5_0"});
  EXPECT_EQ(withOneSided(machine).gpus[0].nets.size(), 1U);
  EXPECT_HAS(shownText(machine), std::string(kAtGpu) + "mlx5_0");
}

TEST(ExplainOneSided, GinAloneBeforeThereIsRma) {
  const Machine machine = machineOf(dump("net=\"1\" gin=\"1\"", "net=\"1\""), {.nccl = NcclVersion{22907}});
  EXPECT_EQ(withOneSided(machine).gpus[1].one_sided, NicNames{"mlx5_0"});
}

TEST(ExplainOneSided, NothingIsSaidWhereNothingIsKnown) {
  EXPECT_TRUE(withOneSided(machineOf(twoSwitches())).gpus[0].one_sided.empty()) << "a file that does not say";
  EXPECT_LACKS(shownText(machineOf(twoSwitches())), "One-sided");
  Settings old{.nccl = NcclVersion{22903}};
  EXPECT_TRUE(withOneSided(machineOf(dump(kEverything, kEverything), old)).gpus[0].one_sided.empty())
      << "an older release";
}

// As a running machine would have it: Railwise and NCCL's own network find the same NICs.
Machine running(const std::string& xml, const Settings& settings = {}) {
  Machine machine = machineOf(xml, settings);
  machine.completed = true;
  return machine;
}

TEST(ExplainOneSided, AMachineThatRuns) {
  EXPECT_EQ(withOneSided(running(twoSwitches())).gpus[0].one_sided, NicNames{"mlx5_0"});
  std::string without = twoSwitches();
  for (const char* const guid : {"0x0", "0x1"}) {
    const std::string end = std::string(guid) + "\" gdr=\"1\"";
    without.replace(without.find(end) + end.size() - 2, 1, "0");
  }
  EXPECT_TRUE(withOneSided(running(without)).gpus[0].one_sided.empty())
      << "NCCL's own network does not start without GPUDirect";
}

// NCCL 2.30.7 on a card with two functions: each rank has queue pairs on both.
TEST(ExplainOneSided, TheMembersOfAFusedNic) {
  const Machine machine = running(twoSwitches("mlx5_0+mlx5_2"));
  const MachineExplanation all = withOneSided(machine);
  EXPECT_EQ(all.gpus[0].one_sided, (NicNames{"mlx5_0", "mlx5_2"}));
  EXPECT_EQ(all.gpus[1].one_sided, NicNames{"mlx5_1"});
  EXPECT_HAS(shownText(machine), std::string(kAtGpu) + "mlx5_0 and mlx5_2");
}

TEST(ExplainOneSided, TwoPortsOfOneNameAreOneNic) {
  EXPECT_EQ(withOneSided(running(twoSwitches("mlx5_0+mlx5_0:2"))).gpus[0].one_sided, NicNames{"mlx5_0"});
  EXPECT_EQ(withOneSided(running(twoSwitches("mlx5_1:2"))).gpus[0].one_sided, NicNames{"mlx5_1"});
}

TEST(ExplainOneSided, BeforeTwoTablesNoneOverAFusedNic) {
  Settings settings{.nccl = NcclVersion{23004}};
  const std::string fused = twoSwitches("mlx5_0+mlx5_2");
  EXPECT_TRUE(withOneSided(running(fused, settings)).gpus[0].one_sided.empty());
  EXPECT_TRUE(withOneSided(running(fused, settings)).gpus[1].one_sided.empty()) << "of no rank of the job";
  const std::string dumped = withUse(withUse(fused, "mlx5_0+mlx5_2", kNetAlone), "mlx5_1", kEverything);
  EXPECT_TRUE(withOneSided(machineOf(dumped, settings)).gpus[1].one_sided.empty());
  EXPECT_EQ(withOneSided(machineOf(dumped)).gpus[1].one_sided, NicNames{"mlx5_1"}) << "2.30.7 and newer";
  EXPECT_EQ(withOneSided(running(twoSwitches(), settings)).gpus[1].one_sided, NicNames{"mlx5_1"});
}

TEST(ExplainOneSided, NobodyKnowsWhereTheMembersAreThatAreFusedAcrossSwitches) {
  Settings settings{.net_merge_level = PathType::kPhb};
  EXPECT_TRUE(withOneSided(running(twoSwitches("mlx5_0+mlx5_2"), settings)).gpus[0].one_sided.empty());
  EXPECT_EQ(withOneSided(running(twoSwitches(), settings)).gpus[0].one_sided, NicNames{"mlx5_0"});
}

}  // namespace

}  // namespace railwise::topo
