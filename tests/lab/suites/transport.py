#!/usr/bin/env python3
"""The plugin's own test programs on the kernel's devices, both ends in one process. Runs in a guest of tests/lab/run:

  transport.py rxe [NAME...]    two rxe devices, Soft-RoCE
  transport.py siw [NAME...]    the siw device of host a, soft-iWARP, through RDMA CM

plugin_test, plugin_random_transfers and plugin_stress are told by RAILWISE_TEST_DEVICE=verbs to use libibverbs
(tests/plugin/test_device.h). They check by themselves that the kernel holds nothing of theirs that it should not; here the
kernel is asked once more after each process has ended. NAME: only the runs whose names contain it.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from job import held_resources

import network

PROGRAMS = Path(os.environ["LAB_BUILD"]) / "tests/plugin"
TIME_LIMIT = 120  # of one process; they take 1 to 20 s here
# Why a test may be skipped. That a device is missing is no reason over rxe: there are two.
SKIPS = {"rxe": ("needs the software device",), "siw": ("needs the software device", "iWARP has no flush", "needs 2 devices")}


@dataclass
class Run:
    """A process and what it does."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def suite(name: str, *filters: str, **environment: str) -> Run:
    return Run(name, ["plugin_test", "--gtest_filter=" + ":".join(filters)], environment)


def of_version(version: int, *more: str) -> Run:
    """The tests that every version has here."""
    return suite(f"v{version}", *(f"*/{version}.{test}" for test in (*DIFFERS, *more)))


# Emulated code is four to five times slower, and a test of one version tests the same transport as that of another: what differs
# are the tables, and whether communicators share a context. So v12 has every test, but for those that are long because they wait
# for a time of the handshake's sockets or need many messages; v11 what only it and v12 have; v6, v8 and v10 those tests that differ in
# their signatures (sizes, grouped receives, null arguments), and what connections leave in the shared context, v8 also how they
# end, v10 the virtual devices; v7 and v9 have the tables of v6 and v10 for what matters here. A shared context lives as long as its process: so each version has a process, and no test is in it
# that sets the environment of an init of its own. Everything runs on the software device in host builds.
DIFFERS = ("EverySizeArrives", "GroupedReceivesTakeTheirTags", "RefusesNullArguments", "ConnectionsThatComeAndGoLeaveNothingThatGrows")
V12 = suite("v12", "*/12.*:-TransferTest/12.TwoThreadsOneForEachEnd:PeerTest/12.AListenerThatIsGone*:PeerTest/12.ConnectGivesUp*")
VERSIONS = [
    V12,
    of_version(6),
    of_version(8, "AllOutstandingAtOnce", "EveryFieldIsWritten", "AHandleCannotTakeOverAnotherAttempt", "ListenerAtEvery*",
               "WithRequestsOutstanding", "DataOutlivesTheSender", "ASendOutlivesTheReceiver", "AFailureReachesThePeer"),
    of_version(10, "CarryGroupsOfEverySize", "PartsOverSeveralRailsAddUp"),
    suite("v11", *(f"*/11.{test}" for test in DIFFERS), "ContextTest/11.*", "VirtualDevicesReloadTest/11.*"),
]
RANDOM = ["plugin_random_transfers", "--largest", "1000000", "--per-cell", "40", "--messages"]

RUNS = {
    "rxe": [
        *VERSIONS,
        # librdmacm on RoCE: as siw does, but with immediates, and a queue pair that the plugin brings up itself.
        suite("v12 through RDMA CM", "TransferTest/12.EverySize*:CloseTest/12.*:LeakTest/12.*", RAILWISE_CONNECT="cm"),
        suite("v8 through RDMA CM", "LeakTest/8.*", RAILWISE_CONNECT="cm"),
        Run("random transfers", [*RANDOM, "640"]),  # 16 of 66 cells: one and two rails, queue pairs, split or not
        Run("stress", ["plugin_stress", "--seconds", "10"]),
    ],
    "siw": [
        *VERSIONS,
        Run("random transfers", [*RANDOM, "320"]),
        Run("stress", ["plugin_stress", "--seconds", "10"]),
    ],
}


class Results:
    """What came of all runs."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.passed: Counter[str] = Counter()  # by run
        self.skipped: Counter[str] = Counter()  # by reason
        self.failures: list[str] = []

    def fail(self, run: Run, what: str, output: str) -> None:
        self.failures.append(what)
        print(f"\n== {run.name}: FAILED: {what}\n{output.rstrip()}", flush=True)

    def skip(self, run: Run, test: str, reason: str) -> None:
        self.skipped[reason.split(":")[0]] += 1
        if not reason.startswith(SKIPS[self.kind]):
            self.fail(run, f"{test} was skipped, which this lab gives no reason for", reason)

    def read_gtest(self, run: Run, output: str, code: int) -> None:
        """Every test by its own lines, so that one that ends its process is told too."""
        test, said, before = "", [], len(self.failures)
        for line in output.splitlines():
            if line.startswith("[ RUN      ]"):
                test, said = line.split("]", 1)[1].strip(), []
            elif line.startswith("[       OK ]"):
                self.passed[run.name] += 1
                test = ""
            elif line.startswith("[  SKIPPED ]") and test:
                self.skip(run, test, said[-1] if said else "")
                test = ""
            elif line.startswith("[  FAILED  ]") and test:
                self.fail(run, test, "\n".join(said))
                test = ""
            elif test:
                said.append(line)
        if test:
            self.fail(run, f"{test} ended its process ({code})", "\n".join(said[-60:]))
        elif code != 0 and len(self.failures) == before:
            self.fail(run, f"exit code {code}", output[-3000:])

    def read_program(self, run: Run, output: str, code: int) -> None:
        if code == 0:
            self.passed[run.name] += 1
            print(output)
        else:
            self.fail(run, f"exit code {code}", output[-6000:])


def environment(kind: str) -> dict[str, str]:
    devices = [port.rdma for port in network.ports() if port.kind == kind and port.host in ("", "a")]
    return {**os.environ, "RAILWISE_TEST_DEVICE": "verbs", "NCCL_IB_HCA": "=" + ",".join(devices)}


def resources() -> list:
    """Counts of the kernel's RDMA objects, by device; the kernel's own included."""
    return json.loads(network.run(["rdma", "-j", "resource", "show"]))


def start(kind: str, run: Run) -> tuple[str, int]:
    """Runs a process; what it said, and its exit code (124: time limit)."""
    command = [str(PROGRAMS / run.command[0]), *run.command[1:]]
    if kind == "siw":
        command = ["ip", "netns", "exec", "a", *command]
    try:
        done = subprocess.run(command, env={**environment(kind), **run.environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIME_LIMIT, check=False)
        return done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace") + f"\n(ended after {TIME_LIMIT} s)", 124


def execute(kind: str, run: Run, results: Results) -> None:
    """One run, and a look at what it left in the kernel."""
    before, begin = resources(), time.monotonic()
    output, code = start(kind, run)
    gtest = run.command[0] == "plugin_test"
    (results.read_gtest if gtest else results.read_program)(run, output, code)
    if resources() != before:
        results.fail(run, "the kernel still holds", "\n".join(held_resources()) or str(resources()))
    if not results.passed[run.name]:
        results.fail(run, "nothing of it passed", "")
    print(f"{run.name}: {results.passed[run.name]} passed in {time.monotonic() - begin:.0f} s", flush=True)


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in RUNS:
        print(__doc__, file=sys.stderr)
        return 2
    kind, wanted = sys.argv[1], sys.argv[2:]
    results = Results(kind)
    for run in RUNS[kind]:
        if not wanted or any(name in run.name for name in wanted):
            execute(kind, run, results)
    for reason, count in results.skipped.items():
        print(f"{count} skipped: {reason}")
    passed = sum(results.passed.values())
    print(f"transport over {kind}: {passed} passed, {len(results.failures)} failed")
    return 0 if passed and not results.failures else 1


if __name__ == "__main__":
    sys.exit(main())
