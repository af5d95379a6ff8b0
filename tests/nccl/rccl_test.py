"""What real RCCL does with Railwise beyond the scenarios (scenarios.py, rccl_*): loads it unasked, says nothing of a healthy job at NCCL_DEBUG=WARN, goes on
when a port fails, and tells why a peer has died.

rccl_test.py BUILD [NAME...]   NAME: unasked, silent, port_down, kill
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import faults  # noqa: E402
import judge  # noqa: E402
import kill_test  # noqa: E402
import one_sided_faults  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import exit_status  # noqa: E402

WORDS = ["--checks", "collectives", "--max", "65536"]
# What RCCL loads where NCCL_NET_PLUGIN is not set; releases up to 2.21.5 load librccl-net.so.
UNASKED = "libnccl-net.so"


def job_of(nccl, build, folder, environment):
    place = SoftwareGpu(nccl, build, "@dgx", 2, 1)
    return Job(place, folder / "job", 2, judge.NAME, WORDS, environment(place))


def unasked(nccl, build, folder):
    names = folder / "names"
    names.mkdir()
    (names / UNASKED).symlink_to(build / "lib/libnccl-net-railwise.so")
    job = job_of(nccl, build, folder, lambda place: {"NCCL_NET": None, "NCCL_NET_PLUGIN": None,
                                                     "LD_LIBRARY_PATH": f"{names}:{place.environment(0)['LD_LIBRARY_PATH']}"})
    complaints = job.wait()
    return complaints or [f"rank {rank}: {what}" for rank in range(2) for what in judge.loaded(job.log(rank), job.versions()["nccl"])]


def silent(nccl, build, folder):
    job = job_of(nccl, build, folder, lambda _: {"NCCL_DEBUG": "WARN"})
    complaints = job.wait()
    for rank in range(2):
        said = [line for line in job.log(rank).splitlines() if "Railwise" in line or judge.WARNING.search(line)]
        complaints += [f"rank {rank} says {len(said)} lines: {line}" for line in said[:1]]
    return complaints


def port_down(nccl, build, folder):
    """The port that carries the writes of a host goes down in their middle, and the data go on by the other."""
    place = SoftwareGpu(nccl, build, one_sided_faults.machine(2), 2, 1)
    job = Job(place, folder / "job", 2, judge.NAME, ["--checks", "traffic", "--until-told", "--max", "65536"], one_sided_faults.ENVIRONMENT)
    wait = one_sided_faults.wait_until
    try:
        if not wait(lambda: all(faults.BEGINS in job.output(rank) for rank in range(2)), faults.START_S):
            return [f"data do not flow: rank {rank}: {job.last_words(rank)}" for rank in range(2)]
        one_sided_faults.strike(job, one_sided_faults.Fabric(build, place), "port_down", one_sided_faults.Table("Railwise", "write", {}))
        one_sided_faults.wait_until(lambda: False, one_sided_faults.GOES_ON_S)
        for word in ("over", "quiet"):
            one_sided_faults.tell(job, word)
            wait(lambda: all(one_sided_faults.done(job, rank) for rank in range(2)), one_sided_faults.HANG_S)
        wait(lambda: all(process.poll() is not None for process in job.processes), one_sided_faults.HANG_S)
        return [f"rank {rank} {one_sided_faults.words_of(end)}" for rank, end in enumerate(one_sided_faults.ends_of(job, range(2)))
                if end["ended"] != "completed"]
    finally:
        faults.kill_all(job)


def kill(nccl, build, folder):
    """What a program reads from ncclGetLastError is the reason that the log has."""
    late, complaints = kill_test.kill_one(nccl, build, folder, victim=1)
    print(f"     the others ended after {late:.2f} s")
    for rank in (0, 2):
        words = (folder / f"rank1/rank{rank}.out").read_text().strip().splitlines()[-1]
        if not re.search(r"closed the connection or died", words):
            complaints.append(f"rank {rank}: ncclGetLastError: {words}")
    return complaints


TESTS = {"unasked": unasked, "silent": silent, "port_down": port_down, "kill": kill}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build, "rccl")
    failed = False
    for name in sys.argv[2:] or TESTS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"rccl-{name}-{os.getpid()}-"))
        complaints = TESTS[name](nccl, build, folder)
        print(f"{'FAIL' if complaints else 'ok  '} {name}", *(f"     {complaint}" for complaint in complaints), sep="\n", flush=True)
        if complaints:
            failed = True
            print(f"     logs: {folder}")
        else:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(exit_status("rccl", main))
