// What NCCL's warnings mean (2.13 to 2.32, and RCCL's): first rows by key words, which are the same in most
// releases, then families by source file, which take every other warning of the file. A test holds the table
// against NCCL's sources (tests/doctor/log/vocabulary_test.py).
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
    "export NCCL_SOCKET_IFNAME={interface}\n"
    "name the interface that all nodes reach each other by (ip -br address), and open its ports in the "
    "firewall";
constexpr char kShmFix[] =
    "docker run --shm-size=16g ...  # Kubernetes: an emptyDir of medium Memory on /dev/shm\n"
    "df -h /dev/shm; ls /dev/shm/nccl-*  # remove what dead jobs have left";
constexpr char kCudaFix[] =
    "dmesg | grep -i xid\nnvidia-smi -q -d ECC,PAGE_RETIREMENT\n"
    "export CUDA_LAUNCH_BLOCKING=1  # once: names the call of the program that failed";
constexpr char kPeerFix[] = "look at the log of that rank, and at its node (dmesg: out of memory, Xid)";
constexpr char kCallerFix[] = "compare the collectives, counts and types that the ranks call, in their order";
constexpr char kNoAddressWhy[] =
    "The address of the peer cannot be resolved: on RoCE the two ends are in different networks, or the "
    "chosen GID has no route; on InfiniBand a port is not active, or the subnet manager does not know it.";
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
constexpr char kSameHostWhy[] =
    "Ranks of one host hand over memory through a Unix socket, and no network interface matters for it. As a "
    "rule the other rank is in a container with another network namespace or another /tmp, or it has ended.";
constexpr char kSameHostFix[] =
    "docker run --network host --ipc host ...  # for both ranks, or one pod with all ranks of the host\n"
    "export NCCL_CUMEM_ENABLE=0  # or another NCCL_HOSTID for each container: they then use the network";
constexpr char kNvlsWhy[] =
    "NVLink SHARP (multicast in the NVSwitches) cannot be set up: Fabric Manager is not running, was "
    "restarted under running GPUs or is of another version than the driver, or the container lacks "
    "/dev/nvidia-caps.";
constexpr char kNvlsFix[] =
    "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric\n"
    "sudo nvidia-smi -r  # with no job on the GPUs; else reboot\n"
    "export NCCL_NVLS_ENABLE=0  # meanwhile";
constexpr char kFabricWhy[] =
    "The GPUs of an NVSwitch machine cannot be used until Fabric Manager has set up the switches: "
    "nvidia-fabricmanager is not installed, not running, or of another version than the driver. NCCL was "
    "never reached, so NCCL_DEBUG shows nothing of it.";
constexpr char kFabricFix[] =
    "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric\n"
    "dpkg -l | grep -i fabricmanager; cat /proc/driver/nvidia/version  # the two versions must be equal\n"
    "sudo systemctl enable --now nvidia-fabricmanager";
constexpr char kImexWhy[] =
    "The GPUs of several hosts share one NVLink domain, and the ranks cannot exchange handles of memory: "
    "IMEX does not run on every host of the domain, or the container has no IMEX channel.";
constexpr char kImexFix[] =
    "ls /dev/nvidia-caps-imex-channels  # in the container, on every host\n"
    "nvidia-imex-ctl -N; systemctl status nvidia-imex  # every host of the domain\n"
    "nvidia-smi -q | grep -A4 Fabric  # State Completed, Status Success: else the fabric manager\n"
    "export NCCL_MNNVL_ENABLE=0  # meanwhile: the network instead of NVLink between hosts";
constexpr char kPeerGpuWhy[] =
    "A broken NVLink, ACS or an IOMMU between the GPUs, a virtual machine, or GPUs that the container does "
    "not see.";
constexpr char kPeerGpuFix[] =
    "nvidia-smi topo -p2p r; nvidia-smi nvlink -s\n"
    "dmesg | grep -i xid\n"
    "sudo lspci -vvv | grep ACSCtl  # SrcValid+, ReqRedir+ or CmpltRedir+: ACS is on";
constexpr char kBrokenLinkFix[] =
    "nvidia-smi topo -p2p r; nvidia-smi nvlink -s  # which link is down\n"
    "dmesg | grep -i xid\n"
    "do not set NCCL_IGNORE_DISABLED_P2P=1: it hides a broken NVLink, and the job is slow";
constexpr char kTooOldWhy[] =
    "The library has no code for this GPU: NCCL, or the program, was built for older ones.";
constexpr char kTooOldFix[] =
    "python -c 'import torch; print(torch.cuda.nccl.version(), torch.cuda.get_arch_list())'\n"
    "nvidia-smi --query-gpu=name,compute_cap --format=csv\n"
    "install an NCCL and a framework for this GPU";
constexpr char kProgramWhy[] = "NCCL refuses what the program asks for.";
constexpr char kProgramFix[] =
    "look at the program's call of NCCL: the line names the function or the argument";
constexpr char kInnerWhy[] =
    "A check of NCCL's own that no healthy job meets: as a rule the consequence of an earlier error of this "
    "rank or of its peer, or memory that something has overwritten.";
constexpr char kInnerFix[] =
    "look for an earlier warning of this rank and of its peers\n"
    "if there is none: report it with NCCL's version at https://github.com/NVIDIA/nccl/issues";
constexpr char kGdrCopyWhy[] =
    "Its module or library (gdrdrv, libgdrapi) is missing or of another version. NCCL uses it only where "
    "NCCL_GDRCOPY_ENABLE=1 asks for it.";
constexpr char kGdrCopyFix[] = "unset NCCL_GDRCOPY_ENABLE\nlsmod | grep gdrdrv";
constexpr char kSharpWhy[] =
    "The aggregation manager (sharp_am) does not run, does not answer, or has given all trees to other jobs.";
constexpr char kSharpFix[] =
    "sharp_hello -d <NIC>:1; systemctl status sharp_am  # the latter where the subnet manager runs\n"
    "export NCCL_COLLNET_ENABLE=0  # without it";
constexpr char kTopologyFix[] = "railwise topo lint FILE\nunset NCCL_TOPO_FILE";

constexpr KnownLine kNcclLines[] = {
    {"UDS|ncclProxyClientGetFd|ncclProxyCallBlockingUDS|ncclProxyClientQueryFd|ncclIpcSocket|IPC socket",
     "unix-socket", kCause, "two ranks of one host cannot hand over memory by Unix socket", kSameHostWhy,
     kSameHostFix},
    {"mixed local Net device", "mixed-nics", kCause, "the ranks offer different numbers of NICs",
     "A port is down on one host, its NCCL_IB_HCA differs, or its container lacks a device.",
     "ibstat; railwise devices  # on the hosts that differ\n"
     "leave NCCL_IGNORE_NET_MISMATCH=0: with 1, NCCL's default, connections over the missing NIC wait for "
     "ever",
     "", false},
    {"ncclIbRoceGetVersionNum", "gid-type", kCause,
     "the type of an address (GID) of a RoCE port cannot be read",
     "An entry of the port's GID table belongs to another network namespace, as in pods with macvlan or "
     "SR-IOV, or was removed meanwhile.",
     "show_gids  # in the container: which indexes it sees\n"
     "export NCCL_IB_GID_INDEX=<an index that show_gids lists here>"},
    {"Got CQE with error", "completion-error", kCause, "a completion with an error",
     "The line that follows has the status.", "dmesg | grep -i mlx5"},

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
    {"Call to ibv_create_&No space left on device|Call to ibv_create_&temporarily unavailable", "verbs-call",
     kCause, "the NIC has no queue pair or completion queue left",
     "All that the NIC, or the cgroup of the container, may "
     "have are in use.",
     "rdma resource show  # who has them, beside limits of rdma.max in /sys/fs/cgroup\n"
     "ibv_devinfo -v | grep -E 'max_qp|max_cq'"},
    {"Call to ibv_create_&nvalid argument", "verbs-call", kCause,
     "a completion queue or a queue pair cannot be made: invalid argument (22)",
     "The NIC does not take the sizes or flags that NCCL asks for.",
     "ibv_devinfo -v | grep max_  # and the versions of firmware and rdma-core"},
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
    {"sync event&port active", "port-event", kHarmless, "a port came up again", "The link was down before."},
    {"sync event&client reregistration", "port-event", kHarmless,
     "the fabric's manager asks its clients to register again", kHarmlessEvent},
    {"sync event&SM change", "port-event", kHarmless, "the fabric has another subnet manager",
     kHarmlessEvent},
    {"sync event&LID change|sync event&LID table", "port-event", kHarmless, "a port got another LID",
     kHarmlessEvent},
    {"sync event&P_Key change|sync event&P_Key table|sync event&PKey table", "port-event", kHarmless,
     "a port's partition keys changed", kHarmlessEvent},
    {"sync event&last WQE reached", "port-event", kHarmless, "a queue pair has done its last work",
     kHarmlessEvent},
    {"sync event&communication established", "port-event", kHarmless, "a queue pair got its first message",
     kHarmlessEvent},
    {"sync e&vent", "port-event", kCause, "a NIC or its port had a fault",
     "The link went down, or the device failed; NCCL's own network does not survive that, Railwise does if "
     "another port is left.",
     "ibstat; mstlink -d {PCI_address} -m  # package mstflint\ndmesg | grep -i mlx5\nexport "
     "NCCL_NET_PLUGIN=railwise"},
    {"async fatal event", "port-event", kCause, "a NIC or its queue pair failed",
     "The device has given up the work; the job ends.",
     "dmesg | grep -i mlx5\nmstlink -d {PCI_address} -m  # package mstflint"},
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

    {"SHARP coll|Sharp init|sharp_coll|SHARP job|SHArP", "switch-reduction", kRemark,
     "the plugin of SHARP got no reduction in the switches, and NCCL does without", kSharpWhy, kSharpFix},
    {"Cannot initialize CollNet", "switch-reduction", kRemark,
     "reduction in the switches (CollNet, SHARP) cannot be used, and NCCL does without",
     "An earlier line of the SHARP plugin says why, or not all ranks have it.", kSharpFix},
    {"Connection closed by remote peer", "connection-closed", kConsequence,
     "another rank closed its connection", "As a rule that rank failed first, or was killed.", kPeerFix},
    {"onnection reset by peer|Broken pipe", "connection-closed", kConsequence,
     "another rank's process went away", "As a rule that rank failed first, or was killed.", kPeerFix},
    {"rxdm|NET/FasTrak&unix socket|NET/GPUDirectTCPX&unix socket", "unix-socket", kCause,
     "the plugin of GPUDirect-TCPX cannot reach its daemon (rxdm)",
     "The container with rxdm does not run beside this one, is not ready yet, or does not share its folder "
     "of "
     "Unix sockets. No network interface matters for it.",
     "kubectl logs <the pod> -c <the container of rxdm>  # does it run?\n"
     "ls -l <the socket's folder>  # in the job's container: one volume for both"},
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
    {"MNNVL: Cuda failure", "mnnvl-imex", kCause,
     "memory of a GPU cannot be shared over NVLink between hosts (MNNVL)", kImexWhy, kImexFix},
    {"uda failure&out of memory", "cuda-failure", kCause, "a GPU has no memory left",
     "NCCL needs some hundred MiB of each GPU for its buffers.",
     "nvidia-smi\nlower the batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {"uda failure", "nvls-setup", kCause, "NVLink SHARP (NVLS) cannot be set up", kNvlsWhy, kNvlsFix,
     "nvls.cc"},
    {"NVLS&Multicast|multicast&bind|Multicast&bind", "nvls-setup", kCause,
     "NVLink SHARP (NVLS) cannot be set up", kNvlsWhy, kNvlsFix},
    {"NCCL_NVLS_ENABLE", "nvls-setup", kCause,
     "NVLink SHARP (NVLS) cannot be used by several ranks of one GPU",
     "Multicast needs a whole GPU for each rank (MPS and MIG have none).", "export NCCL_NVLS_ENABLE=0"},
    {"NCCL_IGNORE_DISABLED_P2P|P2P is disabled between", "gpu-peer", kCause,
     "P2P is off between GPUs that NVLink joins", kPeerGpuWhy, kBrokenLinkFix, "", false},
    {"ailed to peer with device|peer access is not supported", "gpu-peer", kCause,
     "a GPU cannot reach another one", kPeerGpuWhy, kPeerGpuFix, "", false},
    {"o transport found|has no transport", "gpu-peer", kCause, "two ranks have no way to each other",
     "P2P and shared memory are off by setting or not possible, and there is no network.",
     "unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_NET\nnvidia-smi topo -p2p r"},
    {"cudaIpcGetMemHandle", "gpu-peer", kCause, "GPU memory cannot be shared with another rank", kPeerGpuWhy,
     kPeerGpuFix},
    {"cliqueSize|MNNVL", "mnnvl-imex", kCause, "NVLink between hosts (MNNVL) is there and cannot be used",
     kImexWhy, kImexFix},
    {"uda failure 802|ystem not yet initialized", "fabric-manager", kCause,
     "the GPUs' NVSwitch fabric is not up (CUDA error 802, system not yet initialized)", kFabricWhy,
     kFabricFix},
    {"no kernel image|uda failure 209|nvalid device function", "nccl-too-old", kCause,
     "there is no code for this GPU", kTooOldWhy, kTooOldFix},
    {"driver version is insufficient|uda failure 35", "cuda-driver", kCause, "the CUDA driver is too old",
     "The program or NCCL was built for a newer CUDA than the driver knows.",
     "nvidia-smi\ninstall a newer driver"},
    {"nvalid device ordinal", "cuda-failure", kCause, "the program names a GPU that it does not see",
     "CUDA_VISIBLE_DEVICES or the container leaves fewer GPUs than the launcher counts.",
     "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L  # of each rank"},
    {"uda failure|unhandled cuda error", "cuda-failure", kCause, "a call of CUDA failed",
     "The GPU or the program failed before NCCL; an earlier kernel can be the reason.", kCudaFix},
    {"unhandled system error", "system-error", kCause, "a system call failed",
     "The line before names the call.", "export NCCL_DEBUG=INFO"},

    {"No space left on device|failed to extend", "shared-memory", kCause, "/dev/shm is full",
     "The ranks of a node share memory there; containers get 64 MiB by default.", kShmFix},
    {"shared memory|hared memory", "shared-memory", kCause, "shared memory cannot be made or opened",
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
    {"ould not open XML graph file", "topology-file", kCause, "the graph file cannot be opened",
     "NCCL_GRAPH_FILE names the file, and NCCL's init ends without it.", "unset NCCL_GRAPH_FILE"},
    {"ould not open XML", "topology-file", kRemark, "the topology file cannot be opened",
     "NCCL goes on without it, by what /sys says.", kTopologyFix},
    {"XML", "topology-file", kCause, "a topology or graph file is wrong", "NCCL cannot use the file.",
     kTopologyFix},
    {"Could not find real path of", "nic-place", kHarmless, "a NIC's place in /sys is not known",
     "A virtual device: NCCL cannot tell which GPU is near it.", "railwise explain", "net_ib"},
    {"Could not find real path of&infiniband", "nic-place", kHarmless, "a NIC's place in /sys is not known",
     "A virtual device: NCCL cannot tell which GPU is near it.", "railwise explain"},
    {"Could not find real path of", "device-place", kCause, "a device's PCI address is not in /sys",
     "The address in the line (compare it with busId of the ranks' init lines: as a rule a GPU) is not in "
     "/sys: the container or virtual machine shows another /sys than the devices it was given.",
     "ls -l /sys/bus/pci/devices/  # in the container\n"
     "nvidia-smi --query-gpu=index,pci.bus_id --format=csv\n"
     "docker run -v /sys:/sys ...  # or NCCL_TOPO_FILE=<a file of the machine>"},
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
    {"NET/OFI&regis|NET/OFI&MR |NET/OFI&mr_|NET/OFI&emory handle", "plugin-warning", kRemark,
     "the plugin aws-ofi-nccl cannot register memory",
     "The limit of locked memory, or GPU memory without dma-buf and without nvidia_peermem (EFA: "
     "efa_nv_peermem).",
     "ulimit -l  # should be unlimited\nlsmod | grep peermem"},
    {"NET/OFI&completed with "
     "error|NET/OFI&cq|NET/OFI&CQ|NET/OFI&posting|NET/OFI&fi_send|NET/OFI&fi_write|NET/OFI&fi_read",
     "plugin-warning", kRemark, "a transfer of the plugin aws-ofi-nccl failed",
     "The peer's process has ended, a link failed, or the security group of EFA drops the packets.",
     "look at the log of the peer, and at its node (dmesg)\n"
     "rdma statistic show; the EFA interfaces' security group must allow all traffic to itself"},
    {"NET/OFI&topo|NET/OFI&hwloc|NET/OFI&PCI|NET/OFI&bus id|NET/OFI&NUMA|NET/OFI&NIC", "plugin-warning",
     kRemark, "the plugin aws-ofi-nccl cannot make sense of the machine's tree of devices",
     "NICs are grouped and offered in another way than on the machine that the plugin knows, or not at all.",
     "lspci -tv\nunset OFI_NCCL_TOPO_FILE_TEMPLATE NCCL_TOPO_FILE"},
    {"NET/OFI&CUDA|NET/OFI&cuMem|NET/OFI&cuStream|NET/OFI&cuCtx|NET/OFI&cuda|NET/OFI&gdr|NET/OFI&GDR|NET/"
     "OFI&hipE|NET/OFI&HSA|NET/OFI&stream capture",
     "plugin-warning", kRemark, "the plugin aws-ofi-nccl cannot use the GPU's library",
     "The driver, libcudart or GDRCopy of the image does not fit the plugin.",
     "nvidia-smi; ldd <the plugin's file>"},
    {"NET/OFI&OFI_NCCL_|NET/OFI&FI_EFA|NET/OFI&setenv|NET/OFI&environment", "plugin-warning", kRemark,
     "a setting of the plugin aws-ofi-nccl is not as it wants it", "The line names the setting.",
     "env | grep -e OFI_NCCL -e FI_"},
    {"NET/OFI&Invalid|NET/OFI&not been "
     "initialized|NET/OFI&NULL|NET/OFI&null|NET/OFI&nexpected|NET/OFI&uplicate",
     "plugin-warning", kRemark, "a check inside the plugin aws-ofi-nccl failed",
     "As a rule an earlier error broke a connection, or plugin and NCCL do not fit.",
     "look for an earlier warning of this rank and of its peers\n"
     "export NCCL_NET_PLUGIN=none  # once: does it fail without the plugin?"},
    {"NET/OFI", "plugin-warning", kRemark, "the plugin aws-ofi-nccl warns",
     "It may be the reason why another network is used.", "fi_info -p efa  # the provider that it needs"},
    {"Resiliency is enabled&single device", "net-ib-failover", kHarmless,
     "NCCL's own failover has no other NIC to go to", "A failure of the NIC ends the job.",
     "export NCCL_NET_PLUGIN=railwise  # goes on over the other NICs of the node"},
    {"marked as failed", "net-ib-failover", kRemark, "NCCL's own network lost a NIC and goes on",
     "The job is slower without the NIC.", "ibstat; mstlink -d {PCI_address} -m  # package mstflint"},
    {"Fatal error. Detected&failed devices", "net-ib-failover", kCause, "NCCL's own network has no NIC left",
     "All NICs of a connection have failed.", "ibstat; mstlink -d {PCI_address} -m  # package mstflint"},
    {"GDRC|gdr_|GDRDRV", "cuda-driver", kRemark, "GDRCopy failed", kGdrCopyWhy, kGdrCopyFix},
    {"", "cuda-driver", kRemark, "GDRCopy failed", kGdrCopyWhy, kGdrCopyFix, "gdrwrap"},
    {"lib wrapper not initialized", "one-sided", kHarmless,
     "NCCL's one-sided communication (GIN, RMA) does not start: libibverbs is not in use",
     "2.29 and newer look for it in any case; collectives do without."},
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
     "Collectives do without."},
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

    // Families by source file: what no row above knows.
    {"Call to", "verbs-call", kCause, "a call of the RDMA library failed",
     "The NIC or its driver refused a request of NCCL.", "dmesg | tail\nibv_devinfo -v",
     "ibvwrap|mlx5dvwrap"},
    {"create_qp", "queue-pair", kCause, "a queue pair cannot be made",
     "A limit of memory that may be locked, of the NIC or of its firmware.",
     "ulimit -l unlimited\ndmesg | tail"},
    {"SocketProgress", "connection-closed", kConsequence, "another rank's process went away",
     "As a rule that rank failed first, or was killed.", kPeerFix},
    {"[Service thread] Accept failed", "connection-closed", kConsequence,
     "a rank's proxy accepts no connection", "As a rule the job is ending already.", kPeerFix},
    {"exceeded&attempts|ccept&failed|onnect&failed|onnect&returned", "connection-refused", kCause,
     "a TCP connection to a peer cannot be made",
     "The peer has ended, a firewall drops the packets, or an interface that the hosts do not share.",
     kInterfaceFix},
    {"Call to&failed|Call to&returned|Thread creation|thread&join", "system-error", kCause,
     "the operating system refused a call of NCCL",
     "The line names the call; a limit of the container or of the user as a rule.",
     "ulimit -a; dmesg | tail"},
    {"Allocation&failed|malloc|calloc", "out-of-memory", kCause, "no memory", "The node has no memory left.",
     "free -g; dmesg | grep -i oom"},
    {"NCCL library is too old", "program-call", kCause, "the program was compiled for a newer NCCL",
     "The library that is loaded lacks what the program calls.",
     "load the NCCL that the program was compiled with: LD_LIBRARY_PATH, pip list | grep nccl"},
    {"ompiled|compatible", "program-call", kCause, "the program was compiled for an older NCCL",
     "Its device code does not fit the library that is loaded.",
     "build the program again with this NCCL's headers", "dev_runtime|devcomm"},
    {"", "port-event", kHarmless, "NCCL's network reports an event of a NIC", kHarmlessEvent, "",
     "net_ib/common.cc"},
    {"merge|fused|vNic|virtual|plane", "device-mismatch", kCause, "NICs cannot be fused or used as one",
     "NCCL_NET_FORCE_MERGE or NCCL_NET_MERGE_LEVEL asks for NICs that do not fit, or a port of one is "
     "missing.",
     "unset NCCL_NET_FORCE_MERGE NCCL_NET_MERGE_LEVEL\nibstat  # the ports of one card", "net_ib|topo.cc"},
    {"OOO|ooo", "queue-pair", kCause, "out-of-order receives are asked for and not possible",
     "NCCL_IB_OOO_RQ is set, and one of the NICs cannot do it.", "unset NCCL_IB_OOO_RQ", "net_ib"},
    {"remote FLID configured as zero", "queue-pair", kRemark,
     "the peer is in another InfiniBand subnet, and has no address that routers know (FLID)",
     "NCCL goes on with the peer's LID, which is valid in its own subnet alone.",
     "look for FLID in the subnet manager's configuration, on both subnets", "net_ib"},
    {"subnet|SUBNET", "queue-pair", kCause, "the subnets of two InfiniBand ports do not fit",
     "The ports are in different InfiniBand subnets and no router joins them, or NCCL_IB_SUBNET_PREFIX_LEN "
     "is wrong.",
     "unset NCCL_IB_SUBNET_PREFIX_LEN\nibv_devinfo -v | grep GID  # on both hosts", "net_ib"},
    {"Unable to query|query port|port_num", "device-closed", kCause, "a NIC cannot be asked for its ports",
     "The NIC's firmware or driver does not answer.", "ibv_devinfo\ndmesg | grep -i mlx5", "net_ib"},
    {"esiliency|device", "net-ib-failover", kCause, "NCCL's own failover between NICs gives up",
     "No NIC of the connection is left, or an inner step of the failover failed.",
     "ibstat; mstlink -d {PCI_address} -m  # package mstflint\nexport NCCL_NET_PLUGIN=railwise",
     "p2p_resiliency"},
    {"", "inner-check", kCause, "a check inside NCCL's failover between NICs failed", kInnerWhy, kInnerFix,
     "p2p_resiliency"},
    {"DOCA|doca", "one-sided-failed", kCause, "device-side communication (GDAKI) fails in DOCA",
     "The DOCA library, the NIC's firmware or a driver for GPU-driven NICs is missing or too old.", kProxyFix,
     "gdaki"},
    {"", "one-sided-failed", kCause, "one-sided communication (GIN, RMA) fails", kOneSidedWhy, kOneSidedFix,
     "gin|rma|gdaki|devcomm"},
    {"", "inner-check", kCause, "a check inside NCCL's InfiniBand network failed", kInnerWhy, kInnerFix,
     "net_ib"},
    {"lvsym|lsym", "verbs-call", kCause, "the library of RDMA lacks a function",
     "rdma-core is older than this NCCL expects.",
     "apt install libibverbs1 ibverbs-providers  # a newer rdma-core", "ibvsymbols|mlx5dv"},
    {"", "verbs-call", kCause, "a call of the RDMA library failed",
     "The NIC or its driver refused a request of NCCL.", "dmesg | tail\nibv_devinfo -v", "ibv|mlx5dv"},
    {"COMM_ID|COMM_ID_FILE|hostname|OOB_NET", "socket-interface", kCause,
     "the address for the bootstrap is not valid",
     "NCCL_COMM_ID must be <address>:<port>, and NCCL_OOB_NET_IFNAME an interface of the host.",
     "unset NCCL_COMM_ID NCCL_OOB_NET_IFNAME", "bootstrap"},
    {"usable", "socket-interface", kCause, "no network interface for the bootstrap",
     "NCCL_SOCKET_IFNAME chooses none, or none is up.", kInterfaceFix, "bootstrap"},
    {"Root|procs", "ranks-mismatch", kCause, "the ranks do not agree on how many they are",
     "Two jobs meet at one address, or the launcher gave ranks or their places twice.",
     "compare RANK, WORLD_SIZE and MASTER_PORT of all ranks", "bootstrap"},
    {"", "program-call", kCause, "the bootstrap was called wrongly", kProgramWhy, kProgramFix, "bootstrap"},
    {"ffinity", "process-limits", kRemark, "the CPUs of a thread cannot be chosen",
     "The container or the launcher allows other CPUs.",
     "taskset -pc <pid>; cat /sys/fs/cgroup/cpuset.cpus.effective"},
    {"getting address|hostname|address family|with family|port> pair|string is null|NULL string",
     "connection-refused", kCause, "the name or address of a peer cannot be resolved",
     "DNS of the pods, or /etc/hosts of the node, lacks it.", "getent hosts <the name in the line>",
     "socket.cc|socket.h"},
    {"NTHREADS|NSOCKS|SOCKETS|sockets", "setting-value", kRemark,
     "a setting of Socket is larger than NCCL takes", "NCCL uses the most that it knows.",
     "unset NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD", "net_socket"},
    {"", "inner-check", kCause, "a check inside NCCL's sockets failed", kInnerWhy, kInnerFix,
     "socket|net_socket|linux_socket"},
    {"shm|SHM|map|unlink|file|extend|attaching|locality", "shared-memory", kCause,
     "shared memory between ranks of a host failed",
     "/dev/shm is full, not writable, or not shared by the ranks.", kShmFix, "shm|os/linux.cc"},
    {"", "shared-memory", kCause, "shared memory between ranks of a host failed",
     "/dev/shm is full, not writable, or not shared by the ranks.", kShmFix, "transport/shm|shmutils"},
    {"", "system-error", kCause, "the operating system refused a call of NCCL",
     "The line names the call; a limit of the container or of the user as a rule.", "ulimit -a; dmesg | tail",
     "os/"},
    {"", "nvls-setup", kCause, "NVLink SHARP (NVLS) cannot be set up", kNvlsWhy, kNvlsFix, "nvls|multimem"},
    {"", "mnnvl-imex", kCause, "NVLink between hosts (MNNVL) is there and cannot be used", kImexWhy, kImexFix,
     "mnnvl"},
    {"", "switch-reduction", kCause, "reduction in the switches (CollNet, SHARP) failed",
     "The SHARP plugin or its aggregation manager does not work, or the ranks differ.",
     "export NCCL_COLLNET_ENABLE=0  # without it", "coll_net|collnet"},
    {"CollNet|COLLNET|point to point", "switch-reduction", kCause,
     "reduction in the switches (CollNet, SHARP) cannot be used", "Not all ranks have the plugin for it.",
     "export NCCL_COLLNET_ENABLE=0  # without it", "init.cc|transport.cc|coll_net"},
    {"set CUDA|set the|SetDevice", "cuda-failure", kRemark, "NCCL's proxy cannot use the GPU",
     "MIG, or a GPU that fell off the bus.", "nvidia-smi\ndmesg | grep -i xid", "proxy.cc"},
    {"Too many", "process-limits", kCause, "more connections than NCCL's proxy takes",
     "Too many ranks of one host, or calls that are not of this job.", "ulimit -n 1048576", "proxy.cc"},
    {"Service|poll|abort|execute|receive|closing", "proxy-failed", kConsequence,
     "NCCL's proxy failed for a rank of this node", "An earlier warning names the reason.", kPeerFix,
     "proxy.cc"},
    {"", "inner-check", kCause, "a check inside NCCL's proxy failed", kInnerWhy, kInnerFix, "proxy.cc"},
    {"", "plugin-api", kCause, "a plugin's numbers or functions do not fit this NCCL",
     "A plugin of another release, or one with a mistake.", "export NCCL_NET_PLUGIN=none  # without it",
     "plugin/|src/net.cc|net.cc:"},
    {"IPC|ipc handle|peer with|peer access|peer device", "gpu-peer", kCause,
     "the way between two GPUs of a host failed", kPeerGpuWhy, kPeerGpuFix, "transport/p2p"},
    {"", "gpu-peer", kCause, "two ranks have no way to each other", kPeerGpuWhy, kPeerGpuFix, "transport.cc"},
    {"", "setting-value", kCause, "NCCL_ALGO, NCCL_PROTO or a tuner's file is not understood",
     "The line shows the words that NCCL cannot read.", "unset NCCL_ALGO NCCL_PROTO", "tuning"},
    {"", "topology-file", kCause, "a topology or graph file is wrong", "NCCL cannot use the file.",
     kTopologyFix, "graph/xml"},
    {"", "topology-path", kCause, "NCCL cannot make sense of the machine's tree of devices",
     "A virtual machine or a container hides a part of the PCIe tree, the topology file does not fit, or the "
     "machine is newer than this NCCL.",
     "railwise topo lint FILE\nrailwise explain\nunset NCCL_TOPO_FILE NCCL_GRAPH_FILE", "graph/"},
    {"", "setting-value", kRemark, "an algorithm file of RCCL's MSCCL is not understood, or does not fit",
     "RCCL is not installed whole, or MSCCL_ALGO_DIR names other files.",
     "export RCCL_MSCCL_ENABLE=0  # without MSCCL\nunset MSCCL_ALGO_DIR MSCCL_ALGO_FILE", "msccl"},
    {"", "cuda-driver", kCause, "a function of ROCm (HSA, ROCm SMI) failed",
     "The driver amdgpu does not run, is of another release than ROCm in the image, or the container lacks "
     "/dev/kfd and /dev/dri.",
     "rocminfo; rocm-smi\ndocker run --device=/dev/kfd --device=/dev/dri --group-add video ...",
     "alt_rsmi|rocm_smi|rocmwrap"},
    {"", "cuda-driver", kCause, "a function of the GPU's driver or of NVML failed",
     "The driver is older than this NCCL wants, or the container has another library than the host's driver.",
     "nvidia-smi\ninstall a newer driver", "nvml|cudawrap|strongstream|alloc.h"},
    {"ecc|ECC|xid|Xid|Unrecoverable", "cuda-failure", kCause, "a GPU has a fault",
     "The memory of the GPU failed.", kCudaFix, "utils"},
    {"alloc|resize", "out-of-memory", kCause, "no memory", "The node has no memory left.",
     "free -g; dmesg | grep -i oom", "utils|alloc|checks.h"},
    {"Coll|sendReg|offset", "mismatched-collective", kCause,
     "the ranks registered or called with different buffers",
     "Buffers and counts must be alike on all ranks.", kCallerFix, "argcheck"},
    {"WORK_FIFO|WARN_ENABLE|NCCL_CTA_POLICY|fifo|Duplicate", "setting-value", kRemark,
     "a setting is not as NCCL wants it", "NCCL goes on with another value.",
     "unset the setting that the line names", "init.cc|param"},
    {"ocalRank|nLocals|intraProc|Group|bugs", "ranks-mismatch", kCause,
     "NCCL cannot place the ranks on the hosts",
     "NCCL_HOSTID or the host names are equal on hosts that differ, or differ between ranks of one host.",
     "hostname  # on all hosts\nunset NCCL_HOSTID", "init.cc"},
    {"GIN|symmetric", "one-sided-failed", kCause, "one-sided communication (GIN, RMA) fails", kOneSidedWhy,
     kOneSidedFix, "init.cc|enqueue.cc|dev_runtime"},
    {"destroy|sync|callback|ProxyStop|reclaim|cleanup|AsyncError", "inner-check", kConsequence,
     "closing a communicator failed", "As a rule an earlier error broke the communicator.", kPeerFix,
     "init.cc"},
    {"", "program-call", kCause, "NCCL refuses a call of the program", kProgramWhy, kProgramFix,
     "init.cc|enqueue|group.cc|argcheck|dev_runtime|ce_coll|scheduler|param|collectives|init_nvtx|allocator|"
     "register|recorder"},
    {"", "program-call", kCause, "memory of a communicator cannot be suspended or resumed",
     "The program calls out of order, or the driver refused memory.", kProgramFix, "mem_manager"},
    {"", "inner-check", kCause, "a check inside NCCL failed", kInnerWhy, kInnerFix,
     "utils|ras/|transport/p2p|channel.cc|transport/"
     "net.cc|coll_net|checks.h|debug|profiler|clique|tuner|npkit|ipcsocket|latency|core|transport/"
     "generic|rail"},
};

}  // namespace

std::span<const KnownLine> knownNcclWarnings() { return kNcclLines; }

}  // namespace railwise::doctor
