// The public library as a program sees it: <railwise/topology.h>, <railwise/topology_c.h> and the shared
// object.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "railwise/topology.h"
#include "railwise/topology_c.h"
#include "sysfs/tar_archive.h"
#include "tests/ok.h"
#include "tests/scratch.h"
#include "tests/topo/big_machines.h"
#include "tests/topo/flat_tree.h"
#include "tests/topo/json_check.h"

namespace railwise::topology {
namespace {

using topo::test::JsonCheck;
using topo::test::MachineText;

Machine makeHgx(const Options& options = {}) {
  auto machine = Machine::parse(MachineText::hgx(), "hgx.xml", options);
  EXPECT_OK(machine);
  return *machine;
}

class Folder : public railwise::test::Scratch {
 public:
  std::string ndv5() const {
    return file("ndv5.tar.gz", *sysfs::writeArchive(topo::test::makeNdv5(), "ndv5"));
  }
};

// --- C++ ---

TEST(Api, TellsTheDevices) {
  const Machine machine = makeHgx();
  ASSERT_EQ(machine.gpus().size(), 8U);
  ASSERT_EQ(machine.nets().size(), 8U);
  const Gpu& gpu = machine.gpus()[5];
  EXPECT_EQ(gpu.index, 5);
  EXPECT_EQ(gpu.rank, 5);
  EXPECT_EQ(gpu.busid, "0000:39:00.0");
  EXPECT_EQ(gpu.sm, 90);
  EXPECT_EQ(gpu.numa, 1);
  EXPECT_EQ(gpu.cpus, "0-31");
  const Net& net = machine.nets()[5];
  EXPECT_EQ(net.name, "mlx5_5");
  EXPECT_EQ(net.busid, "0000:3b:00.0");
  EXPECT_DOUBLE_EQ(net.bandwidth, 50);
  EXPECT_EQ(net.guid, 0x1005U);
  EXPECT_TRUE(net.gpu_direct);
  EXPECT_EQ(machine.name(), "hgx.xml");
  EXPECT_TRUE(machine.remarks().empty());
}

TEST(Api, TellsPaths) {
  const Machine machine = makeHgx();
  const auto near = machine.path(0, 0);
  ASSERT_OK(near);
  EXPECT_EQ(near->type, PathType::kPix);
  EXPECT_DOUBLE_EQ(near->bandwidth, 48);
  EXPECT_EQ(near->via.size(), static_cast<std::size_t>(near->hops) - 1);
  EXPECT_EQ(near->via[1], "PCI/0000:10:00.0");
  const auto between = machine.pathBetweenGpus(0, 7);
  ASSERT_OK(between);
  EXPECT_EQ(between->type, PathType::kNvl);
  EXPECT_EQ(machine.pathBetweenGpus(3, 3)->type, PathType::kLoc);
}

TEST(Api, TellsTheChoicesAndTheirReasons) {
  const Machine machine = makeHgx();
  const auto nets = machine.chosenNets(1);
  ASSERT_OK(nets);
  EXPECT_EQ(nets->size(), 1U);
  const auto direct = machine.gpuDirect(1, nets->front());
  ASSERT_OK(direct);
  EXPECT_EQ(direct->receive.mode, GpuDirectMode::kOn);
  EXPECT_EQ(direct->receive.rule, "distance");
  EXPECT_EQ(direct->flush, Flush::kNone);
  EXPECT_EQ(direct->proxy_rank, 1);
  const auto p2p = machine.p2p(0, 7);
  ASSERT_OK(p2p);
  EXPECT_TRUE(p2p->allowed);
  EXPECT_HAS(p2p->reason, "NVL");
}

TEST(Api, VariablesChangeTheAnswers) {
  Options options;
  options.variables = {"HOME=/root", "NCCL_NET_GDR_LEVEL=LOC", "NCCL_NET_GDR_LEVEL=SYS"};
  const auto off = makeHgx(options).gpuDirect(0, 0);
  ASSERT_OK(off);
  EXPECT_EQ(off->receive.mode, GpuDirectMode::kOff);
  EXPECT_EQ(off->receive.limit, PathType::kLoc);
  EXPECT_HAS(off->receive.reason, "NCCL_NET_GDR_LEVEL");
}

TEST(Api, OptionsDescribeWhatTheFileDoesNot) {
  Options options;
  options.gpu_sm = 100;
  options.nic_speed_mbps = 200000;
  const auto machine = Machine::parse(MachineText::hgx(false), "bare.xml", options);
  ASSERT_OK(machine);
  EXPECT_EQ(machine->gpus()[0].sm, 100);
  EXPECT_DOUBLE_EQ(machine->nets()[0].bandwidth, 25);
  EXPECT_FALSE(machine->remarks().empty());
}

TEST(Api, WrongIndicesAreErrorsThatTellTheRange) {
  const Machine machine = makeHgx();
  EXPECT_EQ(machine.path(8, 0).error(), "no GPU has the index 8: they are 0 to 7");
  EXPECT_FALSE(machine.path(0, -1).ok());
  EXPECT_FALSE(machine.pathBetweenGpus(0, 8).ok());
  EXPECT_FALSE(machine.chosenNets(-1).ok());
  EXPECT_FALSE(machine.gpuDirect(0, 8).ok());
  EXPECT_FALSE(machine.p2p(-1, 0).ok());
  EXPECT_FALSE(machine.explain(8).ok());
  EXPECT_FALSE(machine.explainJson(-2).ok());
}

TEST(Api, LoadErrorsNameTheFileOrTheOption) {
  const auto missing = Machine::loadFile("/nowhere/topology.xml");
  ASSERT_FALSE(missing.ok());
  EXPECT_HAS(missing.error(), "/nowhere/topology.xml");
  EXPECT_FALSE(Machine::loadTree("/nowhere").ok());
  EXPECT_FALSE(Machine::loadMerged("/nowhere/topology.xml", "/").ok());
  const auto broken = Machine::parse("<system version=\"1\">", "broken.xml");
  EXPECT_EQ(broken.error().rfind("broken.xml:1:", 0), 0U) << broken.error();
  Options options;
  options.gpu_sm = -1;
  EXPECT_FALSE(Machine::parse(MachineText::hgx(), "hgx.xml", options).ok());
  options = {};
  options.cpu = "z80";
  EXPECT_FALSE(Machine::loadTree("/", options).ok());
}

TEST(Api, TextsAreWhole) {
  const Machine machine = makeHgx();
  EXPECT_TRUE(JsonCheck::isJson(*machine.json()));
  EXPECT_TRUE(JsonCheck::isJson(*machine.explainJson()));
  EXPECT_TRUE(JsonCheck::isJson(*machine.explainJson(3)));
  EXPECT_LT(machine.explain(3)->size(), machine.explain()->size());
  EXPECT_NE(machine.matrix()->find("mlx5_0"), std::string::npos);
  EXPECT_EQ(machine.xml()->rfind("<system version=\"1\">", 0), 0U);
  EXPECT_NE(machine.svg()->find("</svg>"), std::string::npos);
  EXPECT_NE(machine.html()->find("</html>"), std::string::npos);
}

TEST(Api, XmlReadsBackAsTheSameMachine) {
  const Machine machine = makeHgx();
  const auto again = Machine::parse(*machine.xml(), "again.xml");
  ASSERT_OK(again);
  EXPECT_TRUE(diff(machine, *again)->empty());
}

TEST(Api, ReleasesAreReadAsPeopleWriteThem) {
  EXPECT_EQ(static_cast<int>(*ncclRelease("2.30.4")), 23004);
  EXPECT_EQ(static_cast<int>(*ncclRelease("2.30")), 23007);
  EXPECT_EQ(static_cast<int>(*ncclRelease("")), 23102);
  EXPECT_EQ(static_cast<int>(*ncclRelease("2.32")), 23200);
  EXPECT_HAS(ncclRelease("3.1").error(), "'3.1' is not a release");
  Options options;
  options.nccl = *ncclRelease("2.32.3");
  EXPECT_FALSE(makeHgx(options).remarks().empty());
}

TEST(Api, PicksGpus) {
  const Machine machine = makeHgx();
  const auto pick = machine.pickJson(2);
  ASSERT_OK(pick);
  EXPECT_NE(pick->find("\"gpus\": [0, 1]"), std::string::npos) << *pick;
  PickOptions options;
  options.of = "3-5";
  EXPECT_NE(machine.pickJson(2, options)->find("\"gpus\": [3, 4]"), std::string::npos);
  EXPECT_HAS(machine.pickJson(4, options).error(), "4 GPUs are wanted");
  options.of = "9";
  EXPECT_EQ(machine.pickJson(1, options).error(), "of: there is no GPU 9; the machine has 0-7");
}

TEST(Api, DiffTellsWhatAFileHides) {
  Options options;
  options.variables = {"NCCL_NET_GDR_LEVEL=LOC"};
  const Machine left = makeHgx();
  const Machine right = makeHgx(options);
  const auto differences = diff(left, right);
  ASSERT_OK(differences);
  ASSERT_FALSE(differences->empty());
  EXPECT_TRUE(JsonCheck::isJson(*diffJson(left, right)));
  EXPECT_NE(diffJson(left, left)->find("\"equal\": true"), std::string::npos);
  EXPECT_FALSE(diffText(left, right)->empty());
}

TEST(Api, LintReadsTheTrapsOfAFile) {
  const Folder folder;
  std::string text = MachineText::hgx();
  const std::string wrong = "32.0 GT/s";
  text.replace(text.find("32.0 GT/s PCIe"), std::strlen("32.0 GT/s PCIe"), wrong);
  const std::string path = folder.file("trap.xml", text);
  const auto report = lint(path);
  ASSERT_OK(report);
  EXPECT_TRUE(report->accepted);
  ASSERT_FALSE(report->findings.empty());
  EXPECT_GT(report->findings[0].line, 0);
  EXPECT_TRUE(JsonCheck::isJson(*lintJson(path)));
  EXPECT_FALSE(lint("/nowhere/topology.xml")->accepted);
}

TEST(Api, ReadsTreesAndRestoresHiddenOnes) {
  const Folder folder;
  const std::string archive = folder.ndv5();
  const auto flat = Machine::loadTree(archive);
  ASSERT_OK(flat);
  EXPECT_EQ(flat->gpus().size(), 8U);
  const auto file = generate(archive);
  ASSERT_OK(file);
  EXPECT_FALSE(file->remarks.empty());
  const auto merged = Machine::loadMerged(folder.file("ndv5.xml", file->xml), archive);
  ASSERT_OK(merged);
  EXPECT_EQ(merged->gpus().size(), 8U);
  GenerateOptions options;
  options.pairing = "colour";
  EXPECT_HAS(generate(archive, options).error(), "colour");
  EXPECT_FALSE(generate("/nowhere").ok());
}

TEST(Api, ThreadsShareAMachine) {
  const Machine machine = makeHgx();
  const std::string json = *machine.json();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([machine, &json] {
      EXPECT_EQ(*machine.json(), json);
      EXPECT_OK(machine.explain());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Api, NamesOfPathTypes) {
  EXPECT_STREQ(pathTypeName(PathType::kP2c), "P2C");
  EXPECT_STREQ(pathTypeName(static_cast<PathType>(99)), "?");
  EXPECT_STREQ(pathTypeMeaning(static_cast<PathType>(-1)), "?");
  EXPECT_STREQ(version(), railwise_topology_version());
}

// --- C ---

struct CText {
  char* text = nullptr;
  ~CText() { railwise_topology_string_free(text); }
};

struct CMachine {
  railwise_topology_t* machine = nullptr;
  ~CMachine() { railwise_topology_free(machine); }
};

railwise_topology_t* loadHgx(const railwise_topology_options_t* options, char** error) {
  const std::string text = MachineText::hgx();
  return railwise_topology_load_text(text.data(), text.size(), "hgx.xml", options, error);
}

TEST(CApi, PicksGpusAndReadsReleases) {
  CText error;
  const CMachine hgx{loadHgx(nullptr, &error.text)};
  railwise_topology_pick_options_t options = RAILWISE_TOPOLOGY_PICK_OPTIONS_INIT;
  options.exclude = "0";
  const CText pick{railwise_topology_pick_json(hgx.machine, 2, &options, nullptr)};
  ASSERT_NE(pick.text, nullptr);
  EXPECT_NE(std::strstr(pick.text, "\"gpus\": [1, 2]"), nullptr) << pick.text;
  const CText refused{railwise_topology_pick_json(hgx.machine, 9, nullptr, &error.text)};
  EXPECT_EQ(refused.text, nullptr);
  ASSERT_NE(error.text, nullptr);
  EXPECT_NE(std::strstr(error.text, "9 GPUs are wanted"), nullptr) << error.text;
  EXPECT_EQ(railwise_topology_nccl_release("2.30.4", nullptr), 23004);
  EXPECT_EQ(railwise_topology_nccl_release("two", nullptr), -1);
}

TEST(CApi, AnswersInJson) {
  CText error;
  const CMachine hgx{loadHgx(nullptr, &error.text)};
  ASSERT_NE(hgx.machine, nullptr) << error.text;
  EXPECT_EQ(error.text, nullptr);
  EXPECT_EQ(railwise_topology_gpu_count(hgx.machine), 8);
  EXPECT_EQ(railwise_topology_net_count(hgx.machine), 8);
  const CText json{railwise_topology_json(hgx.machine, nullptr)};
  const CText explained{railwise_topology_explain_json(hgx.machine, 2, nullptr)};
  const CText difference{railwise_topology_diff_json(hgx.machine, hgx.machine, nullptr)};
  for (const char* text : {json.text, explained.text, difference.text}) {
    ASSERT_NE(text, nullptr);
    EXPECT_TRUE(JsonCheck::isJson(text));
  }
}

TEST(CApi, GivesEveryText) {
  const CMachine hgx{loadHgx(nullptr, nullptr)};
  using Function = char* (*)(const railwise_topology_t*, char**);
  for (const Function function : {railwise_topology_json, railwise_topology_matrix, railwise_topology_xml,
                                  railwise_topology_svg, railwise_topology_html}) {
    CText error;
    const CText text{function(hgx.machine, &error.text)};
    ASSERT_NE(text.text, nullptr) << error.text;
    EXPECT_GT(std::strlen(text.text), 100U);
    const CText none{function(nullptr, &error.text)};
    EXPECT_EQ(none.text, nullptr);
    EXPECT_STREQ(error.text, "the machine is NULL");
  }
  const CText explained{railwise_topology_explain(hgx.machine, -1, nullptr)};
  const CText difference{railwise_topology_diff(hgx.machine, hgx.machine, nullptr)};
  EXPECT_NE(explained.text, nullptr);
  EXPECT_NE(difference.text, nullptr);
}

TEST(CApi, ChosenNetsFillTheRoomThereIs) {
  const CMachine hgx{loadHgx(nullptr, nullptr)};
  int nets[2] = {-7, -7};
  EXPECT_EQ(railwise_topology_chosen_nets(hgx.machine, 0, nullptr, 0, nullptr), 1);
  EXPECT_EQ(railwise_topology_chosen_nets(hgx.machine, 0, nets, 2, nullptr), 1);
  EXPECT_GE(nets[0], 0);
  EXPECT_EQ(nets[1], -7);
  CText error;
  EXPECT_EQ(railwise_topology_chosen_nets(hgx.machine, 99, nets, 2, &error.text), -1);
  EXPECT_NE(std::strstr(error.text, "99"), nullptr);
  EXPECT_EQ(railwise_topology_chosen_nets(hgx.machine, 0, nullptr, 2, nullptr), -1);
  EXPECT_EQ(railwise_topology_chosen_nets(nullptr, 0, nets, 2, nullptr), -1);
}

TEST(CApi, NullArgumentsAreErrors) {
  CText error;
  EXPECT_EQ(railwise_topology_load_file(nullptr, nullptr, &error.text), nullptr);
  ASSERT_NE(error.text, nullptr);
  EXPECT_EQ(railwise_topology_load_file(nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_load_text(nullptr, 3, nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_load_sysfs(nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_load_merged("/a", nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_gpu_count(nullptr), -1);
  EXPECT_EQ(railwise_topology_net_count(nullptr), -1);
  EXPECT_EQ(railwise_topology_explain(nullptr, -1, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_diff_json(nullptr, nullptr, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_lint_json(nullptr, nullptr), nullptr);
  EXPECT_EQ(railwise_topology_generate(nullptr, nullptr, nullptr, nullptr), nullptr);
  railwise_topology_free(nullptr);
  railwise_topology_string_free(nullptr);
}

TEST(CApi, MissingFileIsNamed) {
  CText error;
  EXPECT_EQ(railwise_topology_load_file("/nowhere/t.xml", nullptr, &error.text), nullptr);
  ASSERT_NE(error.text, nullptr);
  EXPECT_NE(std::strstr(error.text, "/nowhere/t.xml"), nullptr);
}

TEST(CApi, OptionsOfOtherVersions) {
  struct Later {
    railwise_topology_options_t options;
    long more[4];
  };
  railwise_topology_options_t options = RAILWISE_TOPOLOGY_OPTIONS_INIT;
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, sizeof options + 1, std::size_t{1} << 40}) {
    options.size = size;
    CText error;
    EXPECT_EQ(loadHgx(&options, &error.text), nullptr) << size;
    EXPECT_NE(std::strstr(error.text, "size"), nullptr);
  }
  options.size = offsetof(railwise_topology_options_t, cpu);  // an older caller: what follows is not read
  options.cpu = reinterpret_cast<const char*>(1);
  const CMachine older{loadHgx(&options, nullptr)};
  EXPECT_NE(older.machine, nullptr);
  Later later = {RAILWISE_TOPOLOGY_OPTIONS_INIT, {}};
  later.options.size = sizeof later;
  const CMachine unset{loadHgx(&later.options, nullptr)};
  EXPECT_NE(unset.machine, nullptr);
  later.more[2] = 1;
  CText error;
  EXPECT_EQ(loadHgx(&later.options, &error.text), nullptr);
  EXPECT_NE(std::strstr(error.text, "later version"), nullptr);
}

TEST(CApi, OptionsReachTheEngine) {
  const char* variables[] = {"NCCL_P2P_LEVEL=LOC", nullptr};
  railwise_topology_options_t options = RAILWISE_TOPOLOGY_OPTIONS_INIT;
  options.variables = variables;
  options.nccl = RAILWISE_TOPOLOGY_NCCL_2_28;
  const CMachine hgx{loadHgx(&options, nullptr)};
  const CText json{railwise_topology_json(hgx.machine, nullptr)};
  EXPECT_NE(std::strstr(json.text, "\"nccl\": \"2.28.9\""), nullptr);
  EXPECT_NE(std::strstr(json.text, "NCCL_P2P_LEVEL"), nullptr);
  options.nccl = RAILWISE_TOPOLOGY_NCCL_2_31;
  const CMachine newest{loadHgx(&options, nullptr)};
  const CText newest_json{railwise_topology_json(newest.machine, nullptr)};
  EXPECT_NE(std::strstr(newest_json.text, "\"nccl\": \"2.31.2\""), nullptr);
  EXPECT_EQ(options.nccl, 23102) << "as NCCL_VERSION_CODE";
  const CMachine untold{loadHgx(nullptr, nullptr)};
  const CText untold_json{railwise_topology_json(untold.machine, nullptr)};
  EXPECT_NE(std::strstr(untold_json.text, "\"nccl\": \"2.31.2\""), nullptr) << "0 is the newest";
  options.nccl = 23004;
  const CMachine between{loadHgx(&options, nullptr)};
  const CText between_json{railwise_topology_json(between.machine, nullptr)};
  EXPECT_NE(std::strstr(between_json.text, "\"nccl\": \"2.30.4\""), nullptr);
  options.nccl = 7;
  CText error;
  EXPECT_EQ(loadHgx(&options, &error.text), nullptr);
  EXPECT_NE(std::strstr(error.text, "nccl"), nullptr);
}

TEST(CApi, GenerateWithRemarks) {
  const Folder folder;
  const std::string archive = folder.ndv5();
  CText remarks;
  CText error;
  const CText xml{railwise_topology_generate(archive.c_str(), nullptr, &remarks.text, &error.text)};
  ASSERT_NE(xml.text, nullptr) << error.text;
  EXPECT_EQ(std::string(xml.text), generate(archive)->xml);
  ASSERT_NE(remarks.text, nullptr);
  EXPECT_GT(std::strlen(remarks.text), 0U);
  const char* all[] = {"0x2330", nullptr};
  railwise_topology_generate_options_t options = RAILWISE_TOPOLOGY_GENERATE_OPTIONS_INIT;
  options.exclude = all;
  CText no_remarks;
  EXPECT_EQ(railwise_topology_generate(archive.c_str(), &options, &no_remarks.text, &error.text), nullptr);
  EXPECT_EQ(no_remarks.text, nullptr);
  EXPECT_NE(error.text, nullptr);
}

TEST(CApi, LintIsJson) {
  const CText report{railwise_topology_lint_json("/nowhere/t.xml", nullptr)};
  ASSERT_NE(report.text, nullptr);
  EXPECT_TRUE(JsonCheck::isJson(report.text));
  EXPECT_NE(std::strstr(report.text, "\"accepted\": false"), nullptr);
}

}  // namespace
}  // namespace railwise::topology
