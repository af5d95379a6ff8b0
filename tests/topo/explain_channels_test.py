"""Holds the NICs of rings and trees that `railwise explain` names against `railwise topo graphs`, for two equal hosts.

Usage: explain_channels_test.py RAILWISE here      machines/ of this folder
       explain_channels_test.py RAILWISE FOLDER    a collection with variants.tsv and machines/; exit 77 (skipped) when it is not there

The first and the last NIC of every channel, and the GPUs at them, must be equal.
"""
import json
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).parent / "machines"
SKIPPED = 77
SIMPLE_TREE = 3
MOST_COMPLAINTS = 3  # of one machine are printed


def explained_ends(explained):
    """{(use, channel, rank, NET)}"""
    return {(end["use"], channel, gpu["rank"], end["net"]) for gpu in explained["gpus"] for end in gpu.get("channel_ends", [])
            for channel in end["channels"]}


def graph_ends(domain):
    """As explained_ends(): NCCL's first GPU has the first NIC, all others have the second one."""
    graphs = domain["graphs"].get("nodes2")
    if graphs is None:
        return set()
    channels = min(graphs["ring"]["channels"], graphs["tree"]["channels"])
    ends = set()
    for name in ("ring", "tree"):
        for channel, (first, ranks, last) in enumerate(graphs[name]["order"][:channels]):
            second = ranks[-1] if name == "ring" else ranks[0] if graphs[name]["pattern"] == SIMPLE_TREE else ranks[min(1, len(ranks) - 1)]
            ends.add(("ring-enters" if name == "ring" else "tree", channel, ranks[0], net_id(first)))
            ends.add(("ring-leaves" if name == "ring" else "tree", channel, second, net_id(first if second == ranks[0] else last)))
    return ends


def net_id(net):
    return net if isinstance(net, str) else f"NET/{net}"


def ask(command):
    return subprocess.run([*command, "--quiet", "--format", "json"], capture_output=True, text=True, timeout=60)


def differences(railwise, words):
    """None: the machine is refused by both."""
    graphs, explained = ask([railwise, "topo", "graphs", *words, "--nodes", "2"]), ask([railwise, "explain", *words])
    if graphs.returncode != 0:
        if explained.returncode != 0:
            return None
        missing = [search["missing"] for search in json.loads(explained.stdout)["rings_and_trees"]]
        return [] if all(missing) else [f"the search fails ({graphs.stderr.strip()}), and explain does not say so"]
    if explained.returncode != 0:
        return [explained.stderr.strip()]
    ours = explained_ends(json.loads(explained.stdout))
    searched = set().union(*(graph_ends(domain) for domain in json.loads(graphs.stdout)["domains"]))
    return [f"explain {end}" for end in sorted(ours - searched)] + [f"topo graphs {end}" for end in sorted(searched - ours)]


def machines(where):
    """Words that name each machine."""
    if where == "here":
        yield from ([str(path)] for path in sorted(HERE.rglob("*.xml")))
        yield from (["--root", str(path)] for path in sorted(HERE.rglob("*.tar.gz")))
        return
    for line in (pathlib.Path(where) / "variants.tsv").read_text().splitlines()[1:]:
        machine, _, options = (line.split("\t") + ["", ""])[:3]
        yield [str(pathlib.Path(where) / "machines" / machine), *shlex.split(options)]


def main():
    railwise, where = sys.argv[1:3]
    if where != "here" and not (pathlib.Path(where) / "variants.tsv").exists():
        print(f"skipped: no {where}/variants.tsv (RAILWISE_TOPOLOGIES names another folder)")
        return SKIPPED
    compared, wrong = 0, 0
    for words in machines(where):
        found = differences(railwise, words)
        compared += found is not None
        wrong += bool(found)
        for line in (found or [])[:MOST_COMPLAINTS]:
            print(f"FAIL: {' '.join(words)}: {line}")
    print(f"the NICs of rings and trees of {compared} machines compared, {wrong} differ")
    return 0 if compared > 20 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
