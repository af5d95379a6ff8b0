"""What `railwise` answers for a host, in the terms of NCCL's log."""
import json
import re

from nccl_log import Graph, Path

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
        self.machine = json.loads(ask("topo", "show", "--xgmi=nvlink", *words))
        explained = json.loads(ask("explain", *words))
        self.gpus = {gpu["rank"]: gpu for gpu in explained["gpus"]}
        self._searches = explained["rings_and_trees"]
        self._graphs = json.loads(ask("topo", "graphs", "--nodes", "2", *words))

    def node(self, name):
        """NCCL's name of GPU/0, NET/3, CPU/1."""
        kind, number = name.split("/")
        if kind == "GPU":
            return f"GPU/0-{bus_number(self.gpus[int(number)]['busid']):x}"
        return f"{kind}/0-{int(number) & LOCAL_ID:x}"

    def paths(self):
        """{(from, to): Path} as nccl_log.paths(): each rank prints the GPUs of its own domain."""
        domains = [{f"GPU/{rank}" for rank in domain["ranks"]} for domain in self.machine["domains"]]
        found = {}
        for table in TABLES:
            for start, end, kind, bandwidth, hops, _ in self.machine.get(table, []):
                if table == "gpu_gpu" and not any({start, end} <= domain for domain in domains):
                    continue
                found[self.node(start), self.node(end)] = Path(kind, f"{bandwidth:.1f}", hops)
        return found

    def graphs(self):
        """{(lowest rank of the domain, "ring"): Graph} of two equal hosts. NVLS and CollNet are left out: the software GPU has neither."""
        found = {}
        for domain in self._graphs["domains"]:
            for name in ("ring", "tree"):
                graph = domain["graphs"].get("nodes2", {}).get(name)
                if graph is None:
                    continue
                channels = tuple((self.node(f"NET/{first}"), *(self.node(f"GPU/{rank}") for rank in ranks), self.node(f"NET/{last}"))
                                 for first, ranks, last in graph["order"])
                found[min(domain["ranks"]), name] = Graph(graph["pattern"], graph["cross_nic"],
                                                          (f"{graph['bw_intra']:.6f}", f"{graph['bw_inter']:.6f}"),
                                                          (graph["type_intra"], graph["type_inter"]), graph["same"], channels)
        return found

    def _gpudirect_row(self, rank, device):
        wanted = [f"GPU/{rank - self._first}", f"NET/{device}"]
        return next((row for row in self.machine["gdr"] if row[:2] == wanted), [None] * 6)

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

    @property
    def channels(self):
        """How many channels the ranks of the host have in a job of equal hosts."""
        return min(search["channels"] for search in self._searches)

    def channel_devices(self, rank, channel, sends):
        """Devices by which the ring and the tree of a channel of the search leave (`sends`) or enter the host at a rank."""
        rank -= self._first
        ring = "ring-leaves" if sends else "ring-enters"
        ends = [(end["use"], end["net"]) for end in self.gpus[rank]["channel_ends"] if channel in end["channels"]]
        node = next(number for number, search in enumerate(self._searches) if rank in search["ranks"])
        on_second_host = min(self.gpus) + self._first > 0
        swapped = self._searches[node]["swapped_rings"]
        if swapped and (node + len(self._searches) * on_second_host) % 2 == 1:  # NCCL's nodes are the domains of all hosts
            ends = [end for end in ends if end[0] == "tree"]
            _, enter_rank, enter_net, leave_rank, leave_net = swapped[channel]
            ends += [("ring-enters", enter_net)] * (rank == enter_rank) + [("ring-leaves", leave_net)] * (rank == leave_rank)
        return {int(net.split("/")[1]) for use, net in ends if use in ("tree", ring)}

    def towards(self, rank, peer_dev, channel):
        """(device, proxy rank) by which a rank sends to a GPU of another host; None where we do not say."""
        gpu = self.gpus[rank - self._first]
        channel %= len(gpu["channel_nets"])
        return next(((int(peer["net"].split("/")[1]), peer["proxy_rank"] + self._first) for peer in gpu["peers"]
                     if (peer["peer_dev"], peer["channel"]) == (peer_dev, channel)), None)
