#!/usr/bin/env python3
"""Holds the rings, trees and other graphs that NCCL's own graph code finds against `railwise topo graphs`.

  graphs_check.py BUILD [--count N] [--first SEED] [--only SEED,...]   machines drawn by chance (random_machine.py)
  graphs_check.py BUILD FILE.xml ...                                  these files, which must describe all GPUs and NICs

BUILD: a build tree for which ../prepare has run; its nccl_graph_code is NCCL's code.
Exit status: 0 all equal, 1 something differs or does not work, 77 this machine lacks what it needs.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True
import random_machine  # noqa: E402
import software_nccl  # noqa: E402
from unavailable import exit_status  # noqa: E402

LIMIT_S = 300  # of one program on one machine
MOST_COMPLAINTS = 3  # of one machine are printed


def answer(command, environment):
    """(JSON or None, last line of stderr)."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"did not end within {LIMIT_S} s"
    words = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return (json.loads(done.stdout), words) if done.returncode == 0 else (None, words)


def equal(ours, theirs):
    if isinstance(theirs, float) or isinstance(ours, float):
        return isinstance(ours, (int, float)) and math.isclose(ours, theirs, rel_tol=1e-5, abs_tol=1e-6)
    return ours == theirs


def graphs_of(answer):
    return [graph for domain in answer["domains"] for graphs in domain["graphs"].values() for graph in graphs.values() if isinstance(graph, dict)]


def differences(ours, theirs):
    """(number of graphs compared, complaints) of two answers; None: the program refused the machine. Where a search of NCCL's fails, so does
    init: Railwise may refuse the machine or leave that graph out."""
    if ours is None and theirs and any(graph["rc"] for graph in graphs_of(theirs)):
        return 1, []
    if ours is None or theirs is None:
        return 0, [] if ours is theirs else [f"NCCL {'refuses' if theirs is None else 'takes'} this machine, Railwise does not agree"]
    if [domain["ranks"] for domain in ours["domains"]] != [domain["ranks"] for domain in theirs["domains"]]:
        return 0, [f"ranks of domains: NCCL {[d['ranks'] for d in theirs['domains']]}, Railwise {[d['ranks'] for d in ours['domains']]}"]
    compared, complaints = 0, []
    for domain, wanted in zip(ours["domains"], theirs["domains"]):
        for nodes, graphs in wanted["graphs"].items():
            for name, graph in graphs.items():
                found = domain["graphs"].get(nodes, {}).get(name)
                if not isinstance(graph, dict):
                    if not equal(found, graph):
                        complaints.append(f"{nodes} {name}: NCCL {graph}, Railwise {found}")
                    continue
                compared += 1
                found = found or {}
                wrong = [key for key in graph if not equal(found.get(key), graph[key])]
                if graph["rc"] and found.get("rc", graph["rc"]):
                    continue  # both failed; the numbers are NCCL's own
                if wrong:
                    complaints.append(f"ranks {domain['ranks'][0]}.. {nodes} {name}: " +
                                      "; ".join(f"{key}: NCCL {graph[key]}, Railwise {found.get(key)}" for key in wrong))
    return compared, complaints


def check(options):
    build = options.build.resolve()
    nccl = software_nccl.prepare(build, options.host) if options.host else software_nccl.prepared(build)
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL_", "RAILWISE_"))}
    environment = {**outside, "LD_LIBRARY_PATH": nccl.library_path()}
    compared = refused = failed = 0
    with tempfile.TemporaryDirectory(prefix="nccl-graphs-") as folder:
        machines = [(file.name, file) for file in options.files]
        for seed in ([] if machines else options.only or range(options.first, options.first + options.count)):
            file = pathlib.Path(folder) / f"machine{seed}.xml"
            file.write_text(random_machine.draw(seed))
            machines.append((f"seed {seed}", file))
        for name, file in machines:
            theirs, why = answer([str(nccl.folder / "nccl_graph_code"), str(file)], environment)
            ours, our_why = answer([str(build / "bin/railwise"), "topo", "graphs", str(file), "--nccl", nccl.release, "--quiet", "--format",
                                    "json"], environment)
            count, complaints = differences(ours, theirs)
            compared += count
            refused += theirs is None
            failed += bool(complaints)
            for complaint in complaints[:MOST_COMPLAINTS]:
                print(f"FAIL {name}: {complaint[:1000]} (NCCL: {why}; Railwise: {our_why})" if theirs is None or ours is None else
                      f"FAIL {name}: {complaint[:1000]}", flush=True)
            if options.files or options.only:
                print(f"{'FAIL' if complaints else 'ok  '} {name}: {count} graphs", flush=True)
    print(f"NCCL {nccl.release}: {len(machines)} machines, {refused} of them refused by both; {compared} graphs "
          f"compared; {failed} machines differ")
    return 1 if failed or not compared else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("files", type=pathlib.Path, nargs="*", metavar="FILE.xml")
    parser.add_argument("--host", type=pathlib.Path, metavar="DIR", help="another release's host code (scripts/nccl-source prints the folder)")
    parser.add_argument("--count", type=int, default=100, help="how many machines are drawn")
    parser.add_argument("--first", type=int, default=1, help="seed of the first")
    parser.add_argument("--only", type=lambda text: [int(word) for word in text.split(",")], help="these seeds")
    options = parser.parse_args()
    return exit_status("nccl graphs", lambda: check(options))


if __name__ == "__main__":
    sys.exit(main())
