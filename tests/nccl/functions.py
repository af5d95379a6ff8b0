"""The functions of CUDA, NVML and GDRCopy that NCCL looks up, what the software GPU has of them, and what softgpu/functions.md says.

NCCL's lists stand in its sources; those of the CUDA runtime are the undefined symbols of its compiled host code. What the software GPU has is
asked of its libraries: a stub is a function that answers "not supported" even to a call without arguments.
"""
import ctypes
import dataclasses
import os
import pathlib
import re
import resource
import signal
import subprocess

from unavailable import Broken, Unavailable

SOFTGPU = pathlib.Path(__file__).resolve().parent.parent.parent / "softgpu"
TABLE = SOFTGPU / "functions.md"

WHOLE, IN_PART, STUB, MISSING = "whole", "in part", "stub", "missing"
STATES = (IN_PART, STUB, MISSING)  # as the table names them; what is whole has no word

# How long a call without arguments may take, and how a library says that it does not support something.
CALL_S = 20
NOT_SUPPORTED = {"CUDA driver": 801, "CUDA runtime": 801, "NVML": 3, "GDRCopy": 95, "libcuda": 801}
# Arguments for the longest signature.
NOTHING = [None] * 16


@dataclasses.dataclass(frozen=True)
class Listed:
    """A function in the table."""

    state: str
    since: tuple  # the first release of NCCL that looks it up: (2, 28); (): all of which the table speaks
    why: str = ""  # what cannot run without it


# ---- what NCCL looks up

def _names(pattern, *files):
    return {name for file in files if file.exists() for name in re.findall(pattern, file.read_text(errors="replace"))}


def looked_up(host):
    """{library: names} of a compiled release of NCCL (host_library.Host), for every version of CUDA."""
    source = host.source / "src"
    doca = [*source.rglob("doca_*_gdrcopy.cpp")]
    return {"CUDA driver": _names(r"\bLOAD_SYM\((cu\w+),", source / "misc/cudawrap.cc"),
            "CUDA runtime": set(map(plain, undefined(host.folder / "libnccl_host.a"))),
            "NVML": _names(r'"(nvml[A-Z]\w+)"', source / "misc/nvmlwrap.cc"),
            "GDRCopy": _names(r'LOAD_SYM(?:_OPTIONAL)?\(\w+, "(gdr_\w+)"', source / "misc/gdrwrap.cc", *doca),
            "libcuda": _names(r'get_cuda_symbol\("(cu\w+)"\)', *source.rglob("doca_*_cuda_wrapper.cpp"))}


def undefined(archive):
    """The functions of the CUDA runtime that an archive or library does not have itself."""
    return {words[1] for words in _symbols("--undefined-only", archive) if len(words) == 2 and re.match(r"cuda[A-Z]", words[1])}


def _symbols(option, file):
    try:
        done = subprocess.run(["nm", option, str(file)], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unavailable("nm is not installed (binutils)") from error
    if done.returncode != 0:
        raise Broken(f"nm {file}: {done.stderr.strip()}")
    return [line.split() for line in done.stdout.splitlines()]


def plain(symbol):
    """The documented name: CUDA's headers turn some into names with a version."""
    return re.sub(r"_v\d+$", "", symbol)


# ---- what the software GPU has

class Libraries:
    """The libraries of the software GPU in a folder."""

    def __init__(self, folder):
        self._folder = folder
        self._loaded = {name: self._load(file) for name, file in (("CUDA runtime", "libcudart.so"), ("NVML", "libnvidia-ml.so.1"),
                                                                  ("GDRCopy", "libgdrapi.so"), ("libcuda", "libcuda.so.1"))}

    def _load(self, file):
        path = self._folder / file
        return ctypes.CDLL(str(path)) if path.exists() else None

    def state(self, library, name):
        """WHOLE, STUB or MISSING. A child calls the function, since a call without arguments may end badly: so does no stub."""
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                signal.alarm(CALL_S)
                function = self._function(library, name)
                os._exit(2 if function is None else 1 if function(*NOTHING) == NOT_SUPPORTED[library] else 0)
            finally:
                os._exit(3)  # an exception
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 3:
            raise Broken(f"{library}: {name} cannot be called")
        return {1: STUB, 2: MISSING}.get(status, WHOLE)

    def _function(self, library, name):
        if library == "CUDA driver":
            address = ctypes.c_void_p()
            self._loaded["CUDA runtime"].cudaGetDriverEntryPoint(name.encode(), ctypes.byref(address), ctypes.c_ulonglong(0), None)
            return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(NOTHING))(address.value) if address.value else None
        names = (name, name + "_v2", name + "_v3")  # as plain() takes them together
        return next((getattr(self._loaded[library], each) for each in names if hasattr(self._loaded[library], each)), None)


def partly():
    """The functions of which our sources say that they do not support something: "cudaMemPoolCreate with handles to share"."""
    return {name for file in SOFTGPU.glob("*.cc") for name in re.findall(r'notSupported\(\(?"(cu\w+) ', file.read_text())}


# ---- what the table says

def table(text):
    """{library: {name: Listed}} of the page: a heading for each library, and in its tables rows of two columns (what it is for, functions that are
    whole) or three (functions, state, what cannot run without them)."""
    listed = {}
    library = None
    for line in text.splitlines():
        if line.startswith("## "):
            library = next((name for name in NOT_SUPPORTED if line[3:].startswith(name)), None)
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if library is None or len(cells) not in (2, 3) or "`" not in line:
            continue
        functions, state, why = (cells[1], WHOLE, "") if len(cells) == 2 else cells
        if state not in (WHOLE, *STATES):
            raise Broken(f"{TABLE.name}: no state: {state}")
        for name, major, minor in re.findall(r"`(\w+)`(?: \((\d+)\.(\d+)\))?", functions):
            if name in listed.setdefault(library, {}):
                raise Broken(f"{TABLE.name}: {library}: {name} stands there twice")
            listed[library][name] = Listed(state, (int(major), int(minor)) if major else (), why)
    return listed


# ---- one against the other

def against_nccl(listed, wanted, release, in_source):
    """Complaints: what a release of NCCL looks up and the table does not have, or has without need. `in_source`: whether a word stands in NCCL's
    sources; CUDA's headers decide which of them becomes a symbol of the runtime."""
    complaints = []
    for library, names in wanted.items():
        has = {name for name, entry in listed.get(library, {}).items() if entry.since <= release}
        complaints += [f"{library}: NCCL looks up {name}, and the table does not have it" for name in sorted(names - has)]
        needless = has - names if library != "CUDA runtime" else {name for name in has - names if not in_source(name)}
        complaints += [f"{library}: the table has {name}, which NCCL does not look up" for name in sorted(needless)]
    return complaints


def against_libraries(listed, state, limited, declared):
    """Complaints: what the table says is there or not, and the libraries do not. `state(library, name)`; `limited`: partly(); `declared`: whether
    CUDA's headers have a name, since a software GPU that was built with older ones lacks what they do not have."""
    complaints = []
    for library, functions in listed.items():
        for name, entry in sorted(functions.items()):
            found = state(library, name)
            said = WHOLE if entry.state == IN_PART else entry.state
            newer = found == MISSING and library.startswith("CUDA") and not declared(name)
            if found != said and not newer:
                complaints.append(f"{library}: the table says that {name} is {entry.state}, and it is {found}")
            if entry.state == WHOLE and name in limited:
                complaints.append(f"{library}: the table says that {name} is whole, and its source says that it does not support something")
            if entry.state != WHOLE and not entry.why:
                complaints.append(f"{library}: the table does not say what cannot run without {name}")
    return complaints
