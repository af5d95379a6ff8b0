"""In the guest: makes /sys read as the shape of the machine says (machine.py), and brings up its cards.

Nothing is undone: the guest ends.
"""

import ctypes
import os
import time
from pathlib import Path

import network

SCRATCH = Path("/run/railwise-lab-machine")
DEVICES = Path("/sys/devices")
MS_RDONLY, MS_BIND = 1, 4096  # <sys/mount.h>
SETTLE_SECONDS = 20  # a slow host's time for a driver to make its interface, or a port to come up


class ShapeMissing(Exception):
    """What the guest has not got that the shape says."""


def folder_of(way: list[str]) -> Path:
    """/sys/devices/pci0000:20/0000:20:00.0/0000:21:00.0 of ["20", "00.0", "00.0"]."""
    folder = DEVICES / f"pci0000:{way[0]}"
    for slot in way[1:]:
        found = sorted(folder.glob(f"[0-9a-f]*:[0-9a-f][0-9a-f]:{slot}"))
        if len(found) != 1:
            raise ShapeMissing(f"no device at {slot} of {folder} (way {' '.join(way)})")
        folder = found[0]
    return folder


def mount(source: str, target: Path, kind: str, flags: int, data: str = "") -> None:
    """The system call: a machine needs a hundred of these, and starting a program costs 20 ms here."""
    libc = ctypes.CDLL(None, use_errno=True)
    where = os.fsencode(target)
    if libc.mount(source.encode(), where, kind.encode(), ctypes.c_ulong(flags), data.encode()) != 0:
        raise ShapeMissing(f"mount {source} over {target}: {os.strerror(ctypes.get_errno())}")


def wait_for(what: str, answer):
    """The first answer that is not None."""
    end = time.monotonic() + SETTLE_SECONDS
    while (found := answer()) is None:
        if time.monotonic() > end:
            raise ShapeMissing(f"{what}: still not there after {SETTLE_SECONDS} s")
        time.sleep(0.05)
    return found


def overlay(folder: Path, name: str, make) -> None:
    """Lays what `make` puts into an empty folder over `folder`."""
    layer = SCRATCH / "overlay" / name
    layer.mkdir(parents=True)
    make(layer)
    mount("lab", folder, "overlay", MS_RDONLY, f"lowerdir={layer}:{folder}")


def lay_attributes(device: dict, content: dict[str, Path]) -> None:
    """A file that is there is covered by one of ours: the folder keeps all else, its children too. Where a
    function has no such file (its link, on a root bus) it has none on other machines either."""
    folder = folder_of(device["way"])
    for file, value in device["files"].items():
        ours = content.get(value)
        if ours is None:
            ours = SCRATCH / f"value{len(content)}"
            ours.write_text(value + "\n")
            content[value] = ours
        if (folder / file).exists():
            mount(str(ours), folder / file, "", MS_BIND)


def interface_of(way: list[str]) -> str | None:
    """virtio's interface is one level below its function, e1000e's in the function itself."""
    folder = folder_of(way)
    names = [path.name for pattern in ("net/*", "virtio*/net/*") for path in folder.glob(pattern)]
    return names[0] if names else None


def port_of(card: dict) -> network.Port:
    """The interface of a function of a card, and what is to run on it."""
    interface = wait_for(f"interface of {' '.join(card['way'])}", lambda: interface_of(card["way"]))
    port = network.make_port(card["number"], card["mtu"], rdma=card["name"] or "", netdev=interface)
    network.batch("ip", [f"link set {interface} mtu {card['mtu']}"])
    network.address(port)
    return port


def give_device_link(card: dict) -> None:
    """rxe's device is no child of the card, and /sys takes no new links: an overlay shows what is missing."""
    folder = Path(f"/sys/class/infiniband/{card['name']}").resolve()
    function = folder_of(card["way"])
    overlay(folder, card["name"], lambda layer: (layer / "device").symlink_to(function))


def lay(setup: dict) -> list[network.Port]:
    """Does what machine.guest_setup() says; the ports that have an RDMA device."""
    for module in ("virtio_net", "e1000e", "virtio_blk"):
        network.run(["modprobe", module])
    SCRATCH.mkdir(parents=True)
    content: dict[str, Path] = {}
    for device in setup["attributes"]:
        lay_attributes(device, content)
    ports = [port_of(card) for card in setup["networks"]]
    network.route_by_source(ports)
    network.know_neighbours(ports, [(port.ipv4, port.ipv6, network.mac(port.number, 0)) for port in ports])
    for card, port in zip(setup["networks"], ports):
        if port.rdma:
            network.add_device(port)
            if card["device_link"]:
                give_device_link(card)
    return [port for port in ports if port.rdma]
