#!/usr/bin/env python3
"""Runs failover.pml through spin: every configuration exhaustively, without an error, a cycle or a statement that nothing
reaches; then each mistake in MUTATIONS, which spin must find. Skipped (77) without spin.

Usage: failover_test.py [--cc COMPILER] [--only WORD]    (WORD: part of a configuration's name, or a mutation's number)
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = Path(__file__).with_name("failover.pml")
MEMORY_MIB = 700  # of one search; two run at a time

# name: (macros, seek cycles). A search for cycles (there is none: whatever happens, it comes to rest) has twice the states.
CONFIGURATIONS = {
    "failures at both ends": ("-DN=4 -DWINDOW=3 -DFAILURES=2", False),
    "comes to rest": ("-DN=3 -DFAILURES=2", True),
    "idle users": ("-DLAZY -DCLOSE -DN=4 -DWINDOW=3 -DFAILURES=1", False),
    "idle users come to rest": ("-DLAZY -DCLOSE -DN=3 -DFAILURES=1", True),
    "ends": ("-DLAZY -DCLOSE -DN=3 -DFAILURES=3", False),
    "aborts": ("-DLAZY -DABORT -DN=3 -DFAILURES=1", False),
    "nothing left": ("-DLAZY -DPARTITION -DCLOSE -DN=3 -DFAILURES=1", False),
    "nothing left comes to rest": ("-DPARTITION -DN=3 -DFAILURES=1", True),
    "a device lost": ("-DLAZY -DLOSS -DCLOSE -DN=3 -DFAILURES=2", False),
    "a device lost comes to rest": ("-DLOSS -DCLOSE -DN=3 -DFAILURES=1", True),
}

PLAIN = "-DFAILURES=2"
IDLE = "-DLAZY -DFAILURES=2"
ENDS = "-DCLOSE -DFAILURES=1"
NOTHING_LEFT = "-DLAZY -DPARTITION -DFAILURES=1"
LOST = "-DLAZY -DLOSS -DFAILURES=1"
# number in the model: (macros, the mistake)
MUTATIONS = {
    1: (PLAIN, "R reconciles before it drains and destroys its queue pairs"),
    2: (PLAIN, "S completes by a Reconcile before it breaks"),
    3: (PLAIN, "S takes an Accept of any epoch"),
    4: (PLAIN, "R does not drain: completions of the old epoch count in the new one"),
    5: (PLAIN, "S sends Break before it breaks"),
    6: (PLAIN, "R keeps the parts that have arrived of open receives"),
    7: (PLAIN, "S keeps acknowledgements of parts over epochs"),
    8: (PLAIN, "S does not zero its ring"),
    9: (PLAIN, "S ignores what is done out of order in a Reconcile"),
    10: (PLAIN, "S uses the entries of receives that were done out of order"),
    11: (PLAIN, "R hears Break only while it is running"),
    12: (PLAIN, "R writes clear-to-sends after Accept, not after Ready"),
    13: (PLAIN, "R takes a Propose of any epoch"),
    14: (PLAIN, "R takes a Ready of any epoch"),
    15: (PLAIN, "no Arrived from R's service thread"),
    16: (PLAIN, "S goes on matching where it was"),
    17: (PLAIN, "R does not write the entries of open receives again"),
    18: (ENDS, "S ignores what a Close says has arrived"),
    19: (ENDS, "R does not drain on a Close"),
    20: (IDLE, "S's 60 s run although R has no open receive"),
    21: (NOTHING_LEFT, "S does not say that it waits for a pair"),
    22: (LOST, "S's service thread does not look at Reconciles"),
    23: (IDLE, "R's 60 s run although S may have no unfinished send"),
    24: (PLAIN, "R's service thread answers a Break once"),
    25: (PLAIN, "R settles again with the same number when its rails change"),
    26: (PLAIN, "S completes when the data are posted (iWARP's acknowledgement)"),
    27: (ENDS, "S completes by a Close before it breaks"),
    28: (PLAIN, "Arrived counts receives that were done out of order"),
    29: (PLAIN, "packets of a dead epoch are taken by the next (queue pair number and PSN used again)"),
    30: ("-DPARTITION -DFAILURES=0", "the way to the peer comes and goes for ever"),
}
FOR_EVER = {30}  # found as cycles only: shows that a search for them can fail


def run(command: list, folder: str, limit: int) -> str:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=folder, timeout=limit, check=False, **pipes).stdout


class Search:
    """One spin run. `statements`: (line, text) and how many times each is there, by inlining; `unreached`: how many of them
    nothing reaches. Spin must not merge statements for that (-o3)."""

    def __init__(self, cc: str, macros: str, cycles: bool, thorough: bool):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            said = run(["spin", "-o3", "-a", *macros.split(), str(MODEL)], folder, 60)
            if not (Path(folder) / "pan.c").exists():
                raise RuntimeError(f"spin: {said}")
            how = ["-DNP"] if cycles else ["-DSAFETY"]
            said = run([cc, "-O0", "-w", *how, f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"], folder, 120)
            if not (Path(folder) / "pan").exists():
                raise RuntimeError(f"{cc}: {said}")
            self.output = run(["./pan", "-m100000", "-w22" if thorough else "-w18", *(["-l"] if cycles else [])], folder, 240)
            table = run(["./pan", "-d"], folder, 60) if thorough else ""
        self.seconds = time.monotonic() - began
        self.statements = collections.Counter(re.findall(r"\.pml:(\d+) => (.*)", table))
        self.unreached = collections.Counter(re.findall(r'\.pml:(\d+), state \d+, "(.*)"', self.output))
        errors = re.search(r"errors: (\d+)", self.output)
        self.errors = int(errors[1]) if errors else None
        states = re.search(r"(\d+) states, stored", self.output)
        self.states = int(states[1]) if states else 0
        self.incomplete = "Search not completed" in self.output or "max search depth too small" in self.output
        violation = re.search(r"pan:\d+: (.*)", self.output)
        self.violation = violation[1] if violation else ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not shutil.which("spin"):
        print("spin is not installed (apt-get install spin)")
        return 77
    pool = concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1))
    configurations = {name: pool.submit(Search, options.cc, *what, True) for name, what in CONFIGURATIONS.items()
                      if options.only in name}
    mutations = {number: pool.submit(Search, options.cc, f"{macros} -DMUTATION={number}", number in FOR_EVER, False)
                 for number, (macros, _) in MUTATIONS.items() if options.only in ("", str(number))}
    problems = []
    reached, unreached = set(), set()
    for name, future in configurations.items():
        search = future.result()
        print(f"{name}: {search.states} states, {search.seconds:.1f} s, errors: {search.errors}")
        if search.errors != 0 or search.incomplete:
            what = search.violation or "the search is not complete"
            problems.append(f"{name} ({CONFIGURATIONS[name][0]}): {what}\n{search.output}")
        unreached |= set(search.unreached)
        reached |= {what for what, times in search.statements.items() if times > search.unreached[what]}
    if not options.only:
        for line, text in sorted(unreached - reached):
            if text not in ("assert(0)", "-end-"):
                problems.append(f"{MODEL.name}:{line}: not reached in any configuration: {text}")
    for number, future in mutations.items():
        search = future.result()
        print(f"mutation {number}, {MUTATIONS[number][1]}: {search.violation or 'SURVIVES'}")
        if not search.errors:
            problems.append(f"mutation {number} ({MUTATIONS[number][1]}) is not found:\n{search.output}")
    in_model = set(map(int, re.findall(r"MUTATION [!=]= (\d+)", MODEL.read_text()))) - {0}
    if in_model != set(MUTATIONS):
        problems.append(f"mutations in the model and here differ: {sorted(in_model ^ set(MUTATIONS))}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
