"""Holds `railwise topo show --format json` against the answers of NCCL's own code.

Usage: nccl_answers_test.py RAILWISE here               machines/ of this folder (answers.json); those of machines/partial were checked by
                                                        hand
       nccl_answers_test.py RAILWISE FOLDER [RELEASE]   a collection with variants.tsv, sysfs.tsv, machines/, sysfs/, expected/, partial/;
                                                        exit 77 (skipped) when it is not there. With RELEASE the answers
                                                        in expected-RELEASE/ count (2.31), without it those of NCCL 2.30.7

Types, hops, P2P, GPUDirect and the choices must be equal, bandwidths within half a percent. AMD's files (.xgmi-nvlink)
are compared in types and NICs only: NCCL's constants stand for RCCL's there. An answer without a table says nothing of it.
"""
import json
import pathlib
import shlex
import subprocess
import sys

TABLES = ["gpu_gpu", "gpu_net", "net_gpu", "gpu_cpu", "net_cpu", "cpu_cpu", "net_net"]
HERE = pathlib.Path(__file__).parent / "machines"
SKIPPED = 77
DEFAULT = "2.30"


def rows(answer, table, width):
    found = {}
    for row in answer.get(table, []):
        found.setdefault((row[0], row[1]), []).append(row[2:width])
    return found


def near(a, b):
    return abs(a - b) <= 0.005 * max(1.0, abs(b))


def table_differences(want, got, table, types_only):
    expected, answered = rows(want, table, 5), rows(got, table, 5)
    for pair in sorted(set(expected) | set(answered)):
        ours, theirs = answered.get(pair, []), expected.get(pair, [])
        if types_only:
            same = [r[0] for r in ours] == [r[0] for r in theirs]
        else:
            same = len(ours) == len(theirs) and all(
                a[0] == b[0] and near(a[1], b[1]) and a[2] == b[2] for a, b in zip(ours, theirs))
        if not same:
            yield f"{table} {pair[0]} -> {pair[1]}: {ours}, NCCL {theirs}"


def differences(want, got, types_only):
    for table in set(TABLES) & set(want):
        yield from table_differences(want, got, table, types_only)
    if not types_only:
        for table, width in (("p2p", 5), ("gdr", 6)):  # without the reasons
            if table in want and rows(want, table, width) != rows(got, table, width):
                yield f"{table} differs"
    for i, domain in enumerate(want.get("domains") or []):
        ours = (got.get("domains") or [])[i:i + 1]
        for key in ("local_net",) if types_only else ("ranks", "local_net", "p2p_net"):
            if key in domain and (not ours or ours[0].get(key) != domain[key]):
                yield f"domain {i}: {key} differs"


def run(command, refused):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if refused:
        return None, [] if done.returncode == 1 else [f"NCCL refuses this, we do not (exit {done.returncode})"]
    if done.returncode != 0:
        return None, [f"refused: {done.stderr.strip()}"]
    return json.loads(done.stdout), []


def check(name, command, want, types_only=False):
    got, found = run(command, want.get("refused") or "error" in want)
    if got is not None:
        found = list(differences(want, got, types_only))
    for line in found[:3]:
        print(f"FAIL: {name}: {line}")
    if len(found) > 3:
        print(f"FAIL: {name}: and {len(found) - 3} more")
    return not found


def asked(railwise, *machine):
    """The command line. AMD's xGMI links count as NVLink, with NCCL's bandwidths."""
    return [railwise, "topo", "show", "--format", "json", "-q", "--xgmi=nvlink", *machine]


def own_machines(railwise):
    for want in json.loads((HERE / "answers.json").read_text()):
        command = asked(railwise, str(HERE / want["file"]), "--nccl", want.get("nccl", DEFAULT), *shlex.split(want["options"]))
        yield check(f'{want["file"]} {want["options"]} {want.get("nccl", "")}', command, want)


def table_of(path):
    return [(line.split("\t") + [""] * 4)[:4] for line in path.read_text().splitlines()[1:]]


def collection(railwise, folder, release):
    expected = folder / ("expected" if release == DEFAULT else "expected-" + release)
    for machine, variant, options, _ in table_of(folder / "variants.tsv"):
        answer = expected / (machine[:-4] + variant + ".json")
        if release != DEFAULT and not answer.exists():
            continue  # AMD's are answered for 2.30.7 alone
        want = json.loads(answer.read_text())
        command = asked(railwise, str(folder / "machines" / machine), "--nccl", release, *shlex.split(options))
        yield check(machine + variant, command, want, variant == ".xgmi-nvlink")
    for file in sorted((folder / "partial").glob("*.xml")) if release == DEFAULT else []:
        want = json.loads(file.with_suffix(".json").read_text())
        yield check("partial/" + file.name, asked(railwise, str(file), "--nccl", release), want)
    for tree, file, options, result in table_of(folder / "sysfs.tsv") if release == DEFAULT else []:
        want = json.loads((expected / "sysfs" / (result + ".json")).read_text())
        command = asked(railwise, "--root", str(folder / "sysfs" / (tree + ".tar.gz")), "--nccl", release, *shlex.split(options))
        if file != "-":
            command.append(str(folder / "machines" / file))
        yield check("sysfs " + result, command, want)


def main():
    railwise, where = sys.argv[1:3]
    release = sys.argv[3] if len(sys.argv) > 3 else DEFAULT
    if where != "here" and not (pathlib.Path(where) / "variants.tsv").exists():
        print(f"skipped: no {where}/variants.tsv (RAILWISE_TOPOLOGIES names another folder)")
        return SKIPPED
    if where != "here" and release != DEFAULT and not (pathlib.Path(where) / ("expected-" + release)).exists():
        print(f"skipped: no {where}/expected-{release}")
        return SKIPPED
    results = list(own_machines(railwise) if where == "here" else collection(railwise, pathlib.Path(where), release))
    print(f"{len(results)} answers compared with NCCL's, {results.count(False)} differ")
    return 0 if all(results) and len(results) > 20 else 1


if __name__ == "__main__":
    sys.exit(main())
