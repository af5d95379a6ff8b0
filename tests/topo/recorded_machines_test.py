"""Machines that QEMU had, recorded in their guests (tests/lab/suites/machine.py --save): the answers for each
are those that the shape of the machine demands. Needs no QEMU.

Usage: recorded_machines_test.py RAILWISE
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
LAB = HERE.parent / "lab"
sys.path.insert(0, str(LAB))

from expectation import Expectation  # noqa: E402
from judge import ADDRESS, Judge, Places, way_of  # noqa: E402


def places_in(archive: Path) -> Places:
    """Of the folders in the archive that are a PCI function's."""
    with tarfile.open(archive) as tar:
        folders = {name.rsplit("/", 1)[0] for name in tar.getnames() if name.endswith("/class")}
    return {way_of(folder): folder.rsplit("/", 1)[1] for folder in folders
            if ADDRESS.fullmatch(folder.rsplit("/", 1)[1])}


def check(railwise: str, archive: Path) -> list[str]:
    def ask(*question: str) -> dict:
        done = subprocess.run([railwise, *question, "--format", "json", "--root", str(archive), "-q"],
                              capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    shape = LAB / "machines" / archive.name.replace(".tar.gz", ".json")
    judge = Judge(Expectation.of(shape), places_in(archive))
    judge.machine(ask("topo", "show"), ask("explain"))
    return judge.failures


def main() -> int:
    archives = sorted((HERE / "machines" / "recorded").glob("*.tar.gz"))
    shapes = {path.stem for path in (LAB / "machines").glob("*.json")}
    failures = [f"{archive.name}: {failure}" for archive in archives
                for failure in check(sys.argv[1], archive)]
    missing = shapes - {archive.name.removesuffix(".tar.gz") for archive in archives}
    failures += [f"{name}: not recorded (tests/lab/suites/machine.py --save)" for name in sorted(missing)]
    for failure in failures:
        print(f"FAIL: {failure}")
    print(f"{len(archives)} recorded machines, {len(failures)} answers differ from their shapes")
    return 1 if failures or not archives else 0


if __name__ == "__main__":
    sys.exit(main())
