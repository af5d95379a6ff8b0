"""What NCCL's log says of the machine: its paths, its rings and trees, and the NIC of each connection. Formats: NCCL 2.28.9 to 2.30.7
(src/graph/paths.cc, src/graph/search.cc, src/transport/net.cc)."""
import dataclasses
import re

LINE = re.compile(r"NCCL INFO (?P<from>(?:GPU|NET)/\S+) :(?P<paths>(?:\S+ \(\d+/[\d.]+/[A-Z0-9]+\) )*)(?P<rest>.*)$", re.M)
PATH = re.compile(r"(\S+) \((\d+)/([\d.]+)/([A-Z0-9]+)\) ")
CHANNEL = re.compile(r"Channel (\d+)/(\d+) : (\d+)\[(\d+)\] -> (\d+)\[(\d+)\] \[(send|receive)\] via NET/([^/\s]+)/(\d+)(?:\((\d+)\))?(/GDRDMA)?(\(PCI\))?")

GRAPH = re.compile(r"^(?P<thread>.*) NCCL INFO (?:Pattern (?P<pattern>\d+), crossNic (?P<cross>\d+), nChannels (?P<channels>\d+), "
                   r"bw (?P<intra>[\d.]+)/(?P<inter>[\d.]+), type (?P<type_intra>\w+)/(?P<type_inter>\w+), sameChannels (?P<same>\d+)$|"
                   r" ?\d+ :(?P<channel>(?: (?:GPU|NET)/\S+)+)$)", re.M)


@dataclasses.dataclass(frozen=True)
class Path:
    type: str
    bandwidth: str  # GB/s with one digit behind the point
    hops: int


@dataclasses.dataclass(frozen=True)
class Graph:
    """A graph of NCCL's search."""

    pattern: int
    cross_nic: int
    bandwidths: tuple  # GB/s of a channel inside the host and between hosts, with six digits behind the point
    types: tuple  # the same two
    same_channels: int
    channels: tuple  # of each a tuple of nodes in order, as NCCL writes them: "NET/0-3", "GPU/0-1b000"


@dataclasses.dataclass(frozen=True)
class Connection:
    """One end of a connection through the network."""

    channel: int
    collective: bool  # NIC from the search of rings and trees; else a send or receive, whose NIC the policy chooses
    sends: bool
    rank: int
    dev: int  # NVML's index of the rank's GPU
    peer: int
    peer_dev: int
    net: str  # name of the plugin
    device: int
    proxy: int  # rank whose GPU relays; the rank itself: none
    gpudirect: int  # 0 off, 1 on, 2 on through PCIe


def paths(log):
    """({(from, to): Path}, nodes of lines that were cut). Nodes as NCCL writes them: "GPU/0-1b000", "NET/0-3", "CPU/0-1", "NVS/0-0". All ranks of
    a host print the same. Raises ValueError where they do not."""
    found, cut = {}, set()
    for line in LINE.finditer(log):
        start = line["from"]
        if line["rest"].strip():  # NCCL's line has room for 1023 letters
            cut.add(start)
        for end, hops, bandwidth, kind in PATH.findall(line["paths"]):
            path = Path(kind, bandwidth, int(hops))
            if found.setdefault((start, end), path) != path:
                raise ValueError(f"{start} -> {end}: one rank prints {found[start, end]}, another {path}")
    return found, cut


def graphs(log):
    """Every Graph that a rank of the host printed, once. Ranks of one domain print equal graphs. Raises ValueError where a graph lacks channels."""
    printed = {}  # by thread: [header, channels]
    for line in GRAPH.finditer(log):
        of_thread = printed.setdefault(line["thread"], [])
        if line["channel"] is None:
            of_thread.append((line, []))
        elif of_thread:
            of_thread[-1][1].append(tuple(line["channel"].split()))
    found = set()
    for header, channels in (graph for of_thread in printed.values() for graph in of_thread):
        if len(channels) != int(header["channels"]):
            raise ValueError(f"a graph of pattern {header['pattern']} has {len(channels)} of its {header['channels']} channels")
        found.add(Graph(int(header["pattern"]), int(header["cross"]), (header["intra"], header["inter"]),
                        (header["type_intra"], header["type_inter"]), int(header["same"]), tuple(channels)))
    return found


def connections(log):
    """Every Connection in the log of a host, once."""
    found = set()
    for channel, use, sender, sender_dev, receiver, receiver_dev, way, net, device, proxy, direct, pci in CHANNEL.findall(log):
        sends = way == "send"
        own, peer = (sender, sender_dev), (receiver, receiver_dev)
        if not sends:
            own, peer = peer, own
        found.add(Connection(int(channel), use == "0", sends, int(own[0]), int(own[1]), int(peer[0]), int(peer[1]), net, int(device),
                             int(proxy or own[0]), 2 if pci else 1 if direct else 0))
    return found
