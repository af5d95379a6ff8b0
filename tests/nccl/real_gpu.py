"""Ranks on a real GPU, with the installed CUDA and NCCL. All ranks share one GPU, each as a host of its own."""
import ctypes
import ctypes.util
import os
import pathlib
import subprocess

import cuda
from unavailable import Broken, Unavailable

PROGRAM = pathlib.Path(__file__).resolve().parent / "program"


def find(what, header, library, folders, given=False):
    """(folder of the header, path of the library) of the first of `folders` that has both."""
    for folder in folders:
        include = cuda.include_of(folder, header)
        if include is None:
            continue
        for sub in ("lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "targets/x86_64-linux/lib"):
            found = sorted((folder / sub).glob(library + "*"), key=lambda path: len(path.name))
            if found:
                return include, found[0]
    problem = f"no {what} ({header} and {library}) in {', '.join(map(str, folders)) or 'any usual place'}"
    raise Broken(problem) if given else Unavailable(problem)


def find_cuda(given=None):
    return find("CUDA", cuda.HEADER, "libcudart.so", [given] if given else cuda.folders(), given=given is not None)


def find_nccl(given, cuda_include):
    if given:
        return find("NCCL", "nccl.h", "libnccl.so", [given], given=True)
    folders = [pathlib.Path(os.environ["NCCL_HOME"])] if os.environ.get("NCCL_HOME") else []
    folders += cuda.python_folders("nvidia.nccl") + [pathlib.Path("/usr"), pathlib.Path("/usr/local"), cuda_include.parent]
    return find("NCCL", "nccl.h", "libnccl.so", folders)


def require_gpu():
    """Raises Unavailable where there is none."""
    name = ctypes.util.find_library("cuda") or "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        raise Unavailable("no GPU: there is no driver (libcuda.so.1)") from None
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise Unavailable("no GPU: the driver is there and finds none")


def is_there():
    try:
        require_gpu()
    except Unavailable:
        return False
    return True


def compile_program(out, cuda_found, nccl_found):
    program = out / "nccl_check"
    sources = sorted(map(str, PROGRAM.glob("*.cc")))
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{PROGRAM}", f"-isystem{nccl_found[0]}",
               f"-isystem{cuda_found[0]}", *sources, "-o", str(program), str(cuda_found[1]), str(nccl_found[1]),
               f"-Wl,-rpath,{cuda_found[1].parent}:{nccl_found[1].parent}", "-pthread"]
    subprocess.run(command, check=True)
    return program


class RealGpu:
    """See job.py. `device`: RAILWISE_DEVICE."""

    what = "a real GPU"
    shares_hosts = False  # nothing goes past the network

    def __init__(self, program, build, gpu, device):
        self.program = program
        self.plugin = build / "lib/libnccl-net-railwise.so"
        self._gpu = gpu
        own_fabric = (",fabric=" if ":" in device else ":fabric=") + f"check{os.getpid()}"
        self._device = device + own_fabric if device.startswith("software") else device

    def gpu(self, _rank):
        return self._gpu

    def host(self, rank):
        return f"rank{rank}"

    def host_name(self, rank):
        return self.host(rank)

    def command(self, _rank, words):
        return words

    def environment(self, _rank):
        return {"RAILWISE_DEVICE": self._device}

    def stats_command(self):
        """Real devices have no counters of ours."""
        return None


def compiled(options, out):
    """Compiles the program into `out`; says against what."""
    found = find_cuda(options.cuda)
    nccl = find_nccl(options.nccl, found[0])
    program = compile_program(out, found, nccl)
    print(f"compiled against {found[0]} and {nccl[0]}")
    return program
