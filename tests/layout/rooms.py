"""The rooms of the sources (tests/layout/rooms), what includes what, and which tests a change can reach.

Usage: rooms.py REPOSITORY --since REVISION    prints the folders of tests/ that the changes since REVISION can reach; none: all of them
"""
import os
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SOURCES = (".h", ".cc", ".def")
# Tests that start what they test instead of linking it, or load it: folder of tests/ -> folders whose files are in that.
COMMAND = ("src/cli", "plugin", "softdev")
STARTED = {
    "bench": (*COMMAND, "benchmarks/bench"), "campaign": COMMAND, "cli": COMMAND, "conform": (*COMMAND, "conform", "spy"), "doctor": COMMAND, "gpu": ("softdev",), "lab": COMMAND,
    "model": ("src/net",), "nccl": (*COMMAND, "softgpu", "spy"), "net": ("softdev",), "observe": COMMAND, "packaging": (*COMMAND, "spy", "src/topo/api"),
    "perf": COMMAND, "plugin": ("plugin", "softdev"), "programs": ("softdev",), "python": (*COMMAND, "src/topo/api"), "record": COMMAND,
    "softdev": COMMAND, "softgpu": ("softdev",), "spy": (*COMMAND, "spy"), "topo": (*COMMAND, "src/topo/api"), "verbs": ("softdev",),
}
# What is no source: the folders of tests/ that read it.
READ_BY = {"docs": {"cli", "doctor", "layout", "topo"}, "python": {"python"}, "examples": {"python"}}


def below(path, folders):
    """The longest of `folders` that `path` is, or lies in; None when there is none."""
    fitting = [folder for folder in folders if path == folder or path.startswith(folder + "/")]
    return max(fitting, key=len, default=None)


def floors(root):
    """Room -> number of its line, the lowest first."""
    found = {}
    for number, line in enumerate((root / "tests/layout/rooms").read_text().splitlines()):
        found.update({room: number for room in line.partition("#")[0].split()})
    return found


def stem(name):
    """A header and its .cc are one."""
    return name.rpartition(".")[0] or name


def sources(root, tops):
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES:
                yield path.relative_to(root).as_posix(), path.read_text(errors="replace")


def included_file(root, name, included):
    """The file of the repository that `name` means by `included`, or None: it is no file of ours."""
    for folder in ("", "src/", "include/", "tests/", name.rpartition("/")[0] + "/"):
        if (root / folder / included).is_file():
            return os.path.normpath(folder + included)
    return None


def includes(root, tops):
    """Stem -> stems that it includes."""
    found = {}
    for name, text in sources(root, tops):
        files = found.setdefault(stem(name), set())
        for _, included in INCLUDE.findall(text):
            other = included_file(root, name, included)
            if other and stem(other) != stem(name):
                files.add(stem(other))
    return found


def closure(graph, starts):
    """All that `starts` lead to, themselves included."""
    seen, waiting = set(), list(starts)
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting.extend(graph.get(one, ()))
    return seen


def test_folders(root):
    """The folders of tests/ that are built on this machine: emulated/ only runs those of others."""
    return {path.parent.name for path in (root / "tests").glob("*/CMakeLists.txt")} - {"emulated"}


def mirrors(name, folders):
    """The folders of tests/ that a file belongs to by its place: net for src/net/paths/link.cc and tests/net/paths/link_test.cc."""
    parts = name.split("/")
    if parts[0] in READ_BY:
        return READ_BY[parts[0]] & folders | {"layout"}
    if parts[-1].endswith(".md"):
        return {"layout"}
    found = {"bench"} if parts[0] == "benchmarks" else {parts[0]} if parts[0] in ("conform", "plugin", "softdev", "spy") else set()
    if len(parts) > 2 and parts[0] in ("src", "tests"):
        found = {parts[1]}
    return found & folders


def with_parts(root, graph):
    """`graph`, and edges from a header to the files without a header of their own that have its functions: those that include it, in its
    folder, or in one above or below."""
    full = {name: set(others) for name, others in graph.items()}
    for name, others in graph.items():
        if name.startswith("tests/") or (root / (name + ".h")).is_file():
            continue
        folder = name.rpartition("/")[0] + "/"
        for other in others:
            its = other.rpartition("/")[0] + "/"
            if folder.startswith(its) or its.startswith(folder):
                full.setdefault(other, set()).add(name)
    return full


def reached(root, changed):
    """The folders of tests/ that changes of the files `changed` can reach, or None: all of them."""
    folders = test_folders(root)
    graph = with_parts(root, includes(root, ("nccl", "plugin", "softdev", "spy", "src", "benchmarks", "conform", "include", "tests")))
    closures = {}
    for folder in folders:
        starts = [one for one in graph if one.startswith(f"tests/{folder}/") or below(one, STARTED.get(folder, ()))]
        closures[folder] = closure(graph, starts)
    found = {"layout"}
    for name in changed:
        if name.startswith("cmake/") or pathlib.PurePath(name).name in ("CMakeLists.txt", "CMakePresets.json"):
            return None
        its = mirrors(name, folders)
        if pathlib.PurePath(name).suffix in SOURCES:
            its = its | {folder for folder in folders if stem(name) in closures[folder]}
        if not its:
            return None
        found |= its
    return found


def changes(root, revision):
    run = lambda *words: subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.split("\n")
    return {name for name in run("diff", "--name-only", "--no-renames", revision) + run("ls-files", "--others", "--exclude-standard") if name}


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] != "--since":
        sys.exit(__doc__)
    top = pathlib.Path(sys.argv[1]).resolve()
    try:
        reach = reached(top, changes(top, sys.argv[3]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"rooms.py: {error.stderr.strip()}")
    print(" ".join(sorted(reach or ())))
