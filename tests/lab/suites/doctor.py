"""railwise doctor on the kernel's own RDMA stack: each scenario breaks one thing, and the doctor must name it and its command.

Usage: doctor.py    (in the lab: tests/lab/run --devices 2)
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field

import network

# The guest's root is the host's: its plugins and interfaces are left out, and commands may be those for a container.
FAMILIES = "rdma,gpudirect,topology,memlock,open-files,shm-size,settings"
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]


@dataclass
class Scenario:
    name: str
    check: str  # must be found; "": nothing may be
    severity: str = ""
    device: str = ""  # of the finding
    fix: str = ""  # part of the command
    make: list[str] = field(default_factory=list)  # lines of shell
    undo: list[str] = field(default_factory=list)
    wrap: list[str] = field(default_factory=list)  # before the command
    environment: dict[str, str] = field(default_factory=dict)


def scenarios() -> list[Scenario]:
    first, second = network.ports()[:2]
    restore = [f"ip addr add {first.ipv4}/24 dev {first.netdev}"]
    return [
        Scenario("healthy", ""),
        Scenario("link down", "port-state", "warning", f"{first.rdma} port 1", f"ip link set {first.netdev} up",
                 [f"ip link set {first.netdev} down"], [f"ip link set {first.netdev} up"]),
        Scenario("all links down", "port-state", "error", f"{first.rdma} port 1", "ip link set",
                 [f"ip link set {port.netdev} down" for port in (first, second)],
                 [f"ip link set {port.netdev} up" for port in (first, second)]),
        Scenario("no address", "gid", "warning", f"{first.rdma} port 1", "ip addr add",
                 [f"ip addr flush dev {first.netdev} scope global"], restore),
        Scenario("MTU of its own", "mtu", "warning", f"{first.rdma} port 1", f"ip link set {first.netdev} mtu 9000",
                 [f"ip link set {first.netdev} mtu 1500"], [f"ip link set {first.netdev} mtu {first.mtu}"]),
        Scenario("GID index that does not exist", "gid-index", "error", f"{first.rdma} port 1", "unset NCCL_IB_GID_INDEX",
                 environment={"NCCL_IB_GID_INDEX": "200"}),
        Scenario("memlock of a user", "memlock", "error", "", "memlock", wrap=["prlimit", "--memlock=65536", *NOBODY]),
        Scenario("no right to the device nodes", "rdma-nodes", "error", first.rdma, "/dev/infiniband",
                 ["chmod 600 /dev/infiniband/uverbs*"], ["chmod 666 /dev/infiniband/uverbs*"], wrap=NOBODY),
        Scenario("a namespace without device nodes", "rdma-nodes", "error", first.rdma, "",
                 wrap=["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/infiniband && exec "$@"', "sh"]),
        Scenario("a small /dev/shm", "shm-size", "warning", "", "--shm-size",
                 wrap=["unshare", "-m", "sh", "-c", 'mkdir -p /dev/shm && mount -t tmpfs -o size=64m none /dev/shm && exec "$@"', "sh"]),
        Scenario("misspelt setting", "settings", "warning", "NCCL_IB_GIDINDEX", "NCCL_IB_GID_INDEX",
                 environment={"NCCL_IB_GIDINDEX": "3"}),
    ]


def diagnose(scenario: Scenario) -> dict:
    words = "".join(f"{name}={value} " for name, value in scenario.environment.items())
    command = [*scenario.wrap, "env", *words.split(), "railwise", "doctor", "--json", "--counters-for", "0", "--only", FAMILIES]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"findings": [], "trouble": f"exit {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}"}
    answer["status"] = done.returncode
    return answer


def problems_of(scenario: Scenario, answer: dict) -> list[str]:
    if "trouble" in answer:
        return [answer["trouble"]]
    findings = [each for each in answer["findings"] if each["severity"] != "advice" or scenario.severity == "advice"]
    if not scenario.check:
        return [f"finds {each['check']}: {each['what']}" for each in findings]
    found = [each for each in findings if each["check"] == scenario.check and each["severity"] == scenario.severity]
    if not found:
        return [f"no {scenario.severity} {scenario.check}: {[(each['check'], each['what']) for each in findings]}"]
    problems = []
    if scenario.device and scenario.device not in [seen["device"] for each in found for seen in each["seen"]]:
        problems.append(f"does not name {scenario.device}: {found}")
    if scenario.fix not in found[0]["fix"]:
        problems.append(f"its command is {found[0]['fix']!r}")
    status = 2 if scenario.severity == "error" else 1
    if answer["status"] != status:
        problems.append(f"exit {answer['status']}, not {status}")
    return problems


def shell(lines: list[str]) -> None:
    for line in lines:
        subprocess.run(["sh", "-c", line], check=True)


def run(scenario: Scenario) -> list[str]:
    """The kernel takes a moment to tell a device of its interface: the answer may take a few tries."""
    shell(scenario.make)
    problems = ["not asked"]
    for _ in range(20):
        problems = problems_of(scenario, diagnose(scenario))
        if not problems:
            break
        time.sleep(0.5)
    shell(scenario.undo)
    return problems


def main() -> int:
    failed = 0
    chosen = scenarios()
    for scenario in chosen:
        problems = run(scenario)
        failed += bool(problems)
        print(f"{'FAILED' if problems else 'ok':6} {scenario.name}", *(f"       {problem}" for problem in problems), sep="\n", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} passed")
    return 1 if failed else 0


sys.exit(main())
