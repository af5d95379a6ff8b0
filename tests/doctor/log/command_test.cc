#include <gtest/gtest.h>

#include "process.h"

namespace railwise::cli {
namespace {

const std::string kFiles = LOG_FILES "/";

ProcessResult doctor(std::vector<std::string> args) {
  args.insert(args.begin(), {"doctor", "--log"});
  return runProcess(RAILWISE_CLI, args);
}

TEST(DoctorLog, TheVerdictComesFirst) {
  const ProcessResult result = doctor({kFiles + "mpirun-socket-2.18.log"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(
      result.out.starts_with("2 ranks on 2 hosts, NCCL 2.18.5, network Socket: 1 error\n"
                             "worst: rank 0 (gn01), rank 1 (gn02): the network is Socket, not RDMA\n"
                             "type:  "))
      << result.out;
}

TEST(DoctorLog, Json) {
  const ProcessResult result = doctor({"--json", kFiles + "torchrun-retry-2.21.log"});
  EXPECT_EQ(result.status, 2);
  for (const char* part :
       {"\"schema\": \"railwise-doctor-log\"", "\"verdict\": \"errors\"", "\"check\": \"completion-error\"",
        "\"network\": \"IB\"", "\"device\": \"rank 2 (gpu-b)\"", "\"nccl_lines\": 48"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST(DoctorLog, StandardInput) {
  const ProcessResult result = runProcess(
      "/bin/sh", {"-c", std::string(RAILWISE_CLI) + " doctor --log - <" + kFiles + "mpirun-socket-2.18.log"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.out.find("standard input:8: Using network Socket"), std::string::npos) << result.out;
}

TEST(DoctorLog, FewerRanksThanThereShouldBe) {
  const ProcessResult result = doctor({kFiles + "mpirun-socket-2.18.log", "--ranks", "4"});
  EXPECT_NE(result.out.find("2 ranks are in no log: 2, 3"), std::string::npos) << result.out;
}

TEST(DoctorLog, AFileThatCannotBeRead) {
  const ProcessResult result = doctor({kFiles + "none.log"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.out.find("none.log:0: No such file or directory"), std::string::npos) << result.out;
}

TEST(DoctorLog, Mistakes) {
  EXPECT_EQ(doctor({}).status, 2);
  EXPECT_NE(doctor({}).err.find("which FILEs?"), std::string::npos);
  EXPECT_NE(doctor({"--ranks", "0", "x"}).err.find("--ranks"), std::string::npos);
  EXPECT_EQ(doctor({"--help"}).status, 0);
}

}  // namespace
}  // namespace railwise::cli
