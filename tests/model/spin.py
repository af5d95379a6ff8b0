"""Runs a Promela model through spin: every configuration exhaustively, without an error, a cycle or a statement that nothing reaches; then each
mistake that the model can have, which spin must find. Skipped (77) without spin.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

MEMORY_MIB = 700  # of one search; two run at a time
LARGER_MIB = 8000  # of a search of --all, which runs alone


def run(command: list, folder: str, limit: int) -> str:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=folder, timeout=limit, check=False, **pipes).stdout


class Search:
    """One spin run. `statements`: (line, text) and how many times each is there, by inlining; `unreached`: how many of them
    nothing reaches. Spin must not merge statements for that (-o3)."""

    def __init__(self, model: Path, cc: str, macros: str, cycles: bool, thorough: bool, larger: bool = False):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            said = run(["spin", "-o3", "-a", *macros.split(), str(model)], folder, 60)
            if not (Path(folder) / "pan.c").exists():
                raise RuntimeError(f"spin: {said}")
            how = ["-DNP"] if cycles else ["-DSAFETY"]
            how += ["-O2", "-DCOLLAPSE", f"-DMEMLIM={LARGER_MIB}"] if larger else ["-O0", f"-DMEMLIM={MEMORY_MIB}"]
            said = run([cc, "-w", *how, "-o", "pan", "pan.c"], folder, 120)
            if not (Path(folder) / "pan").exists():
                raise RuntimeError(f"{cc}: {said}")
            self.output = run(["./pan", "-m100000", "-w22" if thorough else "-w18", *(["-l"] if cycles else [])], folder,
                              1800 if larger else 240)
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


def check(model: Path, configurations: dict, mutations: dict, for_ever: set = frozenset(), never: dict = {}, larger: dict = {},
          variants: tuple = ("",)) -> int:
    """Runs a model with the options of the command line. `configurations`: name: (macros, seek cycles); `mutations`: number in the model: (macros, the
    mistake); `for_ever`: those of the mutations that are found as cycles only; `never`: statements that nothing can reach, and why; `larger`: configurations
    for --all only; `variants`: more macros, with each of which each mutation must be found. The exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    if not shutil.which("spin"):
        print("spin is not installed (apt-get install spin)")
        return 77
    pool = concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1))
    searches = {name: pool.submit(Search, model, options.cc, *what, True) for name, what in configurations.items()
                      if options.only in name}
    mistakes = {(number, variant): pool.submit(Search, model, options.cc, f"{macros} {variant} -DMUTATION={number}",
                                               number in for_ever, False)
                for number, (macros, _) in mutations.items() for variant in variants if options.only in ("", str(number))}
    problems = []
    reached, unreached = set(), set()
    for name, future in searches.items():
        search = future.result()
        print(f"{name}: {search.states} states, {search.seconds:.1f} s, errors: {search.errors}")
        if search.errors != 0 or search.incomplete:
            what = search.violation or "the search is not complete"
            problems.append(f"{name} ({configurations[name][0]}): {what}\n{search.output}")
        unreached |= set(search.unreached)
        reached |= {what for what, times in search.statements.items() if times > search.unreached[what]}
    if not options.only:
        for line, text in sorted(unreached - reached):
            if text not in ("assert(0)", "-end-", *never):
                problems.append(f"{model.name}:{line}: not reached in any configuration: {text}")
    for (number, variant), future in mistakes.items():
        search = future.result()
        print(f"mutation {number} {variant}, {mutations[number][1]}: {search.violation or 'SURVIVES'} ({search.seconds:.1f} s)")
        if not search.errors:
            problems.append(f"mutation {number} {variant} ({mutations[number][1]}) is not found:\n{search.output}")
    for name, (macros, cycles) in larger.items() if options.all else ():
        search = Search(model, options.cc, macros, cycles, True, True)
        print(f"{name}: {search.states} states, {search.seconds:.1f} s, errors: {search.errors}", flush=True)
        if search.errors != 0 or search.incomplete:
            problems.append(f"{name} ({macros}): {search.violation or 'the search is not complete'}\n{search.output}")
    in_model = set(map(int, re.findall(r"MUTATION [!=]= (\d+)", model.read_text()))) - {0}
    if in_model != set(mutations):
        problems.append(f"mutations in the model and here differ: {sorted(in_model ^ set(mutations))}")
    print("\n".join(problems))
    return 1 if problems else 0
