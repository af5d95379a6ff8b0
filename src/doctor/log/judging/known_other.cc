// Lines of PyTorch, of Python's exceptions and of launchers that tell of NCCL's errors.
#include "doctor/log/judging/known_line.h"

namespace railwise::doctor {
namespace {

constexpr char kMemoryFix[] =
    "report it to the program's authors: a buffer was freed or registered anew while in use";

// The error statuses of completions (ibv_wc_status), which NCCL prints as numbers.
constexpr KnownStatus kStatuses[] = {
    {1, kCause, "local length error", "A message is larger than the receive that was posted for it.",
     "compare the counts that the ranks call with"},
    {2, kCause, "local queue pair operation error", "The NIC refuses a request of its own side.",
     "dmesg | grep -i mlx5"},
    {4, kCause, "local protection error",
     "The NIC may not touch the memory that it was given: freed, or not registered; with GPUDirect often ACS "
     "or the IOMMU.",
     kMemoryFix},
    {5, kConsequence, "work request flushed",
     "The queue pair was already broken: an earlier completion names the reason.",
     "look for the first completion with another status"},
    {9, kCause, "remote invalid request",
     "The other NIC refuses the request: its receive is smaller, or its queue pair does not allow it.",
     "compare NCCL versions and plugins of the two nodes"},
    {10, kCause, "remote access error",
     "The other NIC may not touch that memory: the peer freed it or died; with GPUDirect often ACS or the "
     "IOMMU.",
     "look at the peer's log\nexport NCCL_NET_GDR_LEVEL=LOC  # if it helps: turn off ACS and the IOMMU"},
    {11, kCause, "remote operation error", "The other NIC failed with the request.",
     "look at the peer's log and dmesg"},
    {12, kCause, "transport retry counter exceeded",
     "The peer's NIC does not answer: a cable, a switch or the peer's node is gone, or packets are dropped "
     "(on RoCE: PFC or ECN, the GID, the MTU).",
     "ibstat; mstlink -d {PCI_address} -m  # package mstflint, or NVIDIA's mlxlink; on both nodes: symbol "
     "errors\n"
     "ib_write_bw -d <device> <peer>  # between the two nodes; on RoCE: ibv_devinfo -v, NCCL_IB_GID_INDEX, "
     "PFC on the switch\n"
     "export NCCL_IB_TIMEOUT=22  # only if the fabric is known to be slow for a moment\n"
     "export NCCL_NET_PLUGIN=railwise NCCL_NET=Railwise  # the job goes on over the other NICs"},
    {13, kCause, "receiver-not-ready retry counter exceeded",
     "The peer posts no receives: its process is stopped, swapping or out of memory.",
     "look at the peer's node: top, dmesg"},
};

constexpr char kEarlier[] = "Another rank, or an earlier line of this one, has the reason.";
constexpr char kEndedWhy[] =
    "The program gave up; as a rule an exception of Python, or NCCL's warning, says why.";
constexpr char kEndedFix[] = "look at the first Traceback and the first warning of NCCL";
constexpr char kTraceFix[] = "export PYTHONFAULTHANDLER=1; ulimit -c unlimited  # who called";
constexpr char kCrashFix[] =
    "dmesg | grep -i segfault\nexport PYTHONFAULTHANDLER=1; ulimit -c unlimited  # who called";
constexpr char kWatchdogWhy[] =
    "One rank did not come to this collective, or the network stands still: the ranks that report nothing, "
    "or a lower number, are the ones to look at.";
constexpr char kWatchdogFix[] =
    "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1  # the flight recorder tells who "
    "was missing\n"
    "py-spy dump --pid <the rank that reports nothing>";

constexpr char kStoreWhy[] =
    "Ranks were never started or have ended, MASTER_ADDR or MASTER_PORT differs between nodes, or a firewall "
    "stands between a node and MASTER_ADDR.";
constexpr char kStoreFix[] =
    "nc -vz $MASTER_ADDR $MASTER_PORT  # on each node, while the job starts\n"
    "echo $WORLD_SIZE $MASTER_ADDR $MASTER_PORT  # in each rank: equal everywhere?";

constexpr char kSlotsWhy[] = "The launcher may start fewer processes on the hosts than the job asks for.";
constexpr char kDaemonWhy[] =
    "mpirun's helper does not start on a host: ssh does not get there without a password, the host lacks "
    "Open "
    "MPI under that path, or a firewall drops the helper's connection.";
constexpr char kDaemonFix[] =
    "ssh <the host> which orted prted  # from the first host, without a password: is it found?\n"
    "mpirun --prefix <Open MPI's folder> --mca plm_base_verbose 5 ...  # who does not answer\n"
    "mpirun --mca oob_tcp_if_include <interface> ...  # the interface that all hosts share";
constexpr char kGpuContainerFix[] =
    "nvidia-smi  # on the host: does the driver run?\n"
    "nvidia-ctk runtime configure; docker run --gpus all ...  # Kubernetes: limits nvidia.com/gpu";

constexpr KnownLine kOtherLines[] = {
    // Launchers, container runtimes and Kubernetes: no rank has begun.
    {"are not enough slots available|odes which are allocated for this job are already filled",
     "launcher-failed", kCause, "mpirun has no place for so many ranks", kSlotsWhy,
     "mpirun -np <fewer>, or -H host1:8,host2:8  # slots of each host\n"
     "sbatch --ntasks-per-node=8  # in a job of Slurm; mpirun counts its tasks"},
    {"ssh: connect to host|ssh: Could not resolve hostname|Host key verification failed|Permission denied "
     "(publickey",
     "launcher-failed", kCause, "ssh does not get to a host of the job",
     "mpirun and others start their ranks by ssh: no sshd answers there, or the key or the host is not "
     "known.",
     "ssh <the host> true  # from the host that launches, without a password"},
    {"unable to reliably start one or more daemons|has lost communication with a remote daemon|An ORTE "
     "daemon "
     "has unexpectedly failed|A PRTE daemon has unexpectedly failed|unable to complete a TCP connection",
     "launcher-failed", kCause, "mpirun cannot start its helper on a host of the job", kDaemonWhy,
     kDaemonFix},
    {"mpirun was unable to launch|mpirun was unable to find|mpirun could not find&executable|execvp error on "
     "file",
     "launcher-failed", kCause, "mpirun cannot start the program on a host",
     "The program is not at that path on every host, or may not be run.",
     "ssh <the host> ls -l <the program>"},
    {"not built with&PMI support", "launcher-failed", kCause,
     "srun starts an MPI that does not know Slurm's PMI", "Each rank then runs alone, or none does.",
     "srun --mpi=list; srun --mpi=pmix ...  # or mpirun in sbatch"},
    {"srun: error&mpi/pm|srun: error&MPI plugin|srun: error&mpi plugin|srun: error&MPI type|srun: error&mpi "
     "context|srun: error&specified plugin name for mpi",
     "launcher-failed", kCause, "srun cannot load its plugin for MPI (PMI, PMIx)",
     "Slurm was built without it, or its library is missing on a host.",
     "srun --mpi=list\nldconfig -p | grep pmix  # on the host"},
    {"srun: error&Unable to create step|srun: error&Unable to allocate resources|srun: error&Unable to "
     "confirm "
     "allocation|srun: error&launch failed|srun: error&Task launch for",
     "launcher-failed", kCause, "srun could not start the ranks", "The end of the line says why.",
     "scontrol show job $SLURM_JOB_ID; sinfo -N -l  # what the job has, and what srun asks for\n"
     "env | grep SLURM_  # left over from an outer job: SLURM_MEM_PER_CPU, SLURM_NODELIST"},
    {"slurmstepd: error&pmix|ORTE_ERROR_LOG|PRTE ERROR|PMIX ERROR|PMIx_Init failed|MPI_INIT failed|orte_init "
     "failed",
     "launcher-failed", kConsequence, "the launcher's own communication (PMIx, ORTE) fails",
     "As a rule a host of the job cannot be reached, or a rank has ended.",
     "look at the launcher's lines before and after"},
    {"FailedScheduling&nodes are available", "launcher-failed", kCause,
     "Kubernetes finds no node for a pod of the job",
     "The line names what is missing: nodes with that resource are full, or their device plugin does not "
     "run.",
     "kubectl describe node <node> | grep -A12 Allocatable  # has it the resource in the line?\n"
     "kubectl get pods -A | grep -i device-plugin"},
    {"FailedCreatePodSandBox|UnexpectedAdmissionError|ErrImagePull|ImagePullBackOff|FailedMount",
     "launcher-failed", kCause, "Kubernetes cannot start a pod of the job", "The line says why.",
     "kubectl describe pod <pod>"},
    {"nvidia-container-cli&error|nvidia-container-cli&unsatisfied|could not select device driver",
     "cuda-driver", kCause, "the container runtime cannot give the container its GPUs",
     "The driver is not loaded on the host, its libraries are missing or older than the image wants, or "
     "NVIDIA's container toolkit is not installed.",
     kGpuContainerFix},
    {"fi_getinfo: provider efa output empty list", "plugin-warning", kRemark,
     "libfabric's provider for EFA finds no device",
     "EFA's driver or device is missing, or another library has it.",
     "fi_info -p efa; ls /dev/infiniband  # on the host, then in the container\nlsmod | grep efa"},
    {"SHArP Job init error|sharp_get_job_data_len failed|sharp_create_job failed|No Aggregation Manager",
     "switch-reduction", kRemark, "the library of SHARP gets no job from the aggregation manager",
     "sharp_am does not run, does not answer, or has given all trees to other jobs; NCCL does without.",
     "sharp_hello -d <NIC>:1; systemctl status sharp_am  # the latter where the subnet manager runs"},
    {"Watchdog caught collective operation timeout|Caught collective operation timeout", "watchdog",
     kConsequence, "PyTorch's watchdog ended a collective that took too long", kWatchdogWhy, kWatchdogFix},
    {"Exception (either an error or timeout) detected by watchdog|Some NCCL operations have failed or timed "
     "out",
     "watchdog", kConsequence, "PyTorch's watchdog saw an error, or a collective that took too long",
     kWatchdogWhy, kWatchdogFix},
    {"eartbeat monitor timed out|watchdog got stuck|watchdog hang", "watchdog", kConsequence,
     "PyTorch's watchdog itself hangs", "A call of CUDA or NCCL does not return.", kWatchdogFix},
    {"ncclRemoteError|remote process exited or there was a network error", "framework-error", kConsequence,
     "NCCL reports ncclRemoteError", "A peer died or the network failed.", kLookAtFirst},
    {"ncclSystemError|unhandled system error&NCCL", "framework-error", kConsequence,
     "NCCL reports ncclSystemError", kEarlier, kLookAtFirst},
    {"ncclInternalError|NCCL error&internal error - please report", "framework-error", kConsequence,
     "NCCL reports ncclInternalError", kEarlier, kLookAtFirst},
    {"ncclInvalidUsage|NCCL error in&invalid usage", "framework-error", kConsequence,
     "NCCL reports ncclInvalidUsage", kEarlier, kLookAtFirst},
    {"ncclInvalidArgument|NCCL error in&invalid argument", "framework-error", kConsequence,
     "NCCL reports ncclInvalidArgument", kEarlier, kLookAtFirst},
    {"ncclUnhandledCudaError|unhandled cuda error&NCCL", "framework-error", kConsequence,
     "NCCL reports ncclUnhandledCudaError", kEarlier, kLookAtFirst},
    {"Detected mismatch between collectives on ranks", "mismatched-collective", kCause,
     "PyTorch: two ranks called different collectives", "The line names both ranks and what they called.",
     "compare the collectives, counts and types that the ranks call, in their order"},
    {"NCCL communicator was aborted on rank", "framework-error", kConsequence,
     "PyTorch has aborted the communicator of a rank", kEarlier, kLookAtFirst},
    // PyTorch's store, by which the ranks find each other before NCCL starts.
    {"RendezvousTimeoutError|seconds waiting for clients&clients joined|store based barrier&worker_count=",
     "missing-ranks", kCause, "ranks did not come to PyTorch's store", kStoreWhy, kStoreFix},
    {"RendezvousConnectionError|client socket has timed out&while trying to connect|client socket has failed "
     "to connect to any network "
     "address",
     "connection-refused", kCause, "PyTorch's store (MASTER_ADDR) cannot be reached", kStoreWhy, kStoreFix},
    {"server socket has failed to listen on any local network address", "connection-stranger", kCause,
     "PyTorch's store cannot listen: another process has the port",
     "Another job, or one that has not ended yet, runs on the node.",
     "ss -ltnp  # on the node: who has the port\ntorchrun --master-port <a free port>"},
    {"retrieving ncclUniqueId&got error|wait timeout after&, keys: ", "framework-error", kConsequence,
     "a rank waited for another one in PyTorch's store", "As a rule rank 0 has ended, or never came.",
     "look at the log of rank 0"},
    {"Test NCCL failure", "framework-error", kConsequence, "nccl-tests ended with an error", kEarlier,
     kLookAtFirst},
    {"out of memory. Tried to allocate", "cuda-failure", kCause, "a GPU has no memory left",
     "The program, not NCCL, asked for more than there is.",
     "lower the batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {"No CUDA GPUs are available", "cuda-failure", kCause, "the program sees no GPU",
     "CUDA_VISIBLE_DEVICES or the container leaves none, or the driver has lost them.",
     "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES  # on the host, and in the container\ndmesg | grep -i xid"},
    {"[Errno 28]", "program-error", kCause, "the program could write no file: its file system is full",
     "It is an exception of Python, neither of NCCL nor of the network.",
     "df -h <the folder of the file>; df -i <the folder of the file>"},
    // The kernel's log.
    {"NVRM: Xid&): 79,", "gpu-fault", kCause, "a GPU fell off the bus (Xid 79)",
     "The PCIe link or the power of the GPU failed; it is gone until the host is reset.",
     "nvidia-smi  # which one is missing\nreboot the host; if it comes again, the vendor's case", "", true,
     "gpu-lost"},
    {"NVRM: Xid&): 74,", "gpu-fault", kCause, "an NVLink failed (Xid 74)",
     "A link between GPUs, or to an NVSwitch.",
     "nvidia-smi nvlink -e; nvidia-smi nvlink -s\nsudo nvidia-smi -r  # with no job on the GPUs", "", true,
     "nvlink-error"},
    {"NVRM: Xid&): 48,|NVRM: Xid&): 63,|NVRM: Xid&): 64,|NVRM: Xid&): 94,|NVRM: Xid&): 95,", "gpu-fault",
     kCause, "the memory of a GPU failed (ECC)", "Rows of the GPU's memory are bad.",
     "nvidia-smi -q -d ECC,ROW_REMAPPER\nsudo nvidia-smi -r  # with no job on the GPU"},
    {"NVRM: Xid&): 119,|NVRM: Xid&): 120,", "gpu-fault", kCause,
     "a GPU's own processor (GSP) does not answer", "The GPU hangs until it is reset.",
     "sudo nvidia-smi -r  # with no job on the GPUs; else reboot\ninstall a newer driver", "", true,
     "gpu-gsp"},
    // NVLink of Blackwell: one number for each unit.
    {"NVRM: Xid&): 144,&onfatal|NVRM: Xid&): 145,&onfatal|NVRM: Xid&): 146,&onfatal|NVRM: Xid&): "
     "147,&onfatal|NVRM: Xid&): 148,&onfatal|NVRM: Xid&): 149,&onfatal|NVRM: Xid&): 150,&onfatal",
     "gpu-fault", kRemark, "an NVLink had a fault that is not fatal (Xid 144 to 150)", "It went on.",
     "nvidia-smi nvlink -e"},
    {"NVRM: Xid&): 144,|NVRM: Xid&): 145,|NVRM: Xid&): 146,|NVRM: Xid&): 147,|NVRM: Xid&): 148,|NVRM: "
     "Xid&): 149,|NVRM: Xid&): 150,",
     "gpu-fault", kCause, "an NVLink failed (Xid 144 to 150)", "A link between GPUs, or to an NVSwitch.",
     "nvidia-smi nvlink -e; nvidia-smi nvlink -s\nsudo nvidia-smi -r  # with no job on the GPUs"},
    {"NVRM: Xid&caused by previous Xid", "gpu-fault", kConsequence, "a program on a GPU was ended (Xid 45)",
     "The line names the Xid that came before.", "look up that Xid in the kernel's log"},
    {"NVRM: Xid&): 13,|NVRM: Xid&): 31,|NVRM: Xid&): 43,|NVRM: Xid&): 45,", "gpu-fault", kCause,
     "a program on a GPU failed (Xid 13, 31, 43 or 45)",
     "As a rule a fault of the program: a wrong address, or it was ended.",
     "export CUDA_LAUNCH_BLOCKING=1  # once; compute-sanitizer PROGRAM"},
    {"NVRM: Xid", "gpu-fault", kCause, "a GPU reports a fault (Xid)", "The number in the line says which.",
     "look up the number: docs.nvidia.com/deploy/xid-errors"},
    {"NVRM: &RmInitAdapter failed|NVRM: &allen off the bus", "gpu-fault", kCause,
     "the driver cannot start a GPU", "The GPU is gone from PCIe, or does not answer.",
     "nvidia-smi  # which one is missing\nsudo lspci -vv -s {PCI_address} | grep LnkSta\nreboot the host; if "
     "it "
     "comes again, the vendor's case"},
    {"nvidia-peermem &ERROR|nvidia_peermem &ERROR|nv_peer_mem &ERROR", "memory-registration", kCause,
     "nvidia-peermem refuses GPU memory",
     "A NIC was to reach memory (GPUDirect) that the GPU's driver does not give.",
     "cat /proc/driver/nvidia/version; modinfo nvidia_peermem | grep version  # must be equal\n"
     "export NCCL_NET_GDR_LEVEL=LOC  # GPUDirect off, meanwhile"},
    {"SXid&, Fatal", "gpu-fault", kCause, "an NVSwitch reports a fatal fault (SXid)",
     "The NVLink fabric of the machine is broken until it is set up anew.",
     "systemctl restart nvidia-fabricmanager  # with no job on the GPUs; else reboot"},
    {"SXid (PCI", "gpu-fault", kRemark, "an NVSwitch reports a fault (SXid)", "It went on.",
     "nvidia-smi nvlink -e"},
    {"Failed to process command&opcode&err -12|infiniband&Failed to allocate pd[-12]", "nic-fault", kCause,
     "an EFA card, or its host, has no resources left",
     "Protection domains, queue pairs or memory of the card are used up, often by processes of a dead job.",
     "rdma resource show; fuser -v /dev/infiniband/uverbs*  # who has them"},
    {"Failed to process command&opcode&err -|Failed to submit command&opcode&err -|efa &Reset has failed",
     "nic-fault", kCause, "an EFA card refuses a command of its driver", "The line names the command.",
     "sudo dmesg | grep -i efa; modinfo efa | grep ^version  # a newer driver"},
    {"mlx5_core&Fatal error&detected|mlx5_core&andling bad device|mlx5_core&health compromised|mlx5_core&ill "
     "cause a "
     "leak|mlx5_core&nrecoverable|mlx5_core&assert|mlx5_core&in fatal",
     "nic-fault", kCause, "a NIC's firmware failed",
     "Its connections break, and the driver resets it or gives it up.",
     "mstflint -d {PCI_address} query  # the firmware; update it\nmstlink -d {PCI_address} -m"},
    {"mlx5_core&High Temp|mlx5_core&nsufficient power|mlx5_core&temperature", "nic-fault", kRemark,
     "a NIC is too hot or lacks power", "It slows down, or turns its port off.",
     "look at the fans and the slot's power"},
    {"mlx5_core&Port module&rror|mlx5_core&Port module&nplugged|mlx5_core&Cable error", "port-event", kCause,
     "a cable or transceiver failed or was unplugged", "The link is down.",
     "mstlink -d {PCI_address} -m  # on both ends"},
    {"mlx5_core&available PCIe bandwidth, limited by", "pcie-link", kRemark,
     "a NIC's PCIe link is narrower or slower than the NIC", "The NIC carries less than its port.",
     "sudo lspci -vv -s {PCI_address} | grep -E 'LnkCap|LnkSta'  # another slot, or reseat the card"},
    {"mlx5_core&ink down|: Port: &Link DOWN", "port-event", kCause, "the kernel saw a port of a NIC go down",
     "Connections over it fail unless the link comes back within the NICs' retries.",
     "mstlink -d {PCI_address} -m  # cable, transceiver, bit errors\nlook at the switch's port at that time"},
    {"mlx5_core&ink up|: Port: &Link ACTIVE", "port-event", kHarmless,
     "the kernel saw a port of a NIC come up", "The link was down before."},
    {"dump error cqe|rror cqe on", "nic-fault", kConsequence,
     "the NIC's driver shows a completion with an error", "NCCL's own line has the status.",
     "look at the log of the job at that time"},
    // RCCL's level ERROR, since ROCm 7.2: "host:pid:tid [0] [FATAL ERROR]: ..." in the place of "NCCL WARN".
    {"[FATAL ERROR]: &HSA_NO_SCRATCH_RECLAIM", "rccl-fatal", kCause,
     "RCCL refuses this GPU firmware and HIP without HSA_NO_SCRATCH_RECLAIM=1",
     "Its init ends with the line.", "export HSA_NO_SCRATCH_RECLAIM=1  # on every rank"},
    {"[FATAL ERROR]: &communication fatal error", "rccl-fatal", kConsequence, "RCCL's own network has failed",
     kEarlier, kLookAtFirst},
    {"[FATAL ERROR]: ", "rccl-fatal", kCause, "RCCL gives up", "The line says why.", "do as the line says"},
    {"DMAR:&ault|AMD-Vi&IO_PAGE_FAULT", "iommu-fault", kCause,
     "the IOMMU has refused a device's access to memory",
     "A NIC wrote to GPU memory (GPUDirect) and the IOMMU translates or forbids it.",
     "add iommu=pt to the kernel's command line, or turn the IOMMU off\nsudo lspci -vvv | grep ACSCtl"},
    {"AER:&ncorrect|pcieport&ncorrect|PCIe Bus Error&ncorrect", "pcie-error", kCause,
     "a PCIe link had an error that lost data", "The device behind it is reset or gone.",
     "sudo lspci -vv -s {PCI_address} | grep -E 'LnkSta|UESta'  # reseat the card"},
    {"AER:&orrect|PCIe Bus Error&orrected", "pcie-error", kRemark,
     "a PCIe link had errors that were corrected",
     "Many of them cost speed, and often an uncorrected one follows.",
     "sudo lspci -vv -s {PCI_address} | grep -E 'LnkSta|CESta'"},
    {"EDAC MC& UE |Machine Check Exception|Machine check: Processor context corrupt|Uncorrected hardware "
     "memory "
     "error",
     "host-fault", kCause, "the host's memory or a CPU failed",
     "The kernel ends the process that uses it, or stops the host.",
     "ras-mc-ctl --errors; ipmitool sel list  # which module"},
    {"EDAC MC& CE |Machine check events logged", "host-fault", kRemark,
     "the host's memory or a CPU had errors, corrected as a rule", "Uncorrected ones often follow.",
     "ras-mc-ctl --errors; ipmitool sel list  # which module"},
    {"soft lockup - CPU|hard LOCKUP on cpu|self-detected stall on CPU|detected stalls on CPUs", "host-fault",
     kCause, "a CPU of the host stood still", "A driver or the kernel hangs, and the other ranks wait.",
     "sudo dmesg -T  # the call trace below the line names the driver"},
    {"INFO: task &blocked for more than", "host-fault", kCause, "a process hangs in the kernel",
     "A disk or file server does not answer, or a driver hangs. Other ranks wait for the process.",
     "sudo dmesg -T  # the call trace below the line says in what\nmount | grep nfs; df -h"},
    {"nfs: server &not responding", "host-fault", kRemark, "a file server (NFS) does not answer",
     "Processes that use its files stand still.", "showmount -e <server>; df -h"},
    {"Out of memory: Killed process|Memory cgroup out of memory", "process-killed", kCause,
     "the kernel killed a process for its memory", "The node or the job's limit has no memory left.",
     "raise the job's memory; free -g"},
    {"Signal 9 (SIGKILL)|exitcode  : -9|(exitcode: -9)|srun: error&Killed", "process-killed", kCause,
     "a rank was killed", "Out of memory, a limit of the job, or a person.",
     "dmesg | grep -i -E 'oom|killed process'"},
    {": segfault at", "process-killed", kCause, "a process crashed (signal 11)",
     "A wrong address in the program or a library: the line names the library.", kTraceFix},
    {"Signal 11 (SIGSEGV)|exitcode  : -11|(exitcode: -11)|Segmentation fault (|(Segmentation "
     "fault|Segmentation "
     "fault&core dumped|srun: error&Segmentation fault|Fatal Python error: Segmentation",
     "process-killed", kCause, "a process crashed (signal 11)",
     "A wrong address in the program or a library.", kCrashFix},
    // PyTorch's watchdog and NCCL's asserts end a process so.
    {"Signal 6 (SIGABRT)|exitcode  : -6|(exitcode: -6)|srun: error&Aborted", "process-killed", kConsequence,
     "a process ended itself (signal 6)", "An assertion or a watchdog failed; the lines before say which.",
     kCrashFix},
    {"process rank&exited on signal|) was killed by signal", "process-killed", kCause,
     "a rank was killed or crashed", "9 is a kill (out of memory, a limit, a person), 11 and 6 are crashes.",
     "dmesg | grep -i -E 'oom|killed process|segfault'"},
    {"oom_kill event|oom-kill event|oom-kill:|oom_reaper:|OOM Killed|Reason:&OOMKilled|srun: error&Out Of "
     "Memory",
     "process-killed", kCause, "a rank was killed for its memory",
     "The node or the job's limit has no memory left.", "raise the job's memory"},
    {"Bus error (|(Bus error|Bus error&core dumped|srun: error&Bus error|signal: Bus error|nexpected bus "
     "error|Fatal "
     "Python error: Bus error|Signal 7 (SIGBUS)|exitcode  : -7|(exitcode: -7)",
     "shared-memory", kCause, "a process met a bus error", "As a rule /dev/shm is full.",
     "docker run --shm-size=16g ...  # Kubernetes: an emptyDir of medium Memory on /dev/shm"},
    {"error: Node failure on|DUE TO NODE FAILURE", "process-killed", kCause,
     "Slurm ended the job: a node failed", "The line names the node, or Slurm's controller knows it.",
     "sinfo -R; scontrol show node <node>"},
    {"DUE TO TIME LIMIT", "process-killed", kConsequence, "Slurm ended the job: its time was over",
     "The job needs more time, or a rank hangs.", "sbatch --time; py-spy dump --pid <a rank>"},
    {"slurmstepd: error: ***&CANCELLED AT", "process-killed", kConsequence, "Slurm ended the job",
     "A person has cancelled it, or a rank failed.", "sacct -j <job> -o JobID,State,ExitCode,NodeList"},
    {"exitcode  : |failed (exitcode: |errors.ChildFailedError|srun: error&Exited with exit code|exited with "
     "non-zero "
     "status|MPI_ABORT was invoked|BAD TERMINATION OF ONE",
     "framework-error", kConsequence, "a rank ended with an error", kEndedWhy, kEndedFix},
};

}  // namespace

std::span<const KnownLine> knownOtherLines() { return kOtherLines; }

const KnownStatus* knownStatus(int status) {
  for (const KnownStatus& known : kStatuses)
    if (known.status == status) return &known;
  return nullptr;
}

}  // namespace railwise::doctor
