
#include <fstream>

#include "process.h"
#include "scratch.h"
#include "tests/ok.h"

namespace railwise::cli {
namespace {

const std::string kFiles = LOG_FILES "/";

ProcessResult doctor(std::vector<std::string> args) {
  args.insert(args.begin(), {"doctor", "--log"});
  return runProcess(RAILWISE_CLI, args);
}

TEST(DoctorLog, TheVerdictComesFirst) {
  const ProcessResult result = endedWith(2, doctor({kFiles + "mpirun-socket-2.18.log"}));
  EXPECT_TRUE(
      result.out.starts_with("2 ranks on 2 hosts, NCCL 2.18.5, network Socket: 1 error\n"
                             "worst: rank 0 (gn01), rank 1 (gn02): the network is Socket, not RDMA\n"
                             "type:  "))
      << result.out;
}

TEST(DoctorLog, Json) {
  const ProcessResult result = endedWith(2, doctor({"--json", kFiles + "torchrun-retry-2.21.log"}));
  for (const char* part :
       {"\"schema\": \"railwise-doctor-log\"", "\"verdict\": \"errors\"", "\"check\": \"completion-error\"",
        "\"network\": \"IB\"", "\"device\": \"rank 2 (gpu-b)\"", "\"nccl_lines\": 48"})
    EXPECT_HAS(result.out, part);
}

TEST(DoctorLog, StandardInput) {
  const std::string piped =
      std::string(RAILWISE_CLI) + " doctor --log - <" + kFiles + "mpirun-socket-2.18.log";
  EXPECT_HAS(endedWith(2, runProcess("/bin/sh", {"-c", piped})).out,
             "standard input:8: Using network Socket");
}

TEST(DoctorLog, WhomNcclsRasNamesIsFoundInTheLogs) {
  const railwise::test::ScratchFile ras(
      "ras.txt",
      "Job summary\n===========\n\nWarnings\n========\n\n#0-0 (00ab) MISMATCH\n"
      "  Communicator ranks have different AllReduce operation counts\n"
      "  Rank 1 has launched up to operation 8 -- GPU 2 managed by process 512 on node gn02\n"
      "  Rank 3 has launched up to operation 9 -- GPU 2 managed by process 512 on node gn03\n");
  const ProcessResult result = endedWith(2, doctor({kFiles + "mpirun-socket-2.18.log", ras.path()}));
  EXPECT_HAS(result.out, "worst: rank 1 (gn02): ranks of a communicator are at different operations");
  EXPECT_HAS(result.out, "Rank 1 has launched up to operation 8");
}

TEST(DoctorLog, FewerRanksThanThereShouldBe) {
  const ProcessResult result = doctor({kFiles + "mpirun-socket-2.18.log", "--ranks", "4"});
  EXPECT_HAS(result.out, "2 ranks are in no log: 2, 3");
}

TEST(DoctorLog, StrictMakesErrorsOfWarnings) {
  const std::vector<std::string> slow = {kFiles + "nccl-tests-all-reduce.txt", "--machine", "dgx", "--nccl",
                                         "2.30"};
  endedWith(1, doctor(slow));
  std::vector<std::string> strict = slow;
  strict.emplace_back("--strict");
  endedWith(2, doctor(strict));
}

TEST(DoctorLog, AFileThatCannotBeRead) {
  EXPECT_HAS(endedWith(2, doctor({kFiles + "none.log"})).out, "none.log: No such file or directory");
}

const std::string kResults = kFiles + "nccl-tests-all-reduce.txt";

TEST(DoctorLog, ResultsBesideTheModelOfAMachine) {
  const ProcessResult result = endedWith(1, doctor({kResults, "--machine", "dgx", "--nccl", "2.30"}));
  EXPECT_TRUE(result.out.starts_with("16 ranks on 2 hosts, all_reduce 205.9 of 460.7 GB/s (45 %): 1 warning"))
      << result.out;
  EXPECT_HAS(result.out, "WARNING below-model: all_reduce, 16 ranks on 2 hosts");
  EXPECT_HAS(result.out,
             "all_reduce, 16 ranks on 2 hosts: you get 205.9 of 460.7 GB/s (45 %) at 8 GiB.\n"
             "NCCL's model (2.30.7) of software machine, host A. The limit is the network");
}

// A tenth of what NVLink carries comes by another way; half of it over fewer links.
TEST(DoctorLog, AResultThatNeedsNoNvlinkNamesNvlinkFirst) {
  const test::Scratch scratch;
  const auto firstFix = [&](const std::string& row, const std::vector<std::string>& machine) {
    std::string text;  // the results of one host, with one row
    std::ifstream file(kResults);
    for (std::string line; std::getline(file, line);)
      if (line.find(" gpu-b ") == std::string::npos && line.find(" float ") == std::string::npos)
        text += line + "\n";
    const ProcessResult result =
        endedWith(1, doctor({scratch.file("out.txt", text + row), machine[0], machine[1]}));
    const std::size_t at = result.out.find("  fix   ");
    return at == std::string::npos ? result.out : result.out.substr(at, result.out.find('\n', at) - at);
  };
  const std::string tenth =
      "  8589934592    2147483648     float     sum      -1   397940   21.59   37.78       0   397870   "
      "21.59   37.78       0\n";
  EXPECT_HAS(firstFix(tenth, {"-m", "dgx"}), "nvidia-smi topo -m");
  const std::string half =
      "  8589934592    2147483648     float     sum      -1  68719.5  125.00  218.75       0  68719.5  "
      "125.00  218.75       0\n";
  EXPECT_HAS(firstFix(half, {"-m", "dgx"}), "nvlink --status");
  std::string by_pcie =
      R"(<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">)";
  for (const std::string gpu : {"0", "1", "2", "3", "4", "5", "6", "7"})
    by_pcie += "<pci busid=\"0000:" + gpu + R"(1:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" )" +
               R"(link_width="16"><gpu dev=")" + gpu + R"(" sm="90" rank=")" + gpu + R"(" gdr="1"/></pci>)";
  const std::string few =
      "  8589934592    2147483648     float     sum      -1  8589935    1.00    1.75       0  8589935    "
      "1.00    1.75       0\n";
  const std::vector<std::string> machine = {"--topo", scratch.file("pcie.xml", by_pcie + "</cpu></system>")};
  EXPECT_HAS(firstFix(few, machine), "railwise doctor  # on each host");
}

TEST(DoctorLog, ResultsBesideTheModelOfAFile) {
  const test::Scratch scratch;
  const std::string file = scratch.file("topo.xml", "<system version=\"1\"/>");
  EXPECT_EQ(doctor({kResults, "--topo", file}).status, 2) << "a file without GPUs";
  expectFailure(doctor({kResults, "--topo", "/nowhere.xml"}), 2, "/nowhere.xml");
}

TEST(DoctorLog, WithoutNvlsTheModelExpectsLess) {
  const ProcessResult result = doctor({kResults, "--machine", "dgx", "--no-nvls", "--quiet"});
  EXPECT_HAS(result.out, "all_reduce 205.9 of ");
  EXPECT_LACKS(result.out, "of 460.7");
}

TEST(DoctorLog, ResultsOfHostsThatAreNotKnown) {
  const ProcessResult result = succeeded(doctor({kResults}));
  EXPECT_TRUE(result.out.starts_with(
      "16 ranks on 2 hosts, all_reduce 205.9 GB/s (not judged; hosts like an HGX H100: -m dgx): 1 "))
      << result.out;
  EXPECT_HAS(result.out, "known: --topo FILE");
}

// On a host of the job the machine is this one: here host A of a software machine.
TEST(DoctorLog, ResultsOfThisHost) {
  const std::string command = "sed 's/ gpu-a / A /' " + kResults + " | " + RAILWISE_CLI +
                              " device run --machine dgx --sysfs on -- " + RAILWISE_CLI +
                              " doctor --log - -q";
  const ProcessResult result = runProcess("/bin/sh", {"-c", command});
  EXPECT_HAS(result.out, "you get 205.9 of ") << result.err;
}

TEST(DoctorLog, ResultsAsJson) {
  const ProcessResult result = doctor({kResults, "--machine", "dgx", "--nccl", "2.30", "--json"});
  for (const char* part : {"\"results\": [", "\"judged_bytes\": 8589934592", "\"share\": 0.446"})
    EXPECT_HAS(result.out, part);
}

// Without --log the content of a file says what it is.
TEST(DoctorLog, AFileThatIsNoTopologyFile) {
  const std::string log = kFiles + "mpirun-socket-2.18.log";
  EXPECT_EQ(runProcess(RAILWISE_CLI, {"doctor", log}).out, doctor({log}).out);
  const test::Scratch scratch;
  const std::string matrix = scratch.file(
      "matrix.txt", "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tSYS\t0-7\nNIC0\tSYS\t X \n\n  NIC0: roce5\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"doctor", matrix}, {"explain", matrix}, {"topo", "show", matrix}}) {
    EXPECT_HAS(succeeded(runProcess(RAILWISE_CLI, words)).out, "nvidia-smi topo -m, 1 GPU and 1 NIC");
  }
  expectFailure(runProcess(RAILWISE_CLI, {"explain", log}), 2, "railwise doctor --log");
}

TEST(DoctorLog, FineIsAWordForWhatWasMeasured) {
  const test::Scratch scratch;
  const std::string log = scratch.file(
      "job.log",
      "a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 commId 0x2 - Init START\n"
      "a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 commId 0x2 - Init COMPLETE\n");
  EXPECT_HAS(doctor({log}).out, ": nothing found; speed not judged, since there is no table of nccl-tests\n");
  const ProcessResult job = doctor({log, "--json"}), advice = doctor({kResults, "--json"});
  for (const ProcessResult& result : {job, advice}) {
    EXPECT_EQ(result.status, 0);
    EXPECT_HAS(result.out, "\"verdict\": \"not judged\"");
  }
}

TEST(DoctorLog, Mistakes) {
  EXPECT_EQ(doctor({}).status, 2);
  EXPECT_HAS(doctor({}).err, "which FILEs?");
  EXPECT_HAS(doctor({"--ranks", "0", "x"}).err, "--ranks");
  EXPECT_EQ(doctor({"--help"}).status, 0);
}

}  // namespace
}  // namespace railwise::cli
