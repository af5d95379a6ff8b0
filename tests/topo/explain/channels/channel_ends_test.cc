#include "topo/explain/channels/channel_ends.h"

#include <algorithm>

#include "tests/ok.h"
#include "tests/topo/json_check.h"
#include "tests/topo/output_machines.h"
#include "topo/search/search.h"

namespace railwise::topo {
namespace {

using namespace test;

MachineExplanation explained(const Machine& machine) {
  MachineExplanation all = explain(machine);
  addChannels(machine, all);
  return all;
}

std::string endsText(const Machine& machine, int rank = -1, int channel = -1) {
  const auto text =
      explainText(machine, explained(machine), {.rank = rank, .channel = channel, .each = true});
  return text.ok() ? *text : "error: " + text.error();
}

std::string jsonOf(const Machine& machine, int rank = -1, int channel = -1) {
  const auto json = explainJson(machine, explained(machine), rank, channel);
  return json.ok() ? *json : "error: " + json.error();
}

// "enters 0: 0 1" for each end: what it does, the NET, the channels; with the rule in brackets.
std::vector<std::string> endsOf(const GpuExplanation& gpu) {
  std::vector<std::string> list;
  for (const ChannelEnd& end : gpu.ends) {
    const char* const use = end.use == EndUse::kRingEnters   ? "enters "
                            : end.use == EndUse::kRingLeaves ? "leaves "
                                                             : "tree ";
    list.push_back(use + std::to_string(end.view.net) + ": " + rangesText(end.channels) +
                   (end.rule.empty() ? "" : " [" + end.rule + "]"));
  }
  return list;
}

const ChannelEnd& endAt(const MachineExplanation& all, int gpu, EndUse use) {
  static const ChannelEnd kNone;
  for (const ChannelEnd& end : all.gpus[static_cast<std::size_t>(gpu)].ends)
    if (end.use == use) return end;
  ADD_FAILURE() << "GPU " << gpu << " has no such end";
  return kNone;
}

std::optional<Machine> ownMachine(const std::string& file, const Settings& settings = {}) {
  auto machine = loadFile(RAILWISE_SOURCE_DIR "/tests/topo/machines/" + file, settings, {});
  EXPECT_OK(machine);
  return std::move(*machine);
}

// Three GPUs and a NIC on one switch.
Machine sharedNic() {
  return machineOf(systemOf(
      cpu(0, pciSwitch("0000:10:00.0", gpu(0, "0000:11:00.0") + gpu(1, "0000:12:00.0") +
                                           gpu(2, "0000:13:00.0") + nic(0, "0000:14:00.0", "mlx5_0")))));
}

using Ends = std::vector<std::string>;

TEST(ChannelEnds, OfGpusThatShareANic) {
  const auto all = explained(sharedNic());
  EXPECT_EQ(endsOf(all.gpus[0]), (Ends{"enters 0: 0, 1", "tree 0: 0, 1"}));
  EXPECT_EQ(endsOf(all.gpus[1]), (Ends{"leaves 0: 0, 1", "tree 0: 0, 1"}));
  EXPECT_EQ(endsOf(all.gpus[2]), Ends{});
}

TEST(ChannelEnds, ARingLeavesByTheNicByWhichItEnters) {
  const auto all = explained(machineOf(twoSwitches()));
  EXPECT_EQ(endsOf(all.gpus[0]), (Ends{"enters 0: 0, 2", "leaves 1: 1, 3 [same-nic]", "tree 0: 0, 2"}));
  const ChannelEnd& end = endAt(all, 0, EndUse::kRingLeaves);
  EXPECT_EQ(end.proxy_rank, 1);
  EXPECT_TRUE(end.gpu_direct);
  EXPECT_EQ(end.reason,
            "NCCL lets a ring leave by the NIC by which it came in; PXN, 48 GB/s, sent through GPU 1 (PXN); "
            "its own: PIX, 48 GB/s");
}

TEST(ChannelEnds, NoRelayWhereARingEnters) {
  const auto all = explained(machineOf(twoSwitches()));
  EXPECT_EQ(endAt(all, 0, EndUse::kRingEnters).proxy_rank, 0);
}

TEST(ChannelEnds, OfAGpuWithTwoNics) {
  const auto all = explained(machineOf(
      systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "a") + nic(1, "0000:13:00.0", "b")))));
  EXPECT_EQ(all.gpus[0].nets, (std::vector<int>{0, 1}));
  EXPECT_EQ(endsOf(all.gpus[0]), (Ends{"enters 0: 0, 1", "leaves 0: 0, 1", "tree 0: 0", "tree 1: 1"}));
}

TEST(ChannelEnds, OfASplitHost) {
  const auto all = explained(machineOf(withoutNvlinks(twoSwitches())));
  ASSERT_EQ(all.channels.size(), 2U);
  EXPECT_EQ(all.channels[1].ranks, std::vector<int>{1});
  EXPECT_EQ(endsOf(all.gpus[0]), (Ends{"enters 0: 0, 1", "leaves 0: 0, 1", "tree 0: 0, 1"}));
  EXPECT_EQ(endsOf(all.gpus[1]), (Ends{"enters 1: 0, 1", "leaves 1: 0, 1", "tree 1: 0, 1"}));
}

TEST(ChannelEnds, WithoutANicThereAreNone) {
  const Machine machine = machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0"))));
  const auto all = explained(machine);
  ASSERT_EQ(all.channels.size(), 1U);
  EXPECT_EQ(all.channels[0].missing, "there is no NIC");
  EXPECT_EQ(endsOf(all.gpus[0]), Ends{});
  EXPECT_HAS(endsText(machine), "Rings and trees with a second, equal machine: none: there is no NIC\n");
}

TEST(ChannelEnds, SayWhatIsWrongWithTheGraphFile) {
  const auto file = GraphFile::parse(
      "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"12\" "
      "speedinter=\"12\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\"><channel>"
      "<net dev=\"9\"/><gpu dev=\"0\"/><gpu dev=\"1\"/><net dev=\"9\"/></channel></graph></graphs>",
      "graphs.xml");
  ASSERT_OK(file);
  Machine machine = machineOf(twoSwitches());
  machine.graph_file = std::make_shared<const GraphFile>(*file);
  const auto all = explained(machine);
  ASSERT_EQ(all.channels.size(), 1U);
  EXPECT_HAS(all.channels[0].missing, "graphs.xml:1:");
  EXPECT_HAS(all.channels[0].missing, "the machine has no such NIC");
  EXPECT_EQ(endsOf(all.gpus[0]), Ends{});
}

TEST(ChannelEnds, OfAGraphFile) {
  Machine machine = machineOf(twoSwitches());
  std::string graph;
  for (const char* id : {"0\" pattern=\"4", "1\" pattern=\"3"})
    graph += std::string("<graph id=\"") + id +
             "\" crossnic=\"0\" nchannels=\"1\" speedintra=\"12\" speedinter=\"12\" latencyinter=\"0\" "
             "typeintra=\"NVL\" typeinter=\"PXN\" samechannels=\"1\"><channel><net dev=\"1\"/><gpu "
             "dev=\"0\"/><gpu dev=\"1\"/><net dev=\"1\"/></channel></graph>";
  const auto file = GraphFile::parse("<graphs version=\"1\">" + graph + "</graphs>", "graphs.xml");
  ASSERT_OK(file);
  machine.graph_file = std::make_shared<const GraphFile>(*file);
  const auto all = explained(machine);
  EXPECT_EQ(endsOf(all.gpus[0]), (Ends{"enters 1: 0 [file]", "tree 1: 0 [file]"})) << all.channels[0].missing;
  EXPECT_EQ(endsOf(all.gpus[1]), Ends{"leaves 1: 0"});
}

// The reason of every NIC that is none of the GPU's own.
TEST(ChannelEnds, EachRule) {
  struct Case {
    const char* file;
    int gpu;
    const char* end;
    const char* words;
  };
  for (const Case& wanted : {
           Case{"synthetic/equal-4gpu-8nic.xml", 1, "enters 1: 1, 5 [turn]", "equally near"},
           Case{"synthetic/root-spr-2gpu.xml", 0, "enters 1: 1 [same-order]", "one order of GPUs"},
           Case{"search/random5003.xml", 0, "enters 0: 2 [shared]", "its own n1 carries ring 0"},
           Case{"search/random5003.xml", 0, "tree 0: 2 [same-nic]", "both GPUs of the tree use one NIC"},
       }) {
    const auto machine = ownMachine(wanted.file);
    const GpuExplanation gpu = explained(*machine).gpus[static_cast<std::size_t>(wanted.gpu)];
    const Ends ends = endsOf(gpu);
    const auto at = std::find(ends.begin(), ends.end(), wanted.end);
    ASSERT_NE(at, ends.end()) << wanted.file << ": " << testing::PrintToString(ends);
    const std::string& reason = gpu.ends[static_cast<std::size_t>(at - ends.begin())].reason;
    EXPECT_HAS(reason, wanted.words);
  }
}

TEST(ChannelEnds, NameTheSettingThatForbidsAnotherNic) {
  const auto all = explained(machineOf(twoSwitches(), {.cross_nic = 0}));
  EXPECT_HAS(endAt(all, 0, EndUse::kRingLeaves).reason, "by which it came in (NCCL_CROSS_NIC=0)");
}

// NCCL exchanges the GPUs of a pair of rings on every second host, not their NICs.
TEST(ChannelEnds, RingsOfAPairChangePlaces) {
  const auto machine = realMachine("azure/ndv5-topo.xml", {.gpu_sm = 90, .nvswitch_links = 18});
  if (!machine) GTEST_SKIP() << "no ../shared/topologies";
  const auto all = explained(*machine);
  ASSERT_EQ(all.channels[0].swapped.size(), 8U);
  const SwappedRing& ring = all.channels[0].swapped[0];
  EXPECT_EQ((std::vector<int>{ring.enter_rank, ring.enter_net, ring.leave_rank, ring.leave_net}),
            (std::vector<int>{1, 1, 0, 0}));
  EXPECT_FALSE(ring.other_nics);
  EXPECT_HAS(endsText(*machine), "On every second host rings 0 and 1, 2 and 3, ... change places\n");
}

// Every channel's NICs are those of the search, which told what it tried: `topo graphs`.
TEST(ChannelEnds, AreThoseOfTheGraphs) {
  for (const char* file :
       {"synthetic/dgx1v.xml", "synthetic/equal-4gpu-8nic.xml", "gb200.xml", "synthetic/vm-flat-unknown.xml",
        "search/random5003.xml", "search/random5023.xml"}) {
    const auto machine = ownMachine(file);
    const auto all = explained(*machine);
    const auto graphs = searchMachine(*machine, {.one_host = false});
    ASSERT_OK(graphs);
    const auto& rings = (*graphs)[0].two_hosts->of(Algorithm::kRing).channels;
    ASSERT_EQ(static_cast<int>(rings.size()), all.channels[0].channels);
    for (std::size_t c = 0; c < rings.size(); ++c) {
      const auto netAt = [&](int rank, EndUse use) {
        const int gpu = machine->graph->gpuOfRank(rank);
        for (const ChannelEnd& end : all.gpus[static_cast<std::size_t>(gpu)].ends)
          if (end.use == use && all.channels[0].has(end, static_cast<int>(c))) return end.view.net;
        return -1;
      };
      EXPECT_EQ(netAt(rings[c].ranks.front(), EndUse::kRingEnters), rings[c].net_in) << file << " " << c;
      EXPECT_EQ(netAt(rings[c].ranks.back(), EndUse::kRingLeaves), rings[c].net_out) << file << " " << c;
    }
  }
}

TEST(ChannelText, TableAndLinesOfEachGpu) {
  const std::string text = endsText(machineOf(twoSwitches()));
  EXPECT_HAS(text,
             "Rings and trees with a second, equal machine\n\n"
             "channels  ring enters by   ring leaves by    tree enters and leaves by\n"
             "0, 2      mlx5_0 at GPU 0  mlx5_0 at GPU 1*  mlx5_0 at GPU 0\n"
             "1, 3      mlx5_1 at GPU 1  mlx5_1 at GPU 0*  mlx5_1 at GPU 1\n"
             "* not the GPU's own NIC: the lines Rings and Trees of that GPU say why\n");
  EXPECT_HAS(text,
             "  Rings      channels 0, 2 enter by mlx5_0\n"
             "             channels 1, 3 leave by mlx5_1 (not its own: NCCL lets a ring ");
  EXPECT_HAS(text, "  Trees      channels 0, 2 by mlx5_0\n");
}

TEST(ChannelText, OfAGpuInTheMiddle) {
  const std::string text = endsText(sharedNic(), 2);
  EXPECT_HAS(text, "  Rings      no ring and no tree enters or leaves the host at this GPU\n");
  EXPECT_LACKS(text, "ring enters by") << "the table is for all GPUs";
}

TEST(ChannelText, OfOneGpuThatIsBothEnds) {
  const Machine machine = machineOf(systemOf(cpu(0, gpu(0, "0000:11:00.0") + nic(0, "0000:12:00.0", "a"))));
  EXPECT_HAS(endsText(machine), "  Rings      channels 0, 1 enter and leave by a\n");
}

TEST(ChannelText, OfACopiedChannel) {
  const std::string text = endsText(machineOf(twoSwitches()), -1, 6);
  EXPECT_HAS(text, "channel     ring enters by");
  EXPECT_HAS(text, "\n6 (like 2)  mlx5_0 at GPU 0  mlx5_0 at GPU 1*");
  EXPECT_HAS(text, "  Rings      channel 6 (like 2) enters by mlx5_0\n");
  EXPECT_LACKS(text, "leave by mlx5_1");
}

TEST(ChannelText, OfASplitHost) {
  const std::string text = endsText(machineOf(withoutNvlinks(twoSwitches())));
  EXPECT_HAS(text, "Rings and trees of GPU 0, with the others and a second, equal machine\n");
  EXPECT_HAS(text, "Rings and trees of GPU 1, with the others");
}

// The slowest channel that NCCL tries is too fast for PCIe links of one lane.
TEST(ChannelText, SaysThatTheSearchFoundNothing) {
  const std::string text = endsText(machineOf(slowPcie(nic(0, "0000:12:00.0", "mlx5_0"), "2.5 GT/s PCIe")));
  EXPECT_HAS(text, "! The search found");
  EXPECT_HAS(text, "`railwise topo graphs");
}

TEST(ChannelText, FitsATerminal) {
  for (const char* file :
       {"synthetic/equal-4gpu-8nic.xml", "synthetic/mnnvl-2hosts.xml", "synthetic/vm-flat-unknown.xml"}) {
    const std::string text = endsText(*ownMachine(file));
    for (std::size_t at = text.find("\nRings and trees"), end = 0; end < text.size(); at = end) {
      end = std::min(text.find('\n', at + 1), text.size());
      EXPECT_LE(end - at, 81U) << text.substr(at, end - at);
    }
  }
}

TEST(ChannelJson, OfAGpuAndOfTheMachine) {
  const Machine machine = machineOf(twoSwitches());
  const std::string json = jsonOf(machine, 0);
  EXPECT_TRUE(JsonCheck::isJson(json)) << json;
  EXPECT_HAS(json,
             "\"use\": \"ring-leaves\",\n          \"channels\": [1, 3],\n          \"net\": \"NET/1\"");
  EXPECT_HAS(json, "\"own\": false,\n          \"rule\": \"same-nic\"");
  EXPECT_HAS(json, "\"ranks\": [0, 1],\n      \"channels\": 4,\n      \"rings\": 4,");
  EXPECT_LACKS(jsonOf(machine, 0, 4), "ring-leaves") << "channel 4 is like channel 0";
}

TEST(ChannelJson, AbsentWithoutTheSearch) {
  const Machine machine = machineOf(twoSwitches());
  const auto json = explainJson(machine, explain(machine));
  ASSERT_OK(json);
  EXPECT_LACKS(*json, "channel_ends");
  EXPECT_LACKS(*json, "rings_and_trees");
}

}  // namespace
}  // namespace railwise::topo
