"""What NCCL must find on a machine, computed from its shape (machine.py) alone, without Railwise.

The rules are NCCL's own (2.30.7), for the machines that a shape can describe: switches of one level each, no
NVLink, a CPU of an unknown kind (QEMU's), whose sockets are joined by 16 GB/s.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import machine

Way = tuple[str, ...]
NEAREST_FIRST = ["PIX", "PXB", "PHB", "SYS"]
BETWEEN_SOCKETS = 16.0
LANE = {"2.5": 1.5, "5.0": 3.0, "8.0": 6.0, "16.0": 12.0, "32.0": 24.0}  # Gb/s that NCCL counts, by GT/s


@dataclass(frozen=True)
class Device:
    """A GPU, or a card with all its functions, and what is between it and the CPU."""
    way: Way                 # of function 0
    names: tuple[str, ...]   # of its RDMA devices; of a GPU none
    cpu: int                 # NUMA node; -1: the firmware does not tell
    switches: tuple[int, ...]  # from the CPU down, numbered over the machine
    link: float              # GB/s
    port: float = 0          # GB/s of each RDMA device

    @property
    def name(self) -> str:
        """As NCCL calls the ports of a card that it takes for one NIC."""
        return "+".join(self.names)


def link_bandwidth(link: list) -> float:
    """GB/s. A link that nobody can read counts as Gen3 with 16 lanes; where a device says "Unknown" and the
    port above knows, that counts."""
    speed, width = link
    if speed == "Unknown":
        speed, width = machine.FULL_LINK[0], 16
    return LANE.get(speed.split()[0] if speed else "", LANE["8.0"]) * width / 8


def port_bandwidth(device: dict) -> float:
    """GB/s: rxe on a card of 1 Gb/s claims 2.5 Gb/s, the slowest that InfiniBand knows."""
    return (2.5 if device.get("model") == "e1000e" else device.get("gbps", 200)) / 8


class Expectation:
    """Of one shape."""

    def __init__(self, shape: dict) -> None:
        self.shape = shape
        self.gpus: list[Device] = []
        self.cards: list[Device] = []
        self._count = itertools.count()
        self._places = iter(list(machine.Layout(shape).of("gpu", "nic")))
        for bus in shape["buses"]:
            for device in bus["devices"]:
                self._add(device, bus, ())

    @classmethod
    def of(cls, path: Path) -> "Expectation":
        return cls(machine.load(path))

    def _add(self, device: dict, bus: dict, switches: tuple[int, ...]) -> None:
        if "switch" in device:
            here = (*switches, next(self._count))
            for below in device["switch"]:
                self._add(below, bus, here)
            return
        way = tuple(next(self._places).place.way())
        socket = bus.get("socket")
        cpu = -1 if socket is None or not self.shape.get("numa", True) else socket
        names = tuple(name for name in device.get("nic", []) if name)
        link = link_bandwidth(device.get("link", machine.FULL_LINK) if bus.get("ports", True) else ["", 16])
        if "gpu" in device:
            self.gpus.append(Device(way, (), cpu, switches, link))
        elif names:
            self.cards.append(Device(way, names, cpu, switches, link, port_bandwidth(device)))

    @staticmethod
    def path_type(one: Device, other: Device) -> str:
        """PIX behind one switch, PXB where several are on the way, PHB through the CPU, SYS to another."""
        if one.cpu != other.cpu:
            return "SYS"
        if not one.switches or not other.switches or one.switches[0] != other.switches[0]:
            return "PHB"
        return "PIX" if one.switches == other.switches else "PXB"

    def path_to_card(self, gpu: Device, card: Device) -> str:
        """Without GPUDirect the data goes by the CPU, however near the card."""
        kind = self.path_type(gpu, card)
        return "PHB" if kind in ("PIX", "PXB") and card.name in self.software() else kind

    @staticmethod
    def bandwidth(gpu: Device, card: Device, ports: int = 0) -> float:
        """GB/s of the way to all ports of a card, or to so many. The links of ports and switches are never
        the narrowest in a shape."""
        between = BETWEEN_SOCKETS if gpu.cpu != card.cpu else gpu.link
        return min(gpu.link, between, card.link, card.port * (ports or len(card.names)))

    def candidates(self, gpu: Device, fused: bool = True) -> list[Device]:
        """The cards that NCCL deals out to the GPU: of those with the most bandwidth the nearest. Its graph
        has one NIC for the ports of a card; Railwise's plugin, before NCCL fused them, one for each."""
        def rank(card: Device) -> tuple[float, int]:
            type_rank = NEAREST_FIRST.index(self.path_to_card(gpu, card))
            return -self.bandwidth(gpu, card, 0 if fused else 1), type_rank
        best = min(map(rank, self.cards))
        return [card for card in self.cards if rank(card) == best]

    def amd(self) -> bool:
        return any(part.device["gpu"] == "mi300x" for part in machine.Layout(self.shape).of("gpu"))

    def has_switches(self) -> bool:
        return any(device.switches for device in (*self.gpus, *self.cards))

    def gpudirect(self, gpu: Device, card: Device) -> bool:
        """Near enough, and no Soft-RoCE that shows itself as such."""
        return self.path_to_card(gpu, card) in ("PIX", "PXB")

    def software(self) -> set[str]:
        """Cards whose RDMA devices have no `device` link."""
        return {"+".join(filter(None, part.device["nic"])) for part in machine.Layout(self.shape).of("nic")
                if not part.device.get("device_link", True)}
