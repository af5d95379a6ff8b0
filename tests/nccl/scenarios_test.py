"""Runs scenarios of real NCCL on software GPUs (scenarios.py).

scenarios_test.py BUILD NAME...                   with what tests/nccl/prepare has left in the build tree
scenarios_test.py BUILD NAME... --nccl-host DIR   with another release of NCCL: what scripts/nccl-source --source printed
scenarios_test.py --list
"""
import argparse
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
from unavailable import SKIPPED, Unavailable, exit_status  # noqa: E402


def main():
    if sys.argv[1:] == ["--list"]:
        for name, scenario in scenarios.SCENARIOS.items():
            print(name, "campaign" if scenario.campaign else "full", scenario.product)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("names", nargs="+", choices=scenarios.SCENARIOS, metavar="NAME")
    parser.add_argument("--nccl-host", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    build = options.build.resolve()
    failed = skipped = 0
    for name in options.names:
        scenario = scenarios.SCENARIOS[name]
        nccl = software_nccl.prepare(build, options.nccl_host) if options.nccl_host else software_nccl.prepared(build, scenario.product)
        begun = time.monotonic()
        out = pathlib.Path(tempfile.mkdtemp(prefix=f"nccl-{name}-"))
        place = SoftwareGpu(nccl, build, scenario.machine, scenario.hosts, scenario.gpus)
        try:
            complaints = scenarios.run(scenario, place, out)
        except Unavailable as error:
            print(f"skip {name}: {error}")
            skipped += 1
            shutil.rmtree(out)
            continue
        print(f"{'FAIL' if complaints else 'ok  '} {name}: {scenario.what} ({time.monotonic() - begun:.1f} s)")
        for complaint in complaints:
            print(f"     {complaint}")
        if complaints:
            failed += 1
            print(f"     logs: {out}")
        else:
            shutil.rmtree(out)
    return 1 if failed else SKIPPED if skipped == len(options.names) else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl scenarios", main))
