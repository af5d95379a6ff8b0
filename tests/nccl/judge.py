"""What NCCL's log says of a run with Railwise, judged. Formats: NCCL 2.28.9 and 2.30.7 (src/plugin/net.cc, src/plugin/net/*.cc,
src/init.cc, src/graph/topo.cc, src/transport/net.cc). Each function answers a list of complaints; empty: all right.
"""
import re

NAME = "Railwise"
# The newest table of ncclNetPlugin_v* that each release looks up.
TABLES = ((23003, 12), (22803, 11), (22602, 10), (22403, 9), (22003, 8), (21901, 7), (21304, 6))

LOADED = re.compile(r"NET/Plugin: Loaded net plugin (\S+) \(v(\d+)\)")
CHOSEN = re.compile(r"(?:Assigned NET plugin (\S+) to comm|Using network (\S+))")
GDR = re.compile(r"NET/(\S+) : GPU Direct RDMA (Enabled|Disabled) for HCA (\d+) '([^']*)'")
CHANNEL = re.compile(r"Channel (\d+)/(\d+) : (\d+)\[[^]]*\] -> (\d+)\[[^]]*\] \[(send|receive)\] via NET/(\S+?)/(\d+)(?:\((\d+)\))?")
DIRECT = re.compile(r"Channel \d+(?:/\d+)? : .* via (P2P|SHM)\S*")
TOPO_FILE = re.compile(r"NCCL_TOPO_FILE set by environment to (\S+)")
# One-sided communication: 2.29.7 and 2.30.4 write the first form, 2.30.7 the second.
ONE_SIDED = re.compile(r"(?:Assigned (GIN|RMA) plugin|(GIN|RMA)/Plugin: Assigned plugin) (\S+)(?: type (\d+))? to comm")
DEVICE_CHANGED = re.compile(r"TOPO/NET : Changing \S+ dev index from \d+ to \d+")
OWN_DEVICES = re.compile(r"NET/IB : Using(.*)")
OWN_QUEUE_PAIR = re.compile(r"NET/IB: (?:\w+: )?NCCL Dev \d+ IbDev (\d+) Port")
WARNING = re.compile(r"NCCL WARN (.*)")


def newest_table(version):
    """Of NCCL `version` as ncclGetVersion gives it (23007), the version of the net API that it takes; None: too old."""
    return next((table for since, table in TABLES if version >= since), None)


def loaded(log, version):
    """Our library was loaded, by the newest table that both know, and nothing else was taken."""
    complaints = []
    found = LOADED.findall(log)
    wanted = (NAME, str(newest_table(version)))
    # Before 2.24 NCCL says nothing of the newest table that it knows.
    if not found and version >= 22400:
        complaints.append("the log has no line of a net plugin that was loaded")
    elif found and set(found) != {wanted}:
        complaints.append(f"loaded {', '.join(f'{name} v{table}' for name, table in sorted(set(found)))}, not {NAME} v{wanted[1]}")
    chosen = {first or second for first, second in CHOSEN.findall(log)}
    if chosen != {NAME}:
        complaints.append(f"networks in use: {', '.join(sorted(chosen)) or 'none'}, not {NAME} alone")
    if "Failed to initialize NET plugin" in log:
        complaints.append("a net plugin failed to initialize")
    return complaints


def devices(log, expected):
    """NCCL sees the devices of `railwise devices --json`: a list of objects with index, name, cuda_memory, dmabuf_memory."""
    seen = {int(index): (name, state == "Enabled") for net, state, index, name in GDR.findall(log) if net == NAME}
    complaints = []
    for device in expected:
        index, name = device["index"], device["name"]
        if index not in seen:
            complaints.append(f"NCCL does not know device {index} ({name})")
            continue
        if seen[index][0] != name:
            complaints.append(f"device {index} is {seen[index][0]} to NCCL, and {name} to railwise devices")
        direct = device["cuda_memory"] or device["dmabuf_memory"]
        if seen[index][1] and not direct:
            complaints.append(f"NCCL has GPUDirect with {name}, which offers none")
    unknown = sorted(set(seen) - {device["index"] for device in expected})
    return complaints + [f"NCCL knows device {index} ({seen[index][0]}), railwise devices does not" for index in unknown]


def sends(log):
    """Connections of sends and receives (not of collectives): (channel, rank that sends, rank at whose NIC it goes out, device). The third is
    another rank of the host where NCCL relays (PXN)."""
    return sorted({(int(channel), int(rank), int(relay or rank), int(device)) for channel, use, rank, _, way, net, device, relay in CHANNEL.findall(log)
                   if net == NAME and way == "send" and use == "1"})


def nics(log, rank):
    """{"send": {(channel, device)}, "receive": ...}: the network connections of a rank, of collectives and of sends and receives."""
    used = {"send": set(), "receive": set()}
    for channel, _, sender, receiver, way, _, device, _ in CHANNEL.findall(log):
        if int(sender if way == "send" else receiver) == rank:
            used[way].add((int(channel), int(device)))
    return used


def transport(log, shares_hosts=False):
    """All connections went through us. `shares_hosts`: ranks of one host may go past the network."""
    direct = [] if shares_hosts else DIRECT.finditer(log)
    complaints = [f"a connection did not use the network: {line.group(0)}" for line in direct][:3]
    other = {net for *_, net, _, _ in CHANNEL.findall(log)} - {NAME}
    complaints += [f"a connection went through NET/{net}" for net in sorted(other)]
    if not CHANNEL.search(log) and not (shares_hosts and DIRECT.search(log)):
        complaints.append("the log has no connection through the network")
    return complaints


def one_sided(log):
    """{"GIN": name, "RMA": name} of the tables that serve one-sided communication; without a key where NCCL has found none."""
    return {first or second: name for first, second, name, _ in ONE_SIDED.findall(log)}


def one_sided_devices(log):
    """Where NCCL's own table serves it beside Railwise, a device has the same number to both: NCCL keeps one number for each name."""
    numbers = {}
    for net, _, index, name in GDR.findall(log):
        numbers.setdefault(name, {}).setdefault(index, set()).add(net)
    complaints = [f"{name} is device " + " and ".join(f"{index} to {', '.join(sorted(nets))}" for index, nets in sorted(found.items()))
                  for name, found in sorted(numbers.items()) if len(found) > 1]
    return complaints + [match.group(0) for match in DEVICE_CHANGED.finditer(log)][:1]


def gin_is_silent(log, version):
    """Whether NCCL `version` would not say who serves GIN."""
    return version >= 23100 and "Failed to initialize any GIN plugin" not in log


def rma_is_served(log, by=None):
    """Some table serves RMA (`by`: this one), and says which devices it has."""
    name = one_sided(log).get("RMA")
    if name is None or (by is not None and name != by):
        return [f"{name or 'nobody'} serves RMA"]
    return [] if any(net == name for net, *_ in GDR.findall(log)) else [f"the log names no device of {name}, which serves RMA"]


def one_sided_nics(log):
    """The NICs of the connections that NCCL's own IB network has made: one-sided communication, since the network in use is another."""
    names = {int(index): name for line in OWN_DEVICES.findall(log) for index, name in re.findall(r"\[(\d+)\]([^:]+):", line)}
    return sorted({names.get(int(index), f"device {index}") for index in OWN_QUEUE_PAIR.findall(log)})


def topology_file(log, path):
    """NCCL has read the topology file that we gave it."""
    files = set(TOPO_FILE.findall(log))
    return [] if files == {str(path)} else [f"topology file: {', '.join(sorted(files)) or 'none'}, not {path}"]


def warnings(log):
    return WARNING.findall(log)
