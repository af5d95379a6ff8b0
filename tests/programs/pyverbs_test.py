"""rdma-core's own conformance suite (python3-pyverbs, tests under /usr/share/doc/rdma-core/tests) on the software device.
Every test passes, or is skipped for a reason of ALLOWED_SKIPS; none fails, none crashes, none hangs.

Usage: pyverbs_test.py RAILWISE MACHINE [MODULE...] [-TEST...]
MACHINE: of one device, soft0, as link=ib,engine=on; -TEST: the id of a test that is left out
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

import program_test

SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")
RUNNER = pathlib.Path(__file__).with_name("pyverbs_runner.py")
MODULE_TIMEOUT_S = 180

# Reasons to skip: what a machine without RDMA hardware does not have, and what the device truthfully does not announce,
# with what `ibv_devinfo -v` then says. A reason that is not here, or that contradicts ibv_devinfo, fails the test: a
# capability that went missing must not look like a skip.
ALLOWED_SKIPS = [
    (r"MLX5 device|EFA device|PCI device must be passed by the user", None),
    (r"Converting timestamp to nanoseconds", None),  # by mlx5dv_get_clock_info
    (r"doesn't have net interface", None),
    (r"Allocating dmabuf is not supported by /dev/dri/|cuda-python", None),
    (r"There are no huge pages", None),
    (r"All gid indices populated", None),  # the table is as long as the configuration says
    (r"skip RoCE test|on Ethernet link layer|No supported port is up", r"link_layer:\s+InfiniBand"),
    (r"^Device memory is not supported", r"^(?![\s\S]*device memory)"),
    (r"^ODP is not supported - No ODP caps", r"rc_odp_caps:\s+NO SUPPORT"),
    (r"^Extended CQ is not supported", r"tag matching not supported"),  # tests of tag matching only say it so
    (r"Importing a device is not supported", None),
    (r"Parent Domain is not supported", None),
    (r"MW access is not supported|Create memory window|additional access flags 18", r"max_mw:\s+0\n"),
    (r"Create XRCD is not supported", r"^(?![\s\S]*\bXRC\n)"),
    (r"Create UC QP ", None),
    (r"Create Raw Packet QP|Create QP type 8", r"max_raw_ethy_qp:\s+0\n"),
]


def allowed(why, announced):
    return any(re.search(reason, why) and (evidence is None or announced is None or re.search(evidence, announced))
               for reason, evidence in ALLOWED_SKIPS)


def interpreter():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import pyverbs.device"], check=False,
                                                     capture_output=True).returncode == 0:
            return python
    program_test.skip("no pyverbs: apt-get install python3-pyverbs (scripts/packages --long does)")


def unpack(folder):
    if not (SUITE / "run_tests.py").exists():
        program_test.skip(f"no tests in {SUITE}: apt-get install rdma-core (scripts/packages --long does), "
                          "and let dpkg keep /usr/share/doc")
    for path in SUITE.iterdir():
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as packed:
                (folder / path.stem).write_bytes(packed.read())
        elif path.is_file():
            shutil.copy(path, folder)


def batches(folder, wanted):
    """Modules one by one; those for providers that cannot be here all at once."""
    names = sorted(path.stem for path in folder.glob("test_*.py"))
    if wanted:
        return [[name] for name in names if name in wanted]
    foreign = [name for name in names if re.match(r"test_(mlx5|efa)", name)]
    return [[name] for name in names if name not in foreign] + [foreign]


def run(device, python, folder, modules, notes):
    """Runs the modules, again after each crash for the tests that are left. Returns {test: (outcome, why)}."""
    outcomes = {}
    while True:
        process = device.start(python, str(RUNNER), str(folder), str(notes), ",".join(modules), "--dev", "soft0")
        try:
            output, _ = process.communicate(timeout=MODULE_TIMEOUT_S)
            ended = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            device.stop()
            output = process.stdout.read()
            ended = f"no end after {MODULE_TIMEOUT_S} s"
        started = None
        if notes.exists():
            for line in notes.read_text().splitlines():
                note = json.loads(line)
                started = note["test"] if note["is"] == "start" else None
                if note["is"] not in ("start", "left out") and outcomes.get(note["test"], ("ok",))[0] in ("ok", "skip"):
                    outcomes[note["test"]] = (note["is"], note["why"])
        if process.returncode == 0:
            return outcomes
        if started is None or started in outcomes:
            outcomes[f"{','.join(modules)} (loading)"] = ("crash", f"{ended}\n{output[-3000:]}")
            return outcomes
        outcomes[started] = ("crash", f"{ended}\n{output[-3000:]}")
        with open(notes, "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": started, "is": "crash", "why": ended}) + "\n")


def main(railwise, machine, *wanted):
    python = interpreter()
    left_out = [name[1:] for name in wanted if name.startswith("-")]
    wanted = [name for name in wanted if not name.startswith("-")]
    bad = 0
    counts = {}
    skips = {}
    with tempfile.TemporaryDirectory() as scratch, program_test.Device(railwise, machine) as device:
        folder = pathlib.Path(scratch) / "tests"
        folder.mkdir()
        unpack(folder)
        announced = device.run("ibv_devinfo", "-v", "-d", "soft0")[1] if shutil.which("ibv_devinfo") else None
        for modules in batches(folder, wanted):
            with open(pathlib.Path(scratch) / modules[0], "w", encoding="utf-8") as notes:
                notes.writelines(json.dumps({"test": test, "is": "left out", "why": ""}) + "\n" for test in left_out)
            for test, (outcome, why) in run(device, python, folder, modules, pathlib.Path(scratch) / modules[0]).items():
                if outcome == "skip" and not allowed(why, announced):
                    outcome = "skip not allowed"
                counts[outcome] = counts.get(outcome, 0) + 1
                if outcome == "skip":
                    skips[why] = skips.get(why, 0) + 1
                elif outcome != "ok":
                    bad += 1
                    print(f"{outcome}: {test}\n{textwrap.indent(why.strip(), '    ')}", flush=True)
    for why, count in sorted(skips.items()):
        print(f"skipped {count}: {why}")
    print(f"pyverbs, {machine}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    if counts.get("ok", 0) == 0:
        print("no test passed: something is wrong with the suite")
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
