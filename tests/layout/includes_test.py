"""Holds the directions of docs/architecture.md: which module may include which, the floors inside a module, no circles
of includes, and who may read the environment.

Usage: includes_test.py REPOSITORY
"""
import pathlib
import re
import sys

# module -> project folders its files may include, besides its own
MAY_INCLUDE = {
    "nccl": set(),
    "src/base": set(),
    "src/softdev": {"base"},
    "src/verbs": {"base", "softdev"},
    "src/softdev/drop_in": {"base", "softdev", "railwise"},
    "src/topo": {"base", "railwise"},
    "src/net": {"base", "verbs", "topo", "railwise"},
    "plugin": {"base", "net", "nccl"},
    "src/softdev/sysfs_preload": set(),
    "src/tools": {"base", "nccl", "softdev", "topo", "verbs"},
}
# Floors inside a module: folder -> what its files may include, besides the folder itself. The longest folder that a
# file lies in counts. A row may name a single file: the headers at the root of src/softdev are its doors.
FLOORS = {
    "src/softdev": {"base"},
    "src/softdev/config": {"base"},
    "src/softdev/fabric": {"base", "softdev/softdev.h", "softdev/config"},
    "src/softdev/memory": {"base", "softdev/config", "softdev/fabric"},
    "src/softdev/queues": {"base", "softdev/softdev.h", "softdev/config", "softdev/fabric", "softdev/memory"},
    "src/softdev/faults": {"base", "softdev/config", "softdev/fabric", "softdev/memory", "softdev/queues"},
    "src/softdev/engine": {"base", "softdev/config", "softdev/fabric", "softdev/memory", "softdev/queues",
                           "softdev/faults"},
    "src/softdev/verbs": {"base", "softdev/softdev.h", "softdev/config", "softdev/fabric", "softdev/memory",
                          "softdev/queues", "softdev/faults", "softdev/engine"},
    "src/softdev/cm": {"base", "softdev/connection_manager.h", "softdev/config", "softdev/fabric", "softdev/queues",
                       "softdev/faults", "softdev/verbs"},
    "src/softdev/control": {"base", "softdev/softdev.h", "softdev/config", "softdev/fabric", "softdev/queues",
                            "softdev/faults"},
    "src/softdev/drop_in": {"base", "softdev", "railwise"},
    "src/softdev/sysfs_preload": set(),
}
# Modules that still have circles of more than two files: these are shown and fail nothing. Take a module out once its
# circles are gone.
CIRCLES_REMAIN = {"src/topo", "src/verbs", "src/tools"}
# project folder -> the only files, or folders, that may include it
ONLY_FROM = {"softdev": ("src/verbs/library.cc", "src/verbs/cm_library.cc", "src/softdev/drop_in/", "src/tools/device_", "src/tools/bench"),
             "verbs": ("src/net/", "src/tools/bench_raw")}
# rdma-core's headers, by how their names begin (the first that fits) -> modules that may include them
RDMA_HEADERS = {
    "rdma/rdma_cma": {"src/verbs", "src/softdev"},
    "rdma/": {"src/verbs", "src/softdev/drop_in", "src/softdev"},
    "infiniband/": {"src/verbs", "src/softdev/drop_in", "src/softdev"},
}
# The environment is read in one place; the command reads what mpirun, srun and torchrun say, and sets up its ranks. The
# preloaded library stands alone.
MAY_GETENV = {"src/base/config.cc", "src/softdev/sysfs_preload/redirect.cc"}
MAY_GETENV_FOLDERS = {"src/tools"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def below(path, folders):
    """The longest of `folders` that `path` is, or lies in; None when there is none."""
    fitting = [folder for folder in folders if path == folder or path.startswith(folder + "/")]
    return max(fitting, key=len, default=None)


def floorProblem(name, included):
    """What is wrong with an include between the floors of a module, or None."""
    floor = below(name, FLOORS)
    if floor is None or included.startswith(("infiniband/", "rdma/")):
        return None
    own = floor.removeprefix("src/")
    if included.rpartition("/")[0] == own or below(included, FLOORS[floor]):
        return None
    return f"{name}: includes {included}; the floor {floor} may include {sorted(FLOORS[floor])}"


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


def check(root):
    problems = []
    seen = 0
    includes = {}  # file -> files, without their endings: a header and its .cc are one
    for module, allowed in MAY_INCLUDE.items():
        own = module.removeprefix("src/").split("/")[0]
        for path in sorted((root / module).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc", ".def") or below(name, MAY_INCLUDE) != module:
                continue
            seen += 1
            text = path.read_text()
            for quote, included in INCLUDE.findall(text):
                if quote == '"':
                    floor_problem = floorProblem(name, included)
                    problems += [floor_problem] if floor_problem else []
                    stem, other = name.rpartition(".")[0], "src/" + included.rpartition(".")[0]
                    if other != stem:
                        includes.setdefault(stem, set()).add(other)
                folder = included.split("/")[0]
                may_include = [who for prefix, who in RDMA_HEADERS.items() if included.startswith(prefix)]
                if may_include:
                    if module not in may_include[0]:
                        problems.append(f"{name}: includes <{included}>; only {sorted(may_include[0])} may")
                elif quote == '"':
                    if folder not in allowed | {own}:
                        problems.append(f"{name}: includes {included}; {module} may include {sorted(allowed)}")
                    elif folder in ONLY_FROM and folder != own and not name.startswith(ONLY_FROM[folder]):
                        problems.append(f"{name}: includes {included}; only {', '.join(ONLY_FROM[folder])} may")
            if GETENV.search(text) and name not in MAY_GETENV and module not in MAY_GETENV_FOLDERS:
                problems.append(f"{name}: reads the environment; settings belong into src/base/config.def")
    for circle in circles(includes):
        remains = all(below(file, CIRCLES_REMAIN) for file in circle)
        if remains:
            print("circle of includes:", ", ".join(circle))
        else:
            problems.append(f"circle of includes: {', '.join(circle)}")
    if seen < 30:
        problems.append(f"only {seen} files seen: is {root} the repository?")
    return seen, problems


if __name__ == "__main__":
    count, found = check(pathlib.Path(sys.argv[1]))
    for problem in found:
        print("FAIL:", problem)
    print(f"{count} files checked, {len(found)} problems")
    sys.exit(1 if found else 0)
