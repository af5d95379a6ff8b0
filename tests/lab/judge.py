"""Railwise's answers for a machine held against what its shape says (expectation.py).

Used on the answers of a guest (suites/machine.py) and on machines recorded in one
(tests/topo/recorded_machines_test.py). `Places` says which PCI address each way through the tree came to;
everything else is Railwise's.
"""

import re
from expectation import Device, Expectation, Way

Places = dict[Way, str]  # way -> PCI address
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:([0-9a-f]{2}\.[0-7])")


def way_of(path: str) -> Way:
    """("20", "00.0", "00.0") of "/sys/devices/pci0000:20/0000:20:00.0/0000:21:00.0"."""
    components = path.split("/")
    root = next(index for index, component in enumerate(components) if component.startswith("pci"))
    slots = [ADDRESS.fullmatch(component) for component in components[root + 1:]]
    return (components[root][-2:], *(slot[1] for slot in slots if slot))


def names_of(shown: dict) -> dict[str, str]:
    """"NET/0" -> "mlx5_0"."""
    return {net["id"]: net["name"] for net in shown["nets"]}


class Judge:
    """Collects what differs."""

    def __init__(self, expectation: Expectation, places: Places) -> None:
        self.expected, self.places = expectation, places
        self.failures: list[str] = []

    def check(self, right: bool, text: str) -> None:
        if not right:
            self.failures.append(text)

    def equal(self, what: str, got, want) -> None:
        self.check(got == want, f"{what}: {got!r}, the shape says {want!r}")

    def address(self, device: Device) -> str:
        return self.places.get(device.way, f"nothing at {' '.join(device.way)}")

    def gpus_by_id(self, shown: dict) -> dict[str, Device]:
        by_address = {self.address(gpu): gpu for gpu in self.expected.gpus}
        return {gpu["id"]: by_address[gpu["busid"]] for gpu in shown["gpus"] if gpu["busid"] in by_address}

    def machine(self, shown: dict, explained: dict) -> None:
        """`railwise topo show --format json` and `railwise explain --format json`."""
        self._inventory(shown)
        if not self.failures:  # the rest needs to know what is what
            self._paths(shown)
            self._gpudirect(shown)
            self._explanation(explained, shown)

    def _inventory(self, shown: dict) -> None:
        gpus = [(gpu["busid"], gpu["local_cpu"]) for gpu in shown["gpus"]]
        self.equal("GPUs", gpus, sorted((self.address(gpu), f"CPU/{gpu.cpu}") for gpu in self.expected.gpus))
        nics = {nic["id"]: nic["busid"] for nic in shown["nics"]}
        cards = {net["name"]: nics.get(net["nic"]) for net in shown["nets"]}
        self.equal("cards", cards, {card.name: self.address(card) for card in self.expected.cards})
        speeds = {net["name"]: net["gdr"] for net in shown["nets"]}
        self.equal("cards that can do GPUDirect", speeds,
                   {card.name: card.name not in self.expected.software() for card in self.expected.cards})
        cpus = {device.cpu for device in (*self.expected.gpus, *self.expected.cards)}
        self.equal("NUMA nodes", {cpu["numa"] for cpu in shown["cpus"]}, cpus)

    def _paths(self, shown: dict) -> None:
        gpus, names = self.gpus_by_id(shown), names_of(shown)
        cards = {card.name: card for card in self.expected.cards}
        rows = 0
        for start, end, kind, bandwidth, *_ in shown["gpu_net"]:
            gpu, card = gpus[start], cards[names[end]]
            rows += 1
            what = f"{start} ({self.address(gpu)}) to {card.name}"
            self.equal(what, kind, self.expected.path_to_card(gpu, card))
            self.equal(f"{what}, GB/s", float(bandwidth), self.expected.bandwidth(gpu, card))
        self.equal("paths to cards", rows, len(self.expected.gpus) * len(cards))
        for start, end, kind, *_ in shown["gpu_gpu"]:
            self.equal(f"{start} to {end}", kind, self.expected.path_type(gpus[start], gpus[end]))

    def _gpudirect(self, shown: dict) -> None:
        gpus, names = self.gpus_by_id(shown), names_of(shown)
        cards = {card.name: card for card in self.expected.cards}
        for start, end, receive, *_ in shown["gdr"]:
            want = self.expected.gpudirect(gpus[start], cards[names[end]])
            self.equal(f"GPUDirect of {start} from {names[end]}", receive != 0, want)

    def _explanation(self, explained: dict, shown: dict) -> None:
        """The NIC of each GPU."""
        gpus, names = self.gpus_by_id(shown), names_of(shown)
        taken: dict[frozenset[str], set[str]] = {}
        for gpu in explained["gpus"]:
            device = gpus[gpu["gpu"]]
            candidates = self._candidates(device)
            chosen = {names[net] for net in gpu["channel_nets"]}
            self.check(bool(chosen) and chosen <= candidates,
                       f"{gpu['gpu']} uses {sorted(chosen)}, the shape leaves {sorted(candidates)}")
            taken.setdefault(candidates, set()).update(chosen)
        for candidates, chosen in taken.items():
            sharing = sum(self._candidates(gpu) == candidates for gpu in self.expected.gpus)
            if sharing <= len(candidates):
                self.equal("cards dealt out to the GPUs that share them", sorted(chosen), sorted(candidates))

    def _candidates(self, gpu: Device) -> frozenset[str]:
        return frozenset(card.name for card in self.expected.candidates(gpu))

    def devices(self, listed: dict, paths: dict[str, str]) -> None:
        """`railwise devices --json`; `paths`: PCI address -> its real folder."""
        want = {name: paths[self.address(card)] for card in self.expected.cards for name in card.names}
        self.equal("pciPath", {device["name"]: device["pci_path"] for device in listed["devices"]}, want)
        rails = {device["name"]: device["rail"] for device in listed["devices"]}
        of_a_gpu = {name for gpu in self.expected.gpus for card in self.expected.candidates(gpu, fused=False)
                    for name in card.names}
        self.equal("devices on a rail", {name for name, rail in rails.items() if rail is not None}, of_a_gpu)
