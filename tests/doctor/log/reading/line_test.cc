#include "doctor/log/reading/line.h"

#include <gtest/gtest.h>

namespace railwise::doctor {
namespace {

LogLine only(std::string_view text) {
  static std::string plain;
  std::string buffer;
  plain = plainText(text, buffer);
  const std::vector<LogLine> lines = parseLine(plain);
  EXPECT_EQ(lines.size(), 1U) << text;
  return lines.front();
}

TEST(LogLine, NcclsOwnForm) {
  const LogLine line = only("node-1.x:4711:4712 [3] NCCL INFO Using network IB");
  EXPECT_EQ(line.kind, LineKind::kInfo);
  EXPECT_EQ(line.host, "node-1.x");
  EXPECT_EQ(line.pid, "4711");
  EXPECT_EQ(line.device, 3);
  EXPECT_EQ(line.text, "Using network IB");
  EXPECT_EQ(line.rank, -1);
}

TEST(LogLine, WarningsWithSourceFunctionAndTime) {
  const LogLine old =
      only("n:1:2 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error");
  EXPECT_EQ(old.kind, LineKind::kWarn);
  EXPECT_EQ(old.source, "transport/net_ib.cc:94");
  const LogLine modern =
      only("[2026-01-02 03:04:05.250] n:1:2 [0] os/linux.cc:7 (connectIt) NCCL WARN it failed");
  EXPECT_EQ(modern.source, "os/linux.cc:7");
  EXPECT_EQ(modern.time, "01-02 03:04:05.250");
  EXPECT_EQ(modern.text, "it failed");
}

TEST(LogLine, SourcesThatAreSignatures) {
  const LogLine line = only(
      "w-0:152:386 [0] ncclResult_t nccl_net_ofi_init_v6(ncclDebugLogger_t):166 NCCL WARN "
      "NET/OFI Initializing plugin failed");
  EXPECT_EQ(line.host, "w-0");
  EXPECT_EQ(line.source, "ncclResult_t nccl_net_ofi_init_v6(ncclDebugLogger_t):166");
}

TEST(LogLine, BeforeADeviceIsChosen) { EXPECT_EQ(only("n:1:1 [-1] NCCL INFO x").device, -1); }

TEST(LogLine, TheWriterIsCutOff) {
  const LogLine line = only("NCCL INFO Using network Socket");
  EXPECT_EQ(line.kind, LineKind::kInfo);
  EXPECT_EQ(line.text, "Using network Socket");
}

TEST(LogLine, PrefixesOfLaunchers) {
  EXPECT_EQ(only("[1,13]<stdout>:n:1:1 [0] NCCL INFO x").rank, 13);
  EXPECT_EQ(only("[prterun-n-88@1,4]<stderr>: n:1:1 [0] NCCL INFO x").rank, 4);
  EXPECT_EQ(only(" 3: n:1:1 [0] NCCL INFO x").rank, 3);
  EXPECT_EQ(only("3:n:1:1 [0] NCCL INFO x").host, "n");
  EXPECT_EQ(only("[rank7]:n:1:1 [0] NCCL INFO x").rank, 7);
  // torchrun's prefix has the rank on the node.
  EXPECT_EQ(only("[default7]:n:1:1 [0] NCCL INFO x").rank, -1);
  EXPECT_EQ(only("[pod/w-0/main] 2026-01-02T03:04:05.9Z w-0:1:1 [0] NCCL INFO x").host, "w-0");
}

TEST(LogLine, ColoursCarriageReturnsAndJson) {
  EXPECT_EQ(only("\x1b[1;32mn:1:1 [0] NCCL INFO Using network IB\x1b[0m\r").text, "Using network IB");
  const LogLine line = only(
      R"({"log":"[1,2]\u003cstdout\u003e:n:1:1 [0] NCCL INFO say \"x\"\r\n","stream":"stdout","time":"t"})");
  EXPECT_EQ(line.rank, 2);
  EXPECT_EQ(line.text, "say \"x\"");
}

TEST(LogLine, TwoRecordsInALine) {
  const std::vector<LogLine> lines =
      parseLine("a:1:1 [0] NCCL INFO Chan b:2:2 [1] NCCL INFO Using network IB");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "Chan");
  EXPECT_EQ(lines[1].host, "b");
  EXPECT_EQ(lines[1].text, "Using network IB");
}

TEST(LogLine, PyTorchsLines) {
  const LogLine line = only("[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog");
  EXPECT_EQ(line.kind, LineKind::kOther);
  EXPECT_EQ(line.rank, 1);
  EXPECT_EQ(line.time, "06-26 06:24:44.903881913");
}

TEST(LogLine, WhatIsNoRecord) {
  for (const char* text : {"", "NCCL INFO", " NCCL INFO ", "n:1 [0] NCCL INFO x", "n:1:1 0 NCCL INFO x",
                           ":1:1 [0] NCCL INFO x", "a NCCL WARN b NCCL INFO c"})
    EXPECT_EQ(parseLine(text).front().kind, LineKind::kOther) << text;
}

TEST(LogLine, Numbers) {
  EXPECT_EQ(numberAfter("a rank 12 b", "rank "), 12);
  EXPECT_EQ(numberAfter("a rank x", "rank "), -1);
  EXPECT_EQ(numberAfter("rank 99999999999", "rank "), -1);
}

}  // namespace
}  // namespace railwise::doctor
