"""Builds the packages and the wheel in two folders of different names, and compares them byte for byte.

Usage: reproducible_test.py SOURCE [FOLDER FOLDER]

FOLDER is a checkout in which scripts/package --all has run already: only the wheel is made there.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

EPOCH = "1700000000"
PACKAGES = "build/packages"


def copy_of(source, to):
    """The files that git knows, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=source, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (source / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, to / name)


def run(folder, *command):
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})
    if made.returncode != 0:
        sys.exit(f"FAIL: {folder}: {' '.join(command)}: {made.stdout}{made.stderr}")


def sums_of(folder):
    """Name -> SHA-256 of everything that a release takes from the build."""
    run(folder, "scripts/wheel", "--build", "build/package", "--output", PACKAGES)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / PACKAGES).iterdir()}


def compare(one, two):
    differ = [name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)]
    for name in differ:
        print(f"FAIL: {name} is not the same in both builds")
    kinds = {kind: sum(name.endswith(kind) for name in one) for kind in (".deb", ".rpm", ".whl", ".spdx.json")}
    missing = [kind for kind, count in kinds.items() if count == 0]
    if missing:
        print(f"FAIL: the builds made no {', '.join(missing)}")
    print(f"{len(one)} files compared: {kinds}")
    return 1 if differ or missing else 0


def main(source, *built):
    source = pathlib.Path(source)
    if built:
        return compare(*(sums_of(pathlib.Path(folder)) for folder in built))
    if shutil.which("dpkg-deb") is None or shutil.which("rpmbuild") is None or not (source / ".git").exists():
        print("no dpkg-deb, no rpmbuild or no git checkout here")
        return 77
    with tempfile.TemporaryDirectory(prefix="railwise-twice-") as work:
        sums = []
        for name in ("one", "another/with-a-longer-name"):
            folder = pathlib.Path(work) / name
            copy_of(source, folder)
            run(folder, "scripts/package", "--all")
            sums.append(sums_of(folder))
    return compare(*sums)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
