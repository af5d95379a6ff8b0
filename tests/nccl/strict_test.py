"""RAILWISE_STRICT under NCCL itself, without NCCL_NET: where NCCL would go on over sockets, its init fails.

  strict_test.py BUILD
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import faults  # noqa: E402
import judge  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from unavailable import exit_status  # noqa: E402

RANKS = 2
NO_DEVICE = {"NCCL_IBVERBS_LIB": "libno-such-verbs.so.1"}  # neither for Railwise nor for NCCL's own IB network
FELL_BACK = "Using network Socket"


class UnnamedJob(Job):
    """NCCL_NET would forbid every other network already."""

    def environment(self, rank):
        return {key: value for key, value in super().environment(rank).items() if key != "NCCL_NET"}


def run(nccl, build, folder, device, more):
    fabric = f"nccl-strict-{os.getpid()}"
    hosts = [f"h{rank}" for rank in range(RANKS)]
    device = device and f"software:fabric={fabric}" + "".join(f";host {host};{device}" for host in hosts)
    machine = {"device": device, "hosts": hosts, "rails": [1] * RANKS, "fuse": False, "environment": {}}
    place = faults.Place(nccl, build, build / "lib/libnccl-net-railwise.so", machine, more)
    job = UnnamedJob(place, folder, RANKS, judge.NAME, ["--checks", "again", "--max", "4096"])
    complaints = job.wait()
    return job, complaints


def refused(job, complaints, reason):
    """What is wrong with a job that Railwise should have refused."""
    if not complaints:
        yield "the job went on"
    for rank in range(RANKS):
        log = job.log(rank)
        if FELL_BACK in log:
            yield f"rank {rank} took sockets"
    words = [job.last_words(rank) for rank in range(RANKS)]
    if not any("unhandled system error" in each for each in words):
        yield f"no rank has ended with ncclSystemError: {words}"
    if not any(reason in job.log(rank) for rank in range(RANKS)):
        yield f"no log says {reason!r}"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="nccl-strict-") as name:
        folder = pathlib.Path(name)
        job, complaints = run(nccl, build, folder / "free", "", NO_DEVICE)
        wrong += [f"without RAILWISE_STRICT: {each}" for each in complaints]
        if FELL_BACK not in job.log(0):
            wrong.append("without RAILWISE_STRICT and without a device NCCL did not take sockets")
        job, complaints = run(nccl, build, folder / "device", "", {**NO_DEVICE, "RAILWISE_STRICT": "1"})
        wrong += [f"no device: {each}" for each in refused(job, complaints, "no RDMA device can be used")]
        uneven = "name=soft0,speed=400000;name=soft1,speed=100000"
        job, complaints = run(nccl, build, folder / "speed", uneven, {"RAILWISE_STRICT": "speed"})
        wrong += [f"a slow port: {each}" for each in refused(job, complaints, "soft1 has a link of 100 Gb/s")]
        job, complaints = run(nccl, build, folder / "good", "name=soft0", {"RAILWISE_STRICT": "speed,version"})
        wrong += [f"a good machine: {each}" for each in complaints]
    if wrong:
        print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl strict", main))
