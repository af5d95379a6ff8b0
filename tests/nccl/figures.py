"""What collectives cost over Railwise and over a network that NCCL brings, in turn: time, CPU time of NCCL's proxy threads, and the devices' counters."""
import collections
import dataclasses
import json
import pathlib

import judge
from job import Job

TURNS = 2
# Counters of `railwise device stats --format json`, for each operation and rank.
WORK_REQUESTS = ("writes", "writes_with_imm", "reads", "sends", "atomics")


@dataclasses.dataclass
class Cost:
    """Of one operation. The least time and the least CPU time of all turns; counters of the last."""

    us: float = float("inf")
    proxy_us: float = float("inf")
    counts: dict = dataclasses.field(default_factory=dict)


def measure(place, out, ranks, other, largest, repeat, extra=()):
    """({(collective, bytes): {net: Cost}}, complaints)"""
    rows = collections.defaultdict(lambda: collections.defaultdict(Cost))
    for turn in range(TURNS):
        for net in (judge.NAME, other):
            words = ["--figures", "--max", str(largest), "--repeat", str(repeat)]
            stats = place.stats_command() if other == "IB" else None
            job = Job(place, out / f"figures-{net}-{turn}", ranks, net, words + (["--stats", stats] if stats else []), extra)
            complaints = job.wait()
            if complaints:
                return None, [f"over {net}: {complaint}" for complaint in complaints]
            read(job, net, rows)
    return rows, []


def read(job, net, rows):
    for line in job.output(0).splitlines():
        words = line.split()
        if words[:1] == ["figure"]:
            cost = rows[words[1], int(words[2])][net]
            cost.us = min(cost.us, float(words[3]))
            cost.proxy_us = min(cost.proxy_us, float(words[4])) if len(words) > 4 else cost.proxy_us
        elif words[:1] == ["counts"]:
            rows[words[1], int(words[2])][net].counts = counts(words[4], words[5], int(words[3]) * job.ranks)


def counts(before, after, operations):
    """Doorbells, work requests, receives' doorbells and completions of each operation and rank, between two files of counters."""
    processes = {path: json.loads(pathlib.Path(path).read_text()) for path in (before, after)}
    here = {path: {(process["host"], process["process"]) for process in its} for path, its in processes.items()}
    if not here[before] <= here[after]:
        raise RuntimeError(f"{after}: ranks have ended since {before}, and took their counters with them")

    def total(path, names):
        return sum(process[name] for process in processes[path] for name in names)

    kinds = {"doorbells": ("post_send_calls",), "work requests": WORK_REQUESTS, "receive calls": ("post_recv_calls",), "completions": ("completions",)}
    return {kind: (total(after, names) - total(before, names)) / operations for kind, names in kinds.items()}


def size_text(size):
    for unit, bytes_of in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_of:
            return f"{size // bytes_of} {unit}"
    return f"{size} B"


def times(rows):
    """{"COLLECTIVE, NET": [(bytes, nanoseconds), ...]}, for benchmarks/plot.py."""
    lines = collections.defaultdict(list)
    for (name, size), row in sorted(rows.items()):
        for net, cost in row.items():
            lines[f"{name}, {net}"].append((size, cost.us * 1000))
    return lines


def table(rows, other):
    counted = any(cost.counts for row in rows.values() for cost in row.values())
    heads = ["collective", "size", "Railwise, us", f"{other}, us", f"{other} / Railwise", f"proxy CPU, us (Railwise / {other})"]
    heads += [f"work requests (Railwise / {other})", "doorbells", "completions"] if counted else []
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (name, size), row in rows.items():
        ours, theirs = row[judge.NAME], row[other]
        cells = [name, size_text(size), f"{ours.us:.1f}", f"{theirs.us:.1f}", f"{theirs.us / ours.us:.2f}", f"{ours.proxy_us:.0f} / {theirs.proxy_us:.0f}"]
        if counted:
            cells += [f"{ours.counts.get(kind, 0):.1f} / {theirs.counts.get(kind, 0):.1f}" for kind in ("work requests", "doorbells", "completions")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
