#!/usr/bin/env python3
"""Holds how real NCCL connects each pair of ranks against `railwise topo transports`.

  transports_check.py BUILD [--out DIR] [--only NAME,...]

BUILD: a build tree for which ../prepare has run. Two equal hosts, every rank sends to every other one. For each line of NCCL's log that names a
transport: P2P (pointer, IPC, read, through which GPU), SHM, or NET with device, relaying rank and GPUDirect.
Exit status: 0 all equal, 1 something differs or does not work, 77 this machine lacks what it needs.
"""
import argparse
import dataclasses
import json
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import nccl_log  # noqa: E402
import software_nccl  # noqa: E402
from case import cpu_of, hosts_of  # noqa: E402
from hosts_job import HostsJob  # noqa: E402
from unavailable import exit_status  # noqa: E402

MACHINES = HERE.parents[2] / "machines"
WITHIN = re.compile(r"Channel (\d+)(?:/(\d+))? : (\d+)\[\d+\] -> (\d+)\[\d+\] via ((?:P2P|SHM)/.*?)\s*$", re.M)
MOST_COMPLAINTS = 5  # of one run are printed


def switched(gpu, numas=2, per_numa=2, nics=True):
    """GPUs with a NIC of 400 Gb/s each below a PCIe switch."""
    lines = [f"host A numa_nodes={numas}"]
    for i in range(numas * per_numa):
        numa, bridge = i // per_numa, f"0000:{i + 1}0:01.0/{i + 1}1:00.0"
        lines += [f"bridge pci={bridge} numa={numa} pcie=5x16",
                  f"gpu pci={bridge}/{i + 1}2:00.0/{i + 1}3:00.0 numa={numa} pcie=5x16 {gpu}"]
        if nics:
            lines.append(f"device name=mlx5_{i} link=ib speed=400000 pci={bridge}/{i + 1}2:01.0/{i + 1}4:00.0 numa={numa} pcie=5x16")
    return "\n".join(lines) + "\n"


SWITCH = "nvswitch pci=0000:f0:00.0 numa=0 pcie=4x2\n"
# Four GPUs without NVLink: two on one PCIe switch, one on each of two NUMA nodes' root ports; a slow NIC.
PLAIN = """host A numa_nodes=2
bridge pci=0000:10:01.0/11:00.0 numa=0 pcie=4x16
gpu pci=0000:10:01.0/11:00.0/12:00.0/13:00.0 numa=0 pcie=4x16 sm=86
gpu pci=0000:10:01.0/11:00.0/12:01.0/14:00.0 numa=0 pcie=4x16 sm=86
gpu pci=0000:20:01.0/21:00.0 numa=0 pcie=4x16 sm=86
gpu pci=0000:90:01.0/91:00.0 numa=1 pcie=4x16 sm=86
device name=mlx5_0 link=ib speed=25000 pci=0000:30:01.0/31:00.0 numa=0 pcie=3x8
"""
# Three GPUs whose NVLinks make a line: the outer two reach each other through the middle one.
LINE = """host A
gpu pci=0000:10:01.0/11:00.0 numa=0 pcie=3x16 sm=70 nvlink=0000:21:00.0:2
gpu pci=0000:20:01.0/21:00.0 numa=0 pcie=3x16 sm=70 nvlink=0000:31:00.0:2
gpu pci=0000:30:01.0/31:00.0 numa=0 pcie=3x16 sm=70
device name=mlx5_0 link=ib speed=100000 pci=0000:40:01.0/41:00.0 numa=0 pcie=3x16
"""


@dataclasses.dataclass(frozen=True)
class Shape:
    """A machine, and the settings under which NCCL runs on it: environment variables, and "apart" for a process for each GPU."""

    machine: str  # text, or the name of one of machines/
    runs: tuple
    gpudirect: bool = True


SHAPES = {
    "dgx": Shape("dgx", ({},)),
    "mesh": Shape("nvlink-mesh", ({}, {"NCCL_P2P_LEVEL": "NVL"})),
    "a100": Shape(switched("sm=80 nvlink=switch:12") + SWITCH,
                  ({}, {"apart": True}, {"NCCL_P2P_READ_ENABLE": "0"}, {"NCCL_PXN_DISABLE": "1"},
                   {"NCCL_CROSS_NIC": "0", "NCCL_P2P_PXN_LEVEL": "0"}, {"NCCL_P2P_DISABLE": "1"}, {"NCCL_NET_GDR_LEVEL": "LOC"})),
    "h100 without GPUDirect": Shape(switched("sm=90 nvlink=switch:18") + SWITCH, ({}, {"NCCL_P2P_READ_ENABLE": "1"}), gpudirect=False),
    "plain": Shape(PLAIN, ({}, {"apart": True}, {"NCCL_P2P_LEVEL": "SYS"}, {"NCCL_P2P_LEVEL": "PHB", "NCCL_P2P_DIRECT_DISABLE": "1"},
                           {"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_READ_ENABLE": "1"})),
    "parts": Shape(switched("sm=86", per_numa=1), ({}, {"NCCL_NET_DISABLE_INTRA": "1"}, {"NCCL_SHM_DISABLE": "1"},
                                                    {"NCCL_P2P_LEVEL": "SYS"})),
    "parts of two": Shape(switched("sm=86"), ({}, {"apart": True, "NCCL_P2P_LEVEL": "PXB"})),
    "line": Shape(LINE, ({}, {"NCCL_P2P_READ_ENABLE": "1"}, {"NCCL_NVB_DISABLE": "1"}, {"apart": True})),
}


class Answers:
    """What `railwise topo transports` says, by channel."""

    def __init__(self, ask):
        self._ask = ask
        self._channels = {}

    def _of(self, channel):
        if channel not in self._channels:
            answer = json.loads(self._ask("--channel", str(channel)))
            classes = answer["classes"]
            self._channels[channel] = [{(row[0], row[1]): (classes[row[2]]["name"], row[3:]) for row in answer[key]}
                                       for key in ("pairs", "other_host")]
        return self._channels[channel]

    def within(self, channel, sender, receiver):
        """As NCCL's log: "P2P/direct pointer/read", "P2P/indirect/1", "SHM"."""
        name, more = self._of(channel)[0][sender, receiver]
        return name.replace("P2P/indirect", f"P2P/indirect/{more[0]}") if name.startswith("P2P/indirect") else name

    def net(self, channel, sender, receiver, other_host):
        """(device, relaying rank, GPUDirect) of both ends; None: not by the network."""
        name, more = self._of(channel)[1 if other_host else 0][sender, receiver]
        if not name.startswith("NET"):
            return None
        return (int(more[0].split("/")[1]), more[1], more[2]), (int(more[3].split("/")[1]), None, more[4])


def compare(log, first, gpus, answers):
    """([what was compared], complaints) of the log of one host."""
    seen, complaints = [], []
    for channel, _, sender, receiver, name in sorted(set(WITHIN.findall(log))):
        nccl = "SHM" if name.startswith("SHM") else re.sub(r"\[\d+\]", "", name)
        if nccl.startswith("P2P/indirect"):  # ranks of the job
            nccl = re.sub(r"indirect/(\d+)", lambda found: f"indirect/{int(found[1]) - first}", nccl)
        ours = answers.within(int(channel), int(sender) - first, int(receiver) - first)
        seen.append((int(sender), int(receiver), nccl))
        if nccl != ours:
            complaints.append(f"channel {channel}, {sender} -> {receiver}: NCCL {nccl}, Railwise {ours}")
    for end in sorted(nccl_log.connections(log), key=dataclasses.astuple):
        sender, receiver = (end.rank, end.peer) if end.sends else (end.peer, end.rank)
        here = first <= sender < first + gpus and first <= receiver < first + gpus
        ours = answers.net(end.channel, sender % gpus, receiver % gpus, not here)
        nccl = (end.device, end.proxy - first if end.sends else None, end.gpudirect)
        seen.append((sender, receiver, "NET"))
        expected = ours and ours[0 if end.sends else 1]
        if ours is None or (not end.collective and nccl != expected):
            complaints.append(f"channel {end.channel}, {sender} -> {receiver} [{'send' if end.sends else 'receive'}]: NCCL NET {nccl}, "
                              f"Railwise {expected}")
    return seen, complaints


def run(nccl, build, out, name, shape, settings):
    machine = MACHINES / f"{shape.machine}.conf"
    if "\n" in shape.machine:
        machine = out / f"{name.replace(' ', '-')}.conf"
        machine.write_text(shape.machine)
    extra = {key: value for key, value in settings.items() if key != "apart"}
    apart = "apart" in settings
    host, gpus = hosts_of(build, machine)[0]
    title = " ".join([name, *(["apart"] if apart else []), *(f"{key}={value}" for key, value in extra.items())])
    job = HostsJob(nccl, build, out / re.sub(r"[^A-Za-z0-9]+", "-", title), machine, [(host, gpus)] * 2, apart,
                   [f"gpudirect={'peermem' if shape.gpudirect else 'off'}"], extra, within=True)
    complaints = job.run()
    seen = []
    for number in range(2) if not complaints else ():
        # A machine does not tell `railwise topo` that its driver lacks GPUDirect. NCCL's dump does; the second host is as the first.
        source = ["--cpu", cpu_of(job.dumps[number]), *job.machine_words(number)] if shape.gpudirect else [str(job.dumps[0])]
        words = ["topo", "transports", "--format", "json", "--nodes", "2", "--quiet", "--nccl", nccl.release, *source,
                 *([] if apart else ["--one-process"])]
        found, differ = compare(job.log(number), job.first(number), gpus, Answers(lambda *more: job.ask(number, *words, *more)))
        seen += found
        complaints += differ
    pairs = {(sender, receiver) for sender, receiver, _ in seen}
    missing = [(a, b) for a in range(2 * gpus) for b in range(2 * gpus) if a != b and (a, b) not in pairs]
    if missing and not complaints:
        complaints.append(f"NCCL's log has no transport for {len(missing)} pairs, such as {missing[0]}")
    kinds = sorted({re.sub(r"indirect/\d+", "indirect", kind) for _, _, kind in seen})
    print(f"{'FAIL' if complaints else 'ok  '} {title}: {len(seen)} lines, {len(pairs)} pairs, {', '.join(kinds)}; {len(complaints)} differ",
          flush=True)
    for complaint in complaints[:MOST_COMPLAINTS]:
        print(f"     {complaint}")
    return len(seen), len(complaints)


def check(options, out):
    build = options.build.resolve()
    nccl = software_nccl.prepared(build)
    out.mkdir(parents=True, exist_ok=True)
    print(f"NCCL {nccl.release}")
    shapes = {name: shape for name, shape in SHAPES.items() if not options.only or name in options.only}
    results = [run(nccl, build, out, name, shape, settings) for name, shape in shapes.items() for settings in shape.runs]
    differ = sum(result[1] for result in results)
    print(f"{len(shapes)} machines, {len(results)} runs: {sum(result[0] for result in results)} lines; {differ} differ; logs: {out}")
    return 1 if differ or not results else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("--out", type=pathlib.Path, help="folder for logs (default: a temporary one)")
    parser.add_argument("--only", type=lambda text: text.split(","), help="only these machines, by name")
    options = parser.parse_args()
    out = (options.out or pathlib.Path(tempfile.mkdtemp(prefix="nccl-transports-"))).resolve()
    return exit_status("nccl transports", lambda: check(options, out))


if __name__ == "__main__":
    sys.exit(main())
