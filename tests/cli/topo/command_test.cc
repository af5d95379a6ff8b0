// railwise topo and railwise explain from outside: output, exit statuses, and what is said about mistakes.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

const std::string kMachine = RAILWISE_SOURCE_DIR "/tests/topo/machines/gb200.xml";
const std::string kNvls = RAILWISE_SOURCE_DIR "/tests/topo/machines/init/nvls-one-gpu-without-nvlink.xml";

ProcessResult topoCommand(const std::vector<std::string>& args,
                          const std::vector<std::string>& environment = {}) {
  return runProcess(RAILWISE_CLI, args, environment);
}

const std::string kNewestRules =
    "the rules of NCCL 2.31.2, the newest that are known (--nccl=2.30 takes those of another release)";

// --quiet leaves out the note, not the mark.
TEST(TopoCommand, TheTableMarksAGpuDirectThatIsAssumed) {
  EXPECT_LACKS(topoCommand({"explain", "-q", kMachine}).out, "assumed");
  std::ifstream in(kMachine);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string attribute = " gdr=\"1\"";
  for (std::size_t at = text.find(attribute); at != std::string::npos; at = text.find(attribute))
    text.erase(at, attribute.size());
  const test::Scratch scratch;
  const std::string file = scratch.file("without-gdr.xml", text);
  EXPECT_HAS(topoCommand({"explain", "-q", file}).out, "on (assumed)");
  EXPECT_HAS(topoCommand({"explain", "--brief", file}).out, "on (assumed)");
}

// An unset variable of a script: explain "$file".
TEST(TopoCommand, AnEmptyFileNameIsAMistake) {
  const std::vector<std::vector<std::string>> commands = {{"explain", ""},
                                                          {"topo", "show", ""},
                                                          {"topo", "lint", ""},
                                                          {"topo", "expect", ""},
                                                          {"gpus", ""},
                                                          {"gpus", "pick", "1", ""},
                                                          {"doctor", "--log", ""},
                                                          {"fingerprint", "--compare", ""},
                                                          {"postmortem", ""},
                                                          {"topo", "diff", "", kMachine},
                                                          {"explain", "--", ""}};
  for (const auto& command : commands) {
    const auto result = topoCommand(command);
    EXPECT_EQ(result.status, 2) << command[0] << " " << command[1] << result.out;
    EXPECT_HAS(result.err, "an argument is empty");
  }
}

TEST(TopoCommand, ShowInEveryFormat) {
  const std::vector<std::pair<std::string, std::string>> begins = {{"matrix", "     GPU0 GPU1"},
                                                                   {"json", "{\n"},
                                                                   {"xml", "<system version=\"1\">\n"},
                                                                   {"svg", "<svg"},
                                                                   {"html", "<!DOCTYPE html>"}};
  for (const auto& [format, begin] : begins) {
    const auto result = succeeded(topoCommand({"topo", "show", kMachine, "--format", format}));
    EXPECT_HAS(result.out.substr(0, 200), begin) << format << ": " << result.out.substr(0, 80);
    EXPECT_EQ(result.err, "railwise: topo show: note: " + kNewestRules + "\n");
    EXPECT_EQ(topoCommand({"topo", "show", kMachine, "--format", format, "--quiet"}).err, "");
  }
}

TEST(TopoCommand, SaysWhoseRulesAreInUse) {
  const auto said = [](const std::string& release) {
    const auto result = succeeded(topoCommand({"topo", "show", kMachine, "--nccl", release}));
    return result.err;
  };
  EXPECT_EQ(said("2.30"), "railwise: topo show: note: the rules of NCCL 2.30.7\n");
  EXPECT_EQ(said("2.28.3"), "railwise: topo show: note: the rules of NCCL 2.28.3\n");
  EXPECT_HAS(said("2.30.5"), "the rules of NCCL 2.30.4: NCCL 2.30.5 has no public tag");
  EXPECT_HAS(said("2.17"), "the rules of NCCL 2.17.1: of NCCL 2.17.1, its choice of NICs");
  const std::string newer = said("2.32");
  EXPECT_HAS(newer, "railwise: topo show: warning: NCCL 2.32 is newer than 2.31.2");
  EXPECT_HAS(newer, "note: the rules of NCCL 2.31.2\n");
  for (const char* release : {"2.12", "2.33", "3", "latest"}) {
    expectFailure(topoCommand({"topo", "show", kMachine, "--nccl", release}), 2,
                  "is not a release of NCCL from 2.13 to 2.32");
  }
}

// A note of explain without the breaks between its lines.
std::string unbroken(std::string text) {
  const std::string broken = "\n    ";
  for (std::size_t at = 0; (at = text.find(broken, at)) != std::string::npos;)
    text.replace(at, broken.size(), " ");
  return text;
}

TEST(TopoCommand, ExplainNamesTheRulesInItsText) {
  EXPECT_HAS(topoCommand({"explain", kMachine, "--nccl", "2.30"}).out, "by the rules of NCCL 2.30.7\n");
  EXPECT_HAS(unbroken(topoCommand({"explain", kMachine}).out), "  note: " + kNewestRules + "\n");
}

// The release of the library that programs load, which is told by its name, or by its text.
TEST(TopoCommand, WhatNcclMakesOfAFileOtherwiseIsNoted) {
  std::ifstream in(kMachine);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("latency=\"0\""), 11, "latency=\"x\"");
  const test::Scratch scratch;
  const std::string file = scratch.file("other.xml", text);
  EXPECT_LACKS(topoCommand({"topo", "expect", kMachine, "-n", "2"}).err, "topo lint");
  EXPECT_HAS(topoCommand({"topo", "expect", file, "-n", "2"}).err,
             "note: railwise topo lint finds 1 error in " + file);
  EXPECT_EQ(topoCommand({"gpus", "pick", "2", file, "--quiet"}).err, "");
  text.replace(text.find("dev=\"1\" latency"), 7, "dev=\"0\"");
  EXPECT_HAS(topoCommand({"topo", "show", scratch.file("same.xml", text)}).err,
             "note: the file gives several NICs one dev");
}

TEST(TopoCommand, NicsThatNcclMergesAreNoted) {
  const test::Scratch scratch;
  const auto nic = [](const std::string& n) {
    return R"(<pci busid="0000:17:00.)" + n +
           R"(" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"><nic><net name="mlx5_)" + n +
           R"(" dev=")" + n + R"(" speed="200000" port="1" guid="0xb0" gdr="1"/></nic></pci>)";
  };
  const std::string file = scratch.file(
      "ports.xml",
      R"(<system version="1"><cpu numaid="0" affinity="f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">)"
      R"(<pci busid="0000:16:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">)"
      R"(<gpu dev="0" sm="90" rank="0" gdr="1"/></pci>)" +
          nic("0") + nic("1") + "</cpu></system>\n");
  const std::string note = "--fuse-nics merges them here";
  EXPECT_HAS(topoCommand({"topo", "show", file}).err, note);
  EXPECT_LACKS(topoCommand({"topo", "show", file, "--fuse-nics"}).err, note);
  EXPECT_LACKS(topoCommand({"topo", "show", file}, {"NCCL_NET_MERGE_LEVEL=LOC"}).err, note);
}

TEST(TopoCommand, TheTopologyThatThePluginGivesIsNoted) {
  const std::vector<std::string> run = {"device", "run",        "--machine", "cloud-vm",
                                        "--",     RAILWISE_CLI, "topo",      "show"};
  EXPECT_HAS(topoCommand(run, {"RAILWISE_TOPOLOGY=auto"}).err,
             "note: without RAILWISE_TOPOLOGY=auto, by which");
  EXPECT_LACKS(topoCommand(run).err, "RAILWISE_TOPOLOGY");
}

TEST(TopoCommand, ThisMachinesLibraryDecidesWhoseRules) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "nccl-of-programs";
  const auto root = folder / "machine";
  std::filesystem::create_directories(folder);
  ASSERT_EQ(topoCommand({"device", "sysfs", "--machine", "dgx", root.string()}).status, 0);
  const auto said = [&] {
    return topoCommand({"topo", "show"},
                       {"RAILWISE_SYSFS_ROOT=" + root.string(), "LD_LIBRARY_PATH=" + folder.string()})
        .err;
  };
  const std::string library = (folder / "libnccl.so.2").string();
  std::ofstream(library) << "text of a library: NCCL version 2.28.9+cuda13.0 and more";
  EXPECT_HAS(said(), "topo show: note: the rules of NCCL 2.28.9, for " + library);
  std::ofstream(library) << "NCCL version 2.32.3+cuda13.0";
  EXPECT_HAS(said(), "topo show: warning: NCCL 2.32.3 is newer than 2.31.2");
  std::ofstream(library) << "no version";
  EXPECT_HAS(said(), library + " does not tell its release");
  std::filesystem::remove_all(folder);
}

TEST(TopoCommand, TransportsOfAllPairsAndOfOne) {
  EXPECT_HAS(succeeded(topoCommand({"topo", "transports", kMachine})).out, "P2P/CUMEM (12 pairs)");
  const auto one = topoCommand({"topo", "transports", kMachine, "--from", "0", "--to", "1", "--one-process"});
  EXPECT_HAS(one.out, "Channel 00/1 : 0[0] -> 1[1] via P2P/direct pointer\n");
  const auto set =
      topoCommand({"topo", "transports", kMachine}, {"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"});
  EXPECT_LACKS(set.out, "P2P/CUMEM");
}

TEST(TopoCommand, TransportsOfAGpuThatIsNotThere) {
  expectFailure(topoCommand({"topo", "transports", kMachine, "--from", "9"}), 2,
                "--from=9: this machine has no GPU with rank 9; its ranks are 0 to 3");
  const auto other = topoCommand({"topo", "transports", kMachine, "--nodes", "2", "--to", "5"});
  EXPECT_HAS(other.err, "rank 5 of the other host is in the answer of --to=1");
  EXPECT_EQ(topoCommand({"topo", "transports", kMachine, "--from", "0", "--to", "0"}).status, 2);
}

TEST(TopoCommand, ShowWritesToAFile) {
  const test::ScratchFile file("out.html");
  EXPECT_EQ(topoCommand({"topo", "show", kMachine, "-f", "html", "-o", file.path()}).status, 0);
  EXPECT_GT(std::filesystem::file_size(file.path()), 10000U);
}

TEST(TopoCommand, KnowsGpusThatAFileDoesNotDescribe) {
  std::string text = "<system version=\"1\">\n<cpu numaid=\"0\">\n";
  for (int i = 0; i < 8; ++i)
    text += "<pci busid=\"0000:0" + std::to_string(i) +
            ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\"/>\n";
  text +=
      "<pci busid=\"0000:09:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n";
  const test::ScratchFile file("bare.xml", text + "</cpu>\n</system>\n");
  const auto known = topoCommand({"explain", file.path()});
  EXPECT_HAS(unbroken(known.out), "they are known to be H100 SXM5 80GB: compute capability 9.0, 18 NVLinks")
      << known.out;
  EXPECT_LACKS(topoCommand({"explain", file.path(), "--gpu-sm", "90"}).out, "H100 SXM5");
  for (const std::string command : {"show", "graphs", "transports", "expect"}) {
    const auto result = topoCommand({"topo", command, file.path()});
    EXPECT_HAS(result.out + result.err, "H100 SXM5") << command << ": " << result.err;
  }
  // Others load this as NCCL_TOPO_FILE.
  const auto xml = topoCommand({"topo", "show", file.path(), "-f", "xml"});
  EXPECT_HAS(xml.err, "H100 SXM5");
  EXPECT_HAS(xml.out, "sm=\"90\"");
  EXPECT_HAS(xml.out, "<nvlink");
}

// Eight GPUs with eight NICs have the same two problems.
TEST(TopoCommand, BrieflyEachProblemIsToldOnce) {
  const std::string text = unbroken(topoCommand({"explain", "--brief", "-m", "cloud-vm"}).out);
  const std::string::size_type first = text.find("is far from");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("is far from", first + 1), std::string::npos) << text;
  EXPECT_HAS(text, "GPUs 0-7");
  EXPECT_HAS(topoCommand({"explain", "--brief", "-m", "cloud-vm", "--gpu=3"}).out, "far from GPU 3");
}

TEST(TopoCommand, ExplainSaysWhichNicAndWhy) {
  const auto result = succeeded(topoCommand({"explain", kMachine, "--gpu", "0"}));
  EXPECT_HAS(result.out, "GPU 0 (0008:01:00.0, NUMA node 0) uses mlx5_0");
  EXPECT_HAS(result.out, "GPUDirect  on");
  EXPECT_HAS(topoCommand({"explain", kMachine, "-g", "0", "-f", "json"}).out, "\"gpus\"");
}

TEST(TopoCommand, NicsThatNcclIbHcaLeavesOutDoNotCount) {
  for (const bool file : {true, false}) {
    const std::vector<std::string> which = file ? std::vector<std::string>{"explain", kMachine}
                                                : std::vector<std::string>{"explain", "-m", "dgx"};
    std::vector<std::string> words = which;
    words.emplace_back("--hca=^=mlx5_0");
    const auto by_option = topoCommand(words);
    EXPECT_HAS(by_option.out, "mlx5_0: left out by NCCL_IB_HCA or --hca (^=mlx5_0)");
    EXPECT_LACKS(by_option.out, "uses mlx5_0\n");
    setenv("NCCL_IB_HCA", "^=mlx5_0", 1);
    const auto by_variable = topoCommand(which);
    unsetenv("NCCL_IB_HCA");
    EXPECT_HAS(by_variable.out, "set: NCCL_IB_HCA=^=mlx5_0");
    EXPECT_LACKS(by_variable.out, "uses mlx5_0\n");
  }
  const auto lost = topoCommand({"explain", "-m", "dgx", "--brief", "--hca=^=mlx5_3"});
  EXPECT_HAS(lost.out, "GPU 3 has no NIC nearby");
  EXPECT_LACKS(topoCommand({"explain", "-m", "dgx", "--brief"}).out, "no NIC nearby");
  EXPECT_HAS(topoCommand({"explain", kMachine, "--hca=::x"}).err, "is no list of ports");
  for (const std::vector<std::string>& which : {std::vector<std::string>{kMachine}, {"-m", "dgx"}}) {
    std::vector<std::string> words = {"topo", "graphs", "--hca=^=mlx5_99"};
    words.insert(words.end(), which.begin(), which.end());
    const auto named = succeeded(topoCommand(words));
    EXPECT_HAS(named.out + named.err, "mlx5_99: no device here has such a name");
    EXPECT_HAS(named.out + named.err, "the devices are mlx5_0, ");
  }
  EXPECT_LACKS(topoCommand({"explain", "-m", "default", "--hca=^=soft0"}).out, "\nsoft0") << "without GPUs";
}

TEST(TopoCommand, ExplainNamesTheNicOfEachChannel) {
  const auto text = topoCommand({"explain", kMachine, "-q"});
  EXPECT_HAS(text.out,
             "\nchannels  ring enters by   ring leaves by    tree enters and leaves by\n"
             "0, 4      mlx5_0 at GPU 0  mlx5_0 at GPU 1*  mlx5_0 at GPU 0, 1*\n");
  const auto json = topoCommand({"explain", kMachine, "-q", "-g", "1", "-c", "4", "-f", "json"});
  EXPECT_HAS(json.out, "\"use\": \"ring-leaves\"");
  EXPECT_LACKS(json.out, "\"use\": \"ring-enters\"") << "that is on channel 1";
}

// The graphs of `text` with the first channel of each alone.
std::string withOneChannel(std::string text) {
  for (std::size_t at = text.find("nchannels=\""); at != std::string::npos;
       at = text.find("nchannels=\"", at + 1)) {
    const std::size_t digits = at + 11;
    if (text[digits] == '0') continue;
    text.replace(digits, text.find('"', digits) - digits, "1");
    const std::size_t first = text.find("</channel>", at) + 10;
    text.erase(first, text.find("</graph>", at) - first);
  }
  return text;
}

TEST(TopoCommand, ExplainTakesTheGraphFileThatNcclTakes) {
  const auto graphs = [](const char* nodes) {
    return topoCommand({"topo", "graphs", kMachine, "-q", "--format", "xml", "--nodes", nodes}).out;
  };
  const test::ScratchFile of_two("graphs2.xml", graphs("2"));
  const auto taken = topoCommand({"explain", kMachine}, {"NCCL_GRAPH_FILE=" + of_two.path()});
  EXPECT_HAS(taken.err, "explain: note: with the graphs of NCCL_GRAPH_FILE=" + of_two.path());
  EXPECT_HAS(taken.out, "(not its own: the graph file says so;");
  const test::ScratchFile of_one("graphs1.xml", graphs("1"));
  const auto useless = topoCommand({"explain", kMachine, "-q"}, {"NCCL_GRAPH_FILE=" + of_one.path()});
  EXPECT_EQ(useless.status, 0) << "the rest of the answer is there";
  EXPECT_HAS(useless.out, "Rings and trees with a second, equal machine: none:");
  EXPECT_HAS(useless.out, "<channel> names 0 <net> elements");
}

// What NCCL cannot read ends its init: every command that searches says it.
TEST(TopoCommand, AGraphFileThatCannotBeReadIsToldByAll) {
  const std::vector<std::string> set = {"NCCL_GRAPH_FILE=/nonexistent"};
  for (const std::vector<std::string>& command : {std::vector<std::string>{"explain", kMachine, "-q"},
                                                  {"topo", "graphs", kMachine, "-q"},
                                                  {"topo", "expect", kMachine, "-q"},
                                                  {"topo", "show", "-f", "html", kMachine, "-q"}}) {
    const auto missing = topoCommand(command, set);
    EXPECT_EQ(missing.status, 1) << missing.out.substr(0, 80);
    EXPECT_HAS(missing.err, "/nonexistent: cannot read it");
    EXPECT_HAS(missing.err, "unset NCCL_GRAPH_FILE");
  }
  EXPECT_EQ(topoCommand({"topo", "show", kMachine, "-q"}, set).status, 0) << "it draws no graphs";
  const auto linted = endedWith(1, topoCommand({"topo", "lint", kMachine}, set));
  EXPECT_HAS(linted.out, "/nonexistent: cannot read it");
  EXPECT_HAS(linted.out, "[init-fails]\n    fix: ");
  EXPECT_HAS(linted.out, "1 file: 1 error");
}

TEST(TopoCommand, ThePageDrawsTheGraphsOfTheGraphFile) {
  const test::ScratchFile one_channel(
      "one_channel.xml",
      withOneChannel(topoCommand({"topo", "graphs", kMachine, "-q", "-f", "xml", "-n", "1"}).out));
  const std::vector<std::string> page = {"topo", "show", "-f", "html", kMachine, "-q"};
  const auto searched = topoCommand(page);
  const auto taken = succeeded(topoCommand(page, {"NCCL_GRAPH_FILE=" + one_channel.path()}));
  EXPECT_NE(taken.out, searched.out);
}

TEST(TopoCommand, AllNameAVariableThatNcclDoesNotUnderstand) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"topo", "lint", kMachine},
                                                  {"topo", "graphs", kMachine},
                                                  {"explain", kMachine}}) {
    EXPECT_HAS(topoCommand(command, {"NCCL_P2P_LEVEL=bogus"}).err, "NCCL_P2P_LEVEL='bogus' is no level");
  }
}

TEST(TopoCommand, ExpectNamesWhatIsNotInTheModel) {
  const auto set = topoCommand({"topo", "expect", kMachine}, {"NCCL_ALGO=Ring", "NCCL_NET_OVERHEAD=2"});
  EXPECT_HAS(set.err, "note: NCCL_ALGO=Ring is not in the model");
  EXPECT_HAS(set.err, "note: NCCL_NET_OVERHEAD=2 is not in the model");
  EXPECT_LACKS(topoCommand({"topo", "expect", kMachine}).err, "not in the model");
}

TEST(TopoCommand, ASoftwareMachineHasItsNvlinks) {
  const auto result = succeeded(
      topoCommand({"topo", "show", "--machine", "dgx", "--host", "B", "-f", "xml", "--nccl", "2.30"}));
  EXPECT_EQ(result.err, "railwise: topo show: note: the rules of NCCL 2.30.7\n") << "nothing is assumed";
  EXPECT_HAS(result.out, "<nvlink target=\"0000:05:00.0\" count=\"5\" tclass=\"0x068000\"/>");
  EXPECT_HAS(topoCommand({"topo", "show", "-m", "dgx", "-f", "xml"}).out,
             "<nvlink target=\"fffffff:ffff:ff\"")
      << "since NCCL 2.31 all NVSwitches are one target";
  EXPECT_HAS(topoCommand({"topo", "show", "-m", "nvlink-mesh", "-f", "json"}).out, "\"NVB\"")
      << "a hop over a third GPU";
  EXPECT_HAS(topoCommand({"explain", "-m", "asymmetric", "-H", "B"}).out, "mlx5_1");
}

TEST(TopoCommand, MistakesInTheSoftwareMachineAreSaid) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--machine", "dgx", "--root", "/"}, "--root and --machine are two machines"},
      {{"--host", "A"}, "--host is a host of --machine"},
      {{"--machine", "dgx", "--host", "C"}, "its hosts are A, B"}};
  for (const auto& [options, message] : mistakes) {
    std::vector<std::string> args = {"topo", "show"};
    args.insert(args.end(), options.begin(), options.end());
    EXPECT_HAS(endedWith(2, topoCommand(args)).err, message);
  }
}

TEST(TopoCommand, OfAMachineWithoutGpusTheNicsAreShown) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"topo", "show"}, {"explain"}}) {
    auto args = command;
    args.insert(args.end(), {"--machine", "default"});
    const auto shown = topoCommand(args);
    EXPECT_EQ(shown.status, command[0] == "explain" ? 1 : 0) << shown.err;
    EXPECT_HAS(shown.out, "no GPU (no display device");
    EXPECT_HAS(shown.out, "\nsoft0  1 ");
    args.insert(args.end(), {"--format", "json"});
    expectFailure(topoCommand(args), 1, "no GPU in software machine");
  }
}

TEST(TopoCommand, AGpuOfAMachineWithoutGpusIsNotThere) {
  EXPECT_EQ(topoCommand({"explain", "--machine", "default", "--gpu", "3"}).status, 2);
}

TEST(TopoCommand, ExplainHasColoursWhereTheyAreAskedFor) {
  EXPECT_HAS(topoCommand({"explain", kMachine, "--color", "always"}).out, "\033[1m");
  EXPECT_LACKS(topoCommand({"explain", kMachine}).out, "\033[");
  EXPECT_LACKS(topoCommand({"explain", kMachine, "--brief"}).out, "Rejected");
}

TEST(TopoCommand, NcclsVariablesChangeTheAnswer) {
  EXPECT_HAS(topoCommand({"explain", kMachine, "-g", "0"}, {"NCCL_NET_GDR_C2C=0"}).out, "GPUDirect  off");
}

TEST(TopoCommand, GraphsInEveryFormat) {
  for (const auto& [format, part] : std::vector<std::pair<std::string, std::string>>{
           {"text", "Ring: "}, {"json", "\"nodes2\""}, {"xml", "<graph id=\"0\" pattern=\"4\""}}) {
    const auto result =
        succeeded(topoCommand({"topo", "graphs", kMachine, "-q", "--nodes", "2", "--format", format}));
    EXPECT_HAS(result.out, part);
  }
}

TEST(TopoCommand, GraphsOfTwoMachinesNeedANic) {
  const std::string without = RAILWISE_SOURCE_DIR "/tests/topo/machines/quirks/comment.xml";
  expectFailure(topoCommand({"topo", "graphs", without, "-q", "--nodes", "2"}), 1, "no GPU reaches a NIC");
  EXPECT_EQ(topoCommand({"topo", "graphs", without, "-q"}).status, 0);
}

TEST(TopoCommand, GraphsTellWhy) {
  const auto result = succeeded(topoCommand({"topo", "graphs", kMachine, "-q", "--why"}));
  EXPECT_HAS(result.out, "NCCL looked for 1 to 32 channels");
}

TEST(TopoCommand, GraphsOfAFileAreTaken) {
  const auto written = succeeded(topoCommand({"topo", "graphs", kMachine, "-q", "--format", "xml"}));
  const test::ScratchFile file("graphs.xml", written.out);
  const std::vector<std::string> taken = {"topo", "graphs", kMachine, "-q", "--nodes", "1", "--why"};
  const auto by_variable = topoCommand(taken, {"NCCL_GRAPH_FILE=" + file.path()});
  EXPECT_HAS(by_variable.out, "The graph is from the file") << by_variable.err;
  const auto by_option =
      topoCommand({"topo", "graphs", kMachine, "-q", "--nodes", "1", "--why", "--graph-file", file.path()});
  EXPECT_EQ(by_option.out, by_variable.out);
  expectFailure(topoCommand({"topo", "graphs", kMachine, "-q", "--nodes", "2", "--graph-file", file.path()}),
                1, file.path() + ":3:5: <channel> names 0 <net> elements");
}

TEST(TopoCommand, ExpectCountsTheGraphsOfAFile) {
  const auto searched = succeeded(topoCommand({"topo", "expect", kMachine, "-q"}));
  std::string graphs = topoCommand({"topo", "graphs", kMachine, "-q", "--format", "xml"}).out;
  const auto speed = graphs.find("speedintra=\"");
  ASSERT_NE(speed, std::string::npos) << graphs;
  graphs.replace(speed, graphs.find('"', speed + 12) + 1 - speed, "speedintra=\"1\"");
  const test::ScratchFile file("slow_graphs.xml", graphs);
  const auto taken = succeeded(topoCommand({"topo", "expect", kMachine, "-q", "--graph-file", file.path()}));
  EXPECT_NE(taken.out, searched.out);
  const auto by_variable =
      topoCommand({"topo", "expect", kMachine, "-q"}, {"NCCL_GRAPH_FILE=" + file.path()});
  EXPECT_EQ(by_variable.out, taken.out) << by_variable.err;
}

TEST(TopoCommand, JsonHasTwoSpellings) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"explain", kMachine, "-q"},
                                                  {"topo", "graphs", kMachine, "-q"},
                                                  {"topo", "lint", kMachine},
                                                  {"topo", "show", kMachine, "-q"}}) {
    auto flag = command;
    flag.emplace_back("--json");
    auto format = command;
    format.insert(format.end(), {"--format", "json"});
    const auto printed = topoCommand(flag);
    EXPECT_TRUE(printed.out.starts_with("{") || printed.out.starts_with("[")) << printed.out << printed.err;
    EXPECT_EQ(topoCommand(format).out, printed.out) << command[1];
  }
  expectFailure(topoCommand({"topo", "lint", kMachine, "--format", "xml"}), 2,
                "--format: 'xml' is not one of text, json");
}

TEST(TopoCommand, ADashIsStandardInput) {
  const auto piped =
      succeeded(runProcess("/bin/sh", {"-c", std::string(RAILWISE_CLI) + " explain - -q <" + kMachine}, {}));
  EXPECT_HAS(piped.out, "GPU 0 (0008:01:00.0, NUMA node 0) uses mlx5_0");
  expectFailure(runProcess("/bin/sh", {"-c", std::string(RAILWISE_CLI) + " explain - </dev/null"}, {}), 1,
                "standard input:1:1: the file has no <system>");
  const auto lint =
      succeeded(runProcess("/bin/sh", {"-c", std::string(RAILWISE_CLI) + " topo lint - <" + kMachine}, {}));
}

TEST(TopoCommand, QuietLeavesTheNotesOut) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"explain", kMachine}, {"topo", "transports", kMachine}}) {
    auto quiet = command;
    quiet.emplace_back("-q");
    EXPECT_HAS(topoCommand(command).out, "  note: ") << command[0];
    EXPECT_LACKS(topoCommand(quiet).out, "note: ") << command[0];
  }
}

TEST(TopoCommand, GraphsSayWhatIsWrongWithAFile) {
  expectFailure(topoCommand({"topo", "graphs", kMachine, "-q", "--graph-file", "/nonexistent"}), 1,
                "topo graphs: /nonexistent: cannot read it");
  expectFailure(topoCommand({"topo", "graphs", kMachine, "-q", "--graph-file", kMachine}), 1,
                "the file has no <graphs>; give a graph file");
}

TEST(TopoCommand, LintsExitStatusTellsErrors) {
  EXPECT_EQ(topoCommand({"topo", "lint", kMachine}).status, 0);
  const test::ScratchFile bad("bad.xml",
                              "<system version=\"1\">\n  <cpu arch=\"x86_64\">\n  </cpu>\n</system>\n");
  EXPECT_HAS(endedWith(1, topoCommand({"topo", "lint", bad.path()})).out, bad.path() + ":2:3: error: ");
  EXPECT_HAS(topoCommand({"topo", "lint", bad.path(), "--json"}).out, "\"line\": 2");
}

TEST(TopoCommand, LintShowsTheFirstFiveOfAKind) {
  std::string text = "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"arm64\">\n";
  for (int i = 0; i < 7; ++i)
    text += "<pci busid=\"0000:0" + std::to_string(i) +
            ":00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s\" link_width=\"16\"/>\n";
  const test::ScratchFile file("many.xml", text + "</cpu>\n</system>\n");
  const auto few = topoCommand({"topo", "lint", file.path()});
  EXPECT_HAS(few.out, file.path() + ": error: 2 more like it (--all shows them) [link-speed]");
  EXPECT_LACKS(few.out, ":9:");
  EXPECT_HAS(few.out, "1 file: 7 errors");
  const auto all = topoCommand({"topo", "lint", file.path(), "--all"});
  EXPECT_HAS(all.out, ":9:");
  EXPECT_LACKS(all.out, "more like it");
}

TEST(TopoCommand, AFileThatSaysPartIsShownCompleted) {
  const test::ScratchFile file(
      "part.xml",
      "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"arm64\">\n"
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
      "link_width=\"16\">\n<gpu rank=\"0\" sm=\"90\" dev=\"0\"/>\n</pci>\n"
      "<pci busid=\"0000:02:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
      "link_width=\"16\">\n<nic>\n<net name=\"mlx5_0\"/>\n</nic>\n</pci>\n</cpu>\n</system>\n");
  const auto shown =
      succeeded(topoCommand({"topo", "show", file.path(), "-f", "xml", "--nic-speed", "200000"}));
  EXPECT_HAS(shown.out, "speed=\"200000\"");
  EXPECT_HAS(shown.out, "<gpu rank=\"0\" sm=\"90\" dev=\"0\" gdr=\"1\" mlopart=\"-1\"/>");
  EXPECT_HAS(
      shown.err,
      "note: the file leaves out dev, speed, port, guid and gdr of NICs, which the plugin tells "
      "NCCL: the file's order, 200000 Mb/s (--nic-speed), port 1, a guid for each and GPUDirect assumed");
  const auto explained = topoCommand({"explain", file.path()});
  EXPECT_HAS(explained.out, "note: the file leaves out gdr of GPUs, which the driver tells");
  const auto linted = succeeded(topoCommand({"topo", "lint", file.path()}));
  EXPECT_HAS(linted.out, "note: net \"mlx5_0\" has no speed; NCCL takes the plugin's [net-speed]");
}

TEST(TopoCommand, GenerateSaysTheNextStep) {
  const test::ScratchFile file("topo.xml", "");
  const auto written = topoCommand({"topo", "generate", "-m", "cloud-vm", "-o", file.path()});
  EXPECT_HAS(written.err, "next: export NCCL_TOPO_FILE=" + file.path());
  EXPECT_LACKS(topoCommand({"topo", "generate", "-m", "cloud-vm", "-q"}).err, "next:");
}

TEST(TopoCommand, DiffsExitStatusTellsWhetherSomethingDiffers) {
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, kMachine}).status, 0);
  const auto versions = endedWith(1, topoCommand({"topo", "diff", kMachine, "--against-nccl", "2.27"}));
  EXPECT_HAS(versions.out, "NCCL 2.27.7");
  EXPECT_HAS(versions.out, "The same: NCCL's init; Devices;");
  // What the hops of a path are counted like changes nothing.
  EXPECT_LACKS(topoCommand({"topo", "diff", kMachine, "--against-nccl", "2.28"}).out, "\nPaths\n");
  const auto init =
      endedWith(1, topoCommand({"topo", "diff", kNvls, "--nccl", "2.30", "--against-nccl", "2.31"}));
  EXPECT_HAS(init.out, "succeeds became fails: the search for NVLS");
  const auto upgrade = topoCommand({"topo", "diff", kMachine, "--nccl", "2.30", "--against-nccl", "2.31"});
  EXPECT_HAS(upgrade.out, "(NCCL 2.30.7)");
  EXPECT_HAS(upgrade.out, "  only 2.31.2 has these:\n");
  EXPECT_HAS(upgrade.out, "    2.31.2 brought: all NVSwitches are one target");
  // From 2.31 on the file has one NVLink to all NVSwitches, which changes nothing else.
  const auto dgx =
      succeeded(topoCommand({"topo", "diff", "-m", "dgx", "--nccl", "2.30", "--against-nccl", "2.31"}));
  EXPECT_HAS(dgx.out, "no difference");
  EXPECT_HAS(dgx.out, "none matters here");
  EXPECT_HAS(dgx.out, "the files that topo show --format xml writes differ");
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, "--against-nccl", "2.5"}).status, 2);
  const auto lost = endedWith(1, topoCommand({"topo", "diff", kMachine, "--against-hca", "^=mlx5_1"}));
  EXPECT_HAS(lost.out, "mlx5_1");
  EXPECT_HAS(lost.out, ", all NICs)");
  EXPECT_HAS(lost.out, ", NCCL_IB_HCA=^=mlx5_1)");
  EXPECT_HAS(lost.out, "\nBus bandwidth that NCCL's cost model expects\n");
  EXPECT_HAS(lost.out, "  all_reduce, 2 hosts: ");
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, kMachine, "--hca=^=mlx5_1"}).status, 0);
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, kMachine, "--against-hca=^=mlx5_1"}).status, 2);
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, "/nowhere.xml"}).status, 2);
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine}).status, 2);
}

// Runs `railwise topo diff ARGUMENTS` with kMachine in a pipe.
ProcessResult diffOfPipe(const std::string& arguments) {
  const std::string command =
      std::string("cat '") + kMachine + "' | '" + RAILWISE_CLI + "' topo diff -q " + arguments;
  return runProcess("/bin/sh", {"-c", command});
}

TEST(TopoCommand, DiffReadsAPipeOnce) {
  EXPECT_HAS(endedWith(1, diffOfPipe("- --against-nccl 2.27")).out, "standard input (NCCL 2.27.7)");
  endedWith(1, diffOfPipe("/dev/stdin --against-nccl 2.27"));
  EXPECT_EQ(diffOfPipe("- --nccl 2.31 --against-nccl 2.31").status, 0);
  for (const char* twice : {"topo diff - -", "topo lint - -"}) {
    expectFailure(runProcess("/bin/sh",
                             {"-c", std::string("cat '") + kMachine + "' | '" + RAILWISE_CLI + "' " + twice}),
                  2, "- is standard input");
  }
}

TEST(TopoCommand, DiffKeepsTheOrderOfTheCommandLine) {
  const std::vector<std::pair<std::string, std::string>> machines = {
      {"-", "standard input"},
      {kMachine, "gb200.xml"},
      {"--machine dgx --host B", "software machine, host B"}};
  for (const auto& [left, left_name] : machines) {
    for (const auto& [right, right_name] : machines) {
      if (left_name == right_name) continue;
      const auto result = diffOfPipe(left + " " + right + " -j");
      const std::size_t first = result.out.find("\"" + left_name + "\"");
      const std::size_t second = result.out.find("\"" + right_name + "\"");
      EXPECT_NE(second, std::string::npos) << result.out.substr(0, 200) << result.err;
      EXPECT_LT(first, second) << left << " " << right;
    }
  }
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, "-m", "dgx", "--host", "B"}).status, 1);
  EXPECT_EQ(topoCommand({"topo", "diff", kMachine, "--host", "B", "-m", "dgx"}).status, 2);
}

TEST(TopoCommand, MistakesNameTheFileAndWhatToDo) {
  expectFailure(topoCommand({"explain", "/nowhere.xml"}), 1, "railwise: explain: /nowhere.xml");
  expectFailure(topoCommand({"explain", kMachine, "--gpu", "99"}), 2, "99");
  expectFailure(topoCommand({"topo", "show", "--root", kMachine}), 1, "without --root");
  expectFailure(topoCommand({"topo", "lnt"}), 2, "did you mean 'lint'?");
  EXPECT_EQ(topoCommand({"topo", "show", kMachine, "--cpu", "x86_64,GenuineIntel,6,143"}).status, 2);
}

// All commands say alike where NCCL's init fails, and what helps; exit statuses are those of their help.
TEST(TopoCommand, WhereNcclsInitFailsAllSaySo) {
  const std::string what = "GPU 2 (0000:12:00.0) has no NVLink";
  const std::string help = "set NCCL_NVLS_ENABLE=0";
  const auto oneLine = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    for (std::size_t at = 0; (at = text.find("  ", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  };
  const std::vector<std::pair<std::vector<std::string>, int>> commands = {{{"topo", "graphs", kNvls}, 1},
                                                                          {{"topo", "expect", kNvls}, 1},
                                                                          {{"topo", "lint", kNvls}, 1},
                                                                          {{"explain", kNvls}, 0}};
  for (const auto& [command, status] : commands) {
    std::vector<std::string> args = command;
    args.insert(args.end(), {"--nccl", "2.31"});
    const auto newer = topoCommand(args);
    EXPECT_EQ(newer.status, status) << command[1];
    const std::string said = oneLine(newer.out + newer.err);
    EXPECT_HAS(said, what);
    EXPECT_HAS(said, help);
    const auto without = succeeded(topoCommand(args, {"NCCL_NVLS_ENABLE=0"}));
    EXPECT_LACKS(oneLine(without.out + without.err), what) << without.out;
    args.back() = "2.30";
    const auto older = succeeded(topoCommand(args));
    EXPECT_LACKS(oneLine(older.out + older.err), what) << older.out;
  }
  const auto doctor = [&](const std::vector<std::string>& environment) {
    return topoCommand({"doctor", kNvls, "--only", "topology"}, environment);
  };
  EXPECT_EQ(doctor({}).status, 2);
  EXPECT_HAS(oneLine(doctor({}).out), help) << doctor({}).out;
  EXPECT_EQ(doctor({"NCCL_NVLS_ENABLE=0"}).status, 0) << doctor({"NCCL_NVLS_ENABLE=0"}).out;
  const std::string pcilink = RAILWISE_SOURCE_DIR "/tests/topo/machines/init/one-way-pcilink-lint.xml";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"topo", "graphs", pcilink}, {"explain", pcilink}, {"topo", "lint", pcilink}}) {
    const auto result = endedWith(1, topoCommand(command));
    EXPECT_HAS(result.out + result.err, "0000:20:00.0 has a <pcilink> to the PCIe switch 0000:10:00.0")
        << result.err;
  }
}

// NCCL takes the graphs of NCCL_GRAPH_FILE: with a broken one its init fails.
TEST(TopoCommand, TheGraphFileDecidesWhetherInitFails) {
  const auto check = [](const std::string& graphs, const std::vector<std::string>& machine, bool fails) {
    std::vector<std::string> args = {"doctor", "--only", "nccl-init"};
    args.insert(args.end(), machine.begin(), machine.end());
    const auto doctor = topoCommand(args, {"NCCL_GRAPH_FILE=" + graphs});
    EXPECT_EQ(doctor.status, fails ? 2 : 0) << graphs << "\n" << doctor.out << doctor.err;
    const auto lint = topoCommand({"topo", "lint", kMachine}, {"NCCL_GRAPH_FILE=" + graphs});
    EXPECT_EQ(lint.status, fails ? 1 : 0) << graphs << "\n" << lint.out << lint.err;
  };
  const test::Scratch scratch;
  for (const char* nodes : {"1", "2"}) {
    const auto made = topoCommand({"topo", "graphs", kMachine, "-q", "-f", "xml", "-n", nodes});
    check(scratch.file(std::string("hosts-") + nodes + ".xml", made.out), {kMachine}, false);
  }
  const std::string broken =
      scratch.file("broken.xml",
                   "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" nchannels=\"1\"><channel>"
                   "<gpu dev=\"99\"/></channel></graph></graphs>");
  check(broken, {kMachine}, true);
  check(broken, {"--machine", "dgx"}, true);
  check("/nowhere.xml", {kMachine}, true);
}

TEST(TopoCommand, ExpectNamesTheModelThePeakAndTheLimit) {
  const auto result = succeeded(topoCommand(
      {"topo", "expect", kMachine, "--nodes", "4", "--collective", "all_gather", "--size", "64M"}));
  EXPECT_HAS(result.out,
             "all_gather, 4 nodes of 4 GPUs. The rules and the cost model are those\nof NCCL 2.31.2");
  EXPECT_HAS(result.out, "    64 MiB  ");
  EXPECT_HAS(result.out, "\nPeak: ");
  EXPECT_HAS(result.out, "\nThe limit is ");
  EXPECT_HAS(topoCommand({"topo", "expect", kMachine, "--nccl", "2.28"}).out, "NCCL 2.29.7")
      << "the constants of older releases are not known";
  EXPECT_HAS(topoCommand({"topo", "expect", kMachine, "-c", "alltoall", "-f", "json"}).out,
             "\"source\": \"railwise\"");
}

TEST(TopoCommand, ExpectsMistakes) {
  const auto collective =
      endedWith(2, topoCommand({"topo", "expect", kMachine, "--collective", "allreduce"}));
  EXPECT_HAS(collective.err, "'allreduce'");
  EXPECT_HAS(collective.err, "all_reduce");
  EXPECT_EQ(topoCommand({"topo", "expect", kMachine, "--nodes", "0"}).status, 2);
  const test::ScratchFile file(
      "no-nic.xml",
      "<system version=\"1\"><cpu numaid=\"0\" affinity=\"f\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
      "familyid=\"6\" modelid=\"143\">"
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
      "<gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\"/></pci>"
      "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
      "<gpu dev=\"1\" sm=\"80\" rank=\"1\" gdr=\"1\"/></pci></cpu></system>\n");
  EXPECT_EQ(topoCommand({"topo", "expect", file.path()}).status, 0);
  expectFailure(topoCommand({"topo", "expect", file.path(), "--nodes", "2"}), 1,
                "no GPU reaches a NIC, so there is no communicator of 2 nodes");
}

TEST(TopoCommand, TheCommandReadsMoreThanNcclWhenAsked) {
  std::string text = "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"f\" arch=\"arm64\">\n";
  for (int i = 0; i < 300; ++i)
    text += "<pci busid=\"" + std::to_string(1000 + i) +
            ":00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n<gpu dev=\"" +
            std::to_string(i) + "\" sm=\"90\" rank=\"" + std::to_string(i) + "\" gdr=\"1\"/>\n</pci>\n";
  const test::ScratchFile file("big.xml", text + "</cpu>\n</system>\n");
  EXPECT_EQ(topoCommand({"topo", "show", file.path(), "-f", "xml"}).status, 1);
  EXPECT_EQ(topoCommand({"topo", "show", file.path(), "-f", "xml", "--any-size"}).status, 0);
}

TEST(TopoCommand, ExportInEveryForm) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"slurm", "Name=gpu Type=sm_100 File=/dev/nvidia3 Cores=72-143 Links=18,18,18,-1\n"},
      {"ucx", "  3) export UCX_NET_DEVICES=mlx5_3:1"},
      {"nixl", "\"params\": {\"device_list\": \"mlx5_3\"}"},
      {"env", "export NCCL_NET_PLUGIN=railwise\n"},
      {"hwloc-xml", "<topology version=\"2.0\">\n"}};
  for (const auto& [form, part] : parts) {
    const auto result = succeeded(topoCommand({"topo", "export", kMachine, "--for", form}));
    EXPECT_HAS(result.out, part) << form << ": ";
    EXPECT_HAS(result.err, "railwise: topo export: note: ") << form;
    EXPECT_EQ(topoCommand({"topo", "export", kMachine, "--for", form, "--quiet"}).err, "");
  }
}

TEST(TopoCommand, ExportSaysWhatItCannotDo) {
  expectFailure(topoCommand({"topo", "export", kMachine}), 2,
                "for which program? --for slurm, ucx, nixl, env or hwloc-xml");
  expectFailure(topoCommand({"topo", "export", kMachine, "--for", "pbs"}), 2,
                "one of slurm, ucx, nixl, env, hwloc-xml");
  const auto node = topoCommand({"topo", "export", kMachine, "--for", "slurm", "--node", "a b"});
  EXPECT_EQ(node.status, 2);
  EXPECT_HAS(node.err, "'a b' is no name of a node");
  EXPECT_EQ(topoCommand({"topo", "export", "/nowhere.xml", "--for", "env"}).status, 1);
  EXPECT_EQ(topoCommand({"topo", "export", kMachine, "--for", "env", "-o", "/nowhere/file"}).status, 1);
  expectFailure(
      runProcess("/bin/sh", {"-c", std::string(RAILWISE_CLI) + " topo export --for slurm - <" + kMachine}), 2,
      "standard input does not tell the node's name");
}

TEST(TopoCommand, ExportWritesAFileAndNamesTheNodeAfterTheMachine) {
  const test::ScratchFile file("slurm.conf");
  const auto result =
      succeeded(topoCommand({"topo", "export", kMachine, "--for", "slurm", "-o", file.path()}));
  EXPECT_EQ(result.out, "");
  std::stringstream text;
  text << std::ifstream(file.path()).rdbuf();
  EXPECT_HAS(text.str(), "NodeName=gb200 Gres=gpu:sm_100:4,nic:gbps400:4\n");
}

TEST(TopoCommand, ExportReadsWhatARecordedSysTells) {
  const std::string recorded = RAILWISE_SOURCE_DIR "/tests/topo/machines/recorded/two-sockets.tar.gz";
  const auto result = succeeded(topoCommand({"topo", "export", "--root", recorded, "--for", "hwloc-xml"}));
  EXPECT_HAS(result.out, "bridge_pci=\"0000:[20-26]\"");
  EXPECT_LACKS(result.err, "host bridges are those of the devices' buses");
}

}  // namespace
}  // namespace railwise::cli
