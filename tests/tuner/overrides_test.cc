// The CSV file of overrides: what it accepts, and where a mistake is.
#include <sys/stat.h>

#include "tests/ok.h"
#include "tests/scratch.h"
#include "tuner/tuner.h"

namespace railwise::tuner {
namespace {

Override makeRow(const std::string& line) {
  const OverrideFile file = parseOverrides(line + "\n", "t.csv");
  EXPECT_EQ(file.mistakes, std::vector<std::string>());
  EXPECT_EQ(file.overrides.size(), 1U);
  return file.overrides.empty() ? Override{} : file.overrides.front();
}

// The only mistake of the text.
std::string mistakeOf(const std::string& text) {
  const OverrideFile file = parseOverrides(text, "t.csv");
  EXPECT_EQ(file.mistakes.size(), 1U) << text;
  EXPECT_TRUE(file.overrides.empty()) << "a file with a mistake gives nothing";
  return file.mistakes.empty() ? "" : file.mistakes.front();
}

TEST(Overrides, ARowIsTheColumnsOfNcclsExample) {
  const Override row = makeRow("allreduce,0,65536,tree,ll128,2,1,8,3,1");
  EXPECT_EQ(row.line, 1);
  EXPECT_EQ(row.collective, Collective::kAllReduce);
  EXPECT_EQ(row.min_bytes, 0U);
  EXPECT_EQ(row.max_bytes, 65536U);
  EXPECT_EQ(row.algorithm, Algorithm::kTree);
  EXPECT_EQ(row.protocol, Protocol::kLl128);
  EXPECT_EQ(row.channels, 2);
  EXPECT_EQ(row.nodes, 1);
  EXPECT_EQ(row.ranks, 8);
  EXPECT_EQ(row.pipe_ops, 3);
  EXPECT_EQ(row.registered, 1);
}

TEST(Overrides, ColumnsThatAreMissingOrEmptyFitEverything) {
  for (const char* text :
       {"allgather,0,4294967295,ring,simple,-1,-1,-1", "allgather,0,4294967295,ring,simple,-1,-1,-1,,",
        "allgather,0,4294967295,ring,simple,-1,-1,-1,-1,-1"}) {
    const Override row = makeRow(text);
    EXPECT_EQ(row.channels, kAny);
    EXPECT_EQ(row.nodes, kAny);
    EXPECT_EQ(row.ranks, kAny);
    EXPECT_EQ(row.pipe_ops, kAny);
    EXPECT_EQ(row.registered, kAny);
  }
}

TEST(Overrides, EveryWordIsRead) {
  for (const char* collective : {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"})
    EXPECT_STREQ(nameOf(makeRow(std::string(collective) + ",0,1,ring,ll,-1,-1,-1").collective), collective);
  for (const char* algorithm :
       {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"})
    EXPECT_STREQ(nameOf(makeRow("allreduce,0,1," + std::string(algorithm) + ",ll,-1,-1,-1").algorithm),
                 algorithm);
  for (const char* protocol : {"ll", "ll128", "simple"})
    EXPECT_STREQ(nameOf(makeRow("allreduce,0,1,ring," + std::string(protocol) + ",-1,-1,-1").protocol),
                 protocol);
}

TEST(Overrides, CommentsEmptyLinesAHeaderAndWhatSpreadsheetsWrite) {
  const OverrideFile file = parseOverrides(
      "\xef\xbb\xbf# ours\r\n\r\n"
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\r\n"
      "  allreduce , 0,\t1024 ,ring,simple,4,-1,-1,-1,-1\r\n"
      "broadcast,0,1,ring,ll,-1,-1,-1",
      "t.csv");
  EXPECT_EQ(file.mistakes, std::vector<std::string>());
  ASSERT_EQ(file.overrides.size(), 2U);
  EXPECT_EQ(file.overrides[0].line, 4);
  EXPECT_EQ(file.overrides[0].max_bytes, 1024U);
  EXPECT_EQ(file.overrides[1].line, 5);
}

TEST(Overrides, AMistakeNamesFileLineColumnAndWhatToWrite) {
  EXPECT_EQ(mistakeOf("allreduce,0,1,ring,ll,-1,-1,-1\nallreduce,0,1,treee,ll,-1,-1,-1\n"),
            "t.csv:2:15: 'treee' is no algorithm: write tree, ring, collnet_direct, collnet_chain, nvls, "
            "nvls_tree or pat");
  EXPECT_EQ(mistakeOf("all_reduce,0,1,ring,ll,-1,-1,-1"),
            "t.csv:1:1: 'all_reduce' is no collective: write broadcast, reduce, allgather, reducescatter or "
            "allreduce");
  EXPECT_EQ(mistakeOf("allreduce,0,1,ring, LL,-1,-1,-1"),
            "t.csv:1:21: 'LL' is no protocol: write ll, ll128 or simple");
  EXPECT_EQ(mistakeOf("allreduce,0,64K,ring,ll,-1,-1,-1"),
            "t.csv:1:13: '64K' is no number for max_bytes: write the bytes with digits only, 65536");
  EXPECT_EQ(mistakeOf("allreduce,2,1,ring,ll,-1,-1,-1"),
            "t.csv:1:13: max_bytes is less than min_bytes, so no size fits: exchange them");
  EXPECT_EQ(mistakeOf("allreduce,0,1,ring,ll,0,-1,-1"),
            "t.csv:1:23: '0' is no value of channels: write 1 to 64, or -1 for NCCL's own number");
  EXPECT_EQ(mistakeOf("allreduce,0,1,ring,ll,65,-1,-1"),
            "t.csv:1:23: '65' is no value of channels: write 1 to 64, or -1 for NCCL's own number");
  EXPECT_EQ(mistakeOf("allreduce,0,1,ring,ll,-1,-2,-1"),
            "t.csv:1:26: '-2' is no value of nNodes: write 1 or more, or -1 for any");
  EXPECT_EQ(mistakeOf("allreduce,0,1,ring,ll,-1,-1,-1,1,2"),
            "t.csv:1:34: '2' is no value of regBuff: write 0 to 1, or -1 for any");
}

TEST(Overrides, TheNumberOfColumnsIsChecked) {
  EXPECT_EQ(
      mistakeOf("allreduce,0,1,ring,ll,-1,-1"),
      "t.csv:1:26: a row has 8 to 10 columns, this one has 7: write "
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff");
  EXPECT_HAS(mistakeOf("allreduce,0,1,ring,ll,-1,-1,-1,1,1,1"),
             "t.csv:1:36: a row has 8 to 10 columns, this one has 11");
}

TEST(Overrides, AHeaderIsTheFirstRowOrAMistake) {
  const std::string header =
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n";
  EXPECT_TRUE(parseOverrides(header, "t.csv").mistakes.empty());
  EXPECT_FALSE(parseOverrides("broadcast,0,1,ring,ll,-1,-1,-1\n" + header, "t.csv").mistakes.empty());
}

TEST(Overrides, EveryMistakeIsTold) {
  const OverrideFile file = parseOverrides("x,y,1,z,ll,-1,-1,-1\nallreduce,0,1,ring,ll,a,-1,-1\n", "t.csv");
  EXPECT_EQ(file.mistakes.size(), 4U);
}

TEST(Overrides, BytesOfAStrangeFileDoNotReachTheTerminal) {
  const std::string mistake = mistakeOf("\x1b[31mred\x80" + std::string(100, 'x') + ",0,1,ring,ll,-1,-1,-1");
  for (const char c : mistake) EXPECT_TRUE(c >= ' ' && c < 127);
  EXPECT_LT(mistake.size(), 200U);
}

TEST(Overrides, CollnetChannelsAreRefused) {
  EXPECT_EQ(mistakeOf("allreduce,0,1,collnet_chain,simple,2,-1,-1"),
            "t.csv:1:36: NCCL does not check the channels of collnet algorithms, and could crash: write -1");
  makeRow("allreduce,0,1,collnet_chain,simple,-1,-1,-1");
}

TEST(Overrides, AFileThatCannotBeReadHasOneMistake) {
  const test::Scratch scratch;
  EXPECT_EQ(readOverrides("/no/such.csv").mistakes,
            std::vector<std::string>{"/no/such.csv: cannot be opened: No such file or directory"});
  const std::string folder = std::filesystem::path(scratch.file("a/b", "")).parent_path().string();
  EXPECT_EQ(readOverrides(folder).mistakes, std::vector<std::string>{folder + ": is not a regular file"});
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(readOverrides(pipe).mistakes, std::vector<std::string>{pipe + ": is not a regular file"});
  const std::string large = scratch.file("large.csv", std::string((1 << 20) + 1, '#'));
  EXPECT_EQ(readOverrides(large).mistakes.size(), 1U);
  const std::string good = scratch.file("good.csv", "allreduce,0,1,ring,ll,-1,-1,-1\n");
  EXPECT_EQ(readOverrides(good).overrides.size(), 1U);
  EXPECT_TRUE(readOverrides(scratch.file("empty.csv", "")).mistakes.empty());
}

// NCCL's own table of what a collective can use, src/graph/tuning.cc.
TEST(Overrides, NcclHasNoTreeButForAllReduce) {
  EXPECT_TRUE(ncclHas(Collective::kAllReduce, Algorithm::kTree, Protocol::kLl128));
  EXPECT_FALSE(ncclHas(Collective::kBroadcast, Algorithm::kTree, Protocol::kSimple));
  EXPECT_FALSE(ncclHas(Collective::kReduceScatter, Algorithm::kTree, Protocol::kSimple));
  EXPECT_TRUE(ncclHas(Collective::kAllGather, Algorithm::kPat, Protocol::kSimple));
  EXPECT_FALSE(ncclHas(Collective::kAllReduce, Algorithm::kPat, Protocol::kSimple));
  EXPECT_FALSE(ncclHas(Collective::kAllReduce, Algorithm::kNvls, Protocol::kLl));
}

}  // namespace
}  // namespace railwise::tuner
