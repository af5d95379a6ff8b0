// railwise topo and railwise explain from outside: output, exit statuses, and what is said about mistakes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "process.h"

namespace railwise::cli {
namespace {

const std::string kMachine = RAILWISE_SOURCE_DIR "/tests/topo/machines/gb200.xml";

ProcessResult railwise(const std::vector<std::string>& args,
                       const std::vector<std::string>& environment = {}) {
  return runProcess(RAILWISE_CLI, args, environment);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A file of the test's own, gone with it.
class Scratch {
 public:
  explicit Scratch(const std::string& name, const std::string& text = "")
      : path_(std::filesystem::temp_directory_path() / (std::to_string(getpid()) + name)) {
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

TEST(TopoCommand, ShowInEveryFormat) {
  const std::vector<std::pair<std::string, std::string>> begins = {{"matrix", "     GPU0 GPU1"},
                                                                   {"json", "{\n"},
                                                                   {"xml", "<system version=\"1\">\n"},
                                                                   {"dot", "graph"},
                                                                   {"svg", "<svg"},
                                                                   {"html", "<!DOCTYPE html>"}};
  for (const auto& [format, begin] : begins) {
    const auto result = railwise({"topo", "show", kMachine, "--format", format});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(has(result.out.substr(0, 200), begin)) << format << ": " << result.out.substr(0, 80);
    EXPECT_EQ(result.err, "");
  }
}

TEST(TopoCommand, ShowWritesToAFile) {
  const Scratch file("out.html");
  EXPECT_EQ(railwise({"topo", "show", kMachine, "-f", "html", "-o", file.path()}).status, 0);
  EXPECT_GT(std::filesystem::file_size(file.path()), 10000U);
}

TEST(TopoCommand, ExplainKnowsGpusThatAFileDoesNotDescribe) {
  std::string text = "<system version=\"1\">\n<cpu numaid=\"0\">\n";
  for (int i = 0; i < 8; ++i)
    text += "<pci busid=\"0000:0" + std::to_string(i) +
            ":00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\"/>\n";
  text +=
      "<pci busid=\"0000:09:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\n";
  const Scratch file("bare.xml", text + "</cpu>\n</system>\n");
  const auto known = railwise({"explain", file.path()});
  EXPECT_TRUE(has(known.out, "they are known to be H100 SXM5 80GB: compute capability 9.0, 18 NVLinks"))
      << known.out;
  const auto told = railwise({"explain", file.path(), "--gpu-sm", "90"});
  EXPECT_FALSE(has(told.out, "H100 SXM5")) << told.out;
}

TEST(TopoCommand, ExplainSaysWhichNicAndWhy) {
  const auto result = railwise({"explain", kMachine, "--gpu", "0"});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(has(result.out, "GPU 0 (0008:01:00.0, NUMA node 0) uses mlx5_0")) << result.out;
  EXPECT_TRUE(has(result.out, "GPUDirect  on"));
  EXPECT_TRUE(has(railwise({"explain", kMachine, "-g", "0", "-f", "json"}).out, "\"gpus\""));
}

TEST(TopoCommand, ASoftwareMachineHasItsNvlinks) {
  const auto result = railwise({"topo", "show", "--machine", "dgx", "--host", "B", "-f", "xml"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "") << "nothing has to be assumed";
  EXPECT_TRUE(has(result.out, "<nvlink target=\"0000:05:00.0\" count=\"5\" tclass=\"0x068000\"/>"))
      << result.out;
  EXPECT_TRUE(has(railwise({"topo", "paths", "-m", "nvlink-mesh"}).out, "\"NVB\""))
      << "a hop over a third GPU";
  EXPECT_TRUE(has(railwise({"explain", "-m", "asymmetric", "-H", "B"}).out, "mlx5_1"));
}

TEST(TopoCommand, MistakesInTheSoftwareMachineAreSaid) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--machine", "dgx", "--root", "/"}, "--root and --machine are two machines"},
      {{"--host", "A"}, "--host is a host of --machine"},
      {{"--machine", "dgx", "--host", "C"}, "its hosts are A, B"},
      {{"--machine", "default"}, "no GPU in software machine, host"}};
  for (const auto& [options, message] : mistakes) {
    std::vector<std::string> args = {"topo", "show"};
    args.insert(args.end(), options.begin(), options.end());
    const auto result = railwise(args);
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_TRUE(has(result.err, message)) << message << ": " << result.err;
  }
}

TEST(TopoCommand, NcclsVariablesChangeTheAnswer) {
  const auto result = railwise({"explain", kMachine, "-g", "0"}, {"NCCL_NET_GDR_C2C=0"});
  EXPECT_TRUE(has(result.out, "GPUDirect  off")) << result.out;
}

TEST(TopoCommand, LintsExitStatusTellsErrors) {
  EXPECT_EQ(railwise({"topo", "lint", kMachine}).status, 0);
  const Scratch bad("bad.xml", "<system version=\"1\">\n  <cpu arch=\"x86_64\">\n  </cpu>\n</system>\n");
  const auto result = railwise({"topo", "lint", bad.path()});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.out, bad.path() + ":2:3: error: ")) << result.out;
  EXPECT_TRUE(has(railwise({"topo", "lint", bad.path(), "--json"}).out, "\"line\": 2"));
}

TEST(TopoCommand, DiffsExitStatusTellsWhetherSomethingDiffers) {
  EXPECT_EQ(railwise({"topo", "diff", kMachine, kMachine}).status, 0);
  const auto versions = railwise({"topo", "diff", kMachine, "--against-nccl", "2.28"});
  EXPECT_EQ(versions.status, 1);
  EXPECT_TRUE(has(versions.out, "NCCL 2.28")) << versions.out;
  EXPECT_EQ(railwise({"topo", "diff", kMachine, "/nowhere.xml"}).status, 2);
  EXPECT_EQ(railwise({"topo", "diff", kMachine}).status, 2);
}

TEST(TopoCommand, MistakesNameTheFileAndWhatToDo) {
  const auto missing = railwise({"explain", "/nowhere.xml"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(has(missing.err, "railwise: explain: /nowhere.xml")) << missing.err;
  const auto rank = railwise({"explain", kMachine, "--gpu", "99"});
  EXPECT_EQ(rank.status, 2);
  EXPECT_TRUE(has(rank.err, "99")) << rank.err;
  const auto root = railwise({"topo", "show", "--root", kMachine});
  EXPECT_EQ(root.status, 1);
  EXPECT_TRUE(has(root.err, "without --root")) << root.err;
  const auto sub = railwise({"topo", "lnt"});
  EXPECT_EQ(sub.status, 2);
  EXPECT_TRUE(has(sub.err, "did you mean 'lint'?")) << sub.err;
  EXPECT_EQ(railwise({"topo", "show", kMachine, "--cpu", "x86_64,GenuineIntel,6,143"}).status, 1);
}

TEST(TopoCommand, TheCommandReadsMoreThanNcclWhenAsked) {
  std::string text = "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"f\" arch=\"arm64\">\n";
  for (int i = 0; i < 300; ++i)
    text += "<pci busid=\"" + std::to_string(1000 + i) +
            ":00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n<gpu dev=\"" +
            std::to_string(i) + "\" sm=\"90\" rank=\"" + std::to_string(i) + "\" gdr=\"1\"/>\n</pci>\n";
  const Scratch file("big.xml", text + "</cpu>\n</system>\n");
  EXPECT_EQ(railwise({"topo", "show", file.path(), "-f", "xml"}).status, 1);
  EXPECT_EQ(railwise({"topo", "show", file.path(), "-f", "xml", "--any-size"}).status, 0);
}

}  // namespace
}  // namespace railwise::cli
