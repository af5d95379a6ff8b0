"""Holds the directions of docs/architecture.md: which module may include which, and who may read the environment.

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
    "src/verbs_front": {"base", "softdev", "railwise"},
    "src/topo": {"base", "railwise"},
    "src/net": {"base", "verbs", "topo", "railwise"},
    "plugin": {"base", "net", "nccl"},
    "src/sysfs_front": set(),
    "src/tools": {"base", "nccl", "softdev", "topo", "verbs"},
}
# project folder -> the only files, or folders, that may include it
ONLY_FROM = {"softdev": ("src/verbs/library.cc", "src/verbs/cm_library.cc", "src/verbs_front/", "src/tools/device_", "src/tools/bench"),
             "verbs": ("src/net/", "src/tools/bench_raw")}
# rdma-core's headers, by how their names begin (the first that fits) -> modules that may include them
RDMA_HEADERS = {
    "rdma/rdma_cma": {"src/verbs", "src/softdev"},
    "rdma/": {"src/verbs", "src/verbs_front", "src/softdev"},
    "infiniband/": {"src/verbs", "src/verbs_front", "src/softdev"},
}
# The environment is read in one place; the command reads what mpirun, srun and torchrun say, and sets up its ranks. The
# preloaded library stands alone.
MAY_GETENV = {"src/base/config.cc", "src/sysfs_front/redirect.cc"}
MAY_GETENV_FOLDERS = {"src/tools"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")


def check(root):
    problems = []
    seen = 0
    for module, allowed in MAY_INCLUDE.items():
        own = module.removeprefix("src/")
        for path in sorted((root / module).rglob("*")):
            if path.suffix not in (".h", ".cc", ".def"):
                continue
            seen += 1
            name = path.relative_to(root).as_posix()
            text = path.read_text()
            for quote, included in INCLUDE.findall(text):
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
    if seen < 30:
        problems.append(f"only {seen} files seen: is {root} the repository?")
    return seen, problems


if __name__ == "__main__":
    count, found = check(pathlib.Path(sys.argv[1]))
    for problem in found:
        print("FAIL:", problem)
    print(f"{count} files checked, {len(found)} problems")
    sys.exit(1 if found else 0)
