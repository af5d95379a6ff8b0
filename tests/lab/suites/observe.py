"""railwise stuck and postmortem on the kernel's own RDMA stack: a rail swallows everything without a word, and both must name it.

Usage: observe.py    (in the lab: tests/lab/run --devices 2)
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from job import Job, Rank, network

TRIES = 15  # of two seconds each


def railwise(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(["railwise", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def wait_for(status: int, *words: str) -> str:
    """Asks `railwise stuck` until it ends with `status` and its verdict has one of `words`; what is wrong, or ""."""
    text = ""
    for _ in range(TRIES):
        ended, text = railwise("stuck", "--seconds", "2")
        verdict = text.split("\n\n")[0]
        if ended == status and (not words or any(word in verdict for word in words)):
            print(verdict, flush=True)
            return ""
    return f"stuck does not end with {status} and name {' or '.join(words)}: {text}"


def swallow(port: network.Port) -> None:
    """Packets of RoCE from and to a port vanish in the switch; its link stays up."""
    lines = [f"qdisc add dev {port.bridge_end} clsact"]
    lines += [f"filter add dev {port.bridge_end} {way} protocol ip u32 match ip dport 4791 0xffff action drop" for way in ("ingress", "egress")]
    network.batch("tc", lines)


def problems_of(job: Job, ports: list[network.Port]) -> list[str]:
    names = [port.rdma for port in ports]
    problems = [wait_for(0, "messages")]
    if any(problems):
        return problems
    swallow(ports[0])
    problems.append(wait_for(1, *names))
    pids = job.pids()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    job.finish(20)
    for pid in pids:
        ended, text = railwise("postmortem", str(pid))
        print(*text.splitlines()[:6], sep="\n", flush=True)
        if ended != 0 or "killed" not in text or not any(f"{name} port 1" in text for name in names):
            problems.append(f"postmortem ends with {ended}: {text}")
    return [problem for problem in problems if problem]


def main() -> int:
    os.environ["RAILWISE_METRICS_DIR"] = tempfile.mkdtemp()
    ports = network.ports()[:2]
    ranks = [Rank("", [port.rdma]) for port in ports]
    job = Job("sendrecv", ["-b", "64K", "-e", "64K", "-n", "1000000"], ranks, ports[0].ipv4)
    begin = time.monotonic()
    problems = problems_of(job, ports)
    job.finish(0)
    print(f"{'FAILED' if problems else 'ok'} after {time.monotonic() - begin:.0f} s", *problems, sep="\n")
    if problems:
        print(job.text(0)[-2000:], job.text(1)[-2000:], sep="\n---\n")
    return 1 if problems else 0


sys.exit(main())
