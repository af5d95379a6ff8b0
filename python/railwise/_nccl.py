"""Which release of NCCL this process has, or will have."""

import ctypes
import importlib.metadata
import os
import re
from typing import Optional

# The packages that bring NCCL for PyTorch and JAX.
_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


def release_here() -> Optional[str]:
    """Of the libnccl.so.2 that is loaded, else of the installed package: "2.27.3". None: neither is there."""
    loaded = _loaded()
    if loaded is not None:
        return loaded
    for package in _PACKAGES:
        try:
            said = re.match(r"\d+\.\d+\.\d+", importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            continue
        if said is not None:
            return said[0]
    return None


def _loaded() -> Optional[str]:
    try:
        library = ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        number = ctypes.c_int()
        if library.ncclGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    code = number.value
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
