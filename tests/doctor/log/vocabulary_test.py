"""Every warning of NCCL, of RCCL and of the plugin aws-ofi-nccl falls into a family of the doctor: takes each WARN( call out of their sources,
fills its formats, and asks which check it gets. Usage: vocabulary_test.py WORDS_OF [--list]

Sources: the Git repositories that RAILWISE_NCCL_GIT names, with ":" between them (clones or bare ones, of any of the three; the newest release of
each minor), and what scripts/nccl-source has in its cache. With neither it is skipped. --list prints each warning with its check.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "nccl"))
sys.dont_write_bytecode = True
import host_library  # noqa: E402
from unavailable import Broken, Unavailable, exit_status  # noqa: E402

OLDEST = (2, 14)
FULL = (2, 30)  # from this release on every warning must be in a family
SHARE = 0.95    # of older ones
INNER = 0.35    # at most so many may be in the family of NCCL's own checks
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
FORMAT = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")


def calls(text):
    """The arguments of each WARN( call: a line's number, and the text within the brackets."""
    for match in re.finditer(r"\b(?:NCCL_OFI_)?WARN\(", text):
        line_start = text.rfind("\n", 0, match.start()) + 1
        before = text[line_start:match.start()]
        if before.lstrip().startswith(("//", "#define", "*")):
            continue
        depth, at, quoted = 1, match.end(), False
        while depth and at < len(text):
            char = text[at]
            if quoted:
                at += char == "\\"
                quoted = char != '"'
            elif char == '"':
                quoted = True
            else:
                depth += (char == "(") - (char == ")")
            at += 1
        yield text.count("\n", 0, match.start()) + 1, text[match.end():at - 1]


def words(arguments):
    """What the log shows: the format with numbers and names in it; one line."""
    end, depth, quoted = len(arguments), 0, False
    for at, char in enumerate(arguments):  # the first argument alone
        if char == '"' and arguments[at - 1:at] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (char in "([{") - (char in ")]}")
            if char == "," and depth == 0:
                end = at
                break
    text = "".join(LITERAL.findall(arguments[:end])).replace("\\n", " ").replace('\\"', '"').replace("\t", " ")
    return FORMAT.sub(lambda form: "%" if form[1] == "%" else "abc" if form[1] == "s" else "7", text) or "abc"


def warnings(files, name):
    # What aws-ofi-nccl logs has its name before it, and a function where NCCL has a file.
    ofi = name.startswith("aws-ofi-nccl")
    for path, text in sorted(files.items()):
        for line, arguments in calls(text):
            yield f"{path}:{line}", ("NET/OFI " if ofi else "") + words(arguments)


def tree_files(source):
    root = source if (source / "init.cc").is_file() else source / "src"
    return {str(path.relative_to(root)): path.read_text(errors="replace") for path in root.rglob("*")
            if path.suffix in (".c", ".cc", ".h", ".cpp") and path.is_file()}


def git_files(repository, tag):
    archive = subprocess.run(["git", "-C", repository, "archive", tag, "src"], capture_output=True, check=True).stdout
    import io
    import tarfile
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name.removeprefix("src/"): tar.extractfile(member).read().decode(errors="replace") for member in tar
                if member.isfile() and member.name.endswith((".c", ".cc", ".h", ".cpp"))}


# How each project names its releases; the oldest one that is asked.
PROJECTS = {"NCCL": (r"v(2)\.(\d+)\.(\d+)-(\d+)", OLDEST), "RCCL of ROCm": (r"rocm-(\d+)\.(\d+)\.(\d+)", (5, 4)),
            "aws-ofi-nccl": (r"v(1)\.(\d+)\.(\d+)", (1, 7))}


def releases():
    """(project, release, its files), the newest of each minor."""
    found = {}
    for repository in filter(None, os.environ.get("RAILWISE_NCCL_GIT", "").split(":")):
        tags = subprocess.run(["git", "-C", repository, "tag"], capture_output=True, text=True, check=True).stdout.split()
        for tag in tags:
            for project, (form, oldest) in PROJECTS.items():
                numbers = re.fullmatch(form, tag)
                release = tuple(map(int, numbers.groups())) if numbers else ()
                key = (project, *release[:2])
                if numbers and release[:2] >= oldest and release > found.get(key, ((),))[0]:
                    found[key] = (release, lambda tag=tag, repository=repository: git_files(repository, tag))
    for source in host_library.cache_folder().glob("nccl-*/source"):
        release = tuple(map(int, re.findall(r"\d+", source.parent.name)))
        found.setdefault(("NCCL", *release[:2]), (release, lambda source=source: tree_files(source)))
    if not found:
        raise Unavailable("NCCL's sources are not here: scripts/nccl-source fetches one release; RAILWISE_NCCL_GIT names a clone with all")
    return [(key[0], release, files()) for key, (release, files) in sorted(found.items())]


def main():
    tool, listing = sys.argv[1], "--list" in sys.argv
    problems = []
    for project, release, files in releases():
        name = f"{project} {'.'.join(map(str, release[:3]))}"
        all_warnings = [(place, text) for place, text in warnings(files, name) if "windows" not in place]
        asked = "".join(f"{place}\t{text}\n" for place, text in all_warnings)
        checks = subprocess.run([tool], input=asked, capture_output=True, text=True, check=True).stdout.split()
        if len(checks) != len(all_warnings) or not checks:
            raise Broken(f"{tool} answered {len(checks)} of {len(all_warnings)} warnings")
        counts = collections.Counter(check.rstrip("-") for check in checks)
        unknown = [one for one, check in zip(all_warnings, checks) if check == "unknown-warning"]
        mute = [one for one, check in zip(all_warnings, checks) if check.endswith("-")]
        print(f"{name}: {len(checks)} warnings, {len(unknown)} in no family, {counts['inner-check']} of NCCL's own checks; "
              + ", ".join(f"{check} {number}" for check, number in counts.most_common()))
        if listing:
            for (place, text), check in zip(all_warnings, checks):
                print(f"  {check}\t{place}\t{text}")
        allowed = 0 if project == "NCCL" and release[:2] >= FULL else (1 - SHARE) * len(checks)
        if len(unknown) > allowed:
            problems += [f"{name}: {len(unknown)} warnings are in no family"] + [f"  {place} {text}" for place, text in unknown[:20]]
        problems += [f"{name}: nothing to type for {place} {text}" for place, text in mute]
        if counts["inner-check"] > INNER * len(checks):
            problems.append(f"{name}: {counts['inner-check']} warnings are called a check of NCCL's own")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(exit_status("vocabulary", main))
