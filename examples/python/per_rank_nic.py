"""UCX and NIXL with the NIC that is near the GPU of each rank.

    srun python per_rank_nic.py -- ./server --kv-transfer        every rank starts with its own UCX_NET_DEVICES
    python per_rank_nic.py                                       prints the exports of this rank

UCX reads UCX_NET_DEVICES when its first context is made, and NIXL's UCX backend is UCX: set it before `import nixl`. Without it UCX
may use every NIC of the host for every rank.

FILE or DIR in RAILWISE_EXAMPLE_TOPOLOGY stands for this machine.
"""

import os
import shlex
import sys
from typing import Dict, List, Mapping

from railwise import topology

# Where launchers put the number of a rank within its host.
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def local_rank(variables: Mapping[str, str]) -> int:
    for name in LOCAL_RANKS:
        if name in variables:
            return int(variables[name])
    return 0


def settings(machine: topology.Topology, variables: Mapping[str, str]) -> Dict[str, str]:
    """What UCX, and with it NIXL, needs to know in the process of one rank."""
    visible = machine.visible_gpus(variables)
    if not visible:
        raise topology.Error(f"{machine.name}: this rank sees no GPU (CUDA_VISIBLE_DEVICES)")
    # A launcher that gives each rank its own CUDA_VISIBLE_DEVICES leaves one GPU to see.
    gpu = visible[local_rank(variables) % len(visible)]
    ports = [port for nic in machine.nics_of(gpu) for port in nic.ports]
    return {"UCX_NET_DEVICES": ",".join(dict.fromkeys(ports))}


def make_nixl_agent(name: str) -> object:
    """An agent whose UCX backend uses the NIC of this rank. Call it after os.environ has the settings."""
    from nixl._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def main(words: List[str]) -> int:
    source = os.environ.get("RAILWISE_EXAMPLE_TOPOLOGY")
    is_file = source is not None and source.endswith(".xml")
    # UCX has no PXN: the NIC is the nearest one of the GPU itself.
    variables = {**os.environ, "NCCL_PXN_DISABLE": "1"}
    try:
        with topology.load(source if is_file else None, root=None if is_file else source, variables=variables) as machine:
            values = settings(machine, os.environ)
    except topology.Error as error:
        print(f"per_rank_nic: {error}", file=sys.stderr)
        return 1
    if not words:
        for name, value in values.items():
            print(f"export {name}={shlex.quote(value)}")
        return 0
    os.environ.update(values)
    command = words[1:] if words[0] == "--" else words
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
