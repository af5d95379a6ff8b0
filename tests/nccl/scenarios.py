"""Runs of real NCCL on software GPUs that differ in one thing each: an algorithm, a protocol, a transport, what the devices can do."""
import dataclasses
import re

import judge
from job import Job
from unavailable import Unavailable

# NCCL says which algorithm and protocol each collective takes.
TUNING = {"NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV,TUNING,P2P,SHM,REG"}
ONE_SIDED_LOG = {"NCCL_DEBUG_SUBSYS": TUNING["NCCL_DEBUG_SUBSYS"] + ",COLL"}  # what becomes of puts, signals and waits
SMALL = 65536
GPU_DIRECT = "@dgx;gpudirect=on"
# Also the ranks of one host reach each other through the network alone. 2.29.2 and 2.29.3 do not know the variable.
TEAMS_OF_ONE = {"NCCL_LSA_TEAM_SIZE": "1"}
IN_TEAMS_OF_ONE = (r"NCCL_LSA_TEAM_SIZE set by environment to 1",)
# What NCCL makes of puts, signals and waits: the network's, and the copy engine's (a rank's to itself among them).
BY_NETWORK = r"nRmaTasksProxy=[1-9]"
BY_COPY_ENGINE = r"nRmaTasksCe=[1-9]"
# RCCL takes GPU memory by dma-buf only where it is asked to, and looks for the kernel's configuration unless it is forced.
RCCL_DMABUF = {"NCCL_DMABUF_ENABLE": "1", "RCCL_FORCE_ENABLE_DMABUF": "1"}
RCCL_FORCED = ("DMA_BUF Support is force enabled",)
# NCCL warns of devices that are in no /sys: its own IB network does, which 2.29 opens for one-sided communication, and its search of the PCIe tree.
EXPECTED_WARNINGS = ("Could not find real path of ",)


@dataclasses.dataclass(frozen=True)
class Scenario:
    what: str
    machine: str = "default"
    hosts: int = 2
    gpus: int = 1
    checks: str = "collectives"
    largest: int = SMALL  # bytes
    environment: dict = dataclasses.field(default_factory=dict)
    # Regular expressions that the logs of all ranks together must have, and must not.
    has: tuple = ()
    lacks: tuple = ()
    warns: tuple = ()  # how warnings of NCCL begin that the checks cause
    campaign: bool = False  # too long for every run
    product: str = "nccl"  # or "rccl"
    one_sided: bool = False  # windows and RMA: some table must serve them, and its devices must be Railwise's


def algorithm(all_reduce, gathers, protocol):
    """NCCL takes these for every collective that has them."""
    return {"NCCL_ALGO": f"allreduce:{all_reduce};allgather:{gathers};reducescatter:{gathers}", "NCCL_PROTO": f"allreduce:{protocol}"}


RMA_OURS_SINCE = 23007  # the release whose RMA tables the plugin exports
RMA_SINCE = 22902  # the release of NCCL that brought host RMA; windows are older
HIERARCHICAL = (r"AllGather \[Hierarchical CE\]", r"AlltoAll \[Hierarchical CE\]")
GIN = "gin_put,gin_order,gin_counters,gin_flush,gin_many_writers,gin_reset,gin_contexts,gin_queue,gin_values"
GIN_CONNECTED = (r"devCommCreate: .*GIN connections",)
# What scripts/nccl-check asks of one-sided communication: some of each kind.
ONE_SIDED = ("windows", "rma", "graph_rma", "zero_cta", "gin_put", "gin_many_writers", "gin_get")

SCENARIOS = {
    "ring_simple": Scenario("rings, Simple", hosts=3, environment=algorithm("ring", "ring", "simple"), has=(r"AllReduce.*Algo RING proto SIMPLE",), campaign=True),
    "ring_ll": Scenario("rings, LL", hosts=3, environment={"NCCL_ALGO": "ring", "NCCL_PROTO": "LL"}, has=(r"Algo RING proto LL ",)),
    "ring_ll128": Scenario("rings, LL128", hosts=3, environment={"NCCL_ALGO": "ring", "NCCL_PROTO": "LL128"}, has=(r"Algo RING proto LL128",)),
    "tree_simple": Scenario("trees, Simple", hosts=4, environment=algorithm("tree", "ring", "simple"), has=(r"AllReduce.*Algo TREE proto SIMPLE",), campaign=True),
    "tree_ll": Scenario("trees, LL", hosts=4, environment=algorithm("tree", "ring", "ll"), has=(r"AllReduce.*Algo TREE proto LL ",), campaign=True),
    "tree_ll128": Scenario("trees, LL128", hosts=4, environment=algorithm("tree", "ring", "ll128"), has=(r"AllReduce.*Algo TREE proto LL128",)),
    "pat": Scenario("PAT", hosts=4, environment=algorithm("tree", "pat", "simple"), has=(r"AllGather.*Algo PAT", r"ReduceScatter.*Algo PAT")),
    "gpu_direct": Scenario("GPU memory by dma-buf, and iflush", machine="@dgx;gpudirect=on", checks="collectives,registered",
                           environment={"NCCL_NET_FORCE_FLUSH": "1"},  # from compute capability 9.0 on NCCL does without
                           has=(r"via NET/Railwise/\d+/GDRDMA", r"GPU Direct RDMA Enabled", r"deregistered net buffer"), lacks=(r"GPU Direct RDMA Disabled",)),
    "peer_memory": Scenario("GPU memory by address", machine="@dgx;gpudirect=peermem", checks="collectives,registered",
                            has=(r"via NET/Railwise/\d+/GDRDMA",), campaign=True),
    # What NCCL's proxy and kernels tell each other, and the queue of work, lie in memory that GDRCopy maps.
    "gdrcopy": Scenario("control words in GPU memory, by GDRCopy", machine="@dgx;gpudirect=on", checks="collectives,registered",
                        environment={"NCCL_GDRCOPY_ENABLE": "1", "NCCL_GDRCOPY_FLUSH_ENABLE": "1", "NCCL_NET_FORCE_FLUSH": "1"},
                        has=(r"GDRCOPY enabled library 2\.5 driver 2\.5", r"GDRDMA")),
    # dmabuf=off: NCCL's own IB network, which it opens for one-sided communication, finds no GPUDirect either (docs/one-sided.md).
    "no_gpu_direct": Scenario("host memory", machine="link=ib,count=2,dmabuf=off", has=(r"GPU Direct RDMA Disabled",), lacks=(r"GDRDMA",)),
    "nvlink_pxn": Scenario("NVLink in a host, PXN between hosts", machine="@dgx;gpudirect=on", hosts=2, gpus=4, checks="collectives,split",
                           has=(r"via P2P/CUMEM", r"\[send\] via NET/Railwise/\d+\(\d+\)/GDRDMA"), campaign=True),
    "registered_peers": Scenario("buffers registered with the GPUs of a host", machine=GPU_DIRECT, gpus=2, checks="registered",
                                 has=(r"IPC registering buffer", r"via P2P/CUMEM")),
    "no_cumem": Scenario("memory without cuMem: IPC handles, files in /dev/shm", machine="@dgx;gpudirect=on", gpus=2, checks="collectives,registered",
                         environment={"NCCL_CUMEM_ENABLE": "0"}, has=(r"via P2P/IPC", r"MMAP allocated shareable"), lacks=(r"CUMEM allocated", r"P2P/CUMEM")),
    "shared_memory": Scenario("shared memory in a host", machine="dgx", gpus=2, environment={"NCCL_P2P_DISABLE": "1"},
                              has=(r"via SHM/", r"CUMEM imported shareable host buffer")),
    "fused_ports": Scenario("a virtual device of two ports, made by NCCL", machine="dual-port", environment={"NCCL_NET_MERGE_LEVEL": "PORT"},
                            has=(r"NET/Railwise : made device mlx5_0\+mlx5_1 of 2 rails",)),
    "forced_merge": Scenario("a virtual device that NCCL_NET_FORCE_MERGE names", machine="dgx",
                             environment={"NCCL_NET_FORCE_MERGE": "mlx5_0,mlx5_1", "NCCL_NET_MERGE_LEVEL": "LOC"},
                             has=(r"NET/Railwise : made device mlx5_0\+mlx5_1 of 2 rails",)),
    "registered_graphs": Scenario("graphs whose buffers NCCL registers", machine="@dgx;gpudirect=on", checks="graph,graph_p2p,registered",
                                  environment={"NCCL_GRAPH_REGISTER": "1"}, has=(r"GDRDMA", r"deregistered net buffer")),
    "iwarp": Scenario("iWARP devices", machine="link=iwarp,count=2", checks="collectives"),
    "infiniband": Scenario("InfiniBand devices, adversarial placement", machine="link=ib,count=2;adversarial=on", checks="collectives"),
    "communicators": Scenario("communicators made, split, shrunk, ended and aborted", hosts=3, largest=4096,
                              checks="several,side_by_side,split,shrink,again,finalize,abort"),
    # With the plugin's sanitizers, in their builds; elsewhere it only shows that the scenario itself is right.
    "sanitized": Scenario("the plugin's life under NCCL", machine="@dgx;gpudirect=on", largest=4096,
                          checks="collectives,several,graph,registered,again,finalize,abort", campaign=True),
    # Memory windows and NCCL's host RMA, which NCCL's own IB network serves beside Railwise.
    "windows": Scenario("collectives on windows, registered and symmetric", machine=GPU_DIRECT, gpus=2, checks="windows", one_sided=True,
                        has=(r"register comm \w+ buffer",)),
    "rma": Scenario("put, signal and wait, in children, and ended in all ways", machine=GPU_DIRECT, checks="rma,rma_children,rma_end", one_sided=True,
                    has=(BY_NETWORK,), warns=("One sided RMA: host RMA is not supported in this communicator",)),
    "rma_graphs": Scenario("put and wait in a graph that is replayed", machine=GPU_DIRECT, gpus=2, checks="graph_rma", environment=TEAMS_OF_ONE,
                           one_sided=True, has=(BY_NETWORK, *IN_TEAMS_OF_ONE)),
    "rma_graphs_in_a_host": Scenario("put and wait in a graph, by copy engines and over the network", machine=GPU_DIRECT, gpus=2, checks="graph_rma",
                                     one_sided=True, has=(BY_NETWORK, BY_COPY_ENGINE)),
    "rma_in_a_host": Scenario("put, signal and wait by copy engines and over the network", machine=GPU_DIRECT, gpus=2, checks="rma", largest=4096,
                              one_sided=True, has=(BY_NETWORK, BY_COPY_ENGINE)),
    "rma_teams_of_one": Scenario("put, signal and wait over the network also inside a host", machine=GPU_DIRECT, gpus=2, checks="rma",
                                 largest=4096, environment=TEAMS_OF_ONE, one_sided=True, has=(BY_NETWORK, *IN_TEAMS_OF_ONE)),
    "zero_cta_one_host": Scenario("collectives without a CTA, by copy engines", machine=GPU_DIRECT, hosts=1, gpus=2, checks="zero_cta",
                                  has=(r"AllGather \[Copy Engine\]", r"AlltoAll \[Copy Engine\]"), one_sided=True),
    "zero_cta": Scenario("collectives without a CTA, over RMA", machine=GPU_DIRECT, checks="zero_cta_hosts", one_sided=True, has=HIERARCHICAL),
    "zero_cta_2x2": Scenario("collectives without a CTA, over RMA and by copy engines", machine=GPU_DIRECT, gpus=2, checks="zero_cta_hosts",
                             largest=4096, one_sided=True, has=HIERARCHICAL),
    "zero_cta_4x2": Scenario("collectives without a CTA, of eight ranks", machine=GPU_DIRECT, hosts=4, gpus=2, checks="zero_cta_hosts", largest=4096, one_sided=True,
                             has=HIERARCHICAL, campaign=True),
    "rma_large": Scenario("puts of 64 MiB and of more than 1 GiB", machine=GPU_DIRECT, checks="rma,large_rma", largest=64 << 20, one_sided=True,
                          campaign=True),
    # GIN, by NCCL's proxy: the CPU does what a kernel does.
    "gin": Scenario("puts, signals, counters, values and contexts of GIN", machine=GPU_DIRECT, checks=GIN, one_sided=True, has=GIN_CONNECTED),
    "gin_get": Scenario("gets of GIN", machine=GPU_DIRECT, checks="gin_get", one_sided=True, has=GIN_CONNECTED),
    "gin_3_hosts": Scenario("GIN of three ranks", machine=GPU_DIRECT, hosts=3, checks="gin_many_writers,gin_values,gin_contexts,gin_reset", one_sided=True,
                            has=GIN_CONNECTED),
    "gin_short_queues": Scenario("GIN with queues of four operations", machine=GPU_DIRECT, checks="gin_order,gin_many_writers,gin_queue", one_sided=True,
                                 environment={"NCCL_GIN_PROXY_QUEUE_SIZE": "4"}, has=GIN_CONNECTED),
    "gin_gdrcopy": Scenario("GIN with counters in GPU memory", machine=GPU_DIRECT, checks="gin_counters,gin_flush,gin_contexts", one_sided=True,
                            environment={"NCCL_GDRCOPY_ENABLE": "1"}, has=GIN_CONNECTED, lacks=(r"GIN Proxy will not be using GDRCopy",)),
    "gin_2x2": Scenario("GIN over the network, also inside a host", machine=GPU_DIRECT, gpus=2, checks=GIN, environment=TEAMS_OF_ONE, one_sided=True,
                        has=GIN_CONNECTED + IN_TEAMS_OF_ONE, campaign=True),
    "sanitized_one_sided": Scenario("the plugin's life beside one-sided communication", machine=GPU_DIRECT, largest=4096,
                                    checks=f"windows,rma,rma_children,rma_end,zero_cta,{GIN}", one_sided=True, campaign=True,
                                    warns=("One sided RMA: host RMA is not supported in this communicator",)),
    "large": Scenario("up to 64 MiB", hosts=2, largest=64 << 20, campaign=True),
    "ranks_8": Scenario("8 ranks, all checks", machine="@dgx;gpudirect=on", hosts=2, gpus=4, checks="", campaign=True),
    "ranks_16": Scenario("16 ranks", machine="@dgx;gpudirect=on", hosts=2, gpus=8, checks="collectives,split,shrink", campaign=True),
    "ranks_16_hosts": Scenario("16 ranks, each a host", hosts=16, checks="collectives", campaign=True),
    "rccl": Scenario("RCCL: all checks", product="rccl", machine="@dgx", checks="", lacks=(r"GDRDMA",)),
    "rccl_dmabuf": Scenario("RCCL: GPU memory by dma-buf, and iflush", product="rccl", machine=GPU_DIRECT, checks="collectives,registered,graph",
                            environment=RCCL_DMABUF, has=(r"via NET/Railwise/\d+/GDRDMA",), warns=RCCL_FORCED),
    "rccl_dmabuf_unasked": Scenario("RCCL: dma-buf that nobody asked for", product="rccl", machine="@dgx;gpudirect=dmabuf", lacks=(r"GDRDMA",)),
    "rccl_peer_memory": Scenario("RCCL: GPU memory by address", product="rccl", machine="@dgx;gpudirect=peermem", checks="collectives,registered",
                                 has=(r"via NET/Railwise/\d+/GDRDMA",)),
    "rccl_dmabuf_for_peer_memory": Scenario("RCCL: a dma-buf where the device offers peer memory only", product="rccl", machine="@dgx;gpudirect=peermem",
                                            environment=RCCL_DMABUF, has=(r"via NET/Railwise/\d+/GDRDMA",), warns=RCCL_FORCED),
    "rccl_2x2": Scenario("RCCL: two hosts with two GPUs each", product="rccl", machine="@dgx;gpudirect=peermem", gpus=2,
                         checks="collectives,split,shrink,registered", has=(r"via NET/Railwise/\d+/GDRDMA", r"via P2P/IPC")),
    "rccl_shared_memory": Scenario("RCCL: shared memory in a host", product="rccl", machine="@dgx", gpus=2, environment={"NCCL_P2P_DISABLE": "1"},
                                   has=(r"via SHM/",)),
    "rccl_xgmi": Scenario("RCCL: xGMI in a host", product="rccl", machine="@dgx", gpus=2, environment={"SOFTGPU_XGMI": "1"},
                          has=(r"XGMI\[", r"via P2P/IPC")),
}


# A sanitizer's finding, and a leak with its stack. NCCL 2.29 leaks by itself, so the status of a process says nothing of leaks.
FOUND = re.compile(r"ERROR: AddressSanitizer.*|.*runtime error: .*|WARNING: ThreadSanitizer.*")
LEAK = re.compile(r"(?:Direct|Indirect) leak of .*\n(?: +#\d+ .*\n)+")
LEAKS_ARE_JUDGED = {"LSAN_OPTIONS": "exitcode=0"}


def findings(output):
    """What sanitizers say about the plugin in the output of a rank."""
    ours = [leak.group(0).strip() for leak in LEAK.finditer(output) if "libnccl-net-railwise" in leak.group(0)]
    return FOUND.findall(output) + ours


def lacking(scenario, job):
    """Of the checks, those that this NCCL has nothing for."""
    lines = job.output(0).splitlines()
    return [name for name in scenario.checks.split(",") if f"lacks {name}" in lines]


def run(scenario, place, folder):
    """Complaints. Raises Unavailable where this NCCL lacks what the scenario checks."""
    words = ["--max", str(scenario.largest)] + (["--checks", scenario.checks] if scenario.checks else [])
    subsystems = ONE_SIDED_LOG if scenario.one_sided else TUNING
    job = Job(place, folder, place.ranks(), judge.NAME, words, {**subsystems, **LEAKS_ARE_JUDGED, **scenario.environment})
    complaints = job.wait()
    complaints += [f"rank {rank}: {what}" for rank in range(job.ranks) for what in findings(job.output(rank))]
    logs = [job.log(rank) for rank in range(job.ranks)]
    if complaints:
        return complaints
    missing = lacking(scenario, job)
    wanted = [name for name in scenario.checks.split(",") if name and name not in missing]
    code = job.versions()["nccl"]
    reason = f"NCCL {code // 10000}.{code // 100 % 100}.{code % 100} lacks what is checked by {', '.join(missing)}" if missing else ""
    if missing and not wanted:
        raise Unavailable(reason)
    complaints += [f"the program did nothing for {name}" for name in wanted if f"ran {name}" not in job.output(0).splitlines()]
    text = "\n".join(logs)
    complaints += [f"no log has {pattern}" for pattern in scenario.has if not re.search(pattern, text)]
    complaints += [f"a log has {match.group(0)}" for match in (re.search(pattern, text) for pattern in scenario.lacks) if match]
    for rank, log in enumerate(logs):
        found = judge.loaded(log, code) + judge.transport(log, shares_hosts=place.shares_hosts)
        if scenario.one_sided:
            found += judge.one_sided_devices(log)
            found += judge.rma_is_served(log, "Railwise" if code >= RMA_OURS_SINCE else None) if code >= RMA_SINCE else []
        found += [f"NCCL warned: {warning}" for warning in judge.warnings(log) if not warning.startswith(EXPECTED_WARNINGS + scenario.warns)]
        complaints += [f"rank {rank}: {what}" for what in found]
    if missing and not complaints:
        raise Unavailable(f"{reason}; the rest is right")
    return complaints
