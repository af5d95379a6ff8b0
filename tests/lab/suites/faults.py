"""Faults that the kernel makes, under traffic: each ends in right data or in a clear error at every end, within a time limit.

  tests/lab/run --devices 2 -- python3 suites/faults.py --kind rxe
  tests/lab/run --devices 0 --iwarp 2 -- python3 suites/faults.py --kind siw

Runs in a guest. All scenarios of the table (fault_scenarios.py) in one boot, with the network restored between them. Exit code 1
when one ends otherwise than allowed, hangs, leaves objects in the kernel, or when its fault had no effect.
"""

import argparse
import re
import sys
import time
import traceback

import failover
from bench import Bench
from fault_scenarios import DATA, ERROR, SCENARIOS, Scenario
from faults_made import Fault, NotInForce
from network import CommandFailed
from traffic import Hang, Traffic

# Messages each way before a fault, and after it for "traffic goes on".
BEFORE, AFTER = 8, 12
# RC: 268 ms * 7 tries: long enough for a machine that stands still for a while, short enough for a suite. 7 retries would be
# without end on rxe.
ENVIRONMENT = {"NCCL_IB_TIMEOUT": "16", "NCCL_IB_RETRY_CNT": "6", "RAILWISE_CONNECT_TIMEOUT": "8"}
# Every end's own words, whoever found the error: its device and its peer.
SENTENCE = r"{rdma}.*: (connection (to|from) \S+:\d+ \({peer}\)|connecting to |peer \S+ calling from )"


class Disallowed(Exception):
    """The outcome is not what the table allows; the text says in which way."""


def outcome_of(traffic: Traffic, since: list[int], limit: float) -> str:
    """DATA when traffic goes on, ERROR when both ends have met an error. Hang."""
    begin = time.monotonic()
    traffic.wait("on, nor ended", lambda: traffic.failed() or traffic.moved(since, AFTER), limit)
    if not traffic.failed():
        traffic.command("stop")
        traffic.wait("stopped", lambda: traffic.failed() or all(end.says("done") for end in traffic.ends), limit)
    if not traffic.failed():
        return DATA
    # What one end has met the other must come to know: by itself, nobody tells it but the plugin.
    traffic.wait("ended at both ends", lambda: len(traffic.failed()) == 2, max(1.0, begin + limit - time.monotonic()))
    traffic.wait("closed", lambda: all(end.says("closed") or end.process.poll() is not None for end in traffic.ends))
    return ERROR


def check_words(bench: Bench, scenario: Scenario, traffic: Traffic) -> None:
    """Has each end said with whom its connection broke, and one of them what broke it?"""
    log = [line.text for end in traffic.ends for line in end.log]
    said = "\n    ".join(line for line in log if "warns" in line)
    places = [(bench.a.port.rdma, bench.b.port.rdma), (bench.b.port.rdma, bench.a.port.rdma)]
    for end, (rdma, peer) in zip(traffic.ends, places):
        if end.process.poll() is not None and end.process.returncode < 0:
            continue  # killed by the scenario
        pattern = SENTENCE.format(rdma=rdma, peer=peer)
        if not any(re.search(pattern, line.text) for line in end.log):
            raise Disallowed(f"end {end.name} does not say which connection broke ({pattern}); said was\n    {said}")
    if not any(re.search(scenario.error.format(rdma=rdma), line) for line in log for rdma, _ in places):
        raise Disallowed(f"no end says why ({scenario.error}); said was\n    {said}")


def wrongs(traffic: Traffic, scenario: Scenario) -> list[str]:
    killed = "b ended with -9"
    return [line for line in traffic.wrong() if not (line == killed and scenario.name == "process-killed")]


def disturb(bench: Bench, scenario: Scenario, fault: Fault, traffic: Traffic) -> str:
    """Makes the fault under traffic and returns the summary of what came of it."""
    if not scenario.connecting:
        traffic.wait_ready()
        traffic.flow(BEFORE)
        if traffic.failed():
            raise Disallowed("failed before there was a fault")
    begin = time.monotonic()
    if not scenario.connecting:
        fault.begin(bench, traffic)
    proof = ""
    if scenario.seconds > 0:
        time.sleep(scenario.seconds)
        proof = fault.prove(bench)
        fault.end(bench)
    outcome = outcome_of(traffic, traffic.counts(), scenario.limit)
    took = time.monotonic() - begin
    proof = proof or fault.prove(bench)
    if scenario.again and outcome == ERROR:
        proof += ", " + connect_again(bench, scenario, fault, traffic)
    traffic.finish()
    fault.ends_after_processes(bench)
    if bad := wrongs(traffic, scenario):
        raise Disallowed("; ".join(bad))
    allowed = scenario.outcomes()
    if outcome not in allowed:
        raise Disallowed(f"{outcome} after {took:.1f} s, allowed is {' or '.join(sorted(allowed))}")
    if outcome == ERROR:
        check_words(bench, scenario, traffic)
    reports = scenario.reports.format(rdma=bench.a.port.rdma)
    if reports and not any(re.search(reports, line.text) for line in traffic.ends[0].log):
        raise Disallowed(f"a does not report /{reports}/")
    return f"{outcome} after {took:4.1f} s ({proof})"


def connect_again(bench: Bench, scenario: Scenario, fault: Fault, traffic: Traffic) -> str:
    """New connections of the same processes must carry data: what they know of their ports is not of yesterday."""
    if not scenario.stays:
        fault.end(bench)
    traffic.again()
    traffic.wait_ready()
    if outcome_of(traffic, traffic.counts(), scenario.limit) != DATA:
        said = "; ".join(line.text for end in traffic.ends for line in end.log[-3:])
        raise Disallowed(f"new connections after the fault fail: {said}")
    return "connected again"


def run(bench: Bench, scenario: Scenario, verbose: bool) -> str:
    """The summary of a scenario that ended well. Raises what went wrong."""
    fault = scenario.fault()
    if scenario.connecting:
        fault.begin(bench, None)
    setting = {"RAILWISE_FAILOVER": "1" if scenario.failover else "0"}
    with Traffic(bench.commands(), bench.environments({**ENVIRONMENT, **setting, **scenario.environment})) as traffic:
        try:
            text = disturb(bench, scenario, fault, traffic)
        finally:
            if verbose:
                show(traffic)
    bench.restore()
    if left := bench.left_behind():
        raise Disallowed(left)
    return text


def show(traffic: Traffic) -> None:
    for end in traffic.ends:
        lines = [line for line in end.out if not line.text.startswith("flow")] + [line for line in end.log if "warns" in line.text]
        for line in sorted(lines, key=lambda line: line.when):
            print(f"    {end.name} {line.when:.2f} {line.text}", flush=True)


def choose(names: list[str], kind: str, short: bool) -> list[Scenario]:
    known = {scenario.name: scenario for scenario in SCENARIOS if kind in scenario.kinds}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"faults: no such scenario for {kind}: {' '.join(unknown)} (--list names them)")
    return [known[name] for name in names] if names else [one for one in known.values() if not (short and one.extra)]


def listing() -> str:
    rows = [f"{scenario.name:18} {kind:4} {' or '.join(sorted(scenario.outcomes(kind))):14} "
            f"{'with' if scenario.failover else 'without'} failover  {scenario.text}"
            for scenario in SCENARIOS for kind in sorted(scenario.kinds)]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="faults.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("rxe", "siw"), default="rxe", help="which devices (default rxe)")
    parser.add_argument("--list", action="store_true", help="name the scenarios and what is allowed to come of them")
    parser.add_argument("--verbose", action="store_true", help="show what the ends say")
    parser.add_argument("--short", action="store_true", help="leave out what is nearly the same as another")
    parser.add_argument("--failover", action="store_true", help="and then failover.py's with two rails, in the same boot (--devices 4, or --iwarp 3)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios to run (default: all of the kind)")
    options = parser.parse_args()
    if options.list:
        print(listing())
        return 0
    bench = Bench(options.kind)
    bad = 0
    for scenario in choose(options.names, options.kind, options.short):
        begin = time.monotonic()
        try:
            word, text = "ok  ", run(bench, scenario, options.verbose)
        except (Disallowed, Hang, NotInForce, CommandFailed) as error:
            word, text, bad = "FAIL", f"{type(error).__name__}: {error}", bad + 1
            try:
                bench.restore()
            except CommandFailed as worse:
                print(f"FAIL the network cannot be restored: {worse}", flush=True)
                return 1
        print(f"{word} {options.kind} {scenario.name:18} {time.monotonic() - begin:5.1f} s  {text}", flush=True)
    if options.failover:
        bad += failover.suite([], options.kind, options.short, options.verbose)
    print(f"{bad} scenarios failed" if bad else "all scenarios ended as they may")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        sys.exit(1)
