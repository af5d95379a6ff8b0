#include "doctor/log/reading/reader.h"

#include "doctor/log/read_job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

const Process& onlyProcess(const Job& job) {
  EXPECT_EQ(job.processes.size(), 1U);
  return job.processes.front();
}

TEST(JobReader, TheNetworkThePluginAndItsNics) {
  const Job job = readJob(
      saidBy(0, {"NCCL version 2.29.7+cuda13.0", "cudaDriverVersion 13000",
                 "NET/Plugin: Loaded net plugin Railwise (v11)",
                 "NET/Railwise : Railwise 0.1.0, libibverbs: mlx5_0/RoCE mlx5_1/RoCE",
                 "NET/Railwise : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
                 "NET/Railwise : GPU Direct RDMA Disabled for HCA 1 'mlx5_1'",
                 "NET/GIN_IB_PROXY : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'", "Using network Railwise"}));
  const Process& process = onlyProcess(job);
  EXPECT_EQ(process.version.value, "2.29.7+cuda13.0");
  EXPECT_EQ(process.driver.value, "13000");
  EXPECT_EQ(process.plugin.value, "Railwise");
  EXPECT_EQ(process.plugin_api, 11);
  EXPECT_EQ(process.railwise.value, "0.1.0");
  EXPECT_EQ(process.network, "Railwise");
  ASSERT_EQ(process.nics.size(), 2U);
  EXPECT_EQ(process.nics[1].name + " " + process.nics[1].link, "mlx5_1 RoCE");
  EXPECT_EQ(gpuDirectCount(process).enabled, 1U);
  EXPECT_EQ(gpuDirectCount(process).all, 2U);
}

TEST(JobReader, NicsOfNetIb) {
  const Job job =
      readJob(saidBy(0, {"NET/IB : Using [0]mlx5_0:1/IB [1]={[0] mlx5_1:1/RoCE, [1] mlx5_2:1/RoCE} [RO]; OOB "
                         "eth0:10.0.0.7<0>"}));
  const Process& process = onlyProcess(job);
  std::string names;
  for (const Nic& nic : process.nics) names += nic.name + "/" + nic.link + " ";
  EXPECT_EQ(names, "mlx5_0:1/IB mlx5_1:1/RoCE mlx5_2:1/RoCE ");
  ASSERT_EQ(process.interfaces.size(), 1U);
  EXPECT_EQ(process.interfaces[0].address, "10.0.0.7");
}

// How each release says that it has not found a plugin.
TEST(JobReader, PluginsThatWereNotFound) {
  const char* const kMissing = "cannot open shared object file: No such file or directory";
  for (const std::string& line :
       {std::string("NET/Plugin : No plugin found (libx.so), using internal implementation"),
        std::string("NET/Plugin : Plugin load (libx.so) returned 2 : libx.so: ") + kMissing,
        std::string("NET/Plugin : dlerror=libx.so: ") + kMissing +
            " No plugin found (libx.so), using internal",
        std::string("NET/Plugin: No plugin found (libx.so)"),
        std::string("NET/Plugin: Plugin load returned 2 : libx.so: ") + kMissing + " : when loading libx.so",
        std::string("NET/Plugin: Could not find: libx.so. Using internal network plugin."),
        std::string("NET/Plugin: Could not find: libx.so")}) {
    const Job job = readJob(saidBy(0, {line}));
    ASSERT_EQ(onlyProcess(job).attempts.size(), 1U) << line;
    EXPECT_EQ(onlyProcess(job).attempts[0].name, "libx.so") << line;
    EXPECT_EQ(onlyProcess(job).attempts[0].reason, "") << line;
  }
}

TEST(JobReader, PluginsThatCannotBeLoaded) {
  for (const std::string line :
       {"NET/Plugin: libx.so: undefined symbol: ibv_reg_dmabuf_mr",
        "NET/Plugin: Plugin load returned 0 : libx.so: undefined symbol: ibv_reg_dmabuf_mr : when loading "
        "libx.so",
        "NET/Plugin : Plugin load (libx.so) returned 22 : libx.so: undefined symbol: ibv_reg_dmabuf_mr",
        "NET/Plugin: libx.so: libx.so: undefined symbol: ibv_reg_dmabuf_mr"}) {
    const Job job = readJob(saidBy(0, {line}));
    ASSERT_EQ(onlyProcess(job).attempts.size(), 1U) << line;
    EXPECT_EQ(onlyProcess(job).attempts[0].name, "libx.so") << line;
    EXPECT_HAS(onlyProcess(job).attempts[0].reason, "undefined symbol") << line;
  }
}

TEST(JobReader, Settings) {
  const Job job = readJob(saidBy(
      0, {"NCCL_IB_TIMEOUT set by environment to 22.", "NCCL_IB_HCA set to mlx5_0",
          "NET/Plugin: Plugin name set by env to railwise", "TUNER/Plugin: Plugin name set by env to other",
          "Comm config netName reset to NCCL_NET=Railwise", "NET/Railwise : RAILWISE_FAILOVER set to 0"}));
  const Process& process = onlyProcess(job);
  EXPECT_EQ(process.settings.at("NCCL_IB_TIMEOUT").value, "22");
  EXPECT_EQ(process.settings.at("NCCL_IB_HCA").value, "mlx5_0");
  EXPECT_EQ(process.settings.at("NCCL_NET_PLUGIN").value, "railwise");
  EXPECT_EQ(process.settings.at("NCCL_NET").value, "Railwise");
  EXPECT_EQ(process.settings.at("RAILWISE_FAILOVER").value, "0");
}

TEST(JobReader, ConnectionsAreCountedByWay) {
  const Job job = readJob(saidBy(0, {"Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/3/GDRDMA/Shared",
                                     "Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/3",
                                     "Channel 00/1 : 1[1b000] -> 0[2b000] [receive] via NET/AWS Libfabric/0",
                                     "Channel 00 : 0[0] -> 1[1] via P2P/IPC/read", "Channel 00/04 : 0 1 2 3",
                                     "Channel 01 : 0[0] -> 1[1] via SHM/direct/direct"}));
  const auto& connections = onlyProcess(job).connections;
  ASSERT_EQ(connections.size(), 4U);
  EXPECT_EQ(connections.at("NET/IB/3").number, 2U);
  EXPECT_EQ(connections.at("NET/IB/3").gpu_direct, 1U);
  EXPECT_EQ(connections.at("NET/AWS Libfabric/0").number, 1U);
  EXPECT_EQ(connections.at("P2P/IPC").number, 1U);
  EXPECT_EQ(connections.at("SHM/direct").number, 1U);
}

TEST(JobReader, CommunicatorsOfAllForms) {
  for (const char* line : {"comm 0x55 rank 3 nranks 8 cudaDev 3 busId 1b000 - Init COMPLETE",
                           "ncclCommInitRankConfig comm 0x55 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 "
                           "commId 0x9 - Init COMPLETE",
                           "[Rank 3] ncclCommInitRank comm 0x55 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1 "
                           "commId 0x9 - Init COMPLETE"}) {
    const Job job = readJob(saidBy(0, {line}));
    const Ranks ranks(job, 0);
    EXPECT_EQ(ranks.size(), 8) << line;
    EXPECT_EQ(ranks.label(0), "rank 3 (node0)") << line;
    EXPECT_TRUE(onlyProcess(job).inits.front().complete) << line;
  }
}

TEST(JobReader, AProcessMayHaveSeveralRanks) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank)
    text += "n:7:7 [" + std::to_string(rank) + "] NCCL INFO " + initLine(rank, 4, "COMPLETE") + "\n";
  const Job job = readJob(text);
  EXPECT_EQ(Ranks(job, 0).label(0), "ranks 0-3 (n)");
}

TEST(JobReader, ARecordGluedToAnotherLine) {
  const Job job = readJob(
      "b:2:2 [0] NCCL INFO cudaDriverVersion 13000\n"
      "a:1:1 [0] NCCL INFO Channel 0b:2:2 [0] NCCL INFO Using network IB\n");
  ASSERT_EQ(job.processes.size(), 2U);
  EXPECT_EQ(job.processes[0].network, "IB");
}

TEST(JobReader, TheAlgorithmsOfCollectives) {
  const Job job = readJob(saidBy(0, {"AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
                                     "AllReduce: 16 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"}));
  EXPECT_EQ(onlyProcess(job).algorithms.at("AllReduce RING LL"), 2U);
}

TEST(JobReader, PyTorchsInformationIsNoError) {
  EXPECT_TRUE(readJob("[rank0]:[I1124 10:11:12.9 ProcessGroupNCCL.cpp:9] Heartbeat monitor timed out!\n")
                  .events.empty());
  EXPECT_EQ(readJob("[rank0]:[E1124 10:11:12.9 ProcessGroupNCCL.cpp:9] Heartbeat monitor timed out!\n")
                .events.size(),
            1U);
}

TEST(JobReader, AnExceptionNamesTheVersionToo) {
  const Job job = readJob(
      "[rank0]: DistBackendError: NCCL error in: x.cpp:9, unhandled system error, NCCL version 2.21.5\n");
  EXPECT_EQ(job.version.value, "2.21.5");
  EXPECT_EQ(job.events.size(), 1U);
}

// The name of the error tells nothing; the line behind "Last error:", of that rank, is the cause.
TEST(JobReader, PyTorchsLastErrorIsTheCause) {
  const auto told = [](const std::string& cause) {
    return readJob(
        "[rank3]: ncclUnhandledCudaError: Call to CUDA function failed.\n"
        "[rank3]: Last error:\n"
        "[rank2]: step 7, loss 2.1\n" +
        cause);
  };
  const Job job = told("[rank3]: Cuda failure 2 'out of memory'\n");
  ASSERT_EQ(job.events.size(), 2U);
  EXPECT_EQ(job.events[0].check, "framework-error");
  EXPECT_EQ(job.events[1].what, "a GPU has no memory left");
  EXPECT_EQ(judged(job).all()[0].check, "cuda-failure");
  EXPECT_EQ(told("[rank3]: Duplicate GPU detected : rank 1 and rank 0\n").events[1].check, "duplicate-gpu");
  EXPECT_EQ(told("[rank3]: step 8, loss 2.0\n[rank3]: Duplicate GPU detected\n").events.size(), 1U);
}

TEST(JobReader, AlikeWarningsAreCounted) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text +=
        "n:1:1 [0] x.cc:1 NCCL WARN NET/IB : Got completion from peer 1.2.3.4<5> with status=12 opcode=0\n";
  const Job job = readJob(text);
  ASSERT_EQ(job.events.size(), 1U);
  EXPECT_EQ(job.events[0].repeated, 999U);
}

// Of `railwise perf --verbose`: what the plugin says at INFO is no warning, whatever words it holds.
TEST(JobReader, WhatThePluginSaysToOurToolsIsNoWarning) {
  const std::string said =
      "NET/Railwise : soft0: connection to vm:7: sends ..64 B inline\n"
      "railwise: rank 0: plugin%: NET/Railwise : soft0 port 1: link down: check the cable\n";
  const auto with = [&](const std::string& how) {
    std::string text = "railwise: rank 0: plugin%: " + said;
    for (std::size_t at = 0; (at = text.find('%')) != std::string::npos;) text.replace(at, 1, how);
    return readJob(text);
  };
  EXPECT_TRUE(with("").events.empty());
  EXPECT_FALSE(with(" warns").events.empty());
}

TEST(JobReader, ALineOfALogIsNoRowOfNcclTests) {
  const auto row = [](const char* line) { return readJob(line).files[0].last_result; };
  EXPECT_EQ(row("     8388608       2097152     float     sum      -1    132.4   63.36  118.80      0\n"),
            1U);
  EXPECT_EQ(row("2026-11-28 22:10:11,123 INFO rank 3 waits for the next batch of data\n"), 0U);
  EXPECT_EQ(row("12 34 waiting for 5 of the 8 ranks of node7 here\n"), 0U);
}

TEST(JobReader, WhoDiedByTheNumberOfItsProcess) {
  const std::string two = "node1:2000:1 [0] NCCL INFO x\nnode2:2001:1 [0] NCCL INFO x\n";
  const auto hostOf = [&](const std::string& line) {
    const Job job = readJob(line + "\n" + two);
    const int process = job.events.at(0).process;
    return process < 0 ? std::string() : job.processes[static_cast<std::size_t>(process)].host;
  };
  for (const char* line :
       {"[ 1.0] python3[2001]: segfault at 10 ip 00007f2a3c4d5e6f sp 00007ffd00000000 error 4 in "
        "libnccl.so.2",
        "[node2:02001] Signal: Segmentation fault (11)", "  exitcode  : -9 (pid: 2001)",
        "api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 2001) of binary: /usr/bin/python3",
        "[ 1.0] Out of memory: Killed process 2001 (python3) total-vm:1kB",
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=2001, name=python, GPU has fallen off the bus."})
    EXPECT_EQ(hostOf(line), "node2") << line;
  EXPECT_EQ(hostOf("[ 1.0] python3[2002]: segfault at 10 ip 0 sp 0 error 4 in libc.so.6"), "");
  EXPECT_EQ(hostOf("node3:2001:1 [0] NCCL INFO x\n[ 1.0] python3[2001]: segfault at 10 ip 0"), "")
      << "two have it";
}

// NCCL up to 2.26 prints its version without host and process.
TEST(JobReader, AVersionIsOfTheOnlyProcessOfItsFile) {
  JobReader reader;
  for (const char* number : {"2.21.5", "2.19.3"}) {
    reader.beginFile(number);
    reader.line("node" + std::string(number) + ":7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>");
    reader.line("NCCL version " + std::string(number) + "+cuda12.4");
  }
  reader.beginFile("both");
  reader.line("node1:8:8 [0] NCCL INFO x");
  reader.line("node1:9:9 [0] NCCL INFO x");
  reader.line("NCCL version 2.20.1+cuda12.4");
  const Job job = reader.take();
  ASSERT_EQ(job.processes.size(), 4U);
  EXPECT_EQ(job.processes[0].version.value, "2.21.5+cuda12.4");
  EXPECT_EQ(job.processes[1].version.value, "2.19.3+cuda12.4");
  EXPECT_EQ(job.processes[2].version.value, "");
}

TEST(JobReader, TheRankInTheReportOfTorchrun) {
  const Job job = readJob(
      "[0]:\n  host      : node02\n  rank      : 3 (local_rank: 1)\n  exitcode  : -9 (pid: 2001)\n"
      "  traceback : Signal 9 (SIGKILL) received by PID 2001\n");
  ASSERT_EQ(job.events.size(), 1U);
  EXPECT_EQ(job.events[0].rank, 3);
  JobReader reader;  // the next file is of other processes
  reader.beginFile("a");
  reader.line("  rank      : 3 (local_rank: 1)");
  reader.line("Traceback (most recent call last):");
  reader.beginFile("b");
  reader.line("ValueError: nobody has a traceback");
  reader.line("exitcode  : -9 (pid: 7)");
  const Job next = reader.take();
  ASSERT_EQ(next.events.size(), 1U);
  EXPECT_EQ(next.events[0].rank, -1);
}

// What a job's log shows of an exception: "RANK CHECK KIND" of each event.
std::string exceptionsOf(const std::string& text) {
  std::string all;
  for (const Event& event : readJob(text).events)
    all += (all.empty() ? "" : ", ") + std::to_string(event.rank) + " " + event.check +
           (event.kind == EventKind::kCause ? "" : " (a consequence)");
  return all;
}

TEST(JobReader, TheExceptionThatEndsATraceback) {
  const std::string begin = "Traceback (most recent call last):\n";
  const std::pair<std::string, const char*> kCases[] = {
      {"[rank3]: " + begin +
           "[rank3]:   File \"/w/t.py\", line 8, in <module>\n[rank3]: ValueError: loss is nan\n",
       "3 program-error"},
      {begin + "  File \"/w/t.py\", line 8, in <module>\n    raise ValueError\nValueError\n",
       "-1 program-error"},
      // srun --label, and another rank's output within.
      {"2: " + begin +
           "1: Loss: 3\n1: ValueError: not of rank 2\n2:     main()\n2: FileNotFoundError: [Errno 2] x\n",
       "2 program-error"},
      // The container runtime's time is another one in each line.
      {"2026-11-29T03:12:44.1Z stderr F " + begin + "2026-11-29T03:12:45.9Z stderr F my.pkg.OddError: x\n",
       "-1 program-error"},
      {"  rank      : 2 (local_rank: 0)\n  traceback : " + begin +
           "    File \"/w/t.py\", line 8, in f\n  ValueError: x\n",
       "2 program-error"},
      {"[rank0]: OSError: [Errno 28] No space left on device: '/ckpt/7'\n", "0 program-error"},
      {"[rank3]: RuntimeError: No CUDA GPUs are available\n", "3 cuda-failure"},
      {"[rank1]: " + begin + "[rank1]: KeyboardInterrupt\n", "1 framework-error (a consequence)"},
      {"[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator\n",
       "1 framework-error (a consequence)"},
      {"[rank1]: RuntimeError: NCCL Error 2: unknown\n", "1 framework-error (a consequence)"},
      {"Exception ignored in: <function X.__del__ at 0x7>\n" + begin +
           "AssertionError: can only test a child process\n",
       ""},
      {"[rank0]:W1129 03:12:44.1 990 torch/x.py:7] " + begin +
           "[rank0]:W1129 03:12:44.2 990 torch/x.py:7] OddError: x\n",
       ""},
      {"ValueError: nobody has a traceback\nstep 3: Error: x\n", ""},
      {begin + "loading: done\nepoch 3\n", ""}};
  for (const auto& [text, events] : kCases) EXPECT_EQ(exceptionsOf(text), events) << text;
}

}  // namespace
}  // namespace railwise::doctor
