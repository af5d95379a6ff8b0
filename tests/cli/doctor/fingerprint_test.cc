// railwise fingerprint from outside: the line, the JSON, the comparison, and what is said about mistakes.

#include <algorithm>
#include <sstream>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

using test::Scratch;
using Args = std::vector<std::string>;

ProcessResult fingerprint(Args args, const std::vector<std::string>& environment = {}) {
  args.insert(args.begin(), "fingerprint");
  return runProcess(RAILWISE_CLI, args, environment);
}

// A machine below a folder: its driver, and a NIC with this firmware. Returns the folder.
std::string makeRoot(const Scratch& scratch, const std::string& host, const std::string& firmware) {
  scratch.file(host + "/proc/sys/kernel/hostname", host + "\n");
  scratch.file(host + "/sys/module/nvidia/version", "550.90.07\n");
  scratch.file(host + "/sys/class/infiniband/mlx5_0/hca_type", "MT4129\n");
  scratch.file(host + "/sys/class/infiniband/mlx5_0/fw_ver", firmware + "\n");
  return scratch.path(host);
}

std::string jsonOf(const std::string& root) {
  const auto result = succeeded(fingerprint({"--json", "--root", root}));
  return result.out;
}

std::size_t widestLine(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(FingerprintCommand, LinesHave80Columns) {
  const auto result = succeeded(fingerprint({}));
  EXPECT_GT(widestLine(result.out), 50U) << result.out;
  EXPECT_LE(widestLine(result.out), 80U) << result.out;
}

TEST(FingerprintCommand, ThisMachine) {
  const auto result = succeeded(fingerprint({"--one-line"}));
  EXPECT_EQ(result.out.find('\n'), result.out.size() - 1) << result.out;
  EXPECT_HAS(result.out, "; kernel: ");
  EXPECT_LACKS(result.out, "kernel: -");
  // Its JSON is equal to itself.
  const Scratch scratch;
  const std::string file = scratch.file("a.json", fingerprint({"--json"}).out);
  const auto compared = succeeded(fingerprint({"--compare", file, file}));
  EXPECT_TRUE(compared.out.starts_with("2 nodes are alike: ")) << compared.out;
}

TEST(FingerprintCommand, AsksTheVendorsLibrary) {
  const auto result = succeeded(fingerprint(
      {"--one-line"}, {"RAILWISE_NVML_LIB=" FAKE_NVML, "RAILWISE_FAKE_GPUS=" FAKE_MACHINES "/dgx_h100"}));
  if (railwise::test::has(result.err, "did not answer within"))
    GTEST_SKIP() << "this machine is too busy: " << result.err;
  EXPECT_HAS(result.out,
             "GPUs: 8 x NVIDIA H100 80GB HBM3; GPU driver: 550.90.07; GPU firmware: 96.00.89.00.01;")
      << result.err;
}

TEST(FingerprintCommand, AnotherRoot) {
  const Scratch scratch;
  const auto result =
      succeeded(fingerprint({"--one-line", "--root", makeRoot(scratch, "node1", "28.39.1002")}));
  EXPECT_TRUE(result.out.starts_with("node1 ")) << result.out;
  EXPECT_HAS(result.out, "GPU driver: 550.90.07;");
  EXPECT_HAS(result.out, "NICs: 1 x MT4129; NIC firmware: MT4129 28.39.1002; rdma-core: -\n");
  EXPECT_EQ(fingerprint({"--root", scratch.path("nowhere")}).status, 1);
}

TEST(FingerprintCommand, ARecordedMachineIsNamedAfterItsFile) {
  const auto result = succeeded(fingerprint(
      {"--one-line", "--root", RAILWISE_SOURCE_DIR "/tests/topo/machines/recorded/cloud-vm.tar.gz"}));
  EXPECT_TRUE(result.out.starts_with("cloud-vm ")) << result.out;
  EXPECT_HAS(result.out, "GPUs: 4 x NVIDIA 0x2330;");
}

TEST(FingerprintCompare, NamesTheOddNode) {
  const Scratch scratch;
  std::string all;
  for (const char* host : {"node1", "node2", "node3"}) all += jsonOf(makeRoot(scratch, host, "28.39.1002"));
  const std::string good = scratch.file("all.json", all);
  const std::string odd = scratch.file("odd.json", jsonOf(makeRoot(scratch, "node4", "28.36.1010")));
  EXPECT_EQ(fingerprint({"--compare", good}).status, 0);
  EXPECT_EQ(endedWith(1, fingerprint({"--compare", good, odd})).out,
            "4 nodes, of which 1 is odd: node4 (NIC firmware)\n"
            "NIC firmware: MT4129 28.39.1002 on 3 nodes\n"
            "  MT4129 28.36.1010 on 1 node: node4\n");
  EXPECT_HAS(fingerprint({"--compare", "--json", good, odd}).out,
             R"({"node": "node4", "fields": ["NIC firmware"]})");
}

TEST(FingerprintCompare, NodesOfOneNameAreToldApartByTheirPlaces) {
  const Scratch scratch;
  const std::string one = jsonOf(makeRoot(scratch, "node1", "28.39.1002"));
  const std::string other = jsonOf(makeRoot(scratch, "node1", "28.36.1010"));
  const std::string file = scratch.file("all.json", one + one + other);
  const std::string out = fingerprint({"--compare", file}).out;
  EXPECT_HAS(out, "1 is odd: node1");
  EXPECT_HAS(out, "(" + file + ":3)");
}

TEST(FingerprintCompare, AFileThatCannotBeReadHidesNoOther) {
  const Scratch scratch;
  const std::string good = scratch.file("good.json", jsonOf(makeRoot(scratch, "node1", "28.39.1002")));
  const std::string bad = scratch.file("bad.json", "node2: command not found\n");
  const auto result = endedWith(1, fingerprint({"--compare", bad, good, scratch.path("nowhere"), good}));
  EXPECT_HAS(result.err, bad +
                             ":1: 'node2: command not f' is not JSON; write it with: railwise "
                             "fingerprint --json > FILE");
  EXPECT_HAS(result.err, scratch.path("nowhere") + ": cannot be read: No such file");
  EXPECT_TRUE(result.out.starts_with("2 nodes are alike")) << result.out;
  EXPECT_EQ(fingerprint({"--compare", bad}).out, "");
}

TEST(FingerprintCompare, MistakesSayWhatToDo) {
  const std::pair<Args, std::string> mistakes[] = {
      {{"--compare"}, "--compare which FILEs? On each node: railwise fingerprint --json > FILE"},
      {{"a.json"}, "unexpected argument 'a.json'; --compare compares files"},
      {{"--compare", "--root", "/", "a.json"}, "give one of them"},
      {{"--comparee", "a.json"}, "did you mean --compare?"}};
  for (const auto& [args, message] : mistakes) {
    const auto result = fingerprint(args);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_HAS(result.err, message);
  }
}

}  // namespace
}  // namespace railwise::cli
