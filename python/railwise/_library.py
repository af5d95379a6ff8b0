"""The shared libraries of this package, and the C functions of librailwise-topology (include/railwise/topology_c.h)."""

import ctypes
import functools
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from railwise._errors import Error

TOPOLOGY = "librailwise-topology.so.0"

Machine = ctypes.c_void_p  # railwise_topology_t*


class Options(ctypes.Structure):
    """railwise_topology_options_t"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("nccl", ctypes.c_int),
        ("gpu_sm", ctypes.c_int),
        ("nvswitch_links", ctypes.c_int),
        ("nic_speed_mbps", ctypes.c_int),
        ("fuse_nics", ctypes.c_int),
        ("xgmi_as_nvlink", ctypes.c_int),
        ("cpu", ctypes.c_char_p),
        ("variables", ctypes.POINTER(ctypes.c_char_p)),
    ]


class PickOptions(ctypes.Structure):
    """railwise_topology_pick_options_t"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("of", ctypes.c_char_p),
        ("exclude", ctypes.c_char_p),
        ("nic", ctypes.c_char_p),
        ("occupied", ctypes.c_int),
    ]


class GenerateOptions(ctypes.Structure):
    """railwise_topology_generate_options_t"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("pairing", ctypes.c_char_p),
        ("table", ctypes.c_char_p),
        ("gpus_per_bridge", ctypes.c_int),
        ("force", ctypes.c_int),
        ("nic_class", ctypes.c_char_p),
        ("nic_device", ctypes.c_char_p),
        ("cpu", ctypes.c_char_p),
        ("exclude", ctypes.POINTER(ctypes.c_char_p)),
    ]


# What the functions return and take, before the `char** error` at the end. A text that comes out is a void*: it must be freed,
# and ctypes would forget the pointer of a char*.
_TEXT = ctypes.c_void_p
_FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "nccl_release": (ctypes.c_int, [ctypes.c_char_p]),
    "load_file": (Machine, [ctypes.c_char_p, ctypes.POINTER(Options)]),
    "load_text": (Machine, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.POINTER(Options)]),
    "load_sysfs": (Machine, [ctypes.c_char_p, ctypes.POINTER(Options)]),
    "load_merged": (Machine, [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Options)]),
    "chosen_nets": (ctypes.c_int, [Machine, ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int]),
    "pick_json": (_TEXT, [Machine, ctypes.c_int, ctypes.POINTER(PickOptions)]),
    "explain": (_TEXT, [Machine, ctypes.c_int]),
    "explain_json": (_TEXT, [Machine, ctypes.c_int]),
    "diff": (_TEXT, [Machine, Machine]),
    "diff_json": (_TEXT, [Machine, Machine]),
    "lint_json": (_TEXT, [ctypes.c_char_p]),
    "generate": (_TEXT, [ctypes.c_char_p, ctypes.POINTER(GenerateOptions), ctypes.POINTER(ctypes.c_void_p)]),
    **{name: (_TEXT, [Machine]) for name in ("json", "gpus_json", "matrix", "xml", "svg", "html")},
}


def library_folder() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


def library_path(name: str) -> str:
    path = os.path.join(library_folder(), name)
    if not os.path.exists(path):
        raise Error(f"{path} is not there: this is the source of the package, not the package. scripts/wheel makes a wheel; "
                    "pip install it")
    return path


@functools.lru_cache(maxsize=None)
def _load() -> ctypes.CDLL:
    path = library_path(TOPOLOGY)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Error(f"{path} cannot be loaded: {error}") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, "railwise_topology_" + name)
        function.restype = result
        function.argtypes = [*arguments, ctypes.POINTER(ctypes.c_void_p)]
    library.railwise_topology_version.restype = ctypes.c_char_p
    library.railwise_topology_free.argtypes = [Machine]
    library.railwise_topology_free.restype = None
    library.railwise_topology_string_free.argtypes = [ctypes.c_void_p]
    library.railwise_topology_string_free.restype = None
    return library


def version() -> str:
    """The version of the library, which is that of the plugin and of the package."""
    said: bytes = _load().railwise_topology_version()
    return said.decode()


def taken(pointer: Optional[int]) -> str:
    """A text of the library's as ours; the library's is freed. None: an empty text."""
    if not pointer:
        return ""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "surrogateescape")
    finally:
        _load().railwise_topology_string_free(pointer)


def _call(name: str, arguments: Sequence[Any], good: Callable[[Any], bool]) -> Any:
    function = getattr(_load(), "railwise_topology_" + name)
    error = ctypes.c_void_p()
    result = function(*arguments, ctypes.byref(error))
    if not good(result):
        raise Error(taken(error.value) or "out of memory")
    return result


def pointer_from(name: str, *arguments: Any) -> int:
    """Calls a function that returns a machine or a text. Error: it returned NULL."""
    pointer: int = _call(name, arguments, bool)
    return pointer


def text_from(name: str, *arguments: Any) -> str:
    return taken(pointer_from(name, *arguments))


def number_from(name: str, *arguments: Any) -> int:
    """Calls a function that returns a number. Error: it returned a negative one."""
    number: int = _call(name, arguments, lambda result: bool(result >= 0))
    return number


def free_machine(machine: int) -> None:
    _load().railwise_topology_free(machine)


def encoded(text: Union[str, "os.PathLike[str]", None]) -> Optional[bytes]:
    """A text or a path as the library takes it. Error: it has a NUL byte, where the text would end for the library."""
    if text is None:
        return None
    raw = os.fsencode(text)
    if b"\0" in raw:
        raise Error(f"{raw!r} contains a NUL byte")
    return raw


def encoded_list(texts: Sequence[str]) -> "ctypes.Array[ctypes.c_char_p]":
    """A list of texts that ends with NULL."""
    raw: List[Optional[bytes]] = [encoded(text) for text in texts]
    return (ctypes.c_char_p * (len(raw) + 1))(*raw, None)


def chosen_nets(machine: int, gpu: int) -> Tuple[int, ...]:
    room = 64
    while True:
        nets = (ctypes.c_int * room)()
        count = number_from("chosen_nets", machine, gpu, nets, room)
        if count <= room:
            return tuple(nets[:count])
        room = count
