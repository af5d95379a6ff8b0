"""Holds what is shipped against the oldest C library that NCCL's containers have: versions of symbols, C++ runtime inside.

Usage: symbols_test.py FILE...
"""
import re
import subprocess
import sys

NEWEST = (2, 27)
LIBRARIES = re.compile(r"^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux.*\.so\.\d)$")


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def needs(path):
    """Versions that the file needs of other libraries: "GLIBC_2.17"."""
    section = readelf("--version-info", path).partition("Version needs section")[2]
    return set(re.findall(r"Name: (\S+)\s+Flags", section))


def faults(path):
    versions = needs(path)
    if not versions:
        yield f"{path}: needs no version of anything: is this a program or library?"
    for version in sorted(versions):
        number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if number is None:
            yield f"{path}: needs {version}: the C++ runtime must be inside, and nothing but the C library outside"
        elif (int(number[1]), int(number[2])) > NEWEST:
            yield f"{path}: needs {version}; packaging/glibc/newer_calls.c is the place for what is newer than glibc {NEWEST[0]}.{NEWEST[1]}"
    dynamic = readelf("--dynamic", path)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not LIBRARIES.match(library):
            yield f"{path}: depends on {library}, which is not of the C library"
    if "RPATH" in dynamic or "RUNPATH" in dynamic:
        yield f"{path}: has a search path of the build machine"
    if "Build ID" not in readelf("--notes", path):
        yield f"{path}: has no build id, by which its debug symbols are found"


def main(paths):
    found = [fault for path in paths for fault in faults(path)]
    for fault in found:
        print("FAIL:", fault)
    for path in paths:
        print(path, "needs at most", max(needs(path), key=lambda version: [int(n) for n in re.findall(r"\d+", version)], default="nothing"))
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
