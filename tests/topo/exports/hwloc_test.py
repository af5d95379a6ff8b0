"""hwloc reads what `railwise topo export --for hwloc-xml` writes, and finds every device where it is.

Usage: hwloc_test.py RAILWISE MACHINES
"""

import re
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
from export_runs import expect, export, machines, model, need, run  # noqa: E402


def devices(text: str) -> list[tuple[str, str]]:
    """(PCI address, name of the device) of each GPU and NIC that lstopo lists; hwloc leaves out domain 0."""
    found, address = [], ""
    for line in text.splitlines():
        if place := re.search(r"\bPCI (\S+) ", line):
            address = place[1] if place[1].count(":") == 2 else "0000:" + place[1]
        if device := re.search(r'(?:GPU\((?:NVML|RSMI)\)|OpenFabrics|Net) "([^"]+)"', line):
            found.append((address, device[1]))
    return sorted(found)


def wanted(machine: dict, amd: bool) -> list[tuple[str, str]]:
    prefix = "rsmi" if amd else "nvml"
    gpus = {(gpu["busid"].lower(), f"{prefix}{gpu['dev']}") for gpu in machine["gpus"]}
    place = {nic["id"]: nic["busid"] for nic in machine["nics"]}
    nics = {(place[net["nic"]].lower(), name.split(":")[0]) for net in machine["nets"] for name in net["name"].split("+")}
    return sorted(gpus | nics)


def check(railwise: str, lstopo: str, info: str, machine: Path, folder: Path) -> int:
    file = folder / "machine.xml"
    file.write_text(export(railwise, machine, "hwloc-xml"))
    done = run([lstopo, "-i", str(file), "--of", "console", "--whole-io"], HWLOC_XML_VERBOSE="1")
    expect((done.returncode, done.stderr), (0, ""), f"lstopo reads {machine.name}")
    shown = model(railwise, machine)
    listed = devices(done.stdout)
    expect(listed, wanted(shown, "RSMI" in done.stdout), f"devices of {machine.name}")
    counted = run([info, "-i", str(file)])
    expect((counted.returncode, counted.stderr), (0, ""), f"hwloc-info reads {machine.name}")
    numa = re.search(r"(\d+) NUMANode", counted.stdout)
    known = len({cpu["numa"] for cpu in shown["cpus"] if cpu["numa"] >= 0})  # /sys may have more
    expect(numa is not None and int(numa[1]) >= max(1, known), True, f"NUMA nodes of {machine.name}")
    drawn = run([lstopo, "-i", str(file), "--of", "svg"])
    expect((drawn.returncode, "</svg>" in drawn.stdout), (0, True), f"lstopo draws {machine.name}")
    return len(listed)


def check_links(railwise: str, lstopo: str, machine: Path, folder: Path) -> None:
    file = folder / "links.xml"
    file.write_text(export(railwise, machine, "hwloc-xml"))
    done = run([lstopo, "-i", str(file), "--distances"])
    first = next((line.split() for line in done.stdout.splitlines() if re.match(r"\s*(nvml0|OSDev:\d+|\d+)\s+1000000", line)), [])
    if "NVLinkBandwidth" not in done.stdout or len(first) != 9:
        sys.exit(f"FAIL: lstopo --distances of {machine.name}: {done.stdout}")
    expect([float(value) > 0 for value in first[2:]], [True] * 4 + [False] * 3, "NVLinks of GPU 0")


def check_bytes(railwise: str, lstopo: str, machine: Path, folder: Path) -> None:
    """A file with bytes that are not UTF-8 becomes XML that hwloc and an XML parser read."""
    odd = folder / "odd.xml"
    odd.write_bytes(machine.read_bytes().replace(b'arch="x86_64"', b'arch="x86\xe9\xff"'))
    expect(b"\xe9\xff" in odd.read_bytes(), True, f"{machine.name} has an arch")
    file = folder / "from-odd.xml"
    done = run([railwise, "topo", "export", str(odd), "--for", "hwloc-xml", "-q", "-o", str(file), "--node", "n1"])
    expect(done.returncode, 0, done.stderr)
    values = [info.get("value") for info in xml.etree.ElementTree.parse(file).iter("info")]
    expect("x86\ufffd\ufffd" in values, True, f"the architecture among {values}")
    done = run([lstopo, "-i", str(file), "--of", "console"], HWLOC_XML_VERBOSE="1")
    expect((done.returncode, done.stderr), (0, ""), "lstopo reads it")


def main(railwise: str, folder: Path) -> None:
    lstopo, info = need("lstopo-no-graphics", "hwloc-nox"), need("hwloc-info", "hwloc-nox")
    with tempfile.TemporaryDirectory() as scratch:
        found = {machine.name: check(railwise, lstopo, info, machine, Path(scratch)) for machine in machines(folder)}
        check_bytes(railwise, lstopo, folder / "synthetic" / "dgx1v.xml", Path(scratch))
        check_links(railwise, lstopo, folder / "synthetic" / "dgx1v.xml", Path(scratch))
    print(f"hwloc lists all devices: {found}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
