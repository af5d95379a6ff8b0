"""NCCL's view of a machine: its GPUs and NICs, the paths between them, and the NIC that NCCL gives each GPU.

    machine = topology.load()                                   # this machine, with NCCL's variables of this process
    machine = topology.load("topo.xml", nccl="2.30")            # a topology file
    machine = topology.load(root="host7.tar.gz")                # what `railwise topo record` has packed

The answers are those of the library librailwise-topology, which the `railwise` command uses too. A GPU is called by its rank (as
in `railwise explain --gpu`), by its PCI address, or by a Gpu. Bandwidths are GB/s (10^9 bytes per second) in one direction.

Threads: a Topology never changes, and any number of threads may use one. close() does not wait: calls that run in other threads end
well, and later calls are errors.
"""

import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import re
import threading
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from railwise import _library
from railwise._errors import Error
from railwise._nccl import release_here

__all__ = ["Difference", "Error", "Finding", "Generated", "Gpu", "GpuDirect", "GpuLike", "LintReport", "Nic", "Path", "Pick", "Topology",
           "diff", "generate", "lint", "load"]

# Where nvidia-topologyd puts the file that NCCL reads if NCCL_TOPO_FILE is not set.
VIRTUAL_TOPOLOGY = "/var/run/nvidia-topologyd/virtualTopology.xml"


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU as a rank sees it."""

    id: str  # "GPU/0", as in paths
    index: int  # in Topology.gpus
    rank: int  # of a communicator with one rank on each GPU
    device: int  # NVML's index within the host
    host: int  # more than one where hosts share NVLink
    busid: str  # PCI address, "0000:0f:00.0"
    sm: int  # compute capability times ten; AMD: the number of compute units
    gcn: Optional[str]  # AMD's architecture, "gfx942"
    gpu_direct: bool
    cpu: Optional[str]  # id of the nearest NUMA node, "CPU/0"
    cpus: str  # of that NUMA node, "0-47,96-143"; "": not known
    model: Optional[str]  # None: the vendor's library was not asked
    memory_bytes: Optional[int]
    uuid: Optional[str]


@dataclasses.dataclass(frozen=True)
class Nic:
    """A network device as NCCL's plugin reports it; several merged ports are one."""

    id: str  # "NET/0", as in paths
    index: int  # in Topology.nics
    device: int  # of NCCL's plugin
    host: int
    name: str  # "mlx5_0"; merged: "mlx5_0+mlx5_1"
    nic: Optional[str]  # id of the PCI function, "NIC/0000:13:00.0"; None: none is known
    gb_per_s: float  # of the port
    port: int
    guid: int
    gpu_direct: bool
    local_gpu: Optional[str]  # id of the GPU by which NCCL reaches it

    @property
    def ports(self) -> Tuple[str, ...]:
        """Device and port of each rail, as UCX_NET_DEVICES has them: ("mlx5_0:1",)."""
        return tuple(name if ":" in name else f"{name}:{max(self.port, 1)}" for name in self.name.split("+"))


@dataclasses.dataclass(frozen=True)
class Path:
    """How one device reaches another, after NCCL's rerouting for P2P, GPUDirect and PXN."""

    source: str  # id of a GPU or NIC
    target: str
    type: str  # NCCL's path type: "PIX"; docs/topology.md lists them, nearest first
    gb_per_s: float  # 0: not connected
    hops: int  # links, as NCCL counts
    via: Tuple[str, ...]  # ids of the nodes between the two ends


@dataclasses.dataclass(frozen=True)
class GpuDirect:
    """GPUDirect RDMA between a GPU and a NIC."""

    receive: bool  # the NIC writes GPU memory
    send: bool  # the NIC reads it
    flush: bool  # a receive is followed by a flush
    relay_rank: int  # the rank that sends for this GPU (PXN); its own rank: none
    receive_reason: str
    send_reason: str
    flush_reason: str


@dataclasses.dataclass(frozen=True)
class Pick:
    """Which GPUs a job should take. docs/gpus.md has the rule."""

    gpus: Tuple[Gpu, ...]  # by rank
    ring: Tuple[Gpu, ...]  # in an order in which neighbours are near
    nics: Mapping[int, str]  # rank -> name of the NIC that the GPU has for itself
    slowest_pair_gb_per_s: Optional[float]  # None: one GPU
    slowest_pair_type: Optional[str]
    all_pairs_gb_per_s: float
    left_out: Tuple[int, ...]  # ranks of GPUs on which a process has memory
    fitness: float  # slowest pair of these / fastest pair of the host
    exact: bool  # False: too many sets to look at all of them
    why: str

    def environment(self) -> Dict[str, str]:
        """The variables that show a process these GPUs only, in the order of the ring."""
        if len({gpu.host for gpu in self.ring}) > 1:
            raise Error("the chosen GPUs are in several hosts, and a process sees the GPUs of one")
        devices = ",".join(str(gpu.device) for gpu in self.ring)
        if any(gpu.gcn for gpu in self.ring):
            return {"ROCR_VISIBLE_DEVICES": devices}
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": devices}


GpuLike = Union[int, str, Gpu]
PathLike = Union[str, "os.PathLike[str]"]


class _Handle:
    """A machine of the library. It is freed when it is closed and no call uses it."""

    def __init__(self, machine: int) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[int]:
        with self._lock:
            if self._closed:
                raise Error("this topology is closed")
            self._users += 1
        try:
            yield self._machine
        finally:
            with self._lock:
                self._users -= 1
                last = self._closed and self._users == 0
            if last:
                _library.free_machine(self._machine)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            unused = self._users == 0
        if unused:
            _library.free_machine(self._machine)


class Topology:
    """A machine with all its answers. load() makes it; it ends with close(), with its `with` block, or with the last reference."""

    def __init__(self, machine: int) -> None:
        self._handle = _Handle(machine)
        self._finalizer = weakref.finalize(self, self._handle.close)
        self._facts: Dict[str, Any] = json.loads(self._text("json"))

    def close(self) -> None:
        self._finalizer()

    def __enter__(self) -> "Topology":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Topology of {self.name}: {len(self.gpus)} GPUs, {len(self.nics)} NICs, NCCL {self.nccl}>"

    @property
    def name(self) -> str:
        """The file, tree or host that it came from."""
        return str(self._facts["machine"])

    @property
    def nccl(self) -> str:
        """The release of NCCL whose rules were applied."""
        return str(self._facts["nccl"])

    @property
    def remarks(self) -> Tuple[str, ...]:
        """What was assumed, and values of variables that NCCL ignores; sentences for people."""
        return tuple(self._facts["remarks"])

    @functools.cached_property
    def gpus(self) -> Tuple[Gpu, ...]:
        """In NCCL's order."""
        affinity = {cpu["id"]: cpu["affinity"] for cpu in self._facts["cpus"]}
        uuids = {device["rank"]: device["uuid"] for device in self._devices if device["rank"] is not None}
        return tuple(
            Gpu(id=gpu["id"], index=index, rank=gpu["rank"], device=gpu["dev"], host=gpu["host"], busid=gpu["busid"], sm=gpu["sm"],
                gcn=gpu["gcn"], gpu_direct=gpu["gdr"], cpu=gpu["local_cpu"], cpus=affinity.get(gpu["local_cpu"], ""), model=gpu["model"],
                memory_bytes=gpu["memory_bytes"], uuid=uuids.get(gpu["rank"]) or None)
            for index, gpu in enumerate(self._facts["gpus"]))

    @functools.cached_property
    def nics(self) -> Tuple[Nic, ...]:
        """The network devices, in NCCL's order."""
        return tuple(
            Nic(id=net["id"], index=index, device=net["dev"], host=net["host"], name=net["name"], nic=net["nic"], gb_per_s=net["bandwidth"],
                port=net["port"], guid=int(net["guid"], 16), gpu_direct=net["gdr"], local_gpu=net["local_gpu"])
            for index, net in enumerate(self._facts["nets"]))

    @functools.cached_property
    def paths(self) -> Tuple[Path, ...]:
        """From each GPU to each NIC and each other GPU."""
        return tuple(
            Path(source, target, kind, gb_per_s, hops, tuple(via))
            for rows in ("gpu_net", "gpu_gpu")
            for source, target, kind, gb_per_s, hops, via in self._facts[rows])

    def path(self, gpu: GpuLike, to: Union[GpuLike, Nic]) -> Path:
        """The path from a GPU to a NIC (a Nic or its name) or to another GPU."""
        source, target = self.gpu(gpu).id, self._device(to).id
        path = self._path_table.get((source, target))
        if path is None:
            raise Error(f"{self.name}: {source} is at both ends of the path")
        return path

    def gpu(self, gpu: GpuLike) -> Gpu:
        """The GPU with this rank or PCI address."""
        if isinstance(gpu, Gpu):
            gpu = gpu.rank
        wanted: Union[int, str] = gpu if isinstance(gpu, int) else _busid(gpu)
        found = self._gpu_table.get(wanted)
        if found is None:
            ranks = f"the ranks are 0 to {len(self.gpus) - 1}" if self.gpus else "it has none"
            raise Error(f"{self.name}: there is no GPU {gpu}; {ranks}")
        return found

    def nic(self, name: str) -> Nic:
        """The network device of this name."""
        for nic in self.nics:
            if name in (nic.name, nic.id):
                return nic
        raise Error(f"{self.name}: there is no NIC '{name}'; there are {', '.join(nic.name for nic in self.nics) or 'none'}")

    def nics_of(self, gpu: GpuLike) -> Tuple[Nic, ...]:
        """The NICs that NCCL gives this GPU, for channel 0, 1, ... until they repeat. Error: it reaches none."""
        index = self.gpu(gpu).index
        with self._handle.borrowed() as machine:
            return tuple(self.nics[net] for net in _library.chosen_nets(machine, index))

    def nic_of(self, gpu: GpuLike, channel: int = 0) -> Nic:
        """The NIC that NCCL gives this GPU for a channel."""
        nics = self.nics_of(gpu)
        return nics[channel % len(nics)]

    def gpu_direct(self, gpu: GpuLike, nic: Union[Nic, str, None] = None) -> GpuDirect:
        """Whether GPUDirect RDMA is on between a GPU and a NIC (that of nic_of()), and why."""
        ends = (self.gpu(gpu).id, (self.nic_of(gpu) if nic is None else self._device(nic)).id)
        row = self._gpu_direct_table.get(ends)
        if row is None:
            raise Error(f"{self.name}: {ends[1]} is no NIC")
        receive, send, flush, relay_rank, _, receive_reason, _, send_reason, flush_reason = row
        return GpuDirect(receive > 0, send > 0, flush > 0, relay_rank, receive_reason, send_reason, flush_reason)

    def pick(self, count: int, *, of: Optional[Sequence[int]] = None, exclude: Sequence[int] = (), nics: Sequence[str] = (),
             occupied: bool = False) -> Pick:
        """Which `count` GPUs a job should take, and why.

        of: only among these ranks. exclude: not these. nics: only these NICs count. occupied: also GPUs on which a process has
        memory. Error: so many there are not.
        """
        if not isinstance(count, int) or not 0 <= count < 2**31:
            raise Error(f"count: {count!r} is not a number of GPUs")
        if of is not None and not of:
            raise Error("of: an empty list names no GPU")
        options = _library.PickOptions(
            size=ctypes.sizeof(_library.PickOptions), of=_library.encoded(",".join(map(str, of))) if of is not None else None,
            exclude=_library.encoded(",".join(map(str, exclude))) if exclude else None,
            nic=_library.encoded(",".join(nics)) if nics else None, occupied=occupied)
        with self._handle.borrowed() as machine:
            answer = json.loads(_library.text_from("pick_json", machine, count, ctypes.byref(options)))
        return Pick(
            gpus=tuple(map(self.gpu, answer["gpus"])), ring=tuple(map(self.gpu, answer["ring"])),
            nics={row["gpu"]: row["nic"] for row in answer["nics"]}, slowest_pair_gb_per_s=answer["slowest_pair_gb_per_s"],
            slowest_pair_type=answer["slowest_pair_type"], all_pairs_gb_per_s=answer["all_pairs_gb_per_s"],
            left_out=tuple(answer["left_out"]), fitness=answer["fitness_intra"], exact=answer["exact"], why=answer["why"])

    def visible_gpus(self, variables: Optional[Mapping[str, str]] = None) -> Tuple[Gpu, ...]:
        """The GPUs that a process with these variables (os.environ) sees, in the order in which CUDA or HIP numbers them.

        visible_gpus()[int(os.environ["LOCAL_RANK"])] is the GPU of a rank. NVML's order is assumed, which is CUDA's with
        CUDA_DEVICE_ORDER=PCI_BUS_ID, and where all GPUs are of one model. Error: a variable names a GPU that is not there.
        """
        if variables is None:
            variables = os.environ
        here = [gpu for gpu in self.gpus if gpu.host == self._local_host]
        # Of several ranks on one GPU the lowest stands for the GPU.
        devices = {gpu.device: gpu for gpu in sorted(here, key=lambda gpu: -gpu.rank)}
        visible = [devices[device] for device in sorted(devices)]
        if any(gpu.gcn for gpu in here):
            last = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in variables else "CUDA_VISIBLE_DEVICES"
            names: Tuple[str, ...] = ("ROCR_VISIBLE_DEVICES", last)
        else:
            names = ("CUDA_VISIBLE_DEVICES",)
        for name in names:
            if name in variables:
                visible = [self._visible(name, word, visible) for word in _visible_words(variables[name])]
        return tuple(visible)

    def explain(self, gpu: Optional[GpuLike] = None) -> str:
        """Why each GPU, or this one, uses the NICs that it uses."""
        return self._text("explain", self._index(gpu))

    def explain_json(self, gpu: Optional[GpuLike] = None) -> Dict[str, Any]:
        """The explanation for programs; docs/topology-json.md has the schema."""
        answer: Dict[str, Any] = json.loads(self._text("explain_json", self._index(gpu)))
        return answer

    def json(self) -> Dict[str, Any]:
        """Everything; docs/topology-json.md has the schema."""
        facts: Dict[str, Any] = json.loads(self._text("json"))
        return facts

    def gpus_json(self) -> Dict[str, Any]:
        """The GPUs as their vendors describe them, their links and NICs; docs/gpus.md has the schema."""
        facts: Dict[str, Any] = json.loads(self._text("gpus_json"))
        return facts

    def matrix(self) -> str:
        """The look of `nvidia-smi topo -m`."""
        return self._text("matrix")

    def xml(self) -> str:
        """As NCCL would dump it: completed, merged, trimmed."""
        return self._text("xml")

    def svg(self) -> str:
        """A drawing."""
        return self._text("svg")

    def html(self) -> str:
        """One page that needs nothing else."""
        return self._text("html")

    def _text(self, name: str, *arguments: int) -> str:
        with self._handle.borrowed() as machine:
            return _library.text_from(name, machine, *arguments)

    def _index(self, gpu: Optional[GpuLike]) -> int:
        return -1 if gpu is None else self.gpu(gpu).index

    def _device(self, device: Union[GpuLike, Nic]) -> Union[Gpu, Nic]:
        if isinstance(device, Nic):
            return self.nic(device.id)
        if isinstance(device, str) and any(device in (nic.name, nic.id) for nic in self.nics):
            return self.nic(device)
        return self.gpu(device)

    def _visible(self, variable: str, word: str, among: Sequence[Gpu]) -> Gpu:
        found: Sequence[Gpu] = ()
        if word.isdigit():
            found = among[int(word):int(word) + 1]
        elif word.startswith("MIG-"):
            whole = {device["index"]: device["rank"] for device in self._devices}
            parents = [whole.get(part["parent"]) for part in self._devices if part["uuid"] and part["uuid"].startswith(word)]
            found = [gpu for gpu in among if gpu.rank in parents]
        else:
            found = [gpu for gpu in among if gpu.uuid and gpu.uuid.startswith(word)]
        if len(found) != 1:
            uuids = "" if word.isdigit() or any(gpu.uuid for gpu in among) else "; the UUIDs of its GPUs are not known"
            raise Error(f"{self.name}: {variable} names '{word}', which is none of {len(among)} GPUs{uuids}")
        return found[0]

    @functools.cached_property
    def _devices(self) -> List[Dict[str, Any]]:
        devices: List[Dict[str, Any]] = self.gpus_json()["gpus"]
        return devices

    @functools.cached_property
    def _gpu_table(self) -> Dict[Union[int, str], Gpu]:
        table: Dict[Union[int, str], Gpu] = {}
        for gpu in sorted(self.gpus, key=lambda gpu: gpu.rank):
            table[gpu.rank] = gpu
            table.setdefault(_busid(gpu.busid), gpu)
            table[gpu.id] = gpu
        return table

    @functools.cached_property
    def _path_table(self) -> Dict[Tuple[str, str], Path]:
        # A wrong file may number several devices alike: the first counts, as for NCCL.
        return {(path.source, path.target): path for path in reversed(self.paths)}

    @functools.cached_property
    def _gpu_direct_table(self) -> Dict[Tuple[str, str], Sequence[Any]]:
        return {(row[0], row[1]): row[2:] for row in reversed(self._facts["gdr"])}

    @functools.cached_property
    def _local_host(self) -> int:
        return next((host["host"] for host in self._facts["hosts"] if host["local"]), 0)


def _visible_words(text: str) -> List[str]:
    """The words of CUDA_VISIBLE_DEVICES. -1 ends the list."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return words[:words.index("-1")] if "-1" in words else words


def _busid(text: str) -> str:
    """A PCI address as "0000:0f:00.0"; nvidia-smi writes "00000000:0F:00.0", PyTorch "0000:0F:00.0". Another text stays."""
    match = re.fullmatch(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?", text)
    if match is None:
        return text
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function or '0'}"


def load(path: Optional[PathLike] = None, *, root: Optional[PathLike] = None, xml: Optional[str] = None, nccl: Optional[str] = None,
         variables: Optional[Mapping[str, str]] = None, gpu_sm: int = 0, nvswitch_links: int = 0, nic_speed_mbps: int = 0,
         fuse_nics: bool = False, xgmi_as_nvlink: bool = False, cpu: Optional[str] = None) -> Topology:
    """A machine. Error: what NCCL would refuse, and what cannot be read; the text says what to do.

    path: an NCCL or RCCL topology file. root: a folder with sys/ in it, or the .tar.gz that `railwise topo record` has written;
    with both, the file is laid over that machine. xml: the text of a file. Without these three: this machine, with the file that
    NCCL reads here (NCCL_TOPO_FILE, else nvidia-topologyd's).

    nccl: whose rules, "2.30" or "2.30.7". Without: of this machine those of the NCCL that this process has loaded or Python has
    installed, else the newest that are known. variables: NCCL's variables (os.environ). The others are those of the command
    (`railwise explain --help`): compute capability, NVLinks to a switch and NIC speed that nothing tells, merging of NICs, and the
    CPU as "x86_64,GenuineIntel,6,143".
    """
    if xml is not None and (path is not None or root is not None):
        raise Error("xml stands alone: path and root name another machine")
    if variables is None:
        variables = os.environ
    here = path is None and root is None and xml is None
    if here:
        path, root = _file_of_nccl(variables), "/"
    given = [f"{name}={value}" for name, value in variables.items() if name.startswith("NCCL_")]
    release = nccl or (release_here() if here else None)
    options = _library.Options(
        size=ctypes.sizeof(_library.Options), nccl=_library.number_from("nccl_release", _library.encoded(release)), gpu_sm=gpu_sm,
        nvswitch_links=nvswitch_links, nic_speed_mbps=nic_speed_mbps, fuse_nics=fuse_nics, xgmi_as_nvlink=xgmi_as_nvlink,
        cpu=_library.encoded(cpu), variables=_library.encoded_list(given))
    reference = ctypes.byref(options)
    if xml is not None:
        text = os.fsencode(xml)
        return Topology(_library.pointer_from("load_text", text, len(text), None, reference))
    if path is None:
        return Topology(_library.pointer_from("load_sysfs", _library.encoded(root), reference))
    if root is None:
        return Topology(_library.pointer_from("load_file", _library.encoded(path), reference))
    return Topology(_library.pointer_from("load_merged", _library.encoded(path), _library.encoded(root), reference))


def _file_of_nccl(variables: Mapping[str, str]) -> Optional[str]:
    named = variables.get("NCCL_TOPO_FILE")
    if named is not None:
        return named or None
    return VIRTUAL_TOPOLOGY if os.access(VIRTUAL_TOPOLOGY, os.R_OK) else None


@dataclasses.dataclass(frozen=True)
class Difference:
    """One thing that differs; a side that lacks it has an empty text."""

    kind: str  # "device", "numa", "link", "path", "nic", "gpudirect", "p2p", "pxn", "domain"
    what: str
    left: str
    right: str


def diff(left: Topology, right: Topology) -> Tuple[Difference, ...]:
    """What differs between two machines. Nothing differs: empty."""
    with left._handle.borrowed() as one, right._handle.borrowed() as other:
        rows = json.loads(_library.text_from("diff_json", one, other))["differences"]
    return tuple(Difference(row["kind"], row["what"], row["left"], row["right"]) for row in rows)


@dataclasses.dataclass(frozen=True)
class Finding:
    severity: str  # "error", "warning", "note"
    rule: str  # docs/lint.md lists them
    line: int  # 0: the file as a whole
    column: int
    text: str
    fix: str


@dataclasses.dataclass(frozen=True)
class LintReport:
    accepted: bool  # False: NCCL refuses the file
    findings: Tuple[Finding, ...]


def lint(path: PathLike) -> LintReport:
    """What is wrong with a topology file although NCCL may say nothing."""
    report = json.loads(_library.text_from("lint_json", _library.encoded(path)))
    fields = [field.name for field in dataclasses.fields(Finding)]
    return LintReport(report["accepted"], tuple(Finding(**{name: row[name] for name in fields}) for row in report["findings"]))


@dataclasses.dataclass(frozen=True)
class Generated:
    xml: str  # for NCCL_TOPO_FILE
    remarks: Tuple[str, ...]  # what was decided and why


def generate(root: PathLike = "/", *, pairing: str = "order", table: Optional[str] = None, gpus_per_bridge: int = 0, force: bool = False,
             nic_class: Optional[str] = None, nic_device: Optional[str] = None, cpu: Optional[str] = None,
             exclude: Sequence[str] = ()) -> Generated:
    """The topology file of a VM whose PCIe tree is hidden (`railwise topo generate --help` says what the options mean)."""
    options = _library.GenerateOptions(
        size=ctypes.sizeof(_library.GenerateOptions), pairing=_library.encoded(pairing), table=_library.encoded(table),
        gpus_per_bridge=gpus_per_bridge, force=force, nic_class=_library.encoded(nic_class), nic_device=_library.encoded(nic_device),
        cpu=_library.encoded(cpu), exclude=_library.encoded_list(exclude))
    remarks = ctypes.c_void_p()
    xml = _library.text_from("generate", _library.encoded(root), ctypes.byref(options), ctypes.byref(remarks))
    return Generated(xml, tuple(_library.taken(remarks.value).splitlines()))
