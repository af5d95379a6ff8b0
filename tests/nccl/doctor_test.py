"""What `railwise doctor --log` says of the logs of real NCCL on software GPUs: a good job, a plugin that is not there with and without NCCL_NET,
a rank that is killed. Usage: doctor_test.py BUILD
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import faults  # noqa: E402
import judge  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from kill_test import machine, wait_until  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import exit_status  # noqa: E402

WORDS = ["--checks", "collectives", "--max", "4096"]
GONE = {"NCCL_NET_PLUGIN": "railwise-gone"}


def doctor(build, job, *words):
    """(exit status, report as JSON) of the logs of all ranks."""
    logs = [str(log) for log in job.logs if log.exists()]
    done = subprocess.run([str(build / "bin/railwise"), "doctor", "--log", "--json", *words, *logs], capture_output=True, text=True, timeout=60)
    if not done.stdout:
        raise RuntimeError(f"railwise doctor ended with status {done.returncode}: {done.stderr.strip()}")
    return done.returncode, json.loads(done.stdout)


def different(what, seen, expected):
    return [] if seen == expected else [f"{what}: {seen}, not {expected}"]


def checks_of(report):
    return [finding["check"] for finding in report["findings"]]


def a_good_job(nccl, build, folder):
    job = Job(SoftwareGpu(nccl, build, "@dgx;gpudirect=on", 2, 1), folder, 2, judge.NAME, WORDS)
    complaints = job.wait()
    status, report = doctor(build, job)
    rank = report["ranks"][0]
    return (complaints + different("findings", checks_of(report), []) + different("status", status, 0) +
            different("size", report["size"], 2) + different("ranks", [rank["ranks"] for rank in report["ranks"]], [[0], [1]]) +
            different("network", rank["network"], judge.NAME) + different("NICs", len(rank["nics"]), 8) +
            different("GPUDirect", (rank["gpu_direct"], rank["gpu_direct_of"]), (8, 8)))


def a_silent_fallback(nccl, build, folder):
    """The plugin is not there, and NCCL's own IB network is turned off: NCCL runs over Socket, and the job is right."""
    job = Job(SoftwareGpu(nccl, build, "dgx", 2, 1), folder, 2, judge.NAME, WORDS, {**GONE, "NCCL_NET": None, "NCCL_IB_DISABLE": "1"})
    complaints = job.wait()
    status, report = doctor(build, job)
    return (complaints + different("findings", checks_of(report), ["plugin-not-found", "socket-network", "one-sided"]) + different("status", status, 2) +
            different("network", [rank["network"] for rank in report["ranks"]], ["Socket", "Socket"]))


def a_network_that_is_not_there(nccl, build, folder):
    """With NCCL_NET=Railwise the job fails instead."""
    job = Job(SoftwareGpu(nccl, build, "dgx", 2, 1), folder, 2, judge.NAME, WORDS, GONE)
    complaints = [] if job.wait() else ["the job did not fail"]
    status, report = doctor(build, job)
    return complaints + different("status", status, 2) + different("findings", checks_of(report)[:2], ["plugin-not-found", "network-not-found"])


def a_rank_that_is_killed(nccl, build, folder):
    """The others' first error is that it went away."""
    place = faults.Place(nccl, build, build / "lib/libnccl-net-railwise.so", machine(f"nccl-doctor-{os.getpid()}"), {})
    job = Job(place, folder, 3, judge.NAME, ["--checks", "traffic", "--until-told", "--max", "65536"], faults.TIMESTAMPS)
    try:
        wait_until(lambda: all(faults.BEGINS in job.output(rank) for rank in range(3)), faults.START_S, "data flow")
        job.processes[1].send_signal(signal.SIGKILL)
        wait_until(lambda: all(job.processes[rank].poll() is not None for rank in (0, 2)), faults.END_S, "the others end")
    finally:
        faults.kill_all(job)
    _, report = doctor(build, job)
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    if not errors:
        return [f"no error: {checks_of(report)}"]
    if "rank 1 (" not in errors[0]["why"]:
        return [f"the killed rank is not named: {errors[0]['why']}"]
    return ([] if errors[0]["what"].startswith("first error of the job: ") else [f"the worst is {errors[0]['what']}"]) + (
        [] if errors[0]["check"] in ("connection-closed", "railwise-connection") else [f"the first error is {errors[0]['check']}"])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    failed = 0
    for case in (a_good_job, a_silent_fallback, a_network_that_is_not_there, a_rank_that_is_killed):
        with tempfile.TemporaryDirectory(prefix="nccl-doctor-") as folder:
            complaints = case(nccl, build, pathlib.Path(folder) / "job")
        print(f"{'FAIL' if complaints else 'ok  '} {case.__name__}", *complaints, sep="\n     ", flush=True)
        failed += bool(complaints)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl doctor", main))
