"""A machine's shape as a file -> the QEMU arguments that make it, and what its guest has to lay over /sys.

A shape is a JSON object:

    comment           what the machine is and what it is there to show
    sockets           1 or 2 NUMA nodes; "numa": false leaves the firmware's tables without any (then the
                      numa_node of every device reads -1, as on most one-socket machines)
    cpus_per_socket   default: 2 in all, as a lab machine has cores
    buses             list of PCI root buses:
      number            "00" is the chipset's own; any other, in hexadecimal, is a bus of its own (pxb-pcie)
      socket            the NUMA node that the firmware names; null: it names none
      ports             true (default): each device is behind a root port of its own; false: it sits on the
                        root bus itself, as some hypervisors show all that they pass through
      devices           list of devices:

    {"switch": [devices]}                one upstream port, a downstream port for each device
    {"gpu": "h100"}                      a stand-in (a virtio disk of class 0x0302): h100, a100 or mi300x
    {"nic": ["mlx5_0", "mlx5_1"]}        a network card with a function for each RDMA device (rdma_rxe on
                                         its interface); null for a name: that function has no RDMA device
        "model": "virtio" or "e1000e"    default virtio
        "gbps": 200                      virtio only (e1000e is 1 Gb/s), default 200
        "device_link": false             as the kernel shows Soft-RoCE: nothing leads from the RDMA device to
                                         the card; default true: as a real card's driver shows it
        "class": "0x020700"              default: Ethernet, 0x020000

    and for each of the three "link": ["32.0 GT/s PCIe", 16]: what max_ and current_link_speed and _width say.

What QEMU 7.2 cannot say itself is laid over the guest's /sys by guest/shape.py: the ids of a GPU, links
(behind QEMU's switches everything is "2.5 GT/s", one lane), the `device` link of an RDMA device.
"""
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator

from errors import LabError

# The names of the files are those of /sys; the subsystem is that of NVIDIA's and AMD's own boards.
GPUS = {
    "h100": {"vendor": "0x10de", "device": "0x2330", "class": "0x030200",
             "subsystem_vendor": "0x10de", "subsystem_device": "0x16c1"},
    "a100": {"vendor": "0x10de", "device": "0x20b0", "class": "0x030200",
             "subsystem_vendor": "0x10de", "subsystem_device": "0x134f"},
    "mi300x": {"vendor": "0x1002", "device": "0x74a1", "class": "0x120000",
               "subsystem_vendor": "0x1002", "subsystem_device": "0x74a1"},
}
MODELS = {"virtio": "virtio-net-pci", "e1000e": "e1000e"}
FULL_LINK = ["32.0 GT/s PCIe", 16]
KINDS = ("switch", "gpu", "nic")
# Slots below these hold QEMU's own devices and those that the lab adds without an address (disks, 9p).
FIRST_SLOT = 0x10
CPUS = 2
MEMORY_MB = 1024
MOST_FUNCTIONS = 10  # addresses of a guest: guest/network.py


class ShapeError(LabError):
    """What is wrong with a shape, and where."""


def load(path: pathlib.Path | str) -> dict:
    """The shape in a file, checked."""
    try:
        shape = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ShapeError(f"{path}: {error}") from error
    try:
        check(shape)
    except ShapeError as error:
        raise ShapeError(f"{path}: {error}") from error
    return shape


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a device is: the root bus and, level by level, "slot.function". The firmware numbers the buses
    below the root; this way leads to the device whatever they are."""
    bus: str
    slots: tuple[str, ...]

    def below(self, slot: int = 0, function: int = 0) -> "Place":
        return Place(self.bus, (*self.slots, f"{slot:02x}.{function}"))

    def way(self) -> list[str]:
        return [self.bus, *self.slots]


@dataclasses.dataclass
class Part:
    """One thing to be made: a bridge, a GPU or a card. `parent` is the QEMU bus that it is plugged into."""
    kind: str  # "bus", "root_port", "upstream", "downstream", "gpu", "nic"
    name: str  # QEMU's id
    parent: str
    place: Place
    device: dict

    @property
    def slot(self) -> str:
        return self.place.slots[-1]


def kind_of(device: dict) -> str:
    """"switch", "gpu" or "nic"."""
    found = [kind for kind in KINDS if kind in device]
    if len(found) != 1:
        raise ShapeError(f"a device is a switch, a gpu or a nic: {json.dumps(device)[:80]}")
    return found[0]


class Layout:
    """The parts of a shape in the order in which QEMU must be told of them."""

    def __init__(self, shape: dict) -> None:
        self.shape = shape
        self.parts: list[Part] = []
        self.count = 0
        next_slot = FIRST_SLOT
        for bus in shape["buses"]:
            next_slot = self._bus(bus, next_slot)

    def of(self, *kinds: str) -> Iterator[Part]:
        return (part for part in self.parts if part.kind in kinds)

    def _add(self, kind: str, parent: str, place: Place, device: dict) -> Part:
        self.count += 1
        part = Part(kind, f"{kind}{self.count}", parent, place, device)
        self.parts.append(part)
        return part

    def _bus(self, bus: dict, slot: int) -> int:
        """The devices of a root bus; returns the next free slot of the chipset's bus."""
        number, root, first = bus["number"], "pcie.0", slot
        if number != "00":
            root = self._add("bus", "pcie.0", Place("00", (f"{slot:02x}.0",)), bus).name
            first, slot = 0, slot + 1
        else:
            slot += len(bus["devices"])
        for index, device in enumerate(bus["devices"]):
            place = Place(number, (f"{first + index:02x}.0",))
            if bus.get("ports", True):
                self._device(device, self._add("root_port", root, place, {}).name, place.below())
            else:
                self._device(device, root, place)
        return slot

    def _device(self, device: dict, parent: str, place: Place) -> None:
        kind = kind_of(device)
        if kind != "switch":
            self._add(kind, parent, place, device)
            return
        upstream = self._add("upstream", parent, place, device)
        for index, below in enumerate(device["switch"]):
            port = self._add("downstream", upstream.name, place.below(index), device)
            self._device(below, port.name, port.place.below())


def check(shape: dict) -> None:
    """Raises ShapeError for what QEMU would refuse in words that do not name the file, or take silently."""
    for key in ("comment", "sockets", "buses"):
        if key not in shape:
            raise ShapeError(f"no \"{key}\"")
    if shape["sockets"] not in (1, 2):
        raise ShapeError(f"{shape['sockets']} sockets; 1 and 2 are known")
    numbers = [bus.get("number") for bus in shape["buses"]]
    for number in numbers:
        if not isinstance(number, str) or len(number) != 2 or numbers.count(number) > 1:
            raise ShapeError(f"bus number {number!r}: two hexadecimal digits, each bus its own")
    for bus in shape["buses"]:
        socket = bus.get("socket")
        if socket is not None and socket not in range(shape["sockets"]):
            raise ShapeError(f"bus {bus['number']}: socket {socket} of {shape['sockets']}")
    names: list[str] = []
    for part in Layout(shape).of("gpu", "nic"):
        _check_device(part.device)
        names += [name for name in part.device.get("nic", []) if name is not None]
    functions = sum(len(part.device["nic"]) for part in Layout(shape).of("nic"))
    if functions > MOST_FUNCTIONS:
        raise ShapeError(f"{functions} functions of cards; there are addresses for {MOST_FUNCTIONS}")
    for name in names:
        if names.count(name) > 1:
            raise ShapeError(f"two RDMA devices are called {name}")


def _check_device(device: dict) -> None:
    if "gpu" in device and device["gpu"] not in GPUS:
        raise ShapeError(f"gpu {device['gpu']!r}: known are {', '.join(GPUS)}")
    if "nic" not in device:
        return
    if device.get("model", "virtio") not in MODELS:
        raise ShapeError(f"model {device['model']!r}: known are {', '.join(MODELS)}")
    if not 1 <= len(device["nic"]) <= 8:
        raise ShapeError(f"a card has 1 to 8 functions: {json.dumps(device)[:80]}")


def _processor_arguments(shape: dict, memory_mb: int) -> list[str]:
    sockets, cores = shape["sockets"], shape.get("cpus_per_socket", CPUS // shape["sockets"])
    arguments = ["-smp", f"{sockets * cores},sockets={sockets},cores={cores}", "-m", str(memory_mb)]
    if not shape.get("numa", True):
        return arguments
    for node in range(sockets):
        share = memory_mb // sockets if node else memory_mb - memory_mb // sockets * (sockets - 1)
        arguments += ["-object", f"memory-backend-ram,id=memory{node},size={share}M", "-numa",
                      f"node,nodeid={node},cpus={node * cores}-{(node + 1) * cores - 1},memdev=memory{node}"]
    if sockets == 2:
        arguments += ["-numa", "dist,src=0,dst=1,val=21"]
    return arguments


def _bridge_arguments(part: Part, number: int) -> list[str]:
    slot = f"id={part.name},bus={part.parent},addr={part.slot}"
    if part.kind == "bus":
        socket = part.device.get("socket")
        node = "" if socket is None else f",numa_node={socket}"
        return ["-device", f"pxb-pcie,{slot},bus_nr={int(part.device['number'], 16)}{node}"]
    if part.kind == "upstream":
        return ["-device", f"x3130-upstream,{slot}"]
    driver = "pcie-root-port" if part.kind == "root_port" else "xio3130-downstream"
    return ["-device", f"{driver},{slot},chassis={number},slot={number}"]


def _gpu_arguments(part: Part) -> list[str]:
    """Only this driver of QEMU's takes another class; the disk has no medium worth the name."""
    pci_class = GPUS[part.device["gpu"]]["class"][:6]
    return ["-blockdev", f"null-co,node-name={part.name},size=1048576", "-device",
            f"virtio-blk-pci,bus={part.parent},addr={part.slot},drive={part.name},class={pci_class}"]


def _nic_arguments(part: Part, first_port: int) -> list[str]:
    """All cards are on one hub, so that each reaches each other."""
    arguments = []
    functions = part.device["nic"]
    model = part.device.get("model", "virtio")
    for function in range(len(functions)):
        port = first_port + function
        slot = part.slot.split(".")[0] + f".{function}"
        driver = (f"{MODELS[model]},bus={part.parent},addr={slot},netdev=port{port},mac={mac_address(port)}"
                  + (",multifunction=on" if len(functions) > 1 else ""))
        if model == "virtio":
            driver += f",host_mtu=9000,speed={part.device.get('gbps', 200) * 1000},duplex=full"
        arguments += ["-netdev", f"hubport,id=port{port},hubid=7", "-device", driver]
    return arguments


def mac_address(port: int) -> str:
    """As guest/network.py's mac(port, 0): the guest makes its neighbours known from these."""
    return f"52:54:00:00:00:{port:02x}"


def arguments(shape: dict, memory_mb: int = MEMORY_MB) -> list[str]:
    """QEMU's arguments: processors, memory and PCI devices. The machine itself (-machine q35), the kernel and
    the lab's own disks are the caller's; those get no address, or one below slot 10 of pcie.0."""
    result = _processor_arguments(shape, memory_mb)
    port = 0
    for number, part in enumerate(Layout(shape).parts, start=1):
        if part.kind == "gpu":
            result += _gpu_arguments(part)
        elif part.kind == "nic":
            result += _nic_arguments(part, port)
            port += len(part.device["nic"])
        else:
            result += _bridge_arguments(part, number)
    return result


def _link_files(link: list) -> dict[str, str]:
    speed, width = link
    return {f"{when}_link_{what}": str(value) for when in ("max", "current")
            for what, value in (("speed", speed), ("width", width))}


def _attributes(shape: dict) -> Iterator[dict]:
    """The files of each PCI function that must read otherwise than QEMU says."""
    for part in Layout(shape).parts:
        if part.kind == "bus":
            continue
        files = _link_files(part.device.get("link", FULL_LINK))
        functions = 1
        if part.kind == "gpu":
            files |= GPUS[part.device["gpu"]]
        elif part.kind == "nic":
            functions = len(part.device["nic"])
            files |= {"class": part.device["class"]} if "class" in part.device else {}
        for function in range(functions):
            yield {"way": _function(part, function).way(), "files": files}


def _function(part: Part, function: int) -> Place:
    slot = part.slot.split(".")[0]
    return Place(part.place.bus, (*part.place.slots[:-1], f"{slot}.{function}"))


def _networks(shape: dict) -> Iterator[dict]:
    number = 0
    for part in Layout(shape).of("nic"):
        for function, name in enumerate(part.device["nic"]):
            yield {"number": number, "way": _function(part, function).way(), "name": name,
                   "mtu": 9000 if part.device.get("model", "virtio") == "virtio" else 1500,
                   "device_link": part.device.get("device_link", True)}
            number += 1


def guest_setup(shape: dict) -> dict:
    """What guest/shape.py does in the guest. "attributes": what files of /sys must read; "networks": the
    functions of cards in order, each with its number (which gives MAC and addresses) and the name of its RDMA
    device or null. A "way" is that of Place."""
    return {"attributes": list(_attributes(shape)), "networks": list(_networks(shape))}


def main() -> int:
    """machine.py FILE: prints what would be done, for people."""
    try:
        shape = load(sys.argv[1])
    except ShapeError as error:
        print(f"machine.py: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"qemu": arguments(shape), "guest": guest_setup(shape)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
