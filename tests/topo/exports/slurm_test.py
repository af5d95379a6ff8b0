"""slurmd reads what `railwise topo export --for slurm` writes as a gres.conf, and slurmctld the topology.conf in it.
Unprivileged, without a cluster: the device files are links below a folder of the test.

Usage: slurm_test.py RAILWISE MACHINES
"""

import getpass
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
from export_runs import expect, export, machines, model, need, run  # noqa: E402

CONFIGURATION = """\
ClusterName=railwise
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
MailProg=/bin/true
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdParameters=config_overrides
SelectType=select/cons_tres
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TopologyPlugin=topology/tree
{gres_types}
{node} NodeHostname=localhost NodeAddr=127.0.0.1 Sockets={sockets} CoresPerSocket={cores} ThreadsPerCore=1
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# What both daemons say of this machine, not of our files.
OWN_TROUBLE = re.compile(r"mpi/pmix|pmi/pmix|MPI: Cannot|state (file|save)|Node configuration differs|cgroup|Jobs may|Reservations may|"
                         r"backup state|Running as|auth/none|hwloc")


def complaints(said: str) -> list[str]:
    return [line for line in said.splitlines() if re.search(r"error|fatal|invalid", line, re.I) and not OWN_TROUBLE.search(line)]


def commented(text: str, file: str) -> list[str]:
    return [line.split(": ", 1)[1] for line in text.splitlines() if line.startswith(f"#{file}: ")]


def write_files(folder: Path, text: str, shown: dict) -> None:
    for name in re.findall(r"File=(\S+)", text):
        (folder / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        (folder / name[1:]).symlink_to("/dev/null")
    (folder / "gres.conf").write_text(text.replace("File=/", f"File={folder}/"))
    (folder / "topology.conf").write_text("\n".join(commented(text, "topology.conf")) + "\n")
    gres_types, node = commented(text, "slurm.conf")
    sockets = len({cpu["numa"] for cpu in shown["cpus"]})
    last = max([int(cores.split("-")[-1]) for cores in re.findall(r"Cores=(\S+)", text)] or [1])
    (folder / "slurm.conf").write_text(CONFIGURATION.format(
        folder=folder, user=getpass.getuser(), gres_types=gres_types, node=node, sockets=sockets,
        cores=-(-(last + 1) // sockets), port=20000 + os.getpid() % 10000, node_port=30000 + os.getpid() % 10000))
    for name in ("state", "spool"):
        (folder / name).mkdir()


def read_gres(said: str, folder: Path) -> list[dict]:
    """The lines that slurmd -G prints, by field."""
    found = []
    for line in said.splitlines():
        if "Gres Name=" in line:
            fields = dict(field.split("=", 1) for field in line.split("Gres ", 1)[1].split()
                          if "=" in field and not field.endswith("=(null)"))
            fields["File"] = fields.get("File", "").replace(str(folder), "")
            found.append(fields)
    return found


def wanted_gres(text: str) -> list[dict]:
    lines = [line.split("#")[0].split() for line in text.splitlines() if line.startswith("Name=")]
    return [dict(field.split("=", 1) for field in line) for line in lines]


def check_gres(slurmd: str, folder: Path, text: str, node: str, what: str) -> int:
    done = run([slurmd, "-G", "-N", node, "-f", str(folder / "slurm.conf")])
    said = done.stdout + done.stderr
    expect((done.returncode, complaints(said)), (0, []), f"slurmd -G with {what}")
    wanted = wanted_gres(text)
    key = [field for field in ("Name", "Type", "File", "Cores", "Links")]
    picked = lambda rows: sorted([{name: row[name] for name in key if name in row} for row in rows], key=str)  # noqa: E731
    expect(picked(read_gres(said, folder)), picked(wanted), f"slurmd's GRES with {what}")
    return len(wanted)


def check_topology(slurmctld: str, folder: Path, node: str) -> None:
    """slurmctld has no option that checks alone: it runs until it has read its files."""
    log = folder / "slurmctld.log"
    with log.open("w") as output:
        daemon = subprocess.Popen([slurmctld, "-D", "-c", "-vvv", "-f", str(folder / "slurm.conf")], stdout=output,
                                  stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while "switches_dist" not in log.read_text(errors="replace") and daemon.poll() is None:
            if time.monotonic() > deadline:
                sys.exit(f"FAIL: slurmctld has not read topology.conf: {log.read_text(errors='replace')}")
            time.sleep(0.05)
    finally:
        if daemon.poll() is None:
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
    said = log.read_text(errors="replace")
    expect(f"name:leaf1 nodes:{node} " in said, True, f"the switch in {said}")
    expect([line for line in complaints(said) if re.search("topo|gres|switch|slurm.conf", line, re.I)], [], "slurmctld")


def check(railwise: str, slurmd: str, slurmctld: str, machine: Path, with_controller: bool) -> int:
    text = export(railwise, machine, "slurm")
    node = machine.name.split(".")[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, text, model(railwise, machine))
        lines = check_gres(slurmd, folder, text, node, machine.name)
        if with_controller:
            check_topology(slurmctld, folder, node)
    return lines


def main(railwise: str, folder: Path) -> None:
    slurmd, slurmctld = need("slurmd", "slurmd"), need("slurmctld", "slurmctld")
    found = {machine.name: check(railwise, slurmd, slurmctld, machine, number == 0)
             for number, machine in enumerate(machines(folder))}
    print(f"slurmd agrees on all lines: {found}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
