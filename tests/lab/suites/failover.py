"""Faults on one of two rails under `railwise perf`: the job goes on over the other, and every byte that arrives is right.

  tests/lab/run --devices 4 -- python3 suites/failover.py
  tests/lab/run --devices 0 --iwarp 3 -- python3 suites/failover.py --kind siw

Runs in a guest. rxe: rank 0 on rxe0 and rxe1, rank 1 on rxe2 and rxe3, all on one switch; handshakes and side channels over loopback. siw: each
rank in a namespace with two devices, handshakes and side channels over a third wire. One boot, with the network restored between the scenarios. Most of what perf sends here is verified (-c). Exit code 1 when a job does not end with
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
import network
from network import CommandFailed

RAILS = 2
SIZES = ["-b", "16K", "-e", "16K", "-w", "0", "-n", "1", "-c", "3"]
# RC: 34 ms * 7 tries, so that the transport finds a loss soon.
ENVIRONMENT = {"NCCL_IB_TIMEOUT": "13", "NCCL_IB_RETRY_CNT": "6"}
# What perf says when a connection has its new queue pairs: from which port to which.
GOES_ON = re.compile(r"connection to .* goes on over (.*) \(epoch \d+\)")
SLOWER = 3
LIMIT = 60.0  # seconds until the job must have done the next thing: a hang else


class Failed(Exception):
    """The job did not survive, or not in the way that it should; the text says how."""


class TooShort(Failed):
    """It ended, perhaps well, before there was what was waited for."""


@dataclass(frozen=True)
class Stage:
    """A fault on the rail that the connections are on, and what must come of it."""

    text: str
    fault: Callable[[], Fault]
    leaves: bool = True  # each connection must go on over ways without rank 0's device
    returns: bool = False  # and, with the fault taken back, over it again


@dataclass(frozen=True)
class Scenario:
    """One job and what it must survive, one after the other."""

    name: str
    stages: tuple[Stage, ...]
    seconds: int  # of traffic; where this machine is too slow for so little, it is tried with far more
    channels: int = 1
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    extra: bool = False  # nearly the same as another, and not in CI
    kinds: tuple[str, ...] = ("rxe",)


LINK = Stage("a rail's interface goes down, and up again", lambda: LinkDown(own=True), returns=True)
CABLE = Stage("a rail has no carrier any more", lambda: LinkDown(own=False))
ADDRESSES = Stage("its addresses are replaced by others", AddressChanged, leaves=False)
DEVICE = Stage("`rdma link del`, which rxe tells no process of", lambda: Removed(netdev=False), leaves=False)
NETDEV = Stage("the network device is deleted, and the RDMA device with it", lambda: Removed(netdev=True))
LOSS = Stage("3 % of the packets of a rail are lost", lambda: Netem("loss 3%", "drops"), leaves=False)
HOLE = Stage("all RDMA packets of a rail vanish", lambda: BlackHole("from", "to"))
HOLE_IN = Stage("all RDMA packets to rank 0 vanish on its rail", lambda: BlackHole("to"))

PLACELESS = {"RAILWISE_FUSE_PLACELESS": "1"}  # rxe on veths has no place in the PCI tree

CM = {"RAILWISE_CONNECT": "cm"}
BOTH = ("rxe", "siw")

SCENARIOS = [
    Scenario("link", (LINK, ADDRESSES), 8),
    Scenario("link-siw", (LINK,), 8, kinds=("siw",)),
    Scenario("wire", (LOSS, HOLE), 5),
    Scenario("wire-siw", (HOLE,), 5, kinds=("siw",), extra=True),
    Scenario("wire-cm", (HOLE,), 5, environment=CM),
    Scenario("device", (DEVICE,), 2),
    Scenario("netdev", (NETDEV,), 3),
    Scenario("cable-two-channels", (CABLE,), 4, channels=2, extra=True),
    Scenario("link-fused", (LINK,), 6, arguments=("--fuse",), environment=PLACELESS, extra=True, kinds=BOTH),
    Scenario("black-hole-fused", (HOLE,), 6, arguments=("--fuse",), environment=PLACELESS, extra=True, kinds=BOTH),
    Scenario("black-hole-in", (HOLE_IN,), 6, extra=True, kinds=BOTH),
    # NCCL's number of retries, which rxe takes for endless.
    Scenario("black-hole-7", (HOLE,), 6, environment={"NCCL_IB_RETRY_CNT": "7"}, extra=True),
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


def now(job: Job) -> list[str]:
    """The way that each rank's connections have gone on over last, or else began with."""
    began = " ".join(re.search(rf"Rank +{rank} .* device (\S+)", job.text())[1].replace("+", " ") for rank in (0, 1))
    return [(ways(job, rank) or [began])[-1] for rank in (0, 1)]


def uses(job: Job, rdma: str) -> list[bool]:
    """Is the rank's last way one over this device?"""
    return [bool(re.search(rf"\b{rdma}\b", way)) for way in now(job)]


def strike(bench: Bench, stage: Stage, fault: Fault, job: Job) -> str:
    """Makes the fault under traffic and sees what the job does. The evidence that it was in force."""
    wait(job, "rows", lambda: rows(job) >= 2)
    used = [side.port.rdma for side in bench.sides if re.search(rf"\b{side.port.rdma}\b", now(job)[0])]
    bench.take(*(next(side.port.rdma for side in bench.sides if side.port.rdma in used and side.name.startswith(host)) for host in "ab"))
    rdma = bench.a.port.rdma
    before = rows(job)
    begin = time.monotonic()
    fault.begin(bench, None)
    if not job.running():
        raise TooShort("the job ended before the fault was made")
    if stage.leaves:
        wait(job, f"going on without {rdma} in both ranks", lambda: uses(job, rdma) == [False, False])
    took = f"over after {time.monotonic() - begin:.1f} s, " if stage.leaves else ""
    wait(job, "rows after the fault", lambda: rows(job) > before + 1)  # one may have been nearly ready
    proof = fault.prove(bench)
    if stage.returns:
        fault.end(bench)
        begin = time.monotonic()
        wait(job, f"going back to {rdma} in both ranks", lambda: uses(job, rdma) == [True, True])
        took += f"back after {time.monotonic() - begin:.1f} s, "
    return took + proof


def disturb(bench: Bench, scenario: Scenario, faults: list[Fault], job: Job) -> str:
    """One fault after the other; the evidence of all."""
    texts = []
    for stage, fault in zip(scenario.stages, faults):
        texts.append(strike(bench, stage, fault, job))
        if fault is not faults[-1] and not stage.returns:
            fault.end(bench)
    return "; ".join(texts)


def judge(result: Result) -> None:
    if None in result.codes:
        raise Failed("hung")
    if result.codes != [0, 0]:
        raise Failed(f"the ranks ended with {result.codes}")
    if result.wrong() != 0:
        raise Failed(f"{result.wrong()} wrong elements")


def run(bench: Bench, scenario: Scenario, seconds: int, verbose: bool) -> str:
    """The summary of a scenario that ended well. Raises what went wrong."""
    faults = [stage.fault() for stage in scenario.stages]
    devices = [[side.port.rdma for side in bench.sides if side.name.startswith(host)] for host in "ab"]
    arguments = [*SIZES, "--duration", str(seconds), "--rows", "--channels", str(scenario.channels), "-T", "50", *scenario.arguments]
    ranks = [Rank(side.port.host, names, {**ENVIRONMENT, "NCCL_SOCKET_IFNAME": "=" + side.handshakes, **scenario.environment})
             for names, side in zip(devices, (bench.sides[0], bench.sides[RAILS]))]
    job = Job("sendrecv", arguments, ranks, address_of(bench))
    try:
        text = disturb(bench, scenario, faults, job)
        result = job.finish(LIMIT)
        faults[-1].ends_after_processes(bench)
        judge(result)
    except (Failed, NotInForce) as error:
        result = job.finish(0)
        if isinstance(error, TooShort) and seconds == scenario.seconds and result.codes == [0, 0]:
            bench.restore()
            return run(bench, scenario, SLOWER * seconds, verbose)
        print(result.output, flush=True)
        raise
    gone = [ways(job, rank) for rank in (0, 1)]
    if verbose:
        print(result.output, flush=True)
    bench.restore()
    if left := bench.left_behind():
        raise Failed(left)
    return f"{text}; {len(gone[0])} and {len(gone[1])} times on over others, {result.rows()} rows in {result.seconds:.1f} s"


def address_of(bench: Bench) -> str:
    """Where rank 0 listens."""
    handshakes = bench.sides[0].handshakes
    return next((port.ipv4 for port in network.ports() if port.netdev == handshakes), "127.0.0.1")


def choose(names: list[str], kind: str, short: bool) -> list[Scenario]:
    known = {scenario.name: scenario for scenario in SCENARIOS if kind in scenario.kinds}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"failover: no such scenario for {kind}: {' '.join(unknown)} (--list names them)")
    return [known[name] for name in names] if names else [one for one in known.values() if not (short and one.extra)]


def suite(names: list[str], kind: str, short: bool, verbose: bool) -> int:
    """Runs scenarios; how many failed."""
    bench = Bench(kind, RAILS)
    bad = 0
    for scenario in choose(names, kind, short):
        begin = time.monotonic()
        try:
            word, text = "ok  ", run(bench, scenario, scenario.seconds, verbose)
        except (Failed, NotInForce, CommandFailed) as error:
            word, text, bad = "FAIL", f"{type(error).__name__}: {error}", bad + 1
            try:
                bench.restore()
            except CommandFailed as worse:
                print(f"FAIL the network cannot be restored: {worse}", flush=True)
                return bad
        print(f"{word} {kind} failover {scenario.name:18} {time.monotonic() - begin:5.1f} s  {text}", flush=True)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="failover.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("rxe", "siw"), default="rxe", help="which devices (default rxe)")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("--verbose", action="store_true", help="show what the ranks say")
    parser.add_argument("--short", action="store_true", help="leave out what is nearly the same as another")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to run (default: all)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{scenario.name:18} {'; '.join(stage.text for stage in scenario.stages)}" for scenario in SCENARIOS))
        return 0
    bad = suite(options.names, options.kind, options.short, options.verbose)
    print(f"{bad} scenarios failed" if bad else "all scenarios went on")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        sys.exit(1)
