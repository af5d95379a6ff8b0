"""scripts/first-contact on the kernel's own RDMA stack, with --apply: the bundle alone, as on a machine that Railwise has never met.

Usage: first_contact.py    (in the lab: tests/lab/run --devices 2)
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import network

SOURCE = Path(__file__).resolve().parents[3]
STAGES = "system,vendors,doctor,model,software,loopback,nccl,one_sided,nccl_tests,torch,pair,port"
BUILD = Path(sys.argv[1])


def main() -> int:
    first = network.ports()[0]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        bundle = work / "bundle.tar.gz"
        subprocess.run([SOURCE / "scripts/first-contact", "--bundle", bundle, "--build", BUILD], check=True)
        with tarfile.open(bundle) as tar:
            tar.extractall(work)
        script = work / "railwise-first-contact/first-contact"
        done = subprocess.run([sys.executable, script, "--out", work, "--only", STAGES, "--apply", first.netdev, "--minutes", "8"])
        report = json.loads(next(work.glob("railwise-contact-*/report.json")).read_text())
    print(f"status {done.returncode}")
    for finding in report["findings"]:
        print(f"{finding['kind']:<9} {finding['stage']}: {finding['text']}")
    kinds = {(finding["kind"], finding["stage"]) for finding in report["findings"]}
    missing = [stage for stage in ("software", "loopback", "port") if ("ok", stage) not in kinds]
    wrong = sorted(stage for kind, stage in kinds if kind in ("wrong", "surprise"))
    up = "UP" in network.run(["ip", "-o", "link", "show", "dev", first.netdev])
    if missing or wrong or not up:
        print(f"FAIL: nothing good of {missing}, wrong: {wrong}" + ("" if up else f", {first.netdev} is down"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
