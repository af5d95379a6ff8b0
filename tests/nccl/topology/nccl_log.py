"""What NCCL's log says of the machine: its paths, and the NIC of each connection. Formats: NCCL 2.28.9 to 2.30.7 (src/graph/paths.cc,
src/transport/net.cc)."""
import dataclasses
import re

LINE = re.compile(r"NCCL INFO (?P<from>(?:GPU|NET)/\S+) :(?P<paths>(?:\S+ \(\d+/[\d.]+/[A-Z0-9]+\) )*)(?P<rest>.*)$", re.M)
PATH = re.compile(r"(\S+) \((\d+)/([\d.]+)/([A-Z0-9]+)\) ")
CHANNEL = re.compile(r"Channel (\d+)/(\d+) : (\d+)\[(\d+)\] -> (\d+)\[(\d+)\] \[(send|receive)\] via NET/([^/\s]+)/(\d+)(?:\((\d+)\))?(/GDRDMA)?(\(PCI\))?")


@dataclasses.dataclass(frozen=True)
class Path:
    type: str
    bandwidth: str  # GB/s with one digit behind the point
    hops: int


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
