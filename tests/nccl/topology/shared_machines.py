"""Machines of a collection of NCCL's topology files, ten real ones and those that say only part: NCCL_TOPO_FILE on software GPUs and NICs with the
file's PCI addresses."""
import shlex
import xml.etree.ElementTree

from case import Case
from hosts_job import HostsJob
from unavailable import Unavailable

# Two to eight GPUs, of all kinds: with and without NVLink, NVSwitches, PCIe trees, made-up bridges, several NUMA nodes; with few NICs and many.
FILES = ("azure/ndv2-topo.xml", "azure/ndv4-topo.xml", "azure/ndv5-topo.xml", "from-sysfs/p3dn.24xl-topo.xml", "aws/p4d-24xl-topo.xml",
         "misc/nebius-h100-v1.xml", "misc/yccl-topo_h800.xml", "misc/nccl-tests-topo-9e4e98b.xml", "misc/yynil-topo-e062064.xml",
         "misc/modal-gvisor-21b57c9a1.xml")
# NCCL completes them with what the driver and the plugin tell. Not no-nic.xml: without a NIC the plugin has no device. Not upper-case.xml: NCCL asks
# NVML for the link of a GPU that it adds, and the software GPU's is not that of its /sys.
PARTIAL = ("rtp-llm-topo.xml", "gpu-no-gdr.xml", "gpu-no-sm.xml", "net-no-dev.xml", "net-no-gdr.xml", "net-no-speed.xml", "nvlink-no-tclass.xml")
GPU_CLASS, NIC_CLASSES = "0x03", ("0x0200", "0x0207")
SWITCH = "ffff:fe:00.0"


def _options(collection, name):
    """What the collection says of a file that lists PCI devices only: {"gpu-sm": "90", ...}."""
    for line in (collection / "variants.tsv").read_text().splitlines()[1:]:
        machine, variant, options = (line.split("\t") + ["", ""])[:3]
        if machine == name and not variant:
            words = shlex.split(options)
            return dict(word[2:].split("=") for word in words if "=" in word)
    return {}


def _devices(root):
    """(GPUs, NICs) as [(PCI address, NUMA node, element)], in the order of their addresses."""
    gpus, nics = {}, {}

    def walk(element, numa):
        for pci in element.findall("pci"):
            address = pci.get("busid").lower()
            kind = pci.get("class", "")
            if pci.find("gpu") is not None or kind.startswith(GPU_CLASS):
                gpus[address] = (numa, pci)
            elif pci.find("nic") is not None or kind.startswith(NIC_CLASSES):
                nics[address] = (numa, pci)
            walk(pci, numa)

    for cpu in root.findall("cpu"):
        walk(cpu, max(int(cpu.get("numaid", "0")), 0))
    return [[(address, *found[address]) for address in sorted(found)] for found in (gpus, nics)]


def software_machine(root, options):
    """(text of a machine file, number of GPUs): the GPUs and NICs of a topology file, whose tree NCCL takes from that file."""
    gpus, nics = _devices(root)
    lines = [f"host A numa_nodes={len(root.findall('cpu'))}"]
    number = 0
    for address, numa, pci in nics:
        nets = pci.findall("nic/net") or [None]
        for port, net in enumerate(nets):
            name = net.get("name") if net is not None else f"mlx5_{number}"
            speed = net.get("speed") if net is not None else None
            function = f"{address[:-1]}{int(address[-1]) + port}"
            lines.append(f"device name={name} speed={speed or options.get('nic-speed', '400000')} pci={function} numa={numa} pcie=5x16")
            number += 1
    for address, numa, pci in gpus:
        gpu = pci.find("gpu")
        sm = (gpu.get("sm") if gpu is not None else None) or options.get("gpu-sm", "80")
        links = options.get("nvswitch-links")
        lines.append(f"gpu pci={address} numa={numa} pcie=5x16 sm={sm}" + (f" nvlink=switch:{links}" if links else ""))
    if options.get("nvswitch-links"):
        lines.append(f"nvswitch pci={SWITCH} numa=0 pcie=4x2")
    return "\n".join(lines) + "\n", len(gpus)


def cases(nccl, build, out, rules, collection):
    """A case for each file."""
    if not (collection / "variants.tsv").exists():
        raise Unavailable(f"no {collection}/variants.tsv (RAILWISE_TOPOLOGIES names another folder)")
    found = []
    for name in [*(f"machines/{name}" for name in FILES), *(f"partial/{name}" for name in PARTIAL if (collection / "partial").is_dir())]:
        file = collection / name
        text, gpus = software_machine(xml.etree.ElementTree.parse(file).getroot(), _options(collection, name.removeprefix("machines/")))
        folder = out / file.stem
        machine = out / f"{file.stem}.conf"
        out.mkdir(parents=True, exist_ok=True)
        machine.write_text(text)
        job = HostsJob(nccl, build, folder, machine, [("A", gpus)] * 2, settings=["gpudirect=peermem"],
                       extra={"NCCL_TOPO_FILE": str(file.resolve()), "NCCL_NET_MERGE_LEVEL": "LOC"})
        found.append(Case(name.removeprefix("machines/"), job, rules, file=file))
    return found
