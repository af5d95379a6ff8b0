"""Finds CUDA: its headers (all that NCCL's host code and the software GPU need), and its runtime library (for a real GPU)."""
import importlib.util
import os
import pathlib
import re
import shutil

from unavailable import Unavailable

HEADER = "cuda_runtime_api.h"


def python_folders(*names):
    """Folders of NVIDIA's Python packages: nvidia/nccl, nvidia/cu13 ..."""
    folders = []
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
        except ImportError:
            spec = None
        folders += [pathlib.Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    return folders


def folders():
    """Where a toolkit may be, the likeliest first. /usr: Debian's and Ubuntu's packages nvidia-cuda-dev."""
    found = [pathlib.Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    found += [pathlib.Path(nvcc).resolve().parent.parent] if nvcc else []
    return found + [pathlib.Path("/usr/local/cuda")] + python_folders("nvidia.cu13", "nvidia.cuda_runtime") + [pathlib.Path("/usr")]


def include_of(folder, header=HEADER):
    """The folder of `header` in a toolkit's folder; None: it has none."""
    return next((folder / sub for sub in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
                 if (folder / sub / header).is_file()), None)


def headers():
    """The folder of CUDA's headers. Raises Unavailable."""
    searched = folders()
    for folder in searched:
        include = include_of(folder)
        if include is not None and (include / "cuda.h").is_file() and (include / "crt/host_defines.h").is_file():
            return include
    raise Unavailable(f"no headers of CUDA ({HEADER}) in {', '.join(map(str, searched))}: "
                      "install nvidia-cuda-dev, or set CUDA_HOME to the folder of a toolkit")


def release(include):
    """(13, 0) of headers of CUDA 13.0."""
    found = re.search(r"^#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text(errors="replace"), re.MULTILINE)
    if not found:
        raise Unavailable(f"{include}/cuda.h does not say its CUDA_VERSION")
    return int(found[1]) // 1000, int(found[1]) % 1000 // 10
