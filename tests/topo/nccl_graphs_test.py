"""Holds `railwise topo graphs` against the graphs that NCCL 2.30.7's own search finds.

Usage: nccl_graphs_test.py RAILWISE here      machines/ of this folder (graphs.json)
       nccl_graphs_test.py RAILWISE FOLDER    a collection with variants.tsv, machines/, graphs/; exit 77 (skipped) when
                                              it is not there

Everything must be equal: pattern, channels, types, the order of GPUs and NICs, hops; bandwidths within half a percent.
"""
import json
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).parent / "machines"
SKIPPED = 77


def equal(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 0.005 * max(1.0, abs(b))
    return a == b


def graph_differences(name, want, got):
    if got is None:
        yield f"{name} is missing"
        return
    for key, value in want.items():
        if not equal(got.get(key), value):
            yield f"{name} {key}: {str(got.get(key))[:100]}, NCCL {str(value)[:100]}"


def differences(want, got):
    ours = {tuple(d["ranks"]): d["graphs"] for d in got.get("domains", [])}
    for domain in want["domains"]:
        graphs = ours.get(tuple(domain["ranks"]))
        if graphs is None:
            yield f"no domain of ranks {domain['ranks']}"
            continue
        for nodes, expected in domain["graphs"].items():
            for name, value in expected.items():
                answered = graphs.get(nodes, {}).get(name)
                if isinstance(value, dict):
                    yield from graph_differences(f"{nodes} {name}", value, answered)
                elif not equal(answered, value):
                    yield f"{nodes} {name}: {answered}, NCCL {value}"


def check(name, command, want):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = list(differences(want, json.loads(done.stdout))) if done.returncode == 0 else [done.stderr.strip()]
    for line in found[:3]:
        print(f"FAIL: {name}: {line}")
    if len(found) > 3:
        print(f"FAIL: {name}: and {len(found) - 3} more")
    return not found


def own_machines(railwise):
    for want in json.loads((HERE / "graphs.json").read_text()):
        command = [railwise, "topo", "graphs", str(HERE / want["file"]), "-q", "--nccl", "2.30", "--format", "json"]
        yield check(want["file"], command, want)


def collection(railwise, folder):
    for line in (folder / "variants.tsv").read_text().splitlines()[1:]:
        machine, variant, options = (line.split("\t") + ["", ""])[:3]
        expected = folder / "graphs" / (machine[:-4] + variant + ".json")
        if not expected.exists():
            continue
        command = [railwise, "topo", "graphs", str(folder / "machines" / machine), "-q", "--nccl", "2.30", "--format", "json",
                   *shlex.split(options)]
        yield check(machine + variant, command, json.loads(expected.read_text()))


def main():
    railwise, where = sys.argv[1:3]
    if where != "here" and not (pathlib.Path(where) / "graphs").is_dir():
        print(f"skipped: no {where}/graphs (RAILWISE_TOPOLOGIES names another folder)")
        return SKIPPED
    results = list(own_machines(railwise) if where == "here" else collection(railwise, pathlib.Path(where)))
    print(f"the graphs of {len(results)} machines compared with NCCL's, {results.count(False)} differ")
    return 0 if all(results) and len(results) > 20 else 1


if __name__ == "__main__":
    sys.exit(main())
