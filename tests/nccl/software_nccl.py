"""libnccl.so.2 for the software GPU, in a build tree: linked of NCCL's host code in the cache, our kernels and our CUDA runtime. librccl.so.1 likewise."""
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import subprocess

import host_library
from unavailable import Broken, Unavailable

SOFTGPU = "lib/softgpu"
PROJECT = pathlib.Path(__file__).resolve().parent / "library"


def state_file(build, product="nccl"):
    """What prepare() found, for the tests that come after it."""
    return build / f"{product}-prepared.json"


@dataclasses.dataclass(frozen=True)
class SoftwareNccl:
    """What a job on the software GPU needs."""

    folder: pathlib.Path  # libnccl.so.2 or librccl.so.1, nccl_check
    softgpu: pathlib.Path  # libcudart.so.*, libnvidia-ml.so.1
    release: str  # of NCCL or RCCL

    @property
    def program(self):
        return self.folder / "nccl_check"

    def library_path(self):
        """For LD_LIBRARY_PATH."""
        return f"{self.folder}:{self.softgpu}"


def prepare(build, host=None, product="nccl"):
    """Builds what is missing or out of date in `build`/`product`. Raises Unavailable or Broken."""
    build = build.absolute()
    if host:  # another release, by hand: no matter of the tests
        return _prepare(build, host, product)
    if not build.is_dir():
        raise Broken(f"there is no build tree {build}: build Railwise first")
    state = state_file(build, product)
    state.unlink(missing_ok=True)
    try:
        ready = _prepare(build, host, product)
    except Unavailable as error:
        state.write_text(json.dumps({"unavailable": str(error)}) + "\n")
        raise
    state.write_text(json.dumps({"folder": str(ready.folder), "release": ready.release}) + "\n")
    return ready


def prepared(build, product="nccl"):
    """What the last prepare() of `product` left in `build`. Raises Unavailable with the reason that it found, or Broken where it never ran or failed."""
    build = build.absolute()
    try:
        found = json.loads(state_file(build, product).read_text())
    except (OSError, ValueError):
        raise Broken(f"tests/nccl/prepare {build} has not been run, or has failed") from None
    if "unavailable" in found:
        raise Unavailable(found["unavailable"])
    return SoftwareNccl(pathlib.Path(found["folder"]), build / SOFTGPU, found["release"])


def _prepare(build, host, product):
    softgpu = build / SOFTGPU
    if not (softgpu / "libcudart.so").exists():
        raise Unavailable(f"{softgpu} has no software GPU: CMake found no headers of CUDA when {build} was configured; install "
                          "nvidia-cuda-dev or set CUDA_HOME, and configure and build again")
    ready = host_library.read(host.absolute()) if host else host_library.ensure(product=product)
    folder = build / (product if host is None else f"{ready.product}-{ready.release}")
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:  # of several tests or checks at once, one builds
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build(folder, ready, softgpu, _cached(build, "RAILWISE_SANITIZE"), _cached(build, "CMAKE_CXX_COMPILER"))
    return SoftwareNccl(folder, softgpu, ready.release)


def _cached(build, name):
    """A value of the build tree's CMake cache; "": it has none."""
    try:
        lines = (build / "CMakeCache.txt").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split("=", 1)[1] for line in lines if line.startswith(name + ":")), "")


def _build(folder, host, softgpu, sanitizers, compiler):
    """`sanitizers`: of the plugin's build. The program has their runtime, which must be in the process before the plugin is loaded."""
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    given = [f"-DNCCL_HOST={host.folder}", f"-DNCCL_SOURCE={host.source}", f"-DCUDA_INCLUDE={host.cuda_include}", f"-DSOFTGPU={softgpu}",
             f"-DSANITIZE={sanitizers}"]
    if sanitizers:
        given.append(f"-DCMAKE_CXX_COMPILER={compiler}")
    configured = folder / "configured"
    if not configured.exists() or configured.read_text() != "\n".join(given):
        for left in (configured, folder / "CMakeCache.txt"):
            left.unlink(missing_ok=True)
        _step(["cmake", "-S", PROJECT, "-B", folder, *generator, *given], folder)
        configured.write_text("\n".join(given))
    _step(["cmake", "--build", folder, "--parallel", str(os.cpu_count() or 1)], folder)


def _step(command, folder):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError as error:
        raise Unavailable(f"{error.filename} is not installed") from error
    if done.returncode != 0:
        lines = done.stdout.splitlines()
        errors = [line for line in lines if "error" in line.lower() or "undefined reference" in line]
        (folder / "build.log").write_text(done.stdout)
        raise Broken(f"{folder}: the library for the software GPU cannot be built:\n" + "\n".join(f"  {line}" for line in (errors or lines[-5:])[:10]) +
                     f"\nall of it: {folder}/build.log")
