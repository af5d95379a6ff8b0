"""Holds the directions of docs/architecture.md: which module may include which, and who may read the environment.

Usage: includes_test.py REPOSITORY
"""
import pathlib
import re
import sys

# module -> modules whose files it may include, besides its own files. A folder inside a module may be a module too: a
# floor. A file, and what is included, belong to the longest name that fits.
MAY_INCLUDE = {
    "nccl": set(),
    "src/base": set(),
    "src/softdev": {"base"},
    "src/verbs": {"base", "softdev"},
    "src/verbs_front": {"base", "softdev", "railwise"},
    "src/topo": {"base", "railwise"},
    "src/net": {"base", "verbs", "topo", "railwise"},
    "plugin": {"base", "net", "nccl"},
    "src/sysfs_front": set(),
    # The command, from the lowest floor to the top.
    "src/cli/options": {"base", "nccl"},
    "src/cli/plugin": {"cli/options", "base", "nccl"},
    "src/cli/device": {"cli/options", "base", "softdev", "topo"},
    "src/cli/topo": {"cli/device", "cli/options", "base", "topo"},
    "src/perf/measuring": {"cli/options", "base", "topo"},
    "src/perf/job": {"cli/options", "base"},
    "src/perf/collective": {"perf/job", "perf/measuring", "cli/plugin", "cli/options", "base", "nccl"},
    "src/perf/faults": {"perf/collective", "perf/job", "perf/measuring", "cli/options", "base", "softdev", "topo"},
    "src/perf": {"perf/faults", "perf/collective", "perf/job", "perf/measuring", "cli/device", "cli/plugin", "cli/options", "base"},
    "benchmarks/bench/load": {"perf/measuring", "cli/plugin", "cli/options", "base", "nccl", "verbs"},
    "benchmarks/bench": {"benchmarks/bench/load", "perf/measuring", "cli/plugin", "cli/options", "base", "softdev", "topo"},
    "src/cli": {"benchmarks/bench", "perf", "cli/topo", "cli/device", "cli/plugin", "cli/options"},
}
# module -> the only files, or folders, that may include it
ONLY_FROM = {"softdev": ("src/verbs/library.cc", "src/verbs/cm_library.cc", "src/verbs_front/", "src/cli/device/",
                         "src/perf/faults/", "benchmarks/bench/"),
             "verbs": ("src/net/", "benchmarks/bench/load/raw")}
# rdma-core's headers, by how their names begin (the first that fits) -> modules that may include them
RDMA_HEADERS = {
    "rdma/rdma_cma": {"src/verbs", "src/softdev"},
    "rdma/": {"src/verbs", "src/verbs_front", "src/softdev"},
    "infiniband/": {"src/verbs", "src/verbs_front", "src/softdev"},
}
# The environment is read in one place; the command reads what mpirun, srun and torchrun say, and sets up its ranks. The
# preloaded library stands alone.
MAY_GETENV = {"src/base/config.cc", "src/sysfs_front/redirect.cc"}
MAY_GETENV_FOLDERS = ("src/cli/", "src/perf/", "benchmarks/bench/")

# As files are included: below src/ by what follows it, else from the top.
NAMES = {module.removeprefix("src/") for module in MAY_INCLUDE}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def module_of(path):
    """The module that a file, by its path as files are included, belongs to; its first folder if that is none."""
    fitting = [name for name in NAMES if path.startswith(name + "/")]
    return max(fitting, key=len, default=path.split("/")[0])


def check(root):
    problems = []
    seen = 0
    for module, allowed in MAY_INCLUDE.items():
        own = module.removeprefix("src/")
        for path in sorted((root / module).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cc", ".def") or module_of(name.removeprefix("src/")) != own:
                continue
            seen += 1
            text = path.read_text()
            for quote, included in INCLUDE.findall(text):
                folder = module_of(included)
                may_include = [who for prefix, who in RDMA_HEADERS.items() if included.startswith(prefix)]
                if may_include:
                    if module not in may_include[0]:
                        problems.append(f"{name}: includes <{included}>; only {sorted(may_include[0])} may")
                elif quote == '"':
                    if folder not in allowed | {own}:
                        problems.append(f"{name}: includes {included}; {module} may include {sorted(allowed)}")
                    elif folder in ONLY_FROM and folder != own and not name.startswith(ONLY_FROM[folder]):
                        problems.append(f"{name}: includes {included}; only {', '.join(ONLY_FROM[folder])} may")
            if GETENV.search(text) and name not in MAY_GETENV and not name.startswith(MAY_GETENV_FOLDERS):
                problems.append(f"{name}: reads the environment; settings belong into src/base/config.def")
    for path in sorted((root / "src").rglob("*")):
        name = path.relative_to(root / "src").as_posix()
        if path.suffix in (".h", ".cc", ".def") and module_of(name) not in NAMES:
            problems.append(f"src/{name}: its folder is missing from the table of this test")
    if seen < 30:
        problems.append(f"only {seen} files seen: is {root} the repository?")
    return seen, problems


if __name__ == "__main__":
    count, found = check(pathlib.Path(sys.argv[1]))
    for problem in found:
        print("FAIL:", problem)
    print(f"{count} files checked, {len(found)} problems")
    sys.exit(1 if found else 0)
