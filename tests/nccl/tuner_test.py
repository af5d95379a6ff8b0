"""The tuner under real NCCL on software GPUs: NCCL finds it only with RAILWISE_TUNER_CONFIG, its overrides are what NCCL takes, the results are right,
and a file with a mistake fails NCCL's init with a line that says where it is.
Usage: tuner_test.py BUILD
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import judge  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import exit_status  # noqa: E402

RANKS = 2
WORDS = ["--checks", "collectives,several,again", "--max", "65536"]
# NCCL's own line for each collective, and what it says of a tuner that it finds.
TAKEN = re.compile(r"(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce): (\d+) Bytes -> Algo (\S+) proto (\S+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
FOUND = re.compile(r"TUNER/Plugin: Using Railwise \(v(\d+)\)")
# NCCL's own choice for these sizes is LL. A group of several collectives is one question about all their bytes, so the test has no bound between sizes.
OVERRIDES = """# for the test
allreduce,0,1048576,ring,simple,-1,-1,16
allreduce,0,1048576,tree,simple,1,2,2
allgather,0,1048576,pat,simple,-1,3,-1
allgather,0,1048576,ring,simple,-1,-1,-1
broadcast,0,1048576,tree,ll,-1,-1,-1
"""


def run(nccl, build, folder, extra):
    job = Job(SoftwareGpu(nccl, build, "@dgx;gpudirect=on", RANKS, 1), folder, RANKS, judge.NAME, WORDS,
              {"NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING", **extra})
    return job, job.wait()


def choices(log):
    """(collective, bytes, algorithm, protocol, channels) of everything that NCCL took."""
    return {(name, int(size), algorithm, protocol, int(high) - int(low) + 1) for name, size, algorithm, protocol, low, high in TAKEN.findall(log)}


def without(nccl, build, folder):
    job, complaints = run(nccl, build, folder, {})
    for rank in range(RANKS):
        complaints += [f"rank {rank}: the log speaks of a tuner that is off: {line}" for line in job.log(rank).splitlines()
                       if re.search("TUNER/|tuner plugin|NET/Railwise : tuner", line) and "Could not find: libnccl-tuner.so" not in line]
    if not choices(job.log(0)):
        complaints.append("no line says what NCCL took: is TAKEN still the form of the line?")
    return job, complaints


def with_overrides(nccl, build, folder, plain):
    folder.mkdir()
    overrides = folder / "overrides.csv"
    overrides.write_text(OVERRIDES)
    job, complaints = run(nccl, build, folder / "job", {"RAILWISE_TUNER_CONFIG": str(overrides)})
    for rank in range(RANKS):
        log = job.log(rank)
        if not FOUND.search(log):
            complaints.append(f"rank {rank}: NCCL has found no tuner")
        for name, size, algorithm, protocol, channels in choices(log):
            wanted = {"AllReduce": ("TREE", "SIMPLE"), "AllGather": ("RING", "SIMPLE")}.get(name)
            if wanted and (algorithm, protocol) != wanted:
                complaints.append(f"rank {rank}: {name} of {size} bytes took {algorithm}/{protocol}, not {wanted}")
            if name == "AllReduce" and channels != 1:
                complaints.append(f"rank {rank}: {name} of {size} bytes took {channels} channels, not 1")
            if wanted is None and (name, size, algorithm, protocol, channels) not in choices(plain.log(rank)):
                complaints.append(f"rank {rank}: {name} of {size} bytes changed to {algorithm}/{protocol} on {channels} channels")
        said = re.findall(r"NET/Railwise : tuner: (.*)", log)
        for what in (r"3 of the 5 overrides in \S+ fit this communicator \(2 ranks, 2 nodes\): line 3, 5, 6$",
                     r"allreduce of \d+ bytes takes tree/simple on 1 channel \(\S+:3\); NCCL would take \S+, [\d.]+ us by its estimate$",
                     r"\S+:6 does not apply to broadcast of \d+ bytes: NCCL has no tree/ll for this collective$"):
            if not any(re.match(what, each) for each in said):
                complaints.append(f"rank {rank}: the log does not say {what!r}; it says: {said[:8]}")
    if choices(job.log(0)) == choices(plain.log(0)):
        complaints.append("nothing has changed")
    return complaints


def with_a_mistake(nccl, build, folder):
    folder.mkdir()
    overrides = folder / "overrides.csv"
    overrides.write_text("allreduce,0,4096,treee,simple,1,-1,-1\n")
    job, complaints = run(nccl, build, folder / "job", {"RAILWISE_TUNER_CONFIG": str(overrides)})
    wrong = [] if complaints else ["the job went on"]
    if not any(f"NCCL WARN NET/Railwise : RAILWISE_TUNER_CONFIG: {overrides}:1:18: 'treee' is no algorithm" in job.log(rank) for rank in range(RANKS)):
        wrong.append("no log has the line and the column of the mistake")
    words = [job.last_words(rank) for rank in range(RANKS)]
    if not any("invalid usage" in each for each in words):
        wrong.append(f"no rank has ended with ncclInvalidUsage: {words}")
    return wrong


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    with tempfile.TemporaryDirectory(prefix="nccl-tuner-") as name:
        folder = pathlib.Path(name)
        plain, complaints = without(nccl, build, folder / "without")
        complaints += with_overrides(nccl, build, folder / "with", plain)
        complaints += [f"a mistake in the file: {each}" for each in with_a_mistake(nccl, build, folder / "mistake")]
    print("FAIL" if complaints else "ok", *complaints, sep="\n     ", flush=True)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl tuner", main))
