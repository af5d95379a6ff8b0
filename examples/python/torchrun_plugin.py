"""PyTorch over Railwise: every rank makes NCCL load the plugin before the first communicator.

    torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HOST:29500 torchrun_plugin.py

Without PyTorch it says what a rank would do. NCCL_NET_PLUGIN=none torchrun ... compares with NCCL's own network: a plugin that the
user has named stays chosen.
"""

import os
import sys
from typing import Optional

import railwise


def prepare() -> str:
    """What has to happen before init_process_group(); returns the plugin that NCCL will load."""
    plugin = railwise.use_plugin()
    # One line of NCCL's log then tells which network it uses: "NET/Railwise : ...".
    os.environ.setdefault("NCCL_DEBUG", "WARN")
    return plugin


def nic_of_rank(local_rank: int) -> Optional[str]:
    """The NIC of this rank's GPU, for the log; None where the machine cannot be read (a container without /sys)."""
    try:
        with railwise.topology.load() as machine:
            return machine.nic_of(machine.visible_gpus()[local_rank]).name
    except (railwise.Error, IndexError):
        return None


def train(local_rank: int) -> None:
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    one = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(one)
    if int(one[0]) != dist.get_world_size():
        sys.exit(f"rank {dist.get_rank()}: the sum is {one[0]}, not {dist.get_world_size()}")
    dist.destroy_process_group()


def main() -> None:
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    print(f"local rank {local_rank}: plugin {prepare()}, NIC {nic_of_rank(local_rank) or 'not known'}", flush=True)
    try:
        import torch  # noqa: F401
    except ImportError:
        print("no PyTorch here: nothing is trained")
        return
    train(local_rank)


if __name__ == "__main__":
    main()
