"""One-sided communication of real NCCL while something fails in its middle: every byte and signal must be right, and all ranks must end.

one_sided_faults.py BUILD                                  every kind of fault, over host RMA, GIN and collectives without a CTA
one_sided_faults.py BUILD port_down kill --traffic rma     some
one_sided_faults.py BUILD --nccl-host DIR                  with another release of NCCL: what scripts/nccl-source --source printed
one_sided_faults.py BUILD --table net_ib                   over NCCL's own IB network, to compare

Two hosts (three for `kill`) with a GPU and two NICs each; a fault strikes the NIC of the first host that carries the reports of signals. After the death of a rank
the others wait for ever where NCCL shows them no error: then the log of each must say which rank has died. Exit status: 0 all right, 1 not, 77 skipped.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import faults  # noqa: E402
import judge  # noqa: E402
import scenarios  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import Unavailable, exit_status  # noqa: E402

LARGEST = 65536
STRUCK_WITHIN_S = 20  # traffic flows all the time
GOES_ON_S = 1.5  # after the fault
FLAP_S = 0.4
# A run that has not ended then hangs: the plugin gives a connection up after less.
HANG_S = 20
ENVIRONMENT = {"NCCL_IB_TIMEOUT": "12", "NCCL_IB_RETRY_CNT": "2", "RAILWISE_FAILOVER_TIMEOUT": "10"}


@dataclasses.dataclass(frozen=True)
class Table:
    name: str  # in NCCL's log
    report: str  # the work request that carries a signal
    environment: dict


TABLES = {"railwise": Table("Railwise", "send", {}), "net_ib": Table("RMA_IB_PROXY", "atomic", {"RAILWISE_RMA": "0"})}

# Changes of a port, or a rule; {report}: see Table.
KINDS = {
    "port_down": ("down",),
    "port_flap": ("down", "up"),
    "device_fatal": ("fatal",),
    "qp_fatal": "opcode={report} nth=5 qp_fatal",
    "write_error": "opcode=write nth=5 every=20 count=3 status=rem_access_err",
    "report_error": "opcode={report} nth=5 status=retry_exc_err",
    "black_hole": "drop",
    "stuck": "opcode={report} nth=5 stuck",
    "post_error": "verb=post_send nth=5 every=50 count=3 errno=EIO",
    "lost_packet": "opcode={report} every=5 count=20 drop=1",
    "kill": None,
}


def machine(hosts):
    text = "gpudirect=on"
    for host in range(hosts):
        text += f";host h{host};gpu pci=0000:00:02.0" + "".join(f";name=soft{nic},link=ib,pci=0000:00:{4 + nic:02x}.0" for nic in range(2))
    return text


class Fabric:
    """Faults of a job's devices."""

    def __init__(self, build, place):
        self._command = [str(build / "bin/railwise"), "device"]
        self._fabric = ["--fabric", place.fabric]

    def _run(self, *words):
        done = subprocess.run([*self._command, *words, *self._fabric], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"railwise device {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def add(self, rule):
        self._run("fault", "add", *rule.split())

    def port(self, place, change):
        self._run("port", place, change)

    def struck(self, since=0):
        """The entries of the log behind the first `since`."""
        return [json.loads(line) for line in self._run("fault", "log", "--format", "json").splitlines()][since:]


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def tell(job, word):
    pathlib.Path(f"{job.folder / 'id'}.{word}").touch()


def strike(job, fabric, kind, table):
    """Returns when the fault has struck."""
    if kind == "kill":
        os.killpg(job.processes[-1].pid, signal.SIGKILL)
        return
    # Which NIC carries the signals of the first host?
    fabric.add(f"host=h0 opcode={table.report} count=1 delay=1us")
    if not wait_until(fabric.struck, STRUCK_WITHIN_S):
        raise RuntimeError("no report of a signal is under way")
    first = fabric.struck()[0]
    before = len(fabric.struck())
    change = KINDS[kind]
    if isinstance(change, tuple):
        for each in change:
            fabric.port(f"h0/{first['device']}", each)
            time.sleep(FLAP_S if len(change) > 1 else 0)
    else:
        fabric.add(f"host=h0 device={first['device']} {change.format(report=table.report)}")
    if not wait_until(lambda: fabric.struck(before), STRUCK_WITHIN_S):
        raise RuntimeError("the fault has struck nothing")


def done(job, rank):
    return job.processes[rank].poll() is not None or any(line.startswith((faults.DONE, "WRONG")) for line in job.output(rank).splitlines())


def ends_of(job, ranks):
    """How each rank has ended, in words; a rank that has all its data waits for the others."""
    ends = []
    for rank in ranks:
        running = job.processes[rank].poll() is None
        end = faults.end_of(job, rank)
        if running:
            end["ended"] = faults.GAVE_UP if faults.GIVES_UP in job.log(rank) else "hangs"
        ends.append(end)
    return ends


def run(nccl, build, traffic, kind, table, folder):
    """(whether it is right, what came of it in words)"""
    hosts = 3 if kind == "kill" else 2
    place = SoftwareGpu(nccl, build, machine(hosts), hosts, 1)
    fabric = Fabric(build, place)
    job = Job(place, folder, hosts, judge.NAME, ["--checks", f"traffic_{traffic}", "--until-told", "--max", str(LARGEST)],
              {**ENVIRONMENT, **table.environment})
    ranks = range(hosts - 1 if kind == "kill" else hosts)
    try:
        if not wait_until(lambda: all(faults.BEGINS in job.output(rank) or job.processes[rank].poll() is not None for rank in range(hosts)), faults.START_S):
            raise RuntimeError("data do not flow")
        served = {judge.one_sided(job.log(rank)).get("RMA") for rank in range(hosts)}
        if served != {table.name}:
            raise RuntimeError(f"RMA is served by {served}, not by {table.name}")
        struck_at = time.monotonic()
        strike(job, fabric, kind, table)
        if kind == "kill":
            return after_death(job, ranks, table, struck_at)
        time.sleep(GOES_ON_S)
        tell(job, "over")
        wait_until(lambda: all(done(job, rank) for rank in ranks), HANG_S)
        if all(done(job, rank) for rank in ranks):
            tell(job, "quiet")
            wait_until(lambda: all(job.processes[rank].poll() is not None for rank in ranks), HANG_S)
        ends = ends_of(job, ranks)
        right = all(end["ended"] == "completed" for end in ends)
        return right, "right" if right else "; ".join(f"rank {rank} {words_of(end)}" for rank, end in zip(ranks, ends))
    finally:
        faults.kill_all(job)


def words_of(end):
    return end["ended"] + (f" ({end['reason'] or end['words']})" if end["ended"] not in ("completed", "hangs") else "")


def after_death(job, ranks, table, killed_at):
    """Each of the others ends with an error or gives up, and its log says who has died: the host and process, or the rank."""
    def has_said(rank):
        return job.processes[rank].poll() is not None or faults.GIVES_UP in job.log(rank)

    wait_until(lambda: all(has_said(rank) for rank in ranks), HANG_S)
    seconds = time.monotonic() - killed_at
    time.sleep(GOES_ON_S)  # a rank that gets an error from NCCL ends
    ends = ends_of(job, ranks)
    said = all(has_said(rank) for rank in ranks)
    dead = job.ranks - 1
    named = all(re.search(rf"\bh{dead}:\d+|\brank {dead}\b", " ".join(judge.warnings(job.log(rank)))) for rank in ranks)
    text = "; ".join(f"rank {rank} {words_of(end)}" for rank, end in zip(ranks, ends))
    return said and named, f"{'all say so' if said and named else 'not all say so'} after {seconds:.1f} s: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, metavar="BUILD")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--traffic", default=",".join(faults.ONE_SIDED), help="some of rma, gin, zero_cta")
    parser.add_argument("--table", choices=TABLES, default="railwise")
    parser.add_argument("--nccl-host", type=pathlib.Path, metavar="DIR")
    options = parser.parse_intermixed_args()
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        parser.error(f"no kind of fault: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    build = options.build.resolve()
    nccl = software_nccl.prepare(build, options.nccl_host) if options.nccl_host else software_nccl.prepared(build)
    since = scenarios.RMA_OURS_SINCE
    if release_code(nccl.release) < since:
        raise Unavailable(f"NCCL {nccl.release} takes no RMA table of Railwise's; 2.30.7 does (--nccl-host, docs/develop/nccl.md)")
    wrong = 0
    for kind in options.kinds or KINDS:
        for traffic in options.traffic.split(","):
            folder = pathlib.Path(tempfile.mkdtemp(prefix=f"nccl-{kind}-{traffic}-"))
            begun = time.monotonic()
            try:
                right, text = run(nccl, build, traffic, kind, TABLES[options.table], folder / "job")
            except RuntimeError as error:
                right, text = False, str(error)
            print(f"{'ok  ' if right else 'FAIL'} {kind} {traffic} {options.table} ({time.monotonic() - begun:.0f} s): {text}", flush=True)
            if right:
                shutil.rmtree(folder)
            else:
                wrong += 1
                print(f"     logs: {folder}", flush=True)
    return 1 if wrong else 0


def release_code(release):
    """2.30.7 as ncclGetVersion has it."""
    major, minor, patch = map(int, re.findall(r"\d+", release)[:3])
    return major * 10000 + minor * 100 + patch


if __name__ == "__main__":
    sys.exit(exit_status("nccl one-sided faults", main))
