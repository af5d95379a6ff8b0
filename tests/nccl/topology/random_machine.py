"""A machine drawn by chance, as an NCCL topology file that describes all of its GPUs and NICs."""
import random
import xml.etree.ElementTree as ET

CPUS = (
    {"arch": "x86_64", "vendor": "GenuineIntel", "familyid": "6", "modelid": "143"},
    {"arch": "x86_64", "vendor": "GenuineIntel", "familyid": "6", "modelid": "85"},
    {"arch": "x86_64", "vendor": "AuthenticAMD", "familyid": "143", "modelid": "49"},
    {"arch": "x86_64", "vendor": "AuthenticAMD", "familyid": "175", "modelid": "17"},
    {"arch": "arm64", "vendor": "ARM", "familyid": "0", "modelid": "0"},
)
LINKS = ("8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe")
SPEEDS = (10000, 25000, 40000, 50000, 100000, 200000, 400000)
SMS = (60, 70, 75, 80, 86, 90, 100, 120)
SWITCH = {"vendor": "0x1000", "device": "0xc030", "subsystem_vendor": "0x1000", "subsystem_device": "0x1003"}


class _Drawing:
    """One machine while it is drawn."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.bus = 0
        self.gpus = []  # <gpu> elements
        self.nets = 0
        self.link = self.rng.choice(LINKS)
        self.sm = self.rng.choice(SMS)
        self.speed = self.rng.choice(SPEEDS)
        self.even = self.rng.random() < 0.6  # all parts alike, as most machines are

    def pci(self, parent, kind, **more):
        self.bus += 1
        return ET.SubElement(parent, "pci", busid=f"{self.bus >> 8:04x}:{self.bus & 255:02x}:00.0", **{"class": kind},
                             link_speed=self.link if self.even else self.rng.choice(LINKS),
                             link_width="16" if self.even else self.rng.choice(("4", "8", "16")), **more)

    def gpu(self, parent):
        sm = self.sm if self.even else self.rng.choice((self.sm, self.rng.choice(SMS)))
        rank = str(len(self.gpus))
        gdr = "1" if self.even else self.rng.choice("0111")
        self.gpus.append(ET.SubElement(self.pci(parent, "0x030200"), "gpu", dev=rank, sm=str(sm), rank=rank, gdr=gdr))

    def nic(self, parent):
        nic = ET.SubElement(self.pci(parent, "0x020700"), "nic")
        for port in range(1 if self.even else self.rng.choice((1, 1, 2))):
            speed = self.speed if self.even else self.rng.choice((self.speed, self.rng.choice(SPEEDS)))
            ET.SubElement(nic, "net", name=f"mlx5_{self.nets}", dev=str(self.nets), speed=str(speed), port=str(port + 1), latency="0.000000",
                          guid=hex(0x1000 + self.nets - port), maxconn="131072", gdr="1" if self.even else self.rng.choice("0111"))
            self.nets += 1

    def below(self, parent, gpus, nics, deep):
        """GPUs and NICs below a CPU or a switch."""
        if deep and gpus + nics > 1 and self.rng.random() < 0.6:
            branches = self.rng.choice((1, 2, 2, 4))
            for branch in range(branches):
                inner = self.pci(parent, "0x060400", **(SWITCH if self.rng.random() < 0.2 else {}))
                self.below(inner, gpus // branches + (branch < gpus % branches), nics // branches + (branch < nics % branches), deep - 1)
            return
        parts = [self.gpu] * gpus + [self.nic] * nics
        if not self.even:
            self.rng.shuffle(parts)
        for part in parts:
            part(parent)

    def nvlinks(self):
        """No NVLink, NVSwitches, or links between pairs."""
        def link(gpu, target, count, tclass="0x030200"):
            ET.SubElement(gpu, "nvlink", target=target, count=str(count), tclass=tclass)

        def address(gpu):
            return self.parents[gpu].get("busid")

        kind = self.rng.choice(("none", "none", "switch", "switch", "pairs", "ring", "mesh", "any"))
        if kind == "switch":
            count = self.rng.choice((2, 4, 6, 12, 18))
            for gpu in self.gpus:
                link(gpu, "0000:ff:00.0", count, "0x068000")
        elif kind != "none":
            number = len(self.gpus)
            chosen = {"pairs": [(i, i + 1) for i in range(0, number - 1, 2)],
                      "ring": [(i, (i + 1) % number) for i in range(number if number > 2 else number - 1)],
                      "mesh": [(i, j) for i in range(number) for j in range(i)],
                      "any": [(i, j) for i in range(number) for j in range(i) if self.rng.random() < 0.5]}[kind]
            for one, other in chosen:
                count = self.rng.choice((1, 2)) if self.even else self.rng.choice((1, 2, 3, 4))
                link(self.gpus[one], address(self.gpus[other]), count)
                link(self.gpus[other], address(self.gpus[one]), count)

    def draw(self):
        root = ET.Element("system", version="1")
        cpu = self.rng.choice(CPUS)
        hosts = self.rng.choice((1, 2, 2, 4))
        gpus = self.rng.choice((1, 2, 2, 3, 4, 4, 4, 6, 8, 8, 8))
        nics = self.rng.choice((0, 1, 1, 2, 2, 4, 4, 8)) if self.even else self.rng.randrange(9)
        for numa in range(hosts):
            element = ET.SubElement(root, "cpu", numaid=str(numa), affinity=f"{1 << numa:08x}", **cpu)
            share = [total // hosts + (numa < total % hosts) for total in (gpus, nics)]
            self.below(element, *share, self.rng.choice((0, 1, 2)))
        self.parents = {child: parent for parent in root.iter() for child in parent}
        self.nvlinks()
        if cpu["arch"] == "arm64" and self.sm >= 90:
            for gpu in self.gpus:
                ET.SubElement(gpu, "c2c", count="1", bw=self.rng.choice(("372000", "450000")))
        return root


def draw(seed):
    """The text of the file. One seed, one machine."""
    root = _Drawing(seed).draw()
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"
