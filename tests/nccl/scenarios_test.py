"""Runs a scenario of real NCCL on software GPUs (scenarios.py). Usage: scenarios_test.py BUILD NAME..., or --list"""
import pathlib
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import scenarios  # noqa: E402
import software_nccl  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import exit_status  # noqa: E402


def main():
    if sys.argv[1:] == ["--list"]:
        for name, scenario in scenarios.SCENARIOS.items():
            print(name, "campaign" if scenario.campaign else "full")
        return 0
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    failed = 0
    for name in sys.argv[2:]:
        scenario = scenarios.SCENARIOS[name]
        begun = time.monotonic()
        out = pathlib.Path(tempfile.mkdtemp(prefix=f"nccl-{name}-"))
        place = SoftwareGpu(nccl, build, scenario.machine, scenario.hosts, scenario.gpus)
        complaints = scenarios.run(scenario, place, out)
        print(f"{'FAIL' if complaints else 'ok  '} {name}: {scenario.what} ({time.monotonic() - begun:.1f} s)")
        for complaint in complaints:
            print(f"     {complaint}")
        if complaints:
            failed += 1
            print(f"     logs: {out}")
        else:
            shutil.rmtree(out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl scenarios", main))
