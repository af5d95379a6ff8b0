"""NCCL's host code, compiled once for each release of NCCL, of CUDA's headers and of the compiler, in a cache outside the repository. RCCL's likewise.

CACHE/nccl-2.29.7/source                        what Debian's package holds
CACHE/nccl-2.29.7/host-cuda13.0-g++12.2.0-KEY   libnccl_host.a, include/nccl.h, host.json
CACHE/rccl-2.28.3/...                           the same of RCCL
CACHE/lock                                      one process at a time fills the cache

CACHE is ${XDG_CACHE_HOME:-~/.cache}/railwise. A folder that is there is whole: it is made under another name and renamed.
"""
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

import cuda
import debian_source
import rccl_source
from unavailable import Broken, Unavailable

RECIPE = pathlib.Path(__file__).resolve().parent / "host/CMakeLists.txt"
UNFINISHED = ".unfinished"  # ends the name of what is not whole


@dataclasses.dataclass(frozen=True)
class Host:
    """A compiled release of NCCL."""

    product: str  # "nccl" or "rccl"
    release: str  # "2.29.7"
    folder: pathlib.Path  # libnccl_host.a, include/nccl.h
    source: pathlib.Path  # src of NCCL, below it
    cuda_include: pathlib.Path


def cache_folder():
    """Where all of it is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(home) / "railwise"


def compiler():
    """(command, "g++12.2.0") of the C++ compiler: CXX, or g++, or c++. Raises Unavailable."""
    command = os.environ.get("CXX") or next((name for name in ("g++", "c++") if shutil.which(name)), "g++")
    try:
        done = subprocess.run([*shlex.split(command), "-dumpfullversion", "-dumpversion"], stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"no C++ compiler: {error}; install g++, or set CXX") from error
    return command, pathlib.Path(shlex.split(command)[-1]).name + done.stdout.split()[0]


def ensure(source=None, cache=None, update=False, jobs=None, product="nccl"):
    """The compiled host code: of the newest release of `product` in the cache, or of the sources in `source`; made where it is missing. NCCL's
    sources come from Debian, RCCL's out of a git repository, which is `source` then.

    `update` asks Debian for a newer release. Raises Unavailable or Broken.
    """
    cache = (cache or cache_folder()).absolute()
    include = cuda.headers()
    command, name = compiler()
    if source is None and not update:
        found = _built(_cached_source(cache, product), cache, include, name)
        if found:
            return found
    with _locked(cache):
        place = source.absolute() if source else _cached_source(cache, product)
        if source and rccl_source.is_repository(place):
            place = _export(place, cache)
        if place is None and product == "rccl":
            raise Unavailable(rccl_source.HOW_TO)
        if place is None or (update and not source):
            place = _fetch(cache)
        return _built(place, cache, include, name) or _build(place, cache, include, command, name, jobs)


@contextlib.contextmanager
def _locked(cache):
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = open(cache / "lock", "w", encoding="ascii")  # noqa: SIM115
    except OSError as error:
        raise Unavailable(f"cannot write to the cache {cache}: {error.strerror}; set XDG_CACHE_HOME to a folder that can be written") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process fills {cache}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in [*cache.glob("*" + UNFINISHED), *cache.glob("?ccl-*/*" + UNFINISHED)]:  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


def say(text):
    print(f"nccl-source: {text}", file=sys.stderr, flush=True)


# ---- sources

def _cached_source(cache, product):
    """The newest release that was fetched; None: there is none."""
    found = [path for path in cache.glob(f"{product}-*/source") if path.is_dir()]
    return max(found, key=lambda path: [int(part) for part in path.parent.name.removeprefix(product + "-").split(".")], default=None)


def _fetch(cache):
    say(f"fetching NCCL's sources from Debian (package {debian_source.PACKAGE}, {debian_source.SUITE})")
    return _keep(cache, debian_source.fetch)


def _export(repository, cache):
    say(f"taking RCCL's sources out of {repository}")
    return _keep(cache, lambda work: rccl_source.export(repository, work))


def _keep(cache, write):
    """The folder in the cache of the sources that `write(folder)` writes."""
    work = cache / ("source" + UNFINISHED)
    try:
        write(work)
        place = cache / f"{_product(work)}-{debian_source.release(work)}/source"
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return place


def _product(source):
    return "rccl" if rccl_source.is_rccl(source) else "nccl"


def plugins(host):
    """The folder of NCCL's example plugins, among them its profilers, in the sources of `host`. Raises Unavailable."""
    folder = host.source / "plugins"
    if folder.is_dir():
        return folder
    cache = host.folder.parent.parent
    if host.source.parent.parent != cache:
        raise Unavailable(f"{host.source} has no folder plugins")
    with _locked(cache):  # the sources were fetched before the plugins were kept
        say(f"fetching the plugins of NCCL's sources from Debian (package {debian_source.PACKAGE})")
        work = cache / ("plugins" + UNFINISHED)
        try:
            release = debian_source.fetch(work)
            if release != host.release:
                raise Unavailable(f"Debian has NCCL {release} now, the cache {host.release} without its plugins: scripts/nccl-source --update")
            (work / "plugins").rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


# ---- the archive

def _folder(source, cache, include, name):
    """Where the archive of these sources lies, or will lie."""
    recipe = "".join(path.read_text() for path in (rccl_source.stand_ins() if rccl_source.is_rccl(source) else [RECIPE]))
    text = f"{recipe}\0{source.resolve()}\0{include.resolve()}\0{os.environ.get('CXXFLAGS', '')}"
    key = hashlib.sha256(text.encode()).hexdigest()[:8]
    release = ".".join(map(str, cuda.release(include)))
    return cache / f"{_product(source)}-{debian_source.release(source)}" / f"host-cuda{release}-{name}-{key}"


def _built(source, cache, include, name):
    """The host code in the cache; None: it must be compiled."""
    if source is None:
        return None
    folder = _folder(source, cache, include, name)
    if not (folder / "host.json").is_file():
        return None
    return read(folder)


def read(folder):
    """The Host of a folder of the cache. Raises Broken."""
    try:
        words = json.loads((folder / "host.json").read_text())
        return Host(words.get("product", "nccl"), words["release"], folder, pathlib.Path(words["source"]), pathlib.Path(words["cuda_include"]))
    except (OSError, ValueError, KeyError) as error:
        raise Broken(f"{folder}/host.json cannot be read ({error}): remove {folder} and try again") from error


def _build(source, cache, include, command, name, jobs):
    folder = _folder(source, cache, include, name)
    work = folder.with_name(folder.name + UNFINISHED)
    product = _product(source)
    recipe = rccl_source.RECIPE if product == "rccl" else RECIPE
    release = debian_source.release(source)
    jobs = jobs or os.cpu_count() or 1
    say(f"compiling the host code of {product.upper()} {release} into {folder} (some minutes, once)")
    log = cache / f"{product}-{release}.log"
    environment = {**os.environ, "CXX": command}
    work.mkdir(parents=True)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    try:
        with open(log, "w", encoding="utf-8") as output:
            for step in (["cmake", "-S", recipe.parent, "-B", work / "build", *generator, f"-DNCCL_SOURCE={source}", f"-DCUDA_INCLUDE={include}"],
                         ["cmake", "--build", work / "build", "--parallel", str(jobs)]):
                if _run(step, environment, output) != 0:
                    raise Broken(f"{product.upper()} {release} ({source}) does not compile with {name} and {include}:\n{_errors(log)}\nall of it: {log}")
        for made in ("libnccl_host.a", "include"):
            (work / "build" / made).rename(work / made)
        shutil.rmtree(work / "build")
        (work / "host.json").write_text(json.dumps({"product": product, "release": release, "source": str(source), "cuda_include": str(include)}) + "\n")
        work.rename(folder)
        log.unlink()
    except FileNotFoundError as error:
        raise Unavailable(f"{error.filename} is not installed") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return read(folder)


def _run(step, environment, output):
    """The exit status of a step of the build. Its compilers end with this process, so that nobody writes into a folder that is gone."""
    process = subprocess.Popen(step, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.wait()
    except BaseException:  # a signal
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _errors(log):
    """The first errors in a build's log."""
    lines = log.read_text(errors="replace").splitlines()
    found = [line for line in lines if "error" in line.lower()]
    return "\n".join(f"  {line}" for line in (found or lines[-5:])[:5])
