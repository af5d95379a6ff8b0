#!/usr/bin/env python3
"""Two guests and what can become of one of them, or of the wire between them, under `railwise perf`.

  tests/lab/run --guests 2 -- python3 suites/fault_guests.py

The same program runs in both guests, which go through the scenarios side by side: the next job begins when both ranks have joined
it. Guest 0 makes the faults. Everything goes over one wire here, the bootstrap of perf and the handshakes included, so nobody can tell a rank
of the other's fate: each must find out by itself.
"""

import argparse
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from job import Job, Rank, Result, held_resources

import network

ME = int(os.environ["LAB_GUEST"])
DATA, ERROR = "data", "error"
# RC: 268 ms * 7 tries. A rank that gets no answer fails after 2 s, or soon after.
# Without failover: a whole guest has no other rail to offer, and what is asked for is the words of the error.
IMPATIENT = {"NCCL_IB_TIMEOUT": "16", "NCCL_IB_RETRY_CNT": "6", "RAILWISE_FAILOVER": "0"}
PATIENT = {"NCCL_IB_TIMEOUT": "19", "NCCL_IB_RETRY_CNT": "6"}
PORT = 29600


@dataclass(frozen=True)
class Scenario:
    name: str
    text: str
    begin: Callable[[], None]  # in guest 0, under traffic
    outcome: str  # what must come of it
    end: Callable[[], None] = lambda: None
    seconds: int = 0  # of traffic that shall go on
    stopped: float = 0  # how long guest 1 must have stood still
    environment: dict[str, str] = field(default_factory=lambda: IMPATIENT)
    limit: float = 60
    says: str = ""  # by rank 0, where it ends by an error
    noticed: float = 0  # seconds after the fault within which rank 0 must have: before the fault is over


def lab_host(*words: str) -> None:
    network.run(["lab-host", *words])


def prepare_wire() -> None:
    """A queue that loses nothing yet: exchanging queues under traffic loses packets in ways that no wire does."""
    network.batch("tc", ["qdisc replace dev net0 root netem limit 10000", "qdisc add dev net0 clsact"])


def cut_wire() -> None:
    network.batch("tc", ["qdisc change dev net0 root netem limit 10000 loss 100%",
                         "filter add dev net0 ingress protocol all u32 match u32 0 0 action drop"])


def mend_wire() -> None:
    shown = json.loads(network.run(["tc", "-s", "-j", "qdisc", "show", "dev", "net0"]))
    dropped = next(item["drops"] for item in shown if item.get("root"))
    if not dropped:
        raise network.CommandFailed("the wire was cut, and no packet was lost")
    network.batch("tc", ["filter del dev net0 ingress", "qdisc change dev net0 root netem limit 10000 loss 0%"])


def lost(*words: str) -> Callable[[], None]:
    """Guest 1 stands still or dies, and what is sent to it is lost: QEMU's wire would hold guest 0 back instead, as no network does."""
    def lose() -> None:
        cut_wire()
        lab_host(*words)
    return lose


def cut_wire_for(seconds: float) -> Callable[[], None]:
    def cut() -> None:
        cut_wire()
        time.sleep(seconds)
        mend_wire()
    return cut


TRANSPORT = r"rxe0 port 1 qp \d+: a (send|clear-to-send) failed: transport retry counter exceeded"
# A rank that has nothing under way but a receive hears of it from TCP alone.
GONE = TRANSPORT + r"|rank 1 \(pid \d+ on host \S+\) is gone"
SCENARIOS = [
    Scenario("pause-short", "guest 1 stands still for 1 s", lambda: lab_host("pause", "1", "1"), DATA, seconds=4, stopped=0.8,
             environment=PATIENT),
    Scenario("wire-short", "nothing passes the wire for 0.5 s", cut_wire_for(0.5), DATA, seconds=3, environment=PATIENT),
    Scenario("pause-long", "guest 1 stands still for 10 s", lost("pause", "1", "10"), ERROR, end=mend_wire, stopped=8, says=TRANSPORT, noticed=9),
    Scenario("wire", "nothing passes the wire any more", cut_wire, ERROR, end=mend_wire, says=GONE),
    Scenario("killed", "guest 1 is killed", lost("kill", "1"), ERROR, end=mend_wire, says=GONE),
]


class StandstillWatch:
    """Measures the longest time that this guest has not run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            time.sleep(0.02)
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now

    def stop(self) -> float:
        self._stop.set()
        self._thread.join()
        return self.longest


def rows(job: Job) -> int:
    return job.text().count(" float ")


def packets() -> int:
    return int(Path("/sys/class/net/net0/statistics/tx_packets").read_text())


def wait_for_traffic(job: Job) -> None:
    """Until messages flow: a row of the table, or far more packets than the warm-up has. A slow machine may send few until a short job ends."""
    deadline = time.monotonic() + 60
    before = None
    while before is None or (packets() < before + 1000 and rows(job) == 0):
        if before is None and job.said("sends to"):
            before = packets()
        if time.monotonic() > deadline or not job.running():
            raise network.CommandFailed("no traffic within 60 s")
        time.sleep(0.02)


def disturb(job: Job, scenario: Scenario) -> tuple[str, float]:
    """In guest 0: makes the fault under traffic. What went wrong with that, and how long after it the job ended."""
    wait_for_traffic(job)
    before = rows(job)
    made = time.monotonic()
    scenario.begin()
    while job.running() and time.monotonic() - made < scenario.limit:
        time.sleep(0.02)
    took = time.monotonic() - made
    if scenario.outcome == DATA and rows(job) <= before:
        return "no row of the table after the fault", took
    if scenario.noticed and took > scenario.noticed:
        return f"noticed after {took:.1f} s only", took
    return "", took


def judge(scenario: Scenario, result: Result) -> list[str]:
    code = result.codes[0]
    if code is None:
        return [f"hung: still running {scenario.limit:.0f} s after the fault"]
    if scenario.outcome == DATA:
        problems = [] if code == 0 else [f"ended with {code}, although the fault was short"]
        return problems + ([] if ME == 1 or result.wrong() == 0 else [f"{result.wrong()} wrong elements"])
    problems = [] if code == 1 else [f"ended with {code}, not by an error"]
    if "wrong data" in result.output:
        problems.append("wrong data")
    # The other rank may hear it from the end of its connections alone.
    says = scenario.says if ME == 0 else r"railwise: rank 1: (rank 0|isend|irecv|test)"
    return problems + ([] if re.search(says, result.output) else [f"does not say /{says}/"])


def run(scenario: Scenario, number: int) -> tuple[list[str], str]:
    """What is wrong with how it ended, and a word on how it did."""
    length = ["-n", "4", "--duration", str(scenario.seconds), "--rows"] if scenario.seconds else ["-n", "1000000"]
    arguments = ["--channels", "1", "-b", "64K", "-e", "64K", *length, "-c", "1", "-T", "50"]
    rank = Rank("", ["rxe0"], {**scenario.environment, "NCCL_SOCKET_IFNAME": "=net0"})
    watch = StandstillWatch()
    job = Job("sendrecv", arguments, [rank], "10.0.0.1", first=ME, size=2, port=PORT + number)
    try:
        problem, took = disturb(job, scenario) if ME == 0 else ("", 0)
    except network.CommandFailed as error:
        problem, took = str(error), 0
    result = job.finish(scenario.limit + 60 if ME == 1 else 1)
    stopped = watch.stop()
    if ME == 0:
        scenario.end()
    problems = ([problem] if problem else []) + judge(scenario, result)
    if ME == 1 and stopped < scenario.stopped:
        problems.append(f"this guest stood still for {stopped:.1f} s only: nothing was tested")
    problems += [f"still held after the job: {held}" for held in held_resources()]
    if problems:
        print(result.output)
    return problems, f"{scenario.outcome}, {took:.1f} s after the fault" if ME == 0 else f"{scenario.outcome}, stood still for {stopped:.1f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to run (default: all)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{one.name:12} {one.outcome:6} {one.text}" for one in SCENARIOS))
        return 0
    unknown = set(options.names) - {scenario.name for scenario in SCENARIOS}
    if unknown:
        parser.error(f"no such scenario: {' '.join(sorted(unknown))} (--list names them)")
    if ME == 0:
        prepare_wire()
    failed = 0
    for number, scenario in enumerate(SCENARIOS):
        if options.names and scenario.name not in options.names:
            continue
        begin = time.monotonic()
        problems, text = run(scenario, number)
        failed += bool(problems)
        print(f"{'FAIL' if problems else 'ok':4} {scenario.name:12} {time.monotonic() - begin:5.1f} s  {'; '.join(problems) or text}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
