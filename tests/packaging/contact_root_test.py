"""The bundle of scripts/first-contact alone in the root of another distribution, which may have PyTorch: as the machine it is, which has
neither NIC nor GPU, and on the stand-in for one that has.

Usage: contact_root_test.py SOURCE BUILD ROOT (a key of CONTACT_ROOTS in roots.py). Exit status 77: the root cannot be made here.
"""
import json
import pathlib
import subprocess
import sys
import tarfile

import roots

SOURCE, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
ROOT = sys.argv[3]
CONTACT = "/srv/railwise-first-contact/first-contact"
DEVICE_RUN = "/srv/railwise-first-contact/bin/railwise device run --machine dgx --"


def expect(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


def contact(root, name, before=""):
    """What a run says of each stage, by the kind of finding: {"ok": ["software: ..."], ...}"""
    said = root.run(f"mkdir /srv/{name} && cd /srv/{name} && {before} {CONTACT} --minutes 8 --out .")
    reports = list((root.folder / "srv" / name).glob("railwise-contact-*/report.json"))
    expect(len(reports) == 1, f"{name}: no report: {said}")
    findings = json.loads(reports[0].read_text())["findings"]
    kinds = {}
    for finding in findings:
        kinds.setdefault(finding["kind"], []).append(f"{finding['stage']}: {finding['text']}")
    expect(not kinds.get("wrong") and not kinds.get("surprise"), f"{name}: {said}")
    return kinds


def main():
    if any(pathlib.Path("/sys/class/infiniband").glob("*")) or pathlib.Path("/proc/driver/nvidia").exists():
        raise roots.Unavailable("this machine has a NIC or a GPU, which the root would see")
    with roots.unpacked(ROOT) as root:
        bundle = root.folder / "tmp/bundle.tar.gz"
        subprocess.run([SOURCE / "scripts/first-contact", "--bundle", bundle, "--build", BUILD], check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(bundle) as tar:
            tar.extractall(root.folder / "srv")
        bare = contact(root, "bare")
        expect("software: over the software device: every element right" in bare["ok"], bare)
        expect("loopback: no RDMA device that is up (nics.txt)" in bare["skipped"], bare)
        machine = contact(root, "machine", DEVICE_RUN)
        expect("loopback: puts and signals: every element right" in machine["ok"], machine)
        expect(any(text.startswith("model: NIC of each GPU: ") for text in machine["ok"]), machine)
        torch = next(text for text in bare["skipped"] if text.startswith("torch: "))
        expect(torch == ("torch: this torch has no CUDA GPU, or no NCCL" if "torch" in ROOT else "torch: this Python has no torch"), torch)
        nccl = next(text for text in bare["skipped"] if text.startswith("nccl: "))
        expect(("finds no GPU" if "torch" in ROOT else "no libnccl.so.2 in ") in nccl, nccl)
        print(f"{ROOT}: {root.run('python3 --version').strip()}; {len(bare['ok'])} and {len(machine['ok'])} findings are good")


if __name__ == "__main__":
    roots.exit_from(main)
