"""What `railwise` answers for a host, in the terms of NCCL's log."""
import json
import re

from nccl_log import Path

TABLES = ("gpu_gpu", "gpu_net", "gpu_cpu", "net_gpu", "net_cpu", "net_net", "cpu_cpu")

LOCAL_ID = (1 << 56) - 1  # NCCL's number of a node within its host


def bus_number(bus_id):
    """0x1b000 of "0000:1b:00.0", as NCCL prints a GPU."""
    return int(re.sub(r"[:.]", "", bus_id), 16)


class Answers:
    """`ask(*words)`: the output of `railwise WORDS` on the host. `first`: the rank of the job that is rank 0 in these answers."""

    def __init__(self, ask, first, rules):
        self._first = first
        words = ("--nccl", rules, "--quiet", "--format", "json")
        self.paths_answer = json.loads(ask("topo", "paths", *words))
        explained = json.loads(ask("explain", *words))
        self.gpus = {gpu["rank"]: gpu for gpu in explained["gpus"]}

    def node(self, name):
        """NCCL's name of GPU/0, NET/3, CPU/1."""
        kind, number = name.split("/")
        if kind == "GPU":
            return f"GPU/0-{bus_number(self.gpus[int(number)]['busid']):x}"
        return f"{kind}/0-{int(number) & LOCAL_ID:x}"

    def paths(self):
        """{(from, to): Path} as nccl_log.paths(): each rank prints the GPUs of its own domain."""
        domains = [{f"GPU/{rank}" for rank in domain["ranks"]} for domain in self.paths_answer["domains"]]
        found = {}
        for table in TABLES:
            for start, end, kind, bandwidth, hops, _ in self.paths_answer.get(table, []):
                if table == "gpu_gpu" and not any({start, end} <= domain for domain in domains):
                    continue
                found[self.node(start), self.node(end)] = Path(kind, f"{bandwidth:.1f}", hops)
        return found

    def _gpudirect_row(self, rank, device):
        wanted = [f"GPU/{rank - self._first}", f"NET/{device}"]
        return next((row for row in self.paths_answer["gdr"] if row[:2] == wanted), [None] * 6)

    def gpudirect(self, rank, device, sends):
        """0, 1 or 2; None: not told."""
        return self._gpudirect_row(rank, device)[3 if sends else 2]

    def relay(self, rank, device):
        """The rank whose GPU relays what a rank sends by a device (PXN); the rank itself: none."""
        relay = self._gpudirect_row(rank, device)[5]
        return None if relay is None else relay + self._first

    def own_device(self, rank, channel):
        """Device by which a rank receives, and sends where the peer has no say."""
        nets = self.gpus[rank - self._first]["channel_nets"]
        return int(nets[channel % len(nets)].split("/")[1])

    def chosen(self, rank):
        """Devices that a rank's rings and trees may use."""
        return {int(net["net"].split("/")[1]) for net in self.gpus[rank - self._first]["chosen"]}

    def towards(self, rank, peer_dev, channel):
        """(device, proxy rank) by which a rank sends to a GPU of another host; None where we do not say."""
        gpu = self.gpus[rank - self._first]
        channel %= len(gpu["channel_nets"])
        return next(((int(peer["net"].split("/")[1]), peer["proxy_rank"] + self._first) for peer in gpu["peers"]
                     if (peer["peer_dev"], peer["channel"]) == (peer_dev, channel)), None)
