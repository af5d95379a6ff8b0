"""Ranks of the program nccl_check under faults: the machine and the schedule of a seed are those of `railwise-campaign perf alltoall --faults SEED`,
which makes the faults happen too (tests/campaign/run.h). Each rank is a host of its own and runs real NCCL on a software GPU. The ranks also make, split, shrink,
finalise and abort communicators meanwhile.

Good is right data, or, when some pair of ranks had no pair of devices left, ncclRemoteError with the reason in the log of the rank; ranks that already had all
their data may end well then. A rank that hangs, a wrong element, any other end, and a process or socket that is left behind are failures.

One-sided traffic (host RMA, GIN, or collectives without a CTA, by the seed): NCCL shows a program no error of host RMA, and the rank waits for ever. There it is
enough that its log says that it gave up, and why.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import judge
import software_gpu
from job import Job

RANKS = (2, 3, 2, 4)  # of a seed, by its remainder: the kernels of all ranks share this computer's cores
SPREAD_S = "1"  # faults strike within so long: a step of NCCL's on a software GPU takes milliseconds
LARGEST = (4096, 65536, 262144)
TIMESTAMPS = {"NCCL_DEBUG_TIMESTAMP_LEVELS": "ALL", "NCCL_DEBUG_TIMESTAMP_FORMAT": "[%T.%3f] "}
ONE_SIDED = ("rma", "gin", "zero_cta")  # what a seed has of one-sided traffic: checks of the program, traffic_NAME
GIVES_UP = "one-sided communication of rank"  # ... fails: in the log of the plugin, which begins no other line so
GAVE_UP = "gave up"
REMOTE_ERROR = "remote process exited or there was a network error"  # ncclGetErrorString(ncclRemoteError)
BEGINS = "info traffic begins"
DONE = "ok traffic"
# Deadlines. All are far beyond what a busy computer needs, and end a run that hangs.
START_S = 120  # until data flow
TRAFFIC_S = 120  # from there until the first rank ends
END_S = 30  # from there until all have ended
SILENT_S = 2  # from where all that have not ended have given up
GONE_S = 10  # from there until the kernel knows no socket of theirs
POLL_S = 0.005


class Place:
    """See job.py: every rank has a host of the machine for itself. `trees`: what railwise device sysfs wrote, for a machine with a PCI tree."""

    shares_hosts = False

    def __init__(self, nccl, build, plugin, machine, environment, trees=()):
        self.program = nccl.program
        self.plugin = plugin
        self._sysfs_preload = build / "lib/railwise-verbs/librailwise-sysfs.so"
        self._trees = trees
        self._library_path = nccl.library_path()
        self._machine = machine
        self._environment = environment

    def gpu(self, _rank):
        return 0

    def host(self, rank):
        return f"host{rank}"

    def host_name(self, rank):
        return self._machine["hosts"][rank]

    def command(self, _rank, words):
        return words

    def environment(self, rank):
        rails = self._machine["rails"][rank]
        more = {"NCCL_NET_FORCE_MERGE": ",".join(f"soft{rail}" for rail in range(rails))} if self._machine["fuse"] and rails > 1 else {}
        if self._trees:
            more.update(LD_PRELOAD=str(self._sysfs_preload), RAILWISE_SYSFS_ROOT=str(self._trees[rank]))
        old = os.environ.get("LD_LIBRARY_PATH")
        return {**software_gpu.NCCL, **TIMESTAMPS, **self._machine["environment"], **self._environment, **more,
                "RAILWISE_DEVICE": self._machine["device"], "RAILWISE_HOST": self.host_name(rank), "LD_LIBRARY_PATH": self._library_path + (f":{old}" if old else "")}


def write_trees(railwise, machine, folder):
    """The /sys of each host, where NCCL fuses rails: it fuses none that have no place in one."""
    trees = []
    for host in machine["hosts"] if machine["fuse"] else ():
        trees.append(folder / f"sys-{host}")
        subprocess.run([str(railwise), "device", "sysfs", "--machine", machine["device"].removeprefix("software:"), "--host", host,
                        str(trees[-1])], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return trees


class Conductor:
    """The process that makes the faults of a seed happen on a fabric."""

    def __init__(self, program, seed, ranks, fabric, transport, one_sided):
        words = ["--transport", transport] + (["--one-sided"] if one_sided else [])
        self._process = subprocess.Popen([str(program), "perf", "alltoall", "--faults", str(seed), "--ranks", str(ranks), "-D", SPREAD_S,
                                          *words, "--conduct", fabric], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"railwise-campaign --conduct ended with status {self._process.wait()}")
        self.machine = json.loads(line)
        os.set_blocking(self._process.stdout.fileno(), False)
        self._unread = b""
        self._said = {}

    def tell(self, word):
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()

    def has_said(self, word):
        self._read()
        return word in self._said

    def report(self):
        """Its last words; {}: it has failed."""
        self._process.stdin.close()
        os.set_blocking(self._process.stdout.fileno(), True)
        try:
            status = self._process.wait(timeout=GONE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return {}
        self._read()
        return self._said if status == 0 else {}

    def end(self):
        self._process.kill()
        self._process.wait()

    def _read(self):
        self._unread += self._process.stdout.read() or b""
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._said.update(json.loads(line))


class Run:
    """The ranks of one seed, from their start to their end."""

    def __init__(self, job, conductor):
        self._job = job
        self._conductor = conductor
        self._first_end = None  # when the first rank has failed or is done
        self.ended = {}  # rank: seconds from there until its process has ended
        self.gave_up = GaveUp(job)

    def watch(self):
        """Follows the job until all ranks have ended; those that hang are killed, and are not in `ended`."""
        deadline = time.monotonic() + START_S
        flows = over = quiet = False
        silent_since = None
        while len(self.ended) < self._job.ranks and time.monotonic() < deadline:
            time.sleep(POLL_S)
            self._reap()
            self.gave_up.look()
            if self.ended.keys() | self.gave_up.ranks == set(range(self._job.ranks)):
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > SILENT_S:
                    return
            if self._first_end is None and self._any_ends():
                self._first_end = time.monotonic()
                deadline = self._first_end + END_S
                self._conductor.tell("end")
            if self._first_end is not None:
                if not quiet and self._conductor.has_said("quiet"):
                    self._tell_ranks("quiet")
                    quiet = True
            elif not flows:
                if all(BEGINS in self._job.output(rank) for rank in range(self._job.ranks)):
                    self._conductor.tell("traffic")
                    flows = True
                    deadline = time.monotonic() + TRAFFIC_S
            elif not over and self._conductor.has_said("over"):
                self._tell_ranks("over")
                over = True

    def _any_ends(self):
        return bool(self.ended or self.gave_up.ranks) or any(line.startswith((DONE, "WRONG")) for rank in range(self._job.ranks)
                                       for line in self._job.output(rank).splitlines())

    def _reap(self):
        for rank, process in enumerate(self._job.processes):
            if rank not in self.ended and process.poll() is not None:
                self.ended[rank] = round(time.monotonic() - (self._first_end or time.monotonic()), 3)

    def _tell_ranks(self, word):
        pathlib.Path(f"{self._job.folder / 'id'}.{word}").touch()


class GaveUp:
    """The ranks whose logs say that they have given up one-sided communication."""

    EVERY_S = 0.1

    def __init__(self, job):
        self._job = job
        self._next = 0.0
        self.ranks = set()

    def look(self):
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.EVERY_S
        self.ranks.update(rank for rank in range(self._job.ranks) if GIVES_UP in self._job.log(rank))


def end_of(job, rank):
    """How a rank has ended, as a line of the tally has it."""
    status = job.processes[rank].returncode
    words = job.last_words(rank)
    reasons = [warning for warning in judge.warnings(job.log(rank)) if warning.startswith("NET/Railwise") and not warning.endswith("see above")]
    reason = (reasons or [""])[-1]
    done = any(line.startswith(DONE) for line in job.output(rank).splitlines())
    if status == 0 and done:
        ended = "completed"
    elif status == 1 and words.startswith("WRONG traffic:"):
        ended = "wrong data"
    elif status == 1 and REMOTE_ERROR in words and (done or (words.startswith("WRONG ncclComm") and not reason)):
        ended = "ended with the job"  # its data were all there, and another rank's were not; or NCCL's own connections ended with that rank
    elif status == 1 and REMOTE_ERROR in words:
        ended = "ncclRemoteError" if reason else "ncclRemoteError without a reason"
    elif status is not None and status < 0:
        ended = f"signal {-status}"
    else:
        ended = f"status {status}"
    return {"ended": ended, "words": words, "reason": reason}


def outcome_of(ends, hang, unreachable, left_behind):
    """As judgeRun() in tests/campaign/outcome.cc has it."""
    how = [end["ended"] for end in ends]
    if "wrong data" in how:
        return "wrong"
    if hang or left_behind:
        return "failed"
    if all(each == "completed" for each in how):
        return "completed"
    # Two ranks cannot agree at the last message: a rank that had all its data may end well.
    said = ("ncclRemoteError", GAVE_UP)
    if unreachable and any(each in said for each in how) and all(each in (*said, "ended with the job", "completed") for each in how):
        return "unreachable"
    return "failed"


def kill_all(job):
    """Ends what is left of the job's sessions; the processes that were there besides the ranks."""
    left = []
    for process in job.processes:
        if process.poll() is None:
            process.kill()
            process.wait()
        try:
            os.killpg(process.pid, signal.SIGKILL)
            left.append(process.pid)
        except ProcessLookupError:
            pass
    return left


def sockets_of(fabric, seconds=GONE_S):
    """Whether the kernel still has sockets of the fabric, after a while."""
    deadline = time.monotonic() + seconds
    while f"/{fabric}/" in pathlib.Path("/proc/net/unix").read_text():
        if time.monotonic() > deadline:
            return True
        time.sleep(POLL_S)
    return False


def run(nccl, build, plugin, seed, environment, transport="any", one_sided=False):
    """One seed as a line of the tally."""
    begin = time.monotonic()
    ranks = RANKS[seed % len(RANKS)]
    fabric = f"nccl-faults{seed}-{os.getpid()}"
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"nccl-faults{seed}-"))
    check = f"traffic_{ONE_SIDED[seed // len(LARGEST) % len(ONE_SIDED)]}" if one_sided else "traffic"
    conductor = Conductor(build / "bin/railwise-campaign", seed, ranks, fabric, transport, one_sided)
    try:
        machine = conductor.machine
        trees = write_trees(build / "bin/railwise", machine, folder)
        job = Job(Place(nccl, build, plugin, machine, environment, trees), folder / "job", ranks, judge.NAME,
                  ["--checks", check, "--until-told", "--churn", "--max", str(LARGEST[seed % len(LARGEST)])])
        watched = Run(job, conductor)
        try:
            watched.watch()
        finally:
            hang = [rank for rank in range(ranks) if rank not in watched.ended]
            processes = kill_all(job)
        report = conductor.report()
    finally:
        conductor.end()
    left_behind = bool(processes) or report.get("left_behind", True) or sockets_of(fabric)
    ends = [end_of(job, rank) for rank in range(ranks)]
    for rank in hang:
        ends[rank]["ended"] = GAVE_UP if rank in watched.gave_up.ranks and ends[rank]["reason"] else "did not end"
    hang = [rank for rank in hang if ends[rank]["ended"] != GAVE_UP]
    line = {"seed": seed, "check": check, "outcome": outcome_of(ends, hang, report.get("unreachable", False), left_behind), "ranks": ranks,
            "seconds": round(time.monotonic() - begin, 3), "slowest_end": max(watched.ended.values(), default=0), "left_behind": left_behind}
    line.update({key: report[key] for key in ("faults_fired", "steps", "steps_done", "pairs_left", "pairs_left_min", "ms_since_nothing_left")
                 if key in report})
    if line["outcome"] in ("completed", "unreachable"):
        shutil.rmtree(folder, ignore_errors=True)
        if line["outcome"] == "unreachable":
            line["reasons"] = [end["reason"] for end in ends]
        return line
    line.update(schedule=machine["schedule"], rank_ends=ends, logs=str(folder))
    return line
