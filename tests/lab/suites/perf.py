#!/usr/bin/env python3
"""Collectives of `railwise perf` over the kernel's devices, every element checked. Runs in a guest of tests/lab/run:

  perf.py rxe    between two network namespaces of one guest, with half of its devices each, or between two guests
  perf.py siw    the same over soft-iWARP, through RDMA CM
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from job import Job, Rank, Result, held_resources, sent_bytes

import network

TIME_LIMIT = 90  # of one job; they take 2 to 5 s here
SIZES = ["-b", "8", "-e", "512K", "-f", "256", "-n", "2", "-c", "1"]
ROWS = 3  # 8, 2K, 512K
LARGEST = 512 * 1024


@dataclass
class Scenario:
    """One job and what must come of it."""

    name: str
    collective: str = "sendrecv"
    arguments: list[str] = field(default_factory=list)
    devices: int = 2  # of each host
    environment: dict[str, str] = field(default_factory=dict)
    environment_b: dict[str, str] = field(default_factory=dict)  # of host b alone
    before: Callable[["Place"], None] | None = None
    after: Callable[["Place"], None] | None = None
    says: str = ""  # a pattern that every line about a connection must match
    fails_with: str = ""  # the job must fail, with this pattern in what it says
    ranks_per_host: int = 1
    one_namespace: bool = False  # RDMA CM looks for a device's addresses in the namespace of the process


@dataclass
class Place:
    """Where the jobs run: the ports of both hosts, and where rank 0 listens."""

    ports: dict[str, list[network.Port]]
    address: str
    namespaces: dict[str, str]
    here: tuple[str, ...] = ("a", "b")  # hosts in this guest

    def local_ports(self) -> list[network.Port]:
        return [port for host in self.here for port in self.ports[host]]


GUESTS = os.environ["LAB_GUESTS"] == "2"


def place(kind: str) -> Place:
    """Finds the ports, and gives the hosts of one guest a wire for TCP."""
    ports = [port for port in network.ports() if port.kind == kind]
    if GUESTS:
        guest = int(os.environ["LAB_GUEST"])
        by_host = {"ab"[guest]: ports, "ab"[1 - guest]: [network.peer_of(port) for port in ports]}
        return Place(by_host, by_host["a"][0].ipv4, {"a": "", "b": ""}, ("ab"[guest],))
    if kind == "siw":
        by_host = {host: [port for port in ports if port.host == host] for host in ("a", "b")}
        return Place(by_host, by_host["a"][0].ipv4, {"a": "a", "b": "b"})
    half = len(ports) // 2
    network.add_tcp_hosts()
    return Place({"a": ports[:half], "b": ports[half:]}, network.TCP_HOSTS["a"], {"a": "a", "b": "b"})


def set_mtu(mtu: int) -> Callable[[Place], None]:
    """Gives host b's network devices another MTU."""
    def change(where: Place) -> None:
        for port in where.ports["b"]:
            if port in where.local_ports():
                network.set_mtu(port, mtu)
    return change


def scenarios(kind: str) -> list[Scenario]:
    found = [Scenario(f"{collective} {api}", collective, ["--api", api]) for collective in ("all_reduce", "sendrecv", "alltoall")
             for api in ("v8", "v10", "v12")]
    found += [
        Scenario("one device", devices=1),
        Scenario("four devices", "alltoall", ["--channels", "4"], devices=4),
        # siw: the kernel connects no two devices of one host, so both ranks of a host share one.
        Scenario("four ranks", "all_reduce", ranks_per_host=2, devices=1 if kind == "siw" else 2),
    ]
    if kind == "rxe":  # libsiw fails at about the tenth connection of a process
        found.append(Scenario("eight channels", arguments=["--channels", "8"]))
    if kind == "siw":
        return found + [
            Scenario("through RDMA CM", environment={"RAILWISE_CONNECT": "cm"}, says=r"by RDMA CM"),
            Scenario("IPv6", environment={"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, says=r"\(fd08:"),
        ]
    found += [
        Scenario("IPv4 before IPv6", says=r"\(10\.0\.0\.\d+\).*\(10\.0\.0\.\d+\), MTU 4096"),
        Scenario("IPv6", environment={"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, says=r"\(fd00::\w+\).*\(fd00::\w+\)"),
        Scenario("an address range", environment={"NCCL_IB_ADDR_FAMILY": "AF_INET6", "NCCL_IB_ADDR_RANGE": "fd00::/64"}, says=r"\(fd00::\w+\)"),
        Scenario("GID by its index", environment={"NCCL_IB_GID_INDEX": "2"}, says=r"\(fd00::\w+\).*\(fd00::\w+\)"),
        Scenario("other MTU at one end", before=set_mtu(1500), after=set_mtu(4200), says=r"MTU 1024"),
        Scenario("through RDMA CM", environment={"RAILWISE_CONNECT": "cm"}, says=r"by RDMA CM", one_namespace=True),
        Scenario("families that cannot meet", environment={"NCCL_IB_ADDR_FAMILY": "AF_INET"}, environment_b={"NCCL_IB_ADDR_FAMILY": "AF_INET6"},
                 fails_with=r"no pair of addresses|NCCL_IB_ADDR_FAMILY"),
    ]
    if GUESTS:
        found.append(Scenario("link-local", environment={"NCCL_IB_GID_INDEX": "0"}, says=r"\(fe80::\S+\).*\(fe80::\S+\)"))
    return found


def run(scenario: Scenario, where: Place, number: int) -> list[str]:
    """Runs a scenario; what is wrong with how it ended."""
    apart = not scenario.one_namespace
    address = where.address if apart else where.ports["a"][0].ipv4
    ranks = [Rank(where.namespaces[host] if apart else "", [port.rdma for port in where.ports[host][:scenario.devices]],
                  {**scenario.environment, **(scenario.environment_b if host == "b" else {})})
             for host in ("a", "b") for _ in range(scenario.ranks_per_host)]
    first, mine = 0, ranks
    if GUESTS:
        first = int(os.environ["LAB_GUEST"]) * scenario.ranks_per_host
        mine = ranks[first:first + scenario.ranks_per_host]
    if scenario.before:
        scenario.before(where)
    ports = [port for port in where.local_ports() if any(port.rdma in rank.devices for rank in mine)]
    before = {port: sent_bytes(port) for port in ports}
    arguments = [*SIZES, *scenario.arguments]
    result = Job(scenario.collective, arguments, mine, address, first, len(ranks), port=29500 + number).finish(TIME_LIMIT)
    if scenario.after:
        scenario.after(where)
    sent = {port.rdma: sent_bytes(port) - before[port] for port in ports}
    problems = judge(scenario, result, sent, first == 0)
    problems += [f"still held after the job: {held}" for held in held_resources()]
    if problems:
        print(result.output)
    return problems


def judge(scenario: Scenario, result: Result, sent: dict[str, int], reports: bool) -> list[str]:
    """`reports`: rank 0 is here, and with it the table of the job."""
    if None in result.codes:
        return [f"hung: exit codes {result.codes} after {result.seconds:.0f} s"]
    if scenario.fails_with:
        problems = [] if all(result.codes) else [f"should have failed; exit codes {result.codes}"]
        return problems + ([] if re.search(scenario.fails_with, result.output) else [f"does not say /{scenario.fails_with}/"])
    problems = [] if not any(result.codes) else [f"exit codes {result.codes}"]
    if reports and (result.wrong() != 0 or result.rows() != ROWS):
        problems.append(f"{result.wrong()} wrong elements in {result.rows()} rows (of {ROWS})")
    connections = [line for line in result.output.splitlines() if re.search(r" qp \d+ .* (sends to|receives from) ", line)]
    if not connections:
        problems.append("no line says how a connection was made")
    if scenario.says:
        problems += [f"not /{scenario.says}/: {line}" for line in connections if not re.search(scenario.says, line)]
    # Data went over the wire, over every device that was to be used: at least once the largest message, shared among all.
    problems += [f"{device} sent only {count} bytes" for device, count in sent.items() if count < LARGEST // 2 // len(sent)]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=("rxe", "siw"))
    parser.add_argument("--only", default="", metavar="PATTERN", help="scenarios whose name matches")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    options = parser.parse_args()
    chosen = [(kind, scenario) for kind in options.kinds for scenario in scenarios(kind) if re.search(options.only, scenario.name)]
    if options.list or not chosen:
        print("\n".join(f"{kind}: {scenario.name}" for kind in options.kinds for scenario in scenarios(kind)))
        return 0 if chosen else 2
    places = {kind: place(kind) for kind in options.kinds}
    failed = 0
    for number, (kind, scenario) in enumerate(chosen):
        begin = time.monotonic()
        problems = run(scenario, places[kind], number)
        failed += bool(problems)
        took = time.monotonic() - begin
        print(f"{'FAILED' if problems else 'ok':6} {took:5.1f} s  {kind}: {scenario.name}", *(f"       {problem}" for problem in problems),
              sep="\n", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} passed")
    return 1 if failed else 0


sys.exit(main())
