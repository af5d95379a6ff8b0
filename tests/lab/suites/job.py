"""A collective of `railwise perf` between hosts of the lab, started and judged."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "guest"))

import network  # noqa: E402


@dataclass
class Rank:
    """Where a rank runs: a network namespace ("" for the first one) and the devices it may use."""

    host: str
    devices: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Result:
    """How a job ended."""

    codes: list[int | None]  # of each rank; None where it was still running at the time limit
    output: str  # what all ranks said, each line with its rank
    report: dict | None  # rank 0's JSON
    seconds: float

    def wrong(self) -> int | None:
        """Wrong elements over all rows; None where there is no report."""
        if not self.report:
            return None
        return sum(int(row[place]["wrong"]) for row in self.report["results"] for place in ("out_of_place", "in_place"))

    def rows(self) -> int:
        return len(self.report["results"]) if self.report else 0


class Job:
    """A running job: start(), whatever the scenario does to it, finish()."""

    _port = 29500

    def __init__(self, collective: str, arguments: list[str], ranks: list[Rank], address: str, first: int = 0, size: int = 0,
                 environment: dict[str, str] | None = None, port: int = 0) -> None:
        """Ranks first.. of `size` run here (all of them unless told); rank 0 listens at `address`."""
        Job._port += 1
        self._folder = Path(tempfile.mkdtemp())
        self._begin = time.monotonic()
        self._processes = []
        self._report = self._folder / "report.json"
        self._first = first
        for index, rank in enumerate(ranks):
            number = first + index
            env = {**os.environ, "NCCL_DEBUG": "INFO", "RAILWISE_PERF_RANK": str(number), "RAILWISE_PERF_SIZE": str(size or len(ranks)),
                   "RAILWISE_PERF_ADDRESS": f"{address}:{port or Job._port}", "RAILWISE_PERF_SECRET": "lab",
                   "NCCL_IB_HCA": "=" + ",".join(rank.devices), **(environment or {}), **rank.environment}
            command = ["railwise", "perf", collective, "--device", "verbs", "-v", *arguments]
            if number == 0:
                command.append(f"--json={self._report}")
            if rank.host:
                command = ["ip", "netns", "exec", rank.host, *command]
            log = open(self._folder / str(number), "wb")  # pylint: disable=consider-using-with
            self._processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
            log.close()

    def text(self, rank: int = 0) -> str:
        """What a rank has said so far; `rank` counts those that run here."""
        return (self._folder / str(self._first + rank)).read_text(errors="replace")

    def said(self, text: str, rank: int = 0) -> bool:
        return text in self.text(rank)

    def running(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def finish(self, seconds: float) -> Result:
        """Waits for all ranks, at most so long; those that remain are killed and count as hung."""
        deadline = time.monotonic() + seconds
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.02)
        codes = [process.poll() for process in self._processes]
        took = time.monotonic() - self._begin
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        output = "".join(f"{self._first + index}: {line}\n" for index in range(len(self._processes))
                         for line in (self._folder / str(self._first + index)).read_text(errors="replace").splitlines())
        try:
            report = json.loads(self._report.read_text())
        except (OSError, ValueError):
            report = None
        return Result(codes, output, report, took)


def sent_bytes(port: network.Port) -> int:
    """What has left through a port's network device."""
    command = ["cat", f"/sys/class/net/{port.netdev}/statistics/tx_bytes"]
    return int(network.run((["ip", "netns", "exec", port.host] if port.host else []) + command))


def held_resources() -> list[str]:
    """Queue pairs, completion queues, regions and protection domains that a process holds, as `rdma resource show` lists them.

    The kernel's own (its GSI queue pair) have no pid."""
    held = []
    for kind in ("qp", "cq", "mr", "pd"):
        for entry in json.loads(network.run(["rdma", "-j", "resource", "show", kind]) or "[]"):
            if "pid" in entry:
                held.append(f"{kind} of {entry.get('ifname', '?')}: {entry}")
    return held
