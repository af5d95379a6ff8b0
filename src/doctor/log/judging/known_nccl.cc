// What NCCL's warnings mean (2.13 to 2.32: src/transport/net_ib*, src/misc, src/os, src/init.cc, ...).
#include "doctor/log/judging/known_line.h"

namespace railwise::doctor {
namespace {

constexpr char kMemoryLockWhy[] =
    "RDMA needs memory that the kernel may not move, and the limit of locked memory (memlock) is too low, or "
    "the memory is used up.";
constexpr char kMemoryLockFix[] =
    "ulimit -l unlimited\n"
    "docker run --ulimit memlock=-1 ...\n"
    "Slurm: LimitMEMLOCK=infinity in slurmd's unit; others: memlock in /etc/security/limits.conf";
constexpr char kInterfaceFix[] =
    "export NCCL_SOCKET_IFNAME=eth0\n"
    "name the interface that all nodes reach each other by (ip -br address), and open its ports in the "
    "firewall";
constexpr char kShmFix[] =
    "docker run --shm-size=16g ...  # Kubernetes: an emptyDir of medium Memory on /dev/shm\n"
    "df -h /dev/shm; ls /dev/shm/nccl-*  # remove what dead jobs have left";
constexpr char kCudaFix[] = "nvidia-smi -q -d ECC,PAGE_RETIREMENT\ndmesg | grep -i xid";
constexpr char kPeerFix[] = "look at the log of that rank, and at its node (dmesg: out of memory, Xid)";
constexpr char kCallerFix[] = "compare the collectives, counts and types that the ranks call, in their order";
constexpr char kNoAddressWhy[] =
    "The address of the peer cannot be resolved: on RoCE the two ends are in different networks, or the "
    "chosen GID "
    "has no route; on InfiniBand a port is not active, or the subnet manager does not know it.";
constexpr char kNoAddressFix[] =
    "ibv_devinfo -v  # or NVIDIA's show_gids: the same kind of GID on all nodes\n"
    "unset NCCL_IB_GID_INDEX  # NCCL 2.21 and newer choose it\n"
    "ping -I <NIC's interface> <the peer's address>  # RoCE\n"
    "ibstat; sminfo  # InfiniBand: State Active, a LID, a subnet manager";
constexpr char kNoFitWhy[] =
    "The two ends do not fit: a GID index that is empty, another MTU or link layer, or a LID of 0.";
constexpr char kNoFitFix[] =
    "ibv_devinfo -v | grep -E 'GID|active_mtu|link_layer|port_lid'  # on both nodes\nunset NCCL_IB_GID_INDEX";
constexpr char kHarmlessEvent[] = "NCCL logs each event of a NIC; this one ends no connection by itself.";
constexpr char kRcclHint[] = "RCCL looks at the machine when it starts, and goes on.";
constexpr char kRcclFix[] = "do as the line says, then measure whether it helps";
constexpr char kKindsDiffer[] = "one-sided communication fails: the ranks have different kinds of GIN";
constexpr char kProxyFix[] = "export NCCL_GIN_TYPE=2  # the CPU's proxy, on all ranks";
constexpr char kOneSidedWhy[] =
    "One-sided communication has no path that every rank of the communicator can use.";
constexpr char kOneSidedFix[] =
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV  # says what is missing";
constexpr char kTopologyFix[] = "railwise topo lint FILE\nunset NCCL_TOPO_FILE";

constexpr KnownLine kNcclLines[] = {
    {"collective mismatch", "mismatched-collective", kCause, "two ranks called different collectives",
     "The size that one rank sends is not what the other expects.", kCallerFix},
    {"posted incorrect receive info", "mismatched-collective", kCause, "a receive does not fit what is sent",
     "The other rank posted a buffer of another size.", kCallerFix},
    {"Mismatched collective", "mismatched-collective", kCause, "two ranks called different collectives",
     "NCCL cannot go on when the ranks disagree.", kCallerFix},
    {"essage truncated", "message-truncated", kCause, "a message is larger than its receive",
     "The ranks call with different counts or types, or the network of another version answers.", kCallerFix},
    {"symmetric registration check failed", "mismatched-collective", kCause,
     "the ranks registered different buffers", "Registered buffers must be alike on all ranks.", kCallerFix},

    {"Call to ibv_create_cq&annot allocate memory", "memory-lock", kCause,
     "a completion queue cannot be made: no memory that may be locked", kMemoryLockWhy, kMemoryLockFix},
    {"Call to ibv_create_qp&annot allocate memory", "memory-lock", kCause,
     "a queue pair cannot be made: no memory that may be locked, or no more queue pairs", kMemoryLockWhy,
     kMemoryLockFix},
    {"Call to ibv_reg_mr&annot allocate memory", "memory-lock", kCause,
     "memory cannot be registered: no memory that may be locked", kMemoryLockWhy, kMemoryLockFix},
    {"Call to ibv_reg&Bad address", "memory-registration", kCause,
     "GPU memory cannot be registered with the NIC",
     "The NIC's driver knows nothing of the address: nvidia_peermem is not loaded, or not for this driver.",
     "modprobe nvidia_peermem\nexport NCCL_NET_GDR_LEVEL=LOC  # GPUDirect off, until it is loaded"},
    {"Call to ibv_reg&failed", "memory-registration", kCause, "memory cannot be registered with the NIC",
     "The NIC's driver refuses the memory: of the GPU without peer memory or dma-buf, or of a container with "
     "another driver.",
     "lsmod | grep peermem\nulimit -l\ndmesg | tail"},
    {"Call to ibv_create_&failed", "memory-lock", kCause, "a completion queue or a queue pair cannot be made",
     kMemoryLockWhy, kMemoryLockFix},
    {"Call to ibv_modify_qp failed with 110|Call to ibv_modify_qp&onnection timed out", "queue-pair", kCause,
     "a queue pair cannot be connected: timed out (110)", kNoAddressWhy, kNoAddressFix},
    {"Call to ibv_modify_qp&etwork is unreachable", "queue-pair", kCause,
     "a queue pair cannot be connected: network unreachable (101)", kNoAddressWhy, kNoAddressFix},
    {"Call to ibv_modify_qp&No such device", "queue-pair", kCause,
     "a queue pair cannot be connected: no such device (19)",
     "The port, its GID or its network interface is gone, or belongs to another network namespace (a "
     "container).",
     kNoAddressFix},
    {"Call to ibv_modify_qp&nvalid argument|Call to ibv_modify_qp failed with 22", "queue-pair", kCause,
     "a queue pair cannot be connected: invalid argument (22)", kNoFitWhy, kNoFitFix},
    {"Call to ibv_modify_qp&failed", "queue-pair", kCause, "a queue pair cannot be connected",
     "The device refuses the state change: addresses, MTU or link layer of the two ends do not fit, or the "
     "port is down.",
     "ibv_devinfo -v  # on both nodes"},
    {"Call to ibv_&failed", "verbs-call", kCause, "a verbs call failed",
     "The NIC or its driver refused a request of NCCL.", "dmesg | tail\nibv_devinfo -v"},
    {"ibv_post_send() failed", "verbs-call", kCause, "a send cannot be posted",
     "The queue pair is full or in error: look for an earlier warning.", "dmesg | tail"},
    {"ibv_post_recv() failed", "verbs-call", kCause, "a receive cannot be posted",
     "The queue pair is full or in error: look for an earlier warning.", "dmesg | tail"},

    {"async event&GID table|GID table changed", "port-event", kRemark, "a port's addresses changed",
     "On RoCE connections that use the old address break.", "see who changes the interface's address"},
    {"sync event&port active", "port-event", kHarmless, "a port came up again", "The link was down before.",
     ""},
    {"sync event&client reregistration", "port-event", kHarmless,
     "the fabric's manager asks its clients to register again", kHarmlessEvent, ""},
    {"sync event&SM change", "port-event", kHarmless, "the fabric has another subnet manager", kHarmlessEvent,
     ""},
    {"sync event&LID change", "port-event", kHarmless, "a port got another LID", kHarmlessEvent, ""},
    {"sync event&P_Key change", "port-event", kHarmless, "a port's partition keys changed", kHarmlessEvent,
     ""},
    {"sync event&last WQE reached", "port-event", kHarmless, "a queue pair has done its last work",
     kHarmlessEvent, ""},
    {"sync event&communication established", "port-event", kHarmless, "a queue pair got its first message",
     kHarmlessEvent, ""},
    {"sync e&vent", "port-event", kCause, "a NIC or its port had a fault",
     "The link went down, or the device failed; NCCL's own network does not survive that, Railwise does if "
     "another port is left.",
     "ibstat; mstlink -d <PCI address> -m  # package mstflint\ndmesg | grep -i mlx5\nexport "
     "NCCL_NET_PLUGIN=railwise"},
    {"async fatal event", "port-event", kCause, "a NIC or its queue pair failed",
     "The device has given up the work; the job ends.",
     "dmesg | grep -i mlx5\nmstlink -d <PCI address> -m  # package mstflint"},
    {"No IP interface found", "socket-interface", kCause, "no network interface for the handshakes",
     "NCCL exchanges the addresses of the NICs over TCP.", kInterfaceFix},
    {"no socket interface found", "socket-interface", kCause, "no network interface for the bootstrap",
     "NCCL_SOCKET_IFNAME chooses none, or none is up.", kInterfaceFix},
    {"no interface found", "socket-interface", kCause, "no network interface for Socket",
     "NCCL_SOCKET_IFNAME chooses none, or none is up.", kInterfaceFix},
    {"No interface found in the same subnet", "socket-interface", kCause,
     "no network interface is in the subnet of rank 0", "The bootstrap cannot reach rank 0.", kInterfaceFix},
    {"no device found&OOB_NET_IFNAME", "socket-interface", kCause, "NCCL_OOB_NET_IFNAME chooses no device",
     "The bootstrap has no network.", "unset NCCL_OOB_NET_IFNAME"},
    {"Unable to open device", "device-closed", kCause, "a NIC cannot be opened",
     "The process has no rights on /dev/infiniband, or the provider library is missing.",
     "docker run --device=/dev/infiniband ...\napt install ibverbs-providers  # RHEL: dnf install "
     "libibverbs"},
    {"link type using NCCL_IB_HCA", "device-mismatch", kCause,
     "NICs of different link layers are to be connected or merged",
     "InfiniBand and RoCE cannot talk to each other.", "export NCCL_IB_HCA=<the NICs of one kind>"},
    {"ifferent number of devices", "device-mismatch", kRemark,
     "merged NICs of two nodes have different numbers of ports", "The job runs at the speed of the smaller.",
     "ibstat  # on both nodes"},
    {"different link_layer", "device-mismatch", kCause, "NICs of different link layers are merged",
     "InfiniBand and RoCE cannot talk to each other.", "export NCCL_IB_HCA=<the NICs of one kind>"},

    {"Connection closed by remote peer", "connection-closed", kConsequence,
     "another rank closed its connection", "As a rule that rank failed first, or was killed.", kPeerFix},
    {"onnection reset by peer|Broken pipe", "connection-closed", kConsequence,
     "another rank's process went away", "As a rule that rank failed first, or was killed.", kPeerFix},
    {"onnection refused", "connection-refused", kCause, "nobody answers at the peer's address",
     "The peer has ended, or NCCL uses an interface that the nodes do not share (docker0, a VPN).",
     kInterfaceFix},
    {"No route to host", "connection-refused", kCause, "the peer's address cannot be reached",
     "A firewall, or an interface that the nodes do not share.", kInterfaceFix},
    {"Network is unreachable", "connection-refused", kCause, "the peer's address cannot be reached",
     "There is no route: an interface that the nodes do not share.", kInterfaceFix},
    {"onnection timed out", "connection-refused", kCause, "the peer does not answer",
     "A firewall drops the packets, or an interface that the nodes do not share.", kInterfaceFix},
    {"socketFinalize&wrong type", "connection-stranger", kCause,
     "something else than a rank of this job called", "Two jobs share a port, or a scanner calls.",
     "run one job at a time on these ports; see NCCL_SOCKET_MAGIC (2.30)"},
    {"mismatch in rank count|mismatch in info from procs", "ranks-mismatch", kCause,
     "the ranks disagree on their number",
     "Two jobs meet at one address, or one rank was started with another world size.",
     "compare WORLD_SIZE and MASTER_ADDR of all ranks"},
    {"has already checked in", "ranks-mismatch", kCause, "two processes have the same rank",
     "The launcher gave a rank twice.", "compare RANK of all processes"},
    {"Mismatched NCCL version", "differ-version", kCause, "the ranks run different NCCL versions",
     "Ranks of different versions cannot talk to each other.",
     "install one NCCL on all nodes: python -c 'import torch; print(torch.cuda.nccl.version())'"},
    {"version mismatch with remote peer", "differ-version", kCause, "the ranks run different NCCL versions",
     "Ranks of different versions cannot talk to each other.", "install one NCCL on all nodes"},

    {"Duplicate GPU detected", "duplicate-gpu", kCause, "two ranks use one GPU",
     "Each rank needs a GPU of its own; most often all ranks of a node take GPU 0.",
     "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\nsee CUDA_VISIBLE_DEVICES of each rank"},
    {"Multiple Ranks are using the same GPU", "duplicate-gpu", kCause, "two ranks use one GPU",
     "Each rank needs a GPU of its own.", "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"},
    {"ailed to peer with device", "cuda-failure", kCause, "a GPU cannot reach another one",
     "Peer access fails: virtualisation, ACS or the IOMMU are in the way.", "export NCCL_P2P_DISABLE=1"},
    {"uda failure&out of memory", "cuda-failure", kCause, "a GPU has no memory left",
     "NCCL needs some hundred MiB of each GPU for its buffers.",
     "nvidia-smi\nlower the batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {"uda failure|unhandled cuda error", "cuda-failure", kCause, "a call of CUDA failed",
     "The GPU or the program failed before NCCL; an earlier kernel can be the reason.", kCudaFix},
    {"unhandled system error", "system-error", kCause, "a system call failed",
     "The line before names the call.", "export NCCL_DEBUG=INFO"},

    {"No space left on device|failed to extend", "shared-memory", kCause, "/dev/shm is full",
     "The ranks of a node share memory there; containers get 64 MiB by default.", kShmFix},
    {"shared memory", "shared-memory", kCause, "shared memory cannot be made or opened",
     "/dev/shm is full, or the ranks of a node are in containers that do not share it.", kShmFix},
    {"Could not map", "shared-memory", kCause, "shared memory cannot be opened",
     "/dev/shm is full, or the ranks of a node do not share it.", kShmFix},
    {"Could not find a path for pattern", "topology-path", kRemark,
     "NCCL found no good rings or trees in this machine and uses a plain order",
     "The links are not what NCCL expects: a hidden PCIe tree (VM), a topology file that does not fit, or "
     "NICs that no GPU reaches.",
     "railwise explain\nrailwise topo generate > topo.xml; export NCCL_TOPO_FILE=$PWD/topo.xml"},
    {"falling back to simple order", "topology-path", kRemark,
     "NCCL found no good rings or trees in this machine and uses a plain order",
     "The links are not what NCCL expects.", "railwise explain"},
    {"Could not find any local path from gpu", "topology-path", kCause, "no NIC can be reached from a GPU",
     "The topology names no way from the GPU to a NIC.", "railwise explain"},
    {"ould not open XML", "topology-file", kRemark, "the topology file cannot be opened",
     "NCCL goes on without it, by what /sys says.", kTopologyFix},
    {"XML", "topology-file", kCause, "a topology or graph file is wrong", "NCCL cannot use the file.",
     kTopologyFix},
    {"Could not find real path of", "nic-place", kHarmless, "a NIC's place in /sys is not known",
     "A virtual device: NCCL cannot tell which GPU is near it.", "railwise explain"},
    {"network&not found", "network-not-found", kCause, "the network that NCCL_NET names is not there",
     "The plugin with this network was not loaded, or its init failed; NCCL_NET forbids another.",
     "ldconfig -p | grep nccl-net; for d in ${LD_LIBRARY_PATH//:/ }; do ls $d/libnccl-net*.so; done\nexport "
     "NCCL_NET_PLUGIN=railwise NCCL_NET=Railwise"},
    {"Failed to initialize any NET plugin", "network-not-found", kCause, "no network could be used",
     "Neither a plugin nor NCCL's own networks could start; NCCL_NET may forbid them.",
     "look at the lines of NET/Plugin and the warnings before this line\nunset NCCL_NET  # NCCL may then "
     "take another network"},
    {"Unable to create thread", "process-limits", kCause, "no more threads can be made",
     "The limit of processes is reached.",
     "ulimit -u\ncat /sys/fs/cgroup/pids.max  # in a container; on a host: of its unit's cgroup"},
    {"Too many open files", "process-limits", kCause, "no more files can be opened",
     "NCCL needs some sockets for each peer.", "ulimit -n 1048576"},
    {"Failed to malloc", "out-of-memory", kCause, "no memory", "The node has no memory left.",
     "free -g; dmesg | grep -i oom"},
    {"CUDA malloc|CUDA calloc", "cuda-failure", kCause, "a GPU has no memory left",
     "NCCL needs some hundred MiB of each GPU for its buffers.", "nvidia-smi -q -d MEMORY"},
    {"incompatible version", "plugin-api", kCause, "the plugin does not fit this NCCL",
     "NCCL does not use it.", "install a plugin for this NCCL"},
    {"Failed to execute operation|Proxy Call to rank&failed|Error encountered progressing operation",
     "proxy-failed", kConsequence, "NCCL's proxy failed for a rank of this node",
     "An earlier warning names the reason.", kPeerFix},
    {"Could not receive type from localRank|Socket recv failed while polling", "connection-closed",
     kConsequence, "another rank of the node went away", "As a rule that rank failed first, or was killed.",
     kPeerFix},
    {"communicator encountered a fatal error", "proxy-failed", kConsequence, "a communicator is broken",
     "An earlier warning names the reason.", kPeerFix},
    {"Missing \"", "rccl-hint", kHarmless, "RCCL misses a setting of the kernel or of the environment",
     kRcclHint, kRcclFix},
    {"NUMA auto balancing", "rccl-hint", kHarmless, "the kernel moves memory between NUMA nodes", kRcclHint,
     "sysctl kernel.numa_balancing=0"},
    {"HSA_", "rccl-hint", kHarmless, "RCCL advises another setting of ROCm", kRcclHint, kRcclFix},
    {"CUMEM", "cuda-driver", kHarmless, "the CUDA driver lacks a function that NCCL can use",
     "NCCL goes on without it.", "install a newer driver"},
    {"NET/OFI", "plugin-warning", kRemark, "the plugin aws-ofi-nccl warns",
     "It may be the reason why another network is used.", "fi_info -p efa  # the provider that it needs"},
    {"Resiliency is enabled&single device", "net-ib-failover", kHarmless,
     "NCCL's own failover has no other NIC to go to", "A failure of the NIC ends the job.",
     "export NCCL_NET_PLUGIN=railwise  # goes on over the other NICs of the node"},
    {"marked as failed", "net-ib-failover", kRemark, "NCCL's own network lost a NIC and goes on",
     "The job is slower without the NIC.", "ibstat; mstlink -d <PCI address> -m  # package mstflint"},
    {"Fatal error. Detected&failed devices", "net-ib-failover", kCause, "NCCL's own network has no NIC left",
     "All NICs of a connection have failed.", "ibstat; mstlink -d <PCI address> -m  # package mstflint"},
    {"lib wrapper not initialized", "one-sided", kHarmless,
     "NCCL's one-sided communication (GIN, RMA) does not start: libibverbs is not in use",
     "2.29 and newer look for it in any case; collectives do without.", ""},
    {"One sided RMA:", "one-sided-failed", kCause,
     "a one-sided call (ncclPutSignal, ncclSignal, ncclWaitSignal) fails: the communicator has no host RMA",
     kOneSidedWhy, kOneSidedFix},
    {"One-sided RMA requires CUDA driver", "one-sided-failed", kCause,
     "a one-sided call fails: the CUDA driver is too old", "Host RMA needs a driver for CUDA 12.5.",
     "install a driver for CUDA 12.5 or newer"},
    {"RMA proxy is not connected", "one-sided-failed", kCause,
     "a one-sided call fails: NCCL's proxy for host RMA has no connection", kOneSidedWhy, kOneSidedFix},
    {"does not support symmetric memory", "one-sided-failed", kCause,
     "device-side communication fails: the communicator has no symmetric memory", kOneSidedWhy, kOneSidedFix},
    {"not all ranks in the communicator support GIN", "one-sided-failed", kCause,
     "device-side communication fails: not every rank has GIN", kOneSidedWhy, kOneSidedFix},
    {"NCCL_GIN_CONNECTION_FULL but the communicator", "one-sided-failed", kCause,
     "device-side communication fails: GIN connects only ranks of one rail",
     "With NCCL_CROSS_NIC=0 a rank reaches only the ranks that have its place in their host.",
     "unset NCCL_CROSS_NIC\nask for NCCL_GIN_CONNECTION_RAIL in the program"},
    {"GIN is disabled", "one-sided-failed", kCause, "one-sided communication fails: GIN is turned off",
     "NCCL_GIN_ENABLE=0 turns GIN off.", "unset NCCL_GIN_ENABLE"},
    {"GIN not supported", "one-sided-failed", kCause, "one-sided communication fails: there is no GIN",
     kOneSidedWhy, kOneSidedFix},
    {"RMA not supported", "one-sided-failed", kCause, "one-sided communication fails: there is no RMA",
     kOneSidedWhy, kOneSidedFix},
    {"-capable devices found", "one-sided-failed", kCause,
     "one-sided communication fails: no NIC can carry it", kOneSidedWhy, kOneSidedFix},
    {"min local net count is zero", "one-sided-failed", kCause,
     "one-sided communication fails: a rank has no NIC for it", kOneSidedWhy, kOneSidedFix},
    {"device type mismatch|backend type mismatch", "one-sided-failed", kCause, kKindsDiffer, kOneSidedWhy,
     kProxyFix},
    {"GIN backend type&not supported on all ranks", "one-sided", kHarmless,
     "a kind of device-side communication (GIN) is left out: not every rank has it",
     "Collectives do without.", ""},
    {"DevComm setup failed on all", "one-sided-failed", kCause,
     "device-side communication fails: no kind of GIN could be set up", kOneSidedWhy, kOneSidedFix},
    {"Symmetric register failed", "memory-registration", kCause, "a window cannot be registered with the NIC",
     "The NIC that serves one-sided communication cannot use the memory.",
     "modprobe nvidia_peermem  # or a kernel and driver with dma-buf\ndmesg | grep -i mlx5"},
    {"GIN Error", "one-sided-failed", kConsequence, "device-side communication (GIN) has failed",
     "An earlier warning names the completion.", kPeerFix},
    {"RMA v13 (&requires GIN PROXY type", "one-sided", kRemark,
     "a plugin's table for one-sided communication is refused", "NCCL goes on with its own network.",
     "install a newer plugin"},
    {"nable to use GIN", "one-sided", kHarmless, "NCCL's one-sided communication (GIN) does not start",
     "Collectives do without.", "modprobe nvidia_peermem"},
    {"Failed to open libnvidia-ml", "cuda-driver", kCause, "NVML is not there",
     "The container has no NVIDIA driver libraries.", "docker run --gpus all ..."},
    {"nvml&failed", "cuda-driver", kCause, "NVML, the GPUs' management library, failed",
     "The driver or a GPU is in trouble, or the library is of another version than the driver.",
     "nvidia-smi\ndmesg | grep -i xid"},
    {"CPU NUMA nodes", "nic-place", kHarmless, "the machine's tree is not as NCCL expects",
     "NCCL may choose far NICs.", "railwise explain"},
};

}  // namespace

std::span<const KnownLine> knownNcclWarnings() { return kNcclLines; }

}  // namespace railwise::doctor
