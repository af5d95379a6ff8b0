"""One host of a job, judged: what NCCL printed beside what `railwise` answers."""
import dataclasses

import nccl_log


@dataclasses.dataclass
class Score:
    """How many things were compared, and what differed."""

    paths: int = 0
    cut: int = 0  # paths that NCCL's line has no room for
    rings: int = 0  # ends of connections of rings and trees
    sends: int = 0  # ends of connections of sends and receives
    attributes: int = 0
    complaints: list = dataclasses.field(default_factory=list)

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def paths(log, answers):
    """Every path from a GPU or a NIC. NCCL also prints paths to NVSwitches and those of GIN's devices, which `topo paths` has not."""
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


def connections(log, answers):
    """The NIC, the relaying rank and GPUDirect of each end."""
    score = Score()
    ends = sorted(nccl_log.connections(log), key=dataclasses.astuple)
    rings = {}  # ranks of the host that a channel's rings and trees enter or leave by
    for end in ends:
        if end.collective:
            rings.setdefault(end.channel, set()).add(end.rank)
    for end in ends:
        what = f"channel {end.channel}/{0 if end.collective else 1}, rank {end.rank} {'sends to' if end.sends else 'receives from'} {end.peer}"
        if end.net != "Railwise":
            score.complaints.append(f"{what}: by NET/{end.net}")
            continue
        if end.collective:
            score.rings += 1
            # NCCL's search lets a ring leave by the NIC that it came by, that of either GPU.
            chosen = set().union(*(answers.chosen(rank) for rank in rings[end.channel]))
            expected = (end.device if end.device in chosen else sorted(chosen), answers.relay(end.rank, end.device) if end.sends else end.rank)
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
