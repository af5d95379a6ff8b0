"""One host of a job, judged: what NCCL printed beside what `railwise` answers."""
import dataclasses

import nccl_log


@dataclasses.dataclass
class Score:
    """How many things were compared, and what differed."""

    paths: int = 0
    cut: int = 0  # paths that NCCL's line has no room for
    graphs: int = 0  # rings and trees of domains
    rings: int = 0  # ends of connections of rings and trees
    sends: int = 0  # ends of connections of sends and receives
    attributes: int = 0
    complaints: list = dataclasses.field(default_factory=list)

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def paths(log, answers):
    """Every path from a GPU or a NIC. NCCL also prints paths to NVSwitches and those of GIN's devices, which `topo show` has not."""
    score = Score()
    printed, cut = nccl_log.paths(log)
    printed = {ends: path for ends, path in printed.items() if ends[0] != ends[1] and not any(end.startswith(("GIN/", "NVS/")) for end in ends)}
    ours = {ends: path for ends, path in answers.paths().items() if not ends[0].startswith("CPU/")}
    if not printed and ours:
        score.complaints.append("NCCL printed no path")
    for ends in sorted(set(printed) | set(ours)):
        if ends not in printed and ends[0] in cut:
            score.cut += 1
            continue
        score.paths += 1
        if printed.get(ends) != ours.get(ends):
            score.complaints.append(f"path {ends[0]} -> {ends[1]}: NCCL {printed.get(ends)}, Railwise {ours.get(ends)}")
    return score


def graphs(log, answers):
    """Channels, bandwidth, types, order of GPUs, NICs and cross-NIC of the ring and the tree of each domain."""
    score = Score()
    printed, ours = nccl_log.graphs(log), answers.graphs()
    for (rank, name), graph in sorted(ours.items()):
        score.graphs += 1
        if graph not in printed:
            near = [other for other in printed if set(other.channels[0] if other.channels else ()) == set(graph.channels[0] if graph.channels else ())]
            score.complaints.append(f"{name} of rank {rank}'s domain: Railwise {graph}, NCCL {near or 'nothing like it'}")
    if printed - set(ours.values()) or not printed:
        score.complaints.append(f"NCCL printed {len(printed)} graphs, Railwise has {len(set(ours.values()))}")
    return score


def connections(log, answers, channels):
    """The NIC, the relaying rank and GPUDirect of each end. `channels`: of the host with the fewest; all further ones repeat these."""
    score = Score()
    ends = sorted(nccl_log.connections(log), key=dataclasses.astuple)
    for end in ends:
        what = f"channel {end.channel}/{0 if end.collective else 1}, rank {end.rank} {'sends to' if end.sends else 'receives from'} {end.peer}"
        if end.net != "Railwise":
            score.complaints.append(f"{what}: by NET/{end.net}")
            continue
        if end.collective:
            score.rings += 1
            devices = answers.channel_devices(end.rank, end.channel % channels, end.sends)
            expected = (end.device if end.device in devices else sorted(devices), answers.relay(end.rank, end.device) if end.sends else end.rank)
        else:
            score.sends += 1
            expected = answers.towards(end.rank, end.peer_dev, end.channel) if end.sends else (answers.own_device(end.rank, end.channel), end.rank)
        if (end.device, end.proxy) != expected:
            score.complaints.append(f"{what}: NCCL by NET/{end.device} of rank {end.proxy}, Railwise {expected}")
        direct = answers.gpudirect(end.rank, end.device, end.sends)
        if direct != end.gpudirect:
            score.complaints.append(f"{what}: GPUDirect is {end.gpudirect} for NCCL, {direct} for Railwise")
    if not score.rings + score.sends:
        score.complaints.append("the log has no connection through the network")
    return score
