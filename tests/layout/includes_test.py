"""Holds tests/layout/rooms: which room may include which; and who may read the environment.

Usage: includes_test.py REPOSITORY
"""
import pathlib
import re
import sys

from rooms import INCLUDE, below, closure, floors, included_file, includes, sources

TOPS = ("nccl", "plugin", "softdev", "spy", "src", "benchmarks/bench", "conform")
# Rooms that only these may include: walls of the products, beside the order.
ONLY_FROM = {
    "softdev": ("softdev/", "src/cli/device/", "src/cli/demo/", "src/perf/timeline/", "benchmarks/bench/", "conform/"),
    "src/verbs": ("src/verbs/", "src/net/", "src/doctor/facts/", "src/doctor/pair/measuring/", "src/cli/doctor/pair_job.cc",
                  "benchmarks/bench/load/raw"),
    "src/tuner": ("src/tuner/", "plugin/", "src/doctor/checks/", "src/cli/plugin/"),  # the last two read its file
    "src/net": ("src/net/", "plugin/"),
    "plugin": ("plugin/",),
    "spy": ("spy/",),
}
# What a room must not include although it stands on an earlier line: its library goes without.
NEVER = {
    "src/net/rma": ("src/net/sender", "src/net/receiver", "src/net/connection", "src/net/protocol", "src/net/topology", "src/topo"),
    "softdev": ("nccl", "src/sysfs", "src/record", "src/gpu"),
    "src/verbs": ("nccl", "src/gpu", "src/record"),
    "src/net": ("nccl", "src/gpu"),
    "src/net/protocol": ("src/net/device", "src/net/wireup", "src/record"),
    "plugin": ("src/topo", "src/gpu", "src/record", "src/sysfs"),
    "spy": ("src/sysfs",),
    "src/topo": ("nccl", "src/record", "src/verbs", "src/net"),
    "src/topo/document": ("src/sysfs", "src/gpu"),
    "src/topo/graph": ("src/sysfs", "src/gpu"),
    "src/topo/paths": ("src/sysfs", "src/gpu"),
    "src/topo/lint": ("src/sysfs", "src/gpu"),
    "src/topo/search": ("src/sysfs", "src/gpu"),
    "src/topo/machine": ("src/sysfs",),
}
# rdma-core's headers, by how their names begin -> folders that may include them
RDMA_HEADERS = {"rdma/": ("src/verbs/", "softdev/"), "infiniband/": ("src/verbs/", "softdev/")}
# The environment is read in one place; the command reads what mpirun, srun and torchrun say, and sets up its ranks. The
# preloaded library stands alone.
MAY_GETENV = ("src/base/settings/config.cc", "softdev/sysfs_preload/redirect.cc", "src/cli/", "src/perf/", "benchmarks/bench/", "conform/")
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def include_problem(root, rooms, name, quote, included):
    """What is wrong with an include of the file `name`, or None."""
    for prefix, who in RDMA_HEADERS.items():
        if included.startswith(prefix):
            return None if name.startswith(who) else f"only {who} may"
    other = included_file(root, name, included)
    if quote == "<" or other is None:
        return None
    mine, its = below(name, rooms), below(other, rooms)
    if its is None:
        return f"{other} lies in no room of tests/layout/rooms"
    wall = below(other, ONLY_FROM)
    if wall and not name.startswith(ONLY_FROM[wall]):
        return f"only {ONLY_FROM[wall]} may"
    for room, never in NEVER.items():
        if below(name, (room,)) and below(other, never):
            return f"{room} never includes {never}"
    if mine == its or rooms[its] < rooms[mine]:
        return None
    return f"the room {its} does not stand before {mine} in tests/layout/rooms"


def circles(graph):
    """The sets of more than two files in which each includes, in the end, all others."""
    reached = {start: closure(graph, graph[start]) for start in graph}
    found = {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in graph if a in reached[a]}
    return sorted(sorted(circle) for circle in found if len(circle) > 2)


def same_names(root):
    """Two files of src/net with one name: a newcomer opens the wrong one."""
    by_name = {}
    for name, _ in sources(root, ("src/net",)):
        by_name.setdefault(pathlib.PurePath(name).name, []).append(name)
    return [f"one name for {' and '.join(paths)}" for paths in by_name.values() if len(paths) > 1]


def check(root):
    problems = same_names(root)
    rooms = floors(root)
    problems += [f"tests/layout/rooms: there is no {room}" for room in rooms if not (root / room).exists()]
    seen = 0
    for name, text in sources(root, TOPS):
        if below(name, rooms) is None:
            problems.append(f"{name}: lies in no room of tests/layout/rooms")
            continue
        seen += 1
        for quote, included in INCLUDE.findall(text):
            problem = include_problem(root, rooms, name, quote, included)
            problems += [f"{name}: includes {included}; {problem}"] if problem else []
        if GETENV.search(text) and not name.startswith(MAY_GETENV):
            problems.append(f"{name}: reads the environment; settings belong into src/base/settings/config.def")
    problems += [f"circle of includes: {', '.join(circle)}" for circle in circles(includes(root, TOPS))]
    if seen < 30:
        problems.append(f"only {seen} files seen: is {root} the repository?")
    return seen, problems


if __name__ == "__main__":
    count, found = check(pathlib.Path(sys.argv[1]))
    for problem in found:
        print("FAIL:", problem)
    print(f"{count} files checked, {len(found)} problems")
    sys.exit(1 if found else 0)
