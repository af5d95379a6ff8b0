
#include "doctor/log/job.h"
#include "tests/ok.h"

namespace railwise::doctor {
namespace {

TEST(Explain, TheStatusOfACompletionInAllForms) {
  for (const char* text :
       {"NET/IB : Got completion from peer 10.0.0.1<1> with error 12, opcode 0, len 0, vendor err 129",
        "NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        "NET/IB: Got completion from peer 10.0.0.1<1> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_SEND(0) vendor_err=129 "}) {
    const Explanation it = explainWarning("", text);
    EXPECT_EQ(it.check, "completion-error");
    EXPECT_EQ(it.what, "completion with status 12, transport retry counter exceeded") << text;
    EXPECT_HAS(it.why, "no acknowledgement came") << text;
    EXPECT_EQ(it.kind, EventKind::kCause);
  }
}

TEST(Explain, AFlushIsAConsequence) {
  EXPECT_EQ(explainWarning("", "NET/IB : Got completion from peer x with status=5 opcode=0").kind,
            EventKind::kConsequence);
}

TEST(Explain, KnownWarnings) {
  const std::pair<const char*, const char*> kCases[] = {
      {"Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1", "queue-pair"},
      {"Call to ibv_modify_qp failed with error Invalid argument errno 22", "queue-pair"},
      {"Call to ibv_modify_qp failed with error Network is unreachable", "queue-pair"},
      {"Call to ibv_create_qp failed", "memory-lock"},
      {"NET/OFI Initializing plugin failed", "plugin-warning"},
      {"NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129", "completion-error"},
      {"Call to ibv_create_cq failed with error Cannot allocate memory", "memory-lock"},
      {"Call to ibv_reg_mr failed with error Cannot allocate memory", "memory-lock"},
      {"Call to ibv_reg_mr_iova2 failed with error Bad address", "memory-registration"},
      {"socketPollConnect: connect to 10.0.0.1<2> failed : Connection refused", "connection-refused"},
      {"Net : Connect to 10.0.0.1<2> failed : No route to host", "connection-refused"},
      {"socketProgress: Connection closed by remote peer n1<4>", "connection-closed"},
      {"Bootstrap : no socket interface found", "socket-interface"},
      {"Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", "duplicate-gpu"},
      {"Could not find a path for pattern 4, falling back to simple order", "topology-path"},
      {"NET/IB : mlx5_0:1 Got async event : port error", "port-event"},
      {"NET/IB : mlx5_0:1 Got async error event: local catastrophic error", "port-event"},
      {"NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)", "port-event"},
      {"NET/IB : req 0/1 tag 0 peer x collective mismatch error, local size 4 remote size 8",
       "mismatched-collective"},
      {"Message truncated : received 8 bytes instead of 4", "message-truncated"},
      {"Cuda failure 2 'out of memory'", "cuda-failure"},
      {"Could not open XML topology file /x : No such file or directory", "topology-file"},
      {"Could not open XML graph file /etc/graph.xml : No such file or directory", "topology-file"},
      {"Call to ibv_create_qp failed with error Invalid argument errno 22", "verbs-call"},
      {"Call to ibv_create_qp failed with error No space left on device", "verbs-call"},
      {"Error: failed to extend /dev/shm/nccl-x to 4 bytes, error: No space left on device (28)",
       "shared-memory"},
      {"Error: network Railwise not found.", "network-not-found"},
      {"Mismatched NCCL version detected : rank 0 version 22907 rank 1 version 22105", "differ-version"},
      {"Bootstrap Root : rank 1 of 2 ranks has already checked in", "ranks-mismatch"},
  };
  for (const auto& [text, check] : kCases) EXPECT_EQ(explainWarning("f.cc:1", text).check, check) << text;
}

// NCCL goes on without a topology file, and not without a graph file.
TEST(Explain, AGraphFileThatCannotBeOpenedEndsTheJob) {
  const Explanation graph =
      explainWarning("graph/xml.cc:1257", "Could not open XML graph file /etc/graph.xml : No such file");
  EXPECT_EQ(graph.kind, EventKind::kCause);
  EXPECT_EQ(graph.fix, "unset NCCL_GRAPH_FILE");
  EXPECT_EQ(explainWarning("graph/xml.cc:9", "Could not open XML topology file /x : No such file").kind,
            EventKind::kRemark);
}

TEST(Explain, NoMemoryOfTheGpuIsNoFaultOfNvls) {
  EXPECT_EQ(explainWarning("transport/nvls.cc:411", "Cuda failure 2 'out of memory'").check, "cuda-failure");
  EXPECT_EQ(explainWarning("transport/nvls.cc:411", "Cuda failure 1 'invalid argument'").check, "nvls-setup");
}

TEST(Explain, AProgramThatIsNewerThanNccl) {
  EXPECT_HAS(
      explainWarning("dev_runtime.cc:1428",
                     "NCCL library is too old. This application was compiled with NCCL version 2.31.2, "
                     "but is running with NCCL library version 2.30.7.")
          .what,
      "newer NCCL");
}

TEST(Explain, RailwisesWarningsRepeatTheirAdvice) {
  const Explanation lost = explainWarning(
      "a.cc:1",
      "NET/Railwise : mlx5_0: connection to n2 (mlx5_0): qp 7: transport retry counter exceeded; looking "
      "for another path");
  EXPECT_EQ(lost.check, "railwise-failover");
  EXPECT_EQ(lost.kind, EventKind::kRemark);
  const std::pair<const char*, EventKind> ends[] = {
      {"connection to n2 (mlx5_0) goes on over mlx5_1 port 1 -> mlx5_1 port 1 (epoch 2)", EventKind::kRemark},
      {"connection from n2 (mlx5_0) goes on over mlx5_1 port 1 <- mlx5_1 port 1 (epoch 2)",
       EventKind::kRemark},
      {"connection to n2 (mlx5_0) goes back: a better path works again", EventKind::kHarmless},
      {"connection from n2 is closed: another path is not needed any more", EventKind::kHarmless}};
  for (const auto& [end, kind] : ends)
    EXPECT_EQ(explainWarning("a.cc:1", std::string("NET/Railwise : mlx5_0: ") + end).kind, kind) << end;
  const Explanation over =
      explainWarning("a.cc:1", "NET/Railwise : mlx5_0: connection to n2: timed out: check its log");
  EXPECT_EQ(over.check, "railwise-connection");
  EXPECT_EQ(over.kind, EventKind::kCause);
  EXPECT_HAS(over.fix, "check its log");
  EXPECT_EQ(explainWarning("a.cc:1", "NET/Railwise : something new").check, "railwise-warning");
  const Explanation missing = explainWarning(
      "a.cc:1",
      "NET/Railwise : no software device (RAILWISE_DEVICE=software): librailwise-device.so is not in /x");
  EXPECT_EQ(missing.check, "no-rdma-device");
  EXPECT_EQ(missing.kind, EventKind::kCause);
  const Explanation tuner =
      explainWarning("a.cc:1", "NET/Railwise : RAILWISE_TUNER_CONFIG: /t.csv:1:15: 'treee' is no algorithm");
  EXPECT_EQ(tuner.check, "railwise-setting");
  EXPECT_EQ(tuner.kind, EventKind::kCause);
  EXPECT_EQ(explainWarning("a.cc:1",
                           "NET/Railwise : NCCL_IB_HCA=mlx5_0,mlx5_9: no device of this machine is named "
                           "\"mlx5_9\"; there are mlx5_0")
                .kind,
            EventKind::kRemark);
  EXPECT_EQ(explainWarning("a.cc:1",
                           "NET/Railwise : mlx5_0: connection to n2: the peer closed the connection or "
                           "died with work outstanding")
                .kind,
            EventKind::kConsequence);
}

// After these the job goes on, or another rank is to blame.
TEST(Explain, WarningsOfRailwiseThatEndNothing) {
  const std::pair<const char*, const char*> kRows[] = {
      {"soft0: connection to n2 (soft1): the TCP connection beside the data has broken: data go on over "
       "RDMA, and "
       "the connection is made again (more such lines at NCCL_DEBUG=INFO)",
       "railwise-handshake"},
      {"soft0: connection to n2 (soft1): somebody sent 8 bytes over the side channel: making a new TCP "
       "connection",
       "railwise-handshake"},
      {"mlx5_0 at 10.0.0.1: peer 10.0.0.2 calls again: its earlier call was cut on the way",
       "railwise-handshake"},
      {"mlx5_0: listening on 10.0.0.1<4000> for a peer, a stranger called from 10.0.0.9: no greeting. Still "
       "waiting for the peer; further strangers are not reported",
       "railwise-handshake"},
      {"18 of 64 connections are up after 10 s; waiting for: host7 (3 ranks: nothing heard) "
       "(RAILWISE_SLOW_CONNECT=10 s; `railwise stuck` shows it live)",
       "railwise-handshake"},
      {"mlx5_0: the device failed: look for its reset or removal in `dmesg`", "port-event"},
      {"events of devices are not watched: epoll_create1 failed: Too many open files", "port-event"},
      {"mlx5_0: its asynchronous events cannot be read: Input/output error", "port-event"},
      {"mlx5_0: no memory to open it anew", "railwise-failover"},
      {"mlx5_0: its driver has not answered ibv_modify_qp for a second: nothing new is made with the device "
       "until "
       "it does: look for errors of the NIC in `dmesg`",
       "queue-pair"},
      {"mlx5_0: ibv_modify_qp refuses to stop a queue pair: Cannot allocate memory. The queue pair may still "
       "write, so its connection waits and asks again: look for errors of the NIC in `dmesg`",
       "queue-pair"},
      {"RAILWISE_GPU=9 is none of the 8 GPUs of this machine: the nearest counts", "railwise-setting"}};
  for (const auto& [line, check] : kRows) {
    const Explanation it = explainWarning("a.cc:1", std::string("NET/Railwise : ") + line);
    EXPECT_EQ(it.check, check) << line;
    EXPECT_NE(it.kind, EventKind::kCause) << line;
  }
}

TEST(Explain, WarningsOfRailwiseThatEndAJob) {
  const std::pair<const char*, const char*> kRows[] = {
      {"connect: rank 3 does not use Railwise for one-sided communication: bad handle. Every rank needs the "
       "same "
       "plugin (NCCL_NET_PLUGIN, NCCL_RMA_PLUGIN)",
       "differ-one-sided"},
      {"mlx5_0: rank 3 cannot be put to, and the group of 8 ranks fails", "railwise-connection"},
      {"mlx5_0: one-sided communication of rank 3 fails: retry exceeded", "railwise-connection"},
      {"no RDMA communication manager: librdmacm.so.1: cannot open shared object file. Install librdmacm1",
       "no-rdma-device"},
      {"mlx5_0 port 1: NCCL_IB_PKEY_VALUE=0x1 is none of the port's 2 partition keys: ask the administrator",
       "railwise-setting"}};
  for (const auto& [line, check] : kRows) {
    const Explanation it = explainWarning("a.cc:1", std::string("NET/Railwise : ") + line);
    EXPECT_EQ(it.check, check) << line;
    EXPECT_EQ(it.kind, EventKind::kCause) << line;
  }
}

TEST(Explain, NobodyKnowsTheWarning) {
  const Explanation it = explainWarning("/home/x/nccl/src/new.cc:12", "the moon is in the way");
  EXPECT_EQ(it.check, "unknown-warning");
  EXPECT_HAS(it.what, " of src/new.cc");
}

TEST(Explain, PyTorchAndLaunchers) {
  const auto watchdog = explainOther(
      "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, "
      "OpType=ALLREDUCE, NumelIn=1) ran for 600013 milliseconds");
  ASSERT_TRUE(watchdog);
  EXPECT_EQ(watchdog->check, "watchdog");
  EXPECT_HAS(watchdog->what, "too long: ALLREDUCE");
  EXPECT_EQ(explainOther("ncclRemoteError: A call failed possibly due to a network error")->check,
            "framework-error");
  EXPECT_EQ(
      explainOther("mpirun noticed that process rank 3 with PID 9 on node n exited on signal 9 (Killed)")
          ->check,
      "process-killed");
  EXPECT_FALSE(explainOther("epoch 3: loss 0.1"));
}

TEST(Explain, HowALauncherTellsThatAProcessDied) {
  const std::pair<const char*, const char*> kCases[] = {
      {"api.py:874] failed (exitcode: -9) local_rank: 2 (pid: 1002) of binary: /usr/bin/python3",
       "a rank was killed"},
      {"  traceback : Signal 11 (SIGSEGV) received by PID 1002", "crashed"},
      {"  exitcode  : -11 (pid: 1002)", "crashed"},
      {"srun: error: node00: task 3: Segmentation fault (core dumped)", "crashed"},
      {"[node00:01003] Signal: Segmentation fault (11)", "crashed"},
      {"bash: line 1: 1003 Segmentation fault      (core dumped) python train.py", "crashed"},
      {"  traceback : Signal 6 (SIGABRT) received by PID 1002", "ended itself"},
      {"slurmstepd: error: *** JOB 4242 ON node00 CANCELLED AT 2026-11-24T10:11:12 DUE TO TIME LIMIT ***",
       "time was over"},
      {"slurmstepd: error: *** STEP 4242.0 ON node01 CANCELLED AT 2026-11-24T10:11:12 DUE TO NODE FAILURE, "
       "SEE "
       "SLURMCTLD LOG FOR DETAILS ***",
       "a node failed"},
      {"srun: error: Node failure on node[01-02]", "a node failed"},
      {"slurmstepd: error: *** JOB 4242 ON node00 CANCELLED AT 2026-11-24T10:11:12 ***", "Slurm ended"},
      {"    Reason:       OOMKilled", "killed for its memory"},
      {"railwise: rank 2 (pid 16068) was killed by signal 9 (Killed)", "killed or crashed"},
      {"srun: error: node00: task 3: Out Of Memory", "killed for its memory"},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0.", "killed for its memory"}};
  for (const auto& [line, what] : kCases) {
    const auto known = explainOther(line);
    ASSERT_TRUE(known) << line;
    EXPECT_EQ(known->check, "process-killed") << line;
    EXPECT_HAS(known->what, what) << line;
  }
  EXPECT_EQ(explainOther("Fatal Python error: Bus error")->check, "shared-memory");
}

TEST(Explain, HowALauncherTellsThatNoRankBegan) {
  const std::pair<const char*, const char*> kCases[] = {
      {"There are not enough slots available in the system to satisfy the 16", "no place"},
      {"ssh: connect to host gpu-b port 22: Connection refused", "ssh"},
      {"ORTE was unable to reliably start one or more daemons.", "helper"},
      {"mpirun was unable to launch the specified application as it could not access", "program"},
      {"srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files", "PMI"},
      {"srun: error: Unable to create step for job 812: Requested node configuration is not available",
       "srun"},
      {"Warning  FailedScheduling  0/8 nodes are available: 8 Insufficient rdma/hca.", "no node"}};
  for (const auto& [line, what] : kCases) {
    const auto known = explainOther(line);
    ASSERT_TRUE(known) << line;
    EXPECT_EQ(known->check, "launcher-failed") << line;
    EXPECT_EQ(known->kind, EventKind::kCause) << line;
    EXPECT_HAS(known->what, what) << line;
  }
  for (const char* line : {"[gpu-a:01000] [[1,0],0] ORTE_ERROR_LOG: Data unpack failed in file oob_tcp.c",
                           "slurmstepd: error:  mpi/pmix_v4: pmixp_p2p_send: gpu-b [1]: send failed"}) {
    ASSERT_TRUE(explainOther(line)) << line;
    EXPECT_EQ(explainOther(line)->kind, EventKind::kConsequence) << line;
  }
  EXPECT_EQ(explainOther("nvidia-container-cli: initialization error: nvml error: driver not loaded")->check,
            "cuda-driver");
}

// The job goes on after these, or no network interface matters for them.
TEST(Explain, PluginsOfSwitchesAndClouds) {
  for (const char* line : {"NET/IB :SHARP coll init error: Cannot create SHARP job(-11)",
                           "Cannot initialize CollNet, using point-to-point network instead"}) {
    EXPECT_EQ(explainWarning("transport.cc:384", line).check, "switch-reduction") << line;
    EXPECT_EQ(explainWarning("transport.cc:384", line).kind, EventKind::kRemark) << line;
  }
  EXPECT_EQ(explainOther("[gpu-a:0:1000 - context.c:705][2025-05-26 15:39:24] ERROR SHArP Job init error: No "
                         "resource")
                ->check,
            "switch-reduction");
  const Explanation rxdm = explainWarning(
      "",
      "NET/FasTrak: rxdm connection failed: could not connect to unix socket /run/tcpx/x: Connection "
      "refused");
  EXPECT_EQ(rxdm.check, "unix-socket");
  EXPECT_LACKS(rxdm.fix, "IFNAME");
  const Explanation subnets =
      explainWarning("transport/net_ib/connect.cc:431",
                     "Warning: remote FLID configured as zero even when endpoints are "
                     "on different subnets, using dlid as fallback");
  EXPECT_EQ(subnets.check, "queue-pair");
  EXPECT_EQ(subnets.kind, EventKind::kRemark);
}

TEST(Explain, ARankThatEndedWithAnErrorIsNoCause) {
  for (const char* line :
       {"api.py:874] failed (exitcode: 1) local_rank: 2 (pid: 1002) of binary: /usr/bin/python3",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "  exitcode  : 1 (pid: 1002)",
        "srun: error: node00: task 2: Exited with exit code 1",
        "mpirun detected that one or more processes exited with non-zero status, thus causing the job to be "
        "terminated.",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD"}) {
    const auto known = explainOther(line);
    ASSERT_TRUE(known) << line;
    EXPECT_EQ(known->check, "framework-error") << line;
    EXPECT_EQ(known->kind, EventKind::kConsequence) << line;
  }
}

TEST(Explain, ErrorsOfPyTorchWithoutAnotherLine) {
  const std::string error = "torch.distributed.DistBackendError: NCCL error in: /x.cpp:77, ";
  const auto check = [](const std::string& line) {
    const auto known = explainOther(line);
    return known ? known->check + " " + known->what : "";
  };
  EXPECT_HAS(check(error + "internal error - please report this issue to the NCCL developers"),
             "ncclInternalError");
  EXPECT_HAS(check(error + "invalid usage (run with NCCL_DEBUG=WARN for details)"), "ncclInvalidUsage");
  EXPECT_HAS(check(error + "invalid argument (run with NCCL_DEBUG=WARN for details)"), "ncclInvalidArgument");
  for (const char* line :
       {"Heartbeat monitor timed out! Process will be terminated after dumping debug info.",
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress",
        "Exception (either an error or timeout) detected by watchdog at work: 5, last enqueued NCCL work: 5",
        "Some NCCL operations have failed or timed out."})
    EXPECT_HAS(check(line), "watchdog") << line;
}

TEST(Explain, PyTorchsStoreAndItsChecks) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
       "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE), but Rank 0 is running collective: ...",
       "mismatched-collective"},
      {"[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.",
       "framework-error"},
      {"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients "
       "joined.",
       "missing-ranks"},
      {"[rank2]:[E1129 03:12:44.1 socket.cpp:1019] [c10d] The client socket has timed out after 600000ms "
       "while "
       "trying to connect to (node01, 29500).",
       "connection-refused"},
      {"torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
       "address. "
       "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
       "connection-stranger"},
      {"DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
       "key-value "
       "store by key '0', but store->get('0') got error: Connection reset by peer",
       "framework-error"}};
  for (const auto& [line, check] : kCases) {
    ASSERT_TRUE(explainOther(line)) << line;
    EXPECT_EQ(explainOther(line)->check, check) << line;
  }
  // PyTorch warns of each attempt, and tries again.
  EXPECT_FALSE(
      explainOther("[W1129 03:12:44.1 socket.cpp:752] [c10d] The client socket has failed to connect to "
                   "[node01]:29500 (errno: 97 - Address family not supported by protocol)."));
}

TEST(Explain, WordsOfErrorsInWhatAProgramPrintsAreNoErrors) {
  for (const char* line :
       {"INFO: retrying after CUDA out of memory, halving batch size",
        "loading shard 3/8 ... Bus error rate = 0", "saved to /ckpt/oom_kill_guard/",
        "INFO handler for exited on signal installed", "step 100: communicator heartbeat monitor ok"})
    EXPECT_FALSE(explainOther(line)) << line;
  EXPECT_TRUE(explainOther("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."));
}

// NCCL's words in lines of others: PyTorch's "Last error:", what `railwise perf` shows, a person's copy.
TEST(Explain, WordsOfNcclWithoutItsPrefix) {
  const auto last = explainOther(
      "[rank1]: NET/IB : Got completion from peer 10.0.0.2<41000> with status=12 opcode=0 len=0 vendor err "
      "129 "
      "(Recv)");
  ASSERT_TRUE(last);
  EXPECT_EQ(last->check, "completion-error");
  EXPECT_HAS(last->what, "status 12");
  EXPECT_EQ(explainOther("transport retry counter exceeded (12)")->check, "completion-error");
  EXPECT_EQ(explainOther("Call to ibv_modify_qp failed with error Connection timed out")->check,
            "queue-pair");
  EXPECT_EQ(explainOther("Error: network Railwise not found.")->check, "network-not-found");
  EXPECT_EQ(
      explainOther("railwise: rank 3: plugin warns: NET/Railwise : soft0 port 1: link down: check the cable")
          ->check,
      "port-event");
  EXPECT_FALSE(explainOther("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"));
}

TEST(Explain, WarningsOfAwsOfiNcclAndOfRocmHaveAdviceOfTheirKind) {
  const auto fixOf = [](std::string_view source, std::string_view text) {
    return explainWarning(source, text).fix;
  };
  EXPECT_HAS(fixOf("", "NET/OFI Unable to register memory (type = 2)"), "ulimit -l");
  EXPECT_HAS(fixOf("", "NET/OFI Request 0x1 completed with error. RC: 103"), "peer");
  EXPECT_HAS(fixOf("", "NET/OFI cuMemAlloc failed"), "nvidia-smi");
  EXPECT_LACKS(fixOf("", "NET/OFI an error occurred"), "nvidia-smi");
  EXPECT_HAS(fixOf("misc/rocm_smi_wrap.cc:34", "init failure"), "rocm-smi");
  EXPECT_HAS(fixOf("misc/msccl/msccl_parser.cc:71", "name is too long"), "MSCCL");
}

}  // namespace
}  // namespace railwise::doctor
