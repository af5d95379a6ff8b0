"""Where the NCCL network plugin lies, and what makes NCCL load it."""

import ctypes
import os
from typing import Dict, Mapping, MutableMapping, Optional

from railwise._library import library_folder, library_path

PLUGIN = "libnccl-net-railwise.so"
SEARCH_PATH = "LD_LIBRARY_PATH"
CHOICE = "NCCL_NET_PLUGIN"
_NAME = "railwise"  # NCCL makes PLUGIN of it; every release since 2.13 does


def plugin_path() -> str:
    """The absolute path of the plugin. NCCL 2.21 and later take it as NCCL_NET_PLUGIN."""
    return library_path(PLUGIN)


def environment(base: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The variables with which a new process loads the plugin. `base`: the environment that they extend (os.environ)."""
    plugin_path()  # an error if there is none
    folders = [folder for folder in (os.environ if base is None else base).get(SEARCH_PATH, "").split(":") if folder]
    own = library_folder()
    return {CHOICE: _NAME, SEARCH_PATH: ":".join([own, *(folder for folder in folders if folder != own)])}


def use_plugin(variables: Optional[MutableMapping[str, str]] = None) -> str:
    """Makes NCCL in this process, and in its children, load the plugin. Call it before NCCL starts.

    A plugin that the user has named in NCCL_NET_PLUGIN stays chosen. Returns what NCCL_NET_PLUGIN says now. `variables` is
    os.environ.
    """
    if variables is None:
        variables = os.environ
    chosen = variables.get(CHOICE)
    if chosen is not None and chosen not in (_NAME, PLUGIN):
        return chosen
    variables.update(environment(variables))
    # The loader reads LD_LIBRARY_PATH when a process starts. But it finds a library that is loaded by its name.
    ctypes.CDLL(plugin_path())
    return _NAME
