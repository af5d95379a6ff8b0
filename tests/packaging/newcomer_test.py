"""The README's two commands in a bare root of a distribution, from a fresh clone of what is committed: each passes, and how long it takes is printed.

Usage: newcomer_test.py SOURCE ROOT (a key of NEWCOMER_ROOTS in roots.py). Exit status 77: the root cannot be made here.
"""
import argparse
import pathlib
import resource
import subprocess
import time

import roots

# And one test again, by its name: the build stays usable.
COMMANDS = ("scripts/demo", "scripts/test", "ctest --test-dir build/release --no-tests=error -R EditDistance")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepare(root, source):
    """The checkout, and apt with a network."""
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", source, root.folder / "srv/railwise"], check=True)
    (root.folder / "etc/resolv.conf").write_bytes(pathlib.Path("/etc/resolv.conf").read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("root", choices=roots.NEWCOMER_ROOTS)
    arguments = parser.parse_args()
    with roots.unpacked(arguments.root) as root:
        prepare(root, arguments.source.resolve())
        for command in COMMANDS:
            begin, cpu = time.monotonic(), cpu_seconds()
            root.run(f"cd /srv/railwise && {command}", network=True, limit=3600)
            print(f"{arguments.root}: {command}: {time.monotonic() - begin:.0f} s, {cpu_seconds() - cpu:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    roots.exit_from(main)
