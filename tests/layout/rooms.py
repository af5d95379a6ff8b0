"""The rooms of the sources (tests/layout/rooms), what includes what, and which tests a change can reach.

Usage: rooms.py REPOSITORY --since REVISION    prints the folders of tests/ that the changes since REVISION can reach
"""
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SOURCES = (".h", ".cc", ".def")
# Tests that start what they test instead of linking it: folder of tests/ -> folders whose files are in what they start.
STARTED = {
    "bench": ("benchmarks/bench", "plugin"), "campaign": ("src/perf", "plugin", "softdev"), "cli": ("src/cli", "plugin", "softdev"),
    "doctor": ("src/cli",), "lab": ("src/cli", "plugin"), "model": ("src/net",), "nccl": ("plugin", "spy", "softdev"),
    "packaging": ("src/cli", "plugin", "softdev"), "perf": ("src/cli", "plugin", "softdev"), "plugin": ("plugin", "softdev/drop_in"),
    "programs": ("softdev",), "python": ("src/topo/api",), "softdev": ("softdev",), "spy": ("spy", "plugin"), "topo": ("src/cli/topo",),
}


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
            return folder + included
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


def test_folder(name):
    """The folder of tests/ that builds the test file `name`: net for tests/net/paths/link_test.cc."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else ""


def reached(root, changed):
    """The folders of tests/ that changes of the files `changed` can reach, or None: all of them."""
    folders = {path.parent.name for path in (root / "tests").glob("*/CMakeLists.txt")}
    graph = includes(root, ("nccl", "plugin", "softdev", "spy", "src", "benchmarks", "include", "tests"))
    stems = {stem(name) for name in changed if pathlib.PurePath(name).suffix in SOURCES}
    found = {"layout"}
    for name in changed:
        if name.startswith("cmake/") or pathlib.PurePath(name).name in ("CMakeLists.txt", "CMakePresets.json"):
            return None
        if name.startswith("tests/") and test_folder(name) in folders:
            found.add(test_folder(name))
    for folder in folders:
        starts = [one for one in graph if one.startswith(f"tests/{folder}/") or below(one, STARTED.get(folder, ()))]
        if stems & closure(graph, starts):
            found.add(folder)
    return found


def changes(root, revision):
    run = lambda *words: subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.split("\n")
    return {name for name in run("diff", "--name-only", revision) + run("ls-files", "--others", "--exclude-standard") if name}


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] != "--since":
        sys.exit(__doc__)
    top = pathlib.Path(sys.argv[1]).resolve()
    try:
        reach = reached(top, changes(top, sys.argv[3]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"rooms.py: {error.stderr.strip()}")
    print(" ".join(sorted(reach if reach is not None else {path.parent.name for path in (top / "tests").glob("*/CMakeLists.txt")})))
