"""What the tests of `railwise topo export` with other programs have in common."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def skip(why: str) -> NoReturn:
    print(f"skipped: {why}")
    sys.exit(77)


def need(program: str, package: str) -> str:
    """The path of a program; Debian keeps daemons where users do not look."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        skip(f"{program} is not installed (apt: {package})")
    return found


def run(command: list[str], timeout: float = 60, **variables: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items()
            if name not in RANKS and not name.startswith(("UCX_", "NCCL_", "RAILWISE_", "SLURM_", "HWLOC_"))}
    return subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, timeout=timeout)


def expect(got, wanted, what: str) -> None:
    if got != wanted:
        sys.exit(f"FAIL: {what}: {got!r} instead of {wanted!r}")


def where(machine: Path) -> list[str]:
    """The options that name a machine: a topology file or a recorded /sys."""
    return [str(machine)] if machine.suffix == ".xml" else ["--root", str(machine)]


def export(railwise: str, machine: Path, form: str, *more: str) -> str:
    done = run([railwise, "topo", "export", *where(machine), "--for", form, "-q", *more])
    expect((done.returncode, done.stderr), (0, ""), f"{form} of {machine.name}")
    return done.stdout


def model(railwise: str, machine: Path) -> dict:
    """The machine as `railwise topo show` has it."""
    return json.loads(run([railwise, "topo", "show", *where(machine), "-f", "json", "-q"]).stdout)


def machines(folder: Path) -> list[Path]:
    """A cube of NVLinks, an arm64 machine with NVSwitches, recorded machines, and the real ones where they are."""
    found = [folder / "synthetic" / "dgx1v.xml", folder / "gb200.xml", *sorted((folder / "recorded").glob("*.tar.gz"))]
    real = os.environ.get("RAILWISE_TOPOLOGIES")
    if real:
        found += [path for path in sorted((Path(real) / "machines" / "azure").glob("*.xml")) if "<graphs" not in path.read_text()][:4]
    return found
