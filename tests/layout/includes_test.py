"""Holds the directions of docs/develop/architecture.md: which folder may include which, and who may read the environment.

Usage: includes_test.py REPOSITORY
"""
import pathlib
import re
import sys

SOFTDEV = ["softdev/softdev.h", "softdev/config", "softdev/fabric", "softdev/memory", "softdev/queues", "softdev/faults", "softdev/engine",
           "softdev/verbs"]
TOPO = ["base", "topo/settings.h", "topo/document", "topo/graph", "topo/paths", "topo/machine"]
# folder -> what its files may include, besides the folder itself: folders, or single files. The longest folder that a file lies in
# counts. Inside softdev, topo, net, cli, perf and benchmarks/bench the folders are floors, from the lowest to the top.
MAY_INCLUDE = {
    "nccl": ["base/log.h"],
    "src/base": [],
    "src/sysfs": ["base"],
    "src/record": ["base"],
    "src/observe/metrics": ["base", "record"],
    "src/observe/top": ["base", "record"],
    "src/observe/stuck": ["base", "record"],
    "src/gpu": ["base", "railwise"],  # the structs of the public header
    "softdev": ["base"],  # the doors for other modules
    "softdev/config": ["base"],
    "softdev/fabric": ["base", *SOFTDEV[:2]],
    "softdev/memory": ["base", *SOFTDEV[:3]],
    "softdev/queues": ["base", *SOFTDEV[:4]],
    "softdev/faults": ["base", *SOFTDEV[:5]],
    "softdev/engine": ["base", *SOFTDEV[:6]],
    "softdev/verbs": ["base", *SOFTDEV[:7]],
    "softdev/cm": ["base", "softdev/connection_manager.h", *SOFTDEV],
    "softdev/control": ["base", *SOFTDEV],
    "softdev/drop_in": ["base", "softdev", "railwise"],
    "softdev/sysfs_preload": [],
    # load() chooses the communication manager too
    "src/verbs": ["base", "sysfs", "railwise/device.h", "verbs/cm/library.h"],
    "src/verbs/cm": ["base", "verbs"],
    "src/gpu/choose": ["base"],
    "src/topo": ["base/path_types.h", "railwise"],  # what all its floors speak: settings
    "src/topo/document": TOPO[:2],
    "src/topo/graph": TOPO[:3],
    "src/topo/paths": TOPO[:4],
    "src/topo/machine": [*TOPO[:5], "gpu"],
    "src/topo/search/links": TOPO,
    "src/topo/search": [*TOPO, "topo/search/links"],
    "src/topo/tuning": [*TOPO, "topo/search"],
    "src/topo/transports": [*TOPO, "gpu"],
    "src/topo/lint": TOPO[:4],
    "src/topo/explain": [*TOPO, "gpu"],
    "src/topo/explain/channels": [*TOPO, "topo/search", "topo/explain"],
    "src/topo/sources": [*TOPO, "sysfs", "gpu"],
    "src/topo/sources/generate": [*TOPO, "sysfs", "topo/sources"],
    "src/topo/choice": [*TOPO, "gpu", "topo/explain"],
    "src/topo/outputs/drawing": [*TOPO, "topo/explain"],
    "src/topo/outputs": [*TOPO, "gpu", "topo/search", "topo/tuning", "topo/transports", "topo/explain", "topo/outputs/drawing"],
    "src/topo/exports": [*TOPO, "gpu", "sysfs", "topo/explain", "topo/sources"],
    "src/topo/api": ["base", "sysfs", "gpu", "topo", "railwise"],
    "src/net/device": ["base", "record", "sysfs", "verbs", "net/limits.h", "net/patience.h"],
    "src/net/topology": ["base", "sysfs", "verbs", "topo", "net/limits.h", "net/device"],
    "src/net/wireup": ["base", "record", "verbs", "net/limits.h", "net/patience.h", "net/device"],
    "src/net/paths": ["base", "record", "verbs", "net/limits.h", "net/patience.h", "net/device", "net/wireup"],
    "src/net/protocol": ["base", "verbs", "net/limits.h", "net/paths"],
    "src/net/connection": ["base", "record", "verbs", "net/limits.h", "net/patience.h", "net/device", "net/protocol", "net/wireup",
                           "net/paths"],
    "src/net/sender": ["base", "record", "verbs", "net/limits.h", "net/patience.h", "net/profiler.h", "net/device", "net/protocol", "net/wireup",
                         "net/paths", "net/connection"],
    "src/net/receiver": ["base", "record", "verbs", "net/limits.h", "net/patience.h", "net/profiler.h", "net/device", "net/protocol", "net/wireup",
                         "net/paths", "net/connection"],
    # messages and puts know nothing of each other
    "src/net/rma": ["base", "record", "verbs", "net/limits.h", "net/patience.h", "net/device", "net/wireup", "net/paths",
                    "net/connector.h", "net/many_listener.h", "net/net.h"],
    "src/net": ["base", "record", "verbs", "topo", "railwise", "net"],
    "src/tuner": ["base"],
    "plugin": ["base", "net", "tuner", "nccl"],
    "spy": ["base", "record", "nccl"],
    "src/doctor": ["base"],  # a finding, and how findings are printed
    "src/doctor/facts": ["base", "sysfs", "verbs"],
    "src/doctor/fingerprint": ["base", "sysfs", "gpu", "doctor/facts"],
    "src/doctor/checks": ["base", "sysfs", "topo", "doctor"],
    "src/doctor/pair/measuring": ["base", "sysfs", "verbs"],
    "src/doctor/pair": ["base", "topo", "doctor/finding.h", "doctor/pair/measuring"],
    "src/doctor/log": ["base", "doctor/finding.h"],
    "src/doctor/results": ["base", "topo", "doctor/finding.h", "doctor/log/reading/line.h"],
    "src/cli/options": ["base", "nccl"],
    "src/cli/help": ["base", "cli/options"],
    "src/cli/plugin": ["base", "nccl", "cli/options"],
    "src/cli/device": ["base", "sysfs", "gpu", "topo", "softdev", "cli/options"],
    "src/cli/demo": ["base", "softdev", "cli/options", "cli/plugin/plugin_loader.h"],
    "src/cli/topo": ["base", "sysfs", "gpu", "topo", "doctor/facts", "cli/options", "cli/paste", "cli/device"],
    "src/cli/paste": ["base", "doctor/finding.h", "doctor/log/pastes", "cli/options"],
    "src/cli/gpus": ["base", "sysfs", "topo", "gpu", "cli/options", "cli/topo"],
    "src/cli/hosts": ["base", "cli/options"],
    "src/cli/http": ["base", "cli/options"],
    "src/cli/version": ["base", "nccl", "topo/nccl_release.h", "cli/options", "cli/plugin/net_api.h", "cli/plugin/rma_api.h", "railwise_commit.h"],
    "src/cli/observe": ["base", "record", "observe", "cli/options", "cli/hosts", "cli/http", "cli/plugin", "perf/job"],
    "src/cli/doctor": ["base", "sysfs", "gpu", "verbs", "topo", "doctor", "cli/options", "cli/hosts", "cli/plugin", "cli/device", "cli/topo",
                       "perf/job"],
    "src/perf/measuring": ["base", "cli/options"],
    "src/perf/job": ["base", "cli/options"],
    "src/perf/algorithm": ["cli/options"],
    "src/perf/results": ["base", "cli/options", "cli/plugin", "perf/measuring", "perf/job", "perf/algorithm"],
    "src/perf/collective": ["base", "nccl", "cli/options", "cli/plugin", "perf/measuring", "perf/job", "perf/algorithm", "perf/results"],
    "src/perf/timeline": ["base", "topo", "softdev", "cli/options", "perf/results"],
    "src/perf": ["base", "record", "topo", "cli/options", "cli/plugin", "cli/device", "cli/topo", "cli/observe/records.h", "perf"],
    "benchmarks/bench/load": ["base", "nccl", "verbs", "cli/options", "cli/plugin", "perf/measuring"],
    "benchmarks/bench": ["base", "softdev", "cli/device", "cli/options", "cli/plugin", "perf/measuring", "benchmarks/bench"],
    "src/cli": ["cli", "perf", "benchmarks/bench"],
}
# folder -> the only files, or folders, that may include it
ONLY_FROM = {
    "softdev": ("softdev/", "src/cli/device/", "src/cli/demo/", "src/perf/timeline/", "benchmarks/bench/"),
    "verbs": ("src/verbs/", "src/net/", "src/doctor/facts/", "src/doctor/pair/measuring/", "src/cli/doctor/pair_job.cc", "benchmarks/bench/load/raw"),
}
# rdma-core's headers, by how their names begin -> folders that may include them
RDMA_HEADERS = {"rdma/": ("src/verbs/", "softdev/"), "infiniband/": ("src/verbs/", "softdev/")}
# The environment is read in one place; the command reads what mpirun, srun and torchrun say, and sets up its ranks. The
# preloaded library stands alone.
MAY_GETENV = ("src/base/settings/config.cc", "softdev/sysfs_preload/redirect.cc", "src/cli/", "src/perf/", "benchmarks/bench/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def below(path, folders):
    """The longest of `folders` that `path` is, or lies in; None when there is none."""
    fitting = [folder for folder in folders if path == folder or path.startswith(folder + "/")]
    return max(fitting, key=len, default=None)


def included_path(included):
    """Where the file lies: what is included by a path below src/ or the top."""
    return included if below(included, MAY_INCLUDE) else "src/" + included


def include_problem(name, folder, quote, included):
    """What is wrong with an include of the file `name` in `folder`, or None."""
    for prefix, who in RDMA_HEADERS.items():
        if included.startswith(prefix):
            return None if name.startswith(who) else f"only {who} may"
    if quote == "<" or below(included_path(included), MAY_INCLUDE) == folder:
        return None
    if not below(included, MAY_INCLUDE[folder]):
        return f"{folder} may include {MAY_INCLUDE[folder]}"
    only_from = ONLY_FROM.get(included.split("/")[0])
    return None if only_from is None or name.startswith(only_from) else f"only {only_from} may"


def circles(includes):
    """The sets of more than two files in which each includes, in the end, all others. `includes`: file -> files."""
    reached = {}
    for start in includes:
        seen, waiting = set(), [start]
        while waiting:
            for other in includes.get(waiting.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        reached[start] = seen
    found = {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in includes if a in reached[a]}
    return sorted(sorted(circle) for circle in found if len(circle) > 2)


def same_names(root):
    """Two files of src/net with one name: a newcomer opens the wrong one."""
    by_name = {}
    for path in sorted((root / "src/net").rglob("*")):
        if path.suffix in (".h", ".cc"):
            by_name.setdefault(path.name, []).append(path.relative_to(root).as_posix())
    return [f"one name for {' and '.join(paths)}" for paths in by_name.values() if len(paths) > 1]


def check(root):
    problems = same_names(root)
    seen = 0
    includes = {}  # file -> files, without their endings: a header and its .cc are one
    for top in ("nccl", "plugin", "softdev", "spy", "src", "benchmarks/bench"):
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc", ".def"):
                continue
            folder = below(name, MAY_INCLUDE)
            if folder is None:
                problems.append(f"{name}: its folder is missing from the table of this test")
                continue
            seen += 1
            text = path.read_text()
            for quote, included in INCLUDE.findall(text):
                problem = include_problem(name, folder, quote, included)
                problems += [f"{name}: includes {included}; {problem}"] if problem else []
                stem, other = name.rpartition(".")[0], included_path(included).rpartition(".")[0]
                if quote == '"' and other != stem:
                    includes.setdefault(stem, set()).add(other)
            if GETENV.search(text) and not name.startswith(MAY_GETENV):
                problems.append(f"{name}: reads the environment; settings belong into src/base/settings/config.def")
    problems += [f"circle of includes: {', '.join(circle)}" for circle in circles(includes)]
    if seen < 30:
        problems.append(f"only {seen} files seen: is {root} the repository?")
    return seen, problems


if __name__ == "__main__":
    count, found = check(pathlib.Path(sys.argv[1]))
    for problem in found:
        print("FAIL:", problem)
    print(f"{count} files checked, {len(found)} problems")
    sys.exit(1 if found else 0)
