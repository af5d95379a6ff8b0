"""Faults on one of two rails under `railwise perf`: the job goes on over the other, and every byte that arrives is right.

  tests/lab/run --devices 4 -- python3 suites/failover.py

Runs in a guest: rank 0 on rxe0 and rxe1, rank 1 on rxe2 and rxe3, all on one switch, handshakes and side channels over loopback. One boot, with
the network restored between the scenarios. Most of what perf sends here is verified (-c). Exit code 1 when a job does not end with
0 and no wrong element, when rows do not go on after the fault, when a rank's log does not say that its connection went to the other rail (or
back), when the fault was not in force, or when something stays in the kernel.
"""

import argparse
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import Bench
from faults_made import AddressChanged, BlackHole, Fault, LinkDown, Netem, NotInForce, Removed
from job import Job, Rank, Result
from network import CommandFailed

RAILS = 2
ADDRESS = "127.0.0.1"
SIZES = ["-b", "16K", "-e", "16K", "-w", "0", "-n", "1", "-c", "3"]
# RC: 34 ms * 7 tries, so that the transport finds a loss soon.
ENVIRONMENT = {"NCCL_SOCKET_IFNAME": "=lo", "NCCL_IB_TIMEOUT": "13", "NCCL_IB_RETRY_CNT": "6"}
# What perf says when a connection has its new queue pairs: from which port to which.
GOES_ON = re.compile(r"connection to .* goes on over (.*) \(epoch \d+\)")
SLOWER = 4
LIMIT = 60.0  # seconds until the job must have done the next thing: a hang else


class Failed(Exception):
    """The job did not survive, or not in the way that it should; the text says how."""


class TooShort(Failed):
    """It ended, perhaps well, before there was what was waited for."""


@dataclass(frozen=True)
class Scenario:
    name: str
    text: str
    fault: Callable[[], Fault]
    leaves: bool = True  # each connection must go on over ways without rank 0's device
    returns: bool = False  # and, with the fault taken back, over it again
    seconds: int = 4  # of traffic; where this machine is too slow for so little, it is tried with far more
    channels: int = 1
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    extra: bool = False  # nearly the same as another, and not in CI


FUSED = ["--fuse"]
SCENARIOS = [
    Scenario("link-down-up", "a rail's interface goes down, and up again", lambda: LinkDown(own=True), returns=True, seconds=6),
    Scenario("link-down-fused", "the same with both rails fused", lambda: LinkDown(own=True), arguments=FUSED, returns=True, seconds=6, extra=True),
    Scenario("cable-out", "a rail has no carrier any more; two channels, each on its device", lambda: LinkDown(own=False), channels=2, extra=True),
    Scenario("address", "a rail's addresses are replaced by others", AddressChanged, leaves=False),
    Scenario("device-removed", "`rdma link del`, which rxe does not tell processes of", lambda: Removed(netdev=False), leaves=False),
    Scenario("netdev-removed", "the network device is deleted, and the RDMA device with it", lambda: Removed(netdev=True)),
    Scenario("black-hole", "RDMA packets from and to rank 0 vanish on its rail", lambda: BlackHole("from", "to"), seconds=6),
    Scenario("black-hole-in", "RDMA packets to rank 0 vanish on its rail", lambda: BlackHole("to"), seconds=6, extra=True),
    Scenario("black-hole-7", "the same with NCCL's number of retries, which rxe takes for endless", lambda: BlackHole("from", "to"), seconds=6,
             environment={"NCCL_IB_RETRY_CNT": "7"}, extra=True),
    Scenario("black-hole-fused", "the same with both rails fused", lambda: BlackHole("from", "to"), seconds=6, arguments=FUSED, extra=True),
    Scenario("loss", "3 % of the packets are lost on the rail", lambda: Netem("loss 3%", "drops"), leaves=False),
]


def rows(job: Job) -> int:
    return job.text().count(" float ")


def ways(job: Job, rank: int) -> list[str]:
    """Over which ways the connections of a rank have gone on so far, in order."""
    return GOES_ON.findall(job.text(rank))


def wait(job: Job, what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not done():
        if not job.running():
            raise TooShort(f"the job ended before {what}")
        if time.monotonic() > deadline:
            raise Failed(f"no {what} within {LIMIT:.0f} s")
        time.sleep(0.05)


def uses(job: Job, rdma: str) -> list[bool]:
    """Of each rank that has gone on: does what it went to last lead over this device?"""
    last = [said[-1] for said in (ways(job, 0), ways(job, 1)) if said]
    return [bool(re.search(rf"\b{rdma} port", way)) for way in last]


def disturb(bench: Bench, scenario: Scenario, fault: Fault, job: Job) -> str:
    """Makes the fault under traffic and sees what the job does. The evidence that it was in force."""
    wait(job, "row", lambda: rows(job) >= 2)
    bench.take(*(re.search(rf"Rank +{rank} .* device (\w+)", job.text())[1] for rank in (0, 1)))
    rdma = bench.a.port.rdma
    begin = time.monotonic()
    fault.begin(bench, None)
    if scenario.leaves:
        wait(job, f"going on without {rdma} in both ranks", lambda: uses(job, rdma) == [False, False])
    took = f"over after {time.monotonic() - begin:.1f} s, " if scenario.leaves else ""
    before = rows(job)
    wait(job, "row after the fault", lambda: rows(job) > before)
    proof = fault.prove(bench)
    if scenario.returns:
        fault.end(bench)
        begin = time.monotonic()
        wait(job, f"going back to {rdma} in both ranks", lambda: uses(job, rdma) == [True, True])
        took += f"back after {time.monotonic() - begin:.1f} s, "
    return took + proof


def judge(result: Result) -> None:
    if None in result.codes:
        raise Failed("hung")
    if result.codes != [0, 0]:
        raise Failed(f"the ranks ended with {result.codes}")
    if result.wrong() != 0:
        raise Failed(f"{result.wrong()} wrong elements")


def run(bench: Bench, scenario: Scenario, seconds: int, verbose: bool) -> str:
    """The summary of a scenario that ended well. Raises what went wrong."""
    fault = scenario.fault()
    devices = [[side.port.rdma for side in bench.sides if side.name.startswith(host)] for host in "ab"]
    arguments = [*SIZES, "--duration", str(seconds), "--channels", str(scenario.channels), "-T", "50", *scenario.arguments]
    job = Job("sendrecv", arguments, [Rank("", names, {**ENVIRONMENT, **scenario.environment}) for names in devices], ADDRESS)
    try:
        text = disturb(bench, scenario, fault, job)
        result = job.finish(LIMIT)
        fault.ends_after_processes(bench)
        judge(result)
    except TooShort:
        judge(job.finish(0))
        if seconds == scenario.seconds:
            fault.ends_after_processes(bench)
            bench.restore()
            return run(bench, scenario, SLOWER * seconds, verbose)
        print(job.text(0), job.text(1), flush=True)
        raise
    except (Failed, NotInForce):
        print(job.finish(0).output, flush=True)
        raise
    gone = [ways(job, rank) for rank in (0, 1)]
    if verbose:
        print(result.output, flush=True)
    bench.restore()
    if left := bench.left_behind():
        raise Failed(left)
    return f"{text}; {len(gone[0])} and {len(gone[1])} times on over others, {result.rows()} rows in {result.seconds:.1f} s"


def choose(names: list[str], short: bool) -> list[Scenario]:
    known = {scenario.name: scenario for scenario in SCENARIOS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"failover: no such scenario: {' '.join(unknown)} (--list names them)")
    return [known[name] for name in names] if names else [one for one in SCENARIOS if not (short and one.extra)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="failover.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("--verbose", action="store_true", help="show what the ranks say")
    parser.add_argument("--short", action="store_true", help="leave out what is nearly the same as another")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to run (default: all)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{scenario.name:16} {scenario.text}" for scenario in SCENARIOS))
        return 0
    bench = Bench("rxe", RAILS)
    bad = 0
    for scenario in choose(options.names, options.short):
        begin = time.monotonic()
        try:
            word, text = "ok  ", run(bench, scenario, scenario.seconds, options.verbose)
        except (Failed, NotInForce, CommandFailed) as error:
            word, text, bad = "FAIL", f"{type(error).__name__}: {error}", bad + 1
            try:
                bench.restore()
            except CommandFailed as worse:
                print(f"FAIL the network cannot be restored: {worse}", flush=True)
                return 1
        print(f"{word} {scenario.name:16} {time.monotonic() - begin:5.1f} s  {text}", flush=True)
    print(f"{bad} scenarios failed" if bad else "all scenarios went on")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        sys.exit(1)
