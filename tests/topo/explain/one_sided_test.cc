// Which NICs serve one-sided communication.
#include "tests/topo/output_machines.h"
#include "topo/explain/explain.h"

namespace railwise::topo {
namespace {

using namespace test;

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
  EXPECT_TRUE(has(shownText(machine), kLegend));
  EXPECT_FALSE(has(shownText(machine), kAtGpu)) << "nothing to say of the GPUs: the NICs are the same";
}

TEST(ExplainOneSided, ANicThatServesCollectivesAlone) {
  const Machine machine = machineOf(dump(kNetAlone, kEverything));
  const MachineExplanation all = withOneSided(machine);
  EXPECT_EQ(all.gpus[0].one_sided, NicNames{"mlx5_1"});
  EXPECT_EQ(all.gpus[1].one_sided, NicNames{"mlx5_1"});
  EXPECT_TRUE(has(shownText(machine), std::string(kAtGpu) + "mlx5_1")) << shownText(machine);
  const auto json = explainJson(machine, all);
  ASSERT_OK(json);
  EXPECT_TRUE(has(*json, "\"one_sided\": [\"mlx5_1\"]")) << *json;
}

TEST(ExplainOneSided, ANicOfItsOwnThatIsNoNicOfCollectives) {
  const Machine machine = machineOf(dump("net=\"0\" gin=\"1\" rma=\"1\"", kEverything));
  EXPECT_EQ(withOneSided(machine).gpus[0].one_sided, NicNames{"mlx5_0"});
  EXPECT_EQ(withOneSided(machine).gpus[0].nets.size(), 1U);
  EXPECT_TRUE(has(shownText(machine), std::string(kAtGpu) + "mlx5_0")) << shownText(machine);
}

TEST(ExplainOneSided, GinAloneBeforeThereIsRma) {
  Settings settings;
  settings.nccl = NcclVersion{22907};
  const Machine machine = machineOf(dump("net=\"1\" gin=\"1\"", "net=\"1\""), settings);
  EXPECT_EQ(withOneSided(machine).gpus[1].one_sided, NicNames{"mlx5_0"});
}

TEST(ExplainOneSided, NothingIsSaidWhereNothingIsKnown) {
  EXPECT_TRUE(withOneSided(machineOf(twoSwitches())).gpus[0].one_sided.empty()) << "a file that does not say";
  EXPECT_FALSE(has(shownText(machineOf(twoSwitches())), "One-sided"));
  Settings old;
  old.nccl = NcclVersion{22903};
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
  EXPECT_TRUE(has(shownText(machine), std::string(kAtGpu) + "mlx5_0 and mlx5_2")) << shownText(machine);
}

TEST(ExplainOneSided, TwoPortsOfOneNameAreOneNic) {
  EXPECT_EQ(withOneSided(running(twoSwitches("mlx5_0+mlx5_0:2"))).gpus[0].one_sided, NicNames{"mlx5_0"});
  EXPECT_EQ(withOneSided(running(twoSwitches("mlx5_1:2"))).gpus[0].one_sided, NicNames{"mlx5_1"});
}

TEST(ExplainOneSided, BeforeTwoTablesNoneOverAFusedNic) {
  Settings settings;
  settings.nccl = NcclVersion{23004};
  const std::string fused = twoSwitches("mlx5_0+mlx5_2");
  EXPECT_TRUE(withOneSided(running(fused, settings)).gpus[0].one_sided.empty());
  EXPECT_TRUE(withOneSided(running(fused, settings)).gpus[1].one_sided.empty()) << "of no rank of the job";
  const std::string dumped = withUse(withUse(fused, "mlx5_0+mlx5_2", kNetAlone), "mlx5_1", kEverything);
  EXPECT_TRUE(withOneSided(machineOf(dumped, settings)).gpus[1].one_sided.empty());
  EXPECT_EQ(withOneSided(machineOf(dumped)).gpus[1].one_sided, NicNames{"mlx5_1"}) << "2.30.7 and newer";
  EXPECT_EQ(withOneSided(running(twoSwitches(), settings)).gpus[1].one_sided, NicNames{"mlx5_1"});
}

TEST(ExplainOneSided, NobodyKnowsWhereTheMembersAreThatAreFusedAcrossSwitches) {
  Settings settings;
  settings.net_merge_level = PathType::kPhb;
  EXPECT_TRUE(withOneSided(running(twoSwitches("mlx5_0+mlx5_2"), settings)).gpus[0].one_sided.empty());
  EXPECT_EQ(withOneSided(running(twoSwitches(), settings)).gpus[0].one_sided, NicNames{"mlx5_0"});
}

}  // namespace
}  // namespace railwise::topo
