"""python -m railwise: what a job script asks of the package. The whole command is `railwise`."""

import argparse
import json
import os
import shlex
import sys
from typing import List, Optional

from railwise import topology
from railwise._errors import Error
from railwise._library import library_folder, version
from railwise._plugin import CHOICE, SEARCH_PATH, environment, plugin_path


def print_environment(arguments: argparse.Namespace) -> None:
    """Lines for `eval`, or for a shell's startup file."""
    values = {CHOICE: plugin_path()} if arguments.path else environment()
    if arguments.json:
        print(json.dumps(values, indent=2))
    elif arguments.path:
        print(f"export {CHOICE}={shlex.quote(values[CHOICE])}")
    else:
        print(f"export {CHOICE}={shlex.quote(values[CHOICE])}")
        print(f'export {SEARCH_PATH}={shlex.quote(library_folder())}"${{{SEARCH_PATH}:+:${SEARCH_PATH}}}"')


def print_nics(arguments: argparse.Namespace) -> None:
    # UCX has no PXN: the NIC is the nearest one of the GPU itself.
    variables = {**os.environ, "NCCL_PXN_DISABLE": "1"} if arguments.ucx else None
    with topology.load(arguments.file, root=arguments.root, nccl=arguments.nccl, variables=variables) as machine:
        for remark in () if arguments.quiet else machine.remarks:
            print(f"railwise nic: note: {remark}", file=sys.stderr)
        gpus = machine.gpus
        if arguments.gpu is not None:
            gpus = (machine.gpu(int(arguments.gpu) if arguments.gpu.isascii() and arguments.gpu.isdigit() else arguments.gpu),)
        for gpu in gpus:
            nics = machine.nics_of(gpu) if arguments.all else (machine.nic_of(gpu),)
            names = [",".join(nic.ports) if arguments.ucx else nic.name for nic in nics]
            print(",".join(names) if arguments.gpu is not None else f"{gpu.rank} {','.join(names)}")


def print_version(_: argparse.Namespace) -> None:
    print(f"railwise {version()} (NCCL net plugin {plugin_path()})")


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m railwise", description="What a job script asks of the package railwise.")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    env = commands.add_parser("env", help="print the exports with which NCCL loads the plugin: eval \"$(python -m railwise env)\"")
    env.add_argument("--path", action="store_true", help="NCCL_NET_PLUGIN alone, as a path: for NCCL 2.21 and later")
    env.add_argument("--json", action="store_true", help="an object instead of lines for a shell")
    env.set_defaults(run=print_environment)
    nic = commands.add_parser("nic", help="print the NIC that NCCL gives a GPU, or all GPUs")
    nic.add_argument("gpu", nargs="?", metavar="GPU", help="a rank or a PCI address; without: every GPU, one a line, with its rank")
    nic.add_argument("--all", action="store_true", help="the NICs of all channels, not of the first one")
    nic.add_argument("--ucx", action="store_true", help="for UCX, which has no PXN: with the port, as UCX_NET_DEVICES has it: mlx5_0:1")
    nic.add_argument("--file", metavar="FILE", help="a topology file; without: this machine")
    nic.add_argument("--root", metavar="DIR|TAR", help="the machine whose /sys is there (railwise topo record)")
    nic.add_argument("--nccl", metavar="RELEASE", help="whose rules: 2.30 or 2.30.7")
    nic.add_argument("--quiet", action="store_true", help="no notes on stderr")
    nic.set_defaults(run=print_nics)
    commands.add_parser("version", help="print the version and the path of the plugin").set_defaults(run=print_version)
    return whole


def main(words: Optional[List[str]] = None) -> int:
    arguments = parser().parse_args(words)
    try:
        arguments.run(arguments)
        return 0
    except Error as error:
        print(f"railwise {arguments.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
