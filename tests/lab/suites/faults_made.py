"""Faults that can be made on a bench: begun, proved to be in force, and taken back.

Each is made by what would make it outside a lab: the link's state, the switch's port, a queue that loses packets, a filter. A
fault that was not in force proves nothing, so each says by a counter or a state that it was (NotInForce where it was not).
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import network
from bench import Bench, Side
from traffic import Traffic


class NotInForce(Exception):
    """The fault was made and had no effect: nothing was tested."""


class Fault:
    """What goes wrong. begin(), then prove() while it lasts or right after, then end(); the bench restores what is left."""

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        raise NotImplementedError

    def prove(self, bench: Bench) -> str:
        """The evidence, in words. Raises NotInForce."""
        raise NotImplementedError

    def end(self, bench: Bench) -> None:
        """Takes back a fault that passes."""
        raise NotImplementedError

    def ends_after_processes(self, bench: Bench) -> None:
        """For what only takes effect when the processes have let go: checked once they have ended."""


def expect(in_force: bool, text: str) -> str:
    if not in_force:
        raise NotInForce(text)
    return text


def wait_for(condition, text: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotInForce(f"not within {seconds:.0f} s: {text}")
        time.sleep(0.01)


class LinkDown(Fault):
    """a's interface is set down (`own`), or the far end of its cable is: its carrier is lost."""

    def __init__(self, own: bool) -> None:
        self._own = own

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        self._set(bench, "down")
        wait_for(lambda: network.port_state(bench.a.port.rdma) != "ACTIVE", f"port of {bench.a.port.rdma} down")

    def prove(self, bench: Bench) -> str:
        return f"the port of {bench.a.port.rdma} was not ACTIVE"  # begin() has waited for it

    def end(self, bench: Bench) -> None:
        self._set(bench, "up")
        bench.mend(bench.a)

    def _set(self, bench: Bench, state: str) -> None:
        side = bench.a
        host, netdev = (side.port.host, side.port.netdev) if self._own else (side.far_host, side.far)
        bench.ip(host, f"link set dev {netdev} {state}")


class SwitchPortBlocked(Fault):
    """a's port of the switch forwards nothing: its carrier stays, and nobody is told."""

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        network.run(["bridge", "link", "set", "dev", bench.a.far, "state", "0"])

    def prove(self, bench: Bench) -> str:
        state = Path(f"/sys/class/net/{bench.a.far}/brport/state").read_text().strip()
        expect(network.port_state(bench.a.port.rdma) == "ACTIVE", "the RDMA port stayed ACTIVE")
        return expect(state == "0", f"port {bench.a.far} of the bridge is in state {state}")

    def end(self, bench: Bench) -> None:
        network.run(["bridge", "link", "set", "dev", bench.a.far, "state", "3"])


class BlackHole(Fault):
    """Packets of the RDMA transport vanish in the switch: those `from` a, those `to` a, or both.

    At the far end of a's cable, since a device is told when its own interface drops a packet (rxe then fails the queue pair).
    `large`: only those of more than 4096 bytes, as where a switch has a smaller MTU.
    """

    def __init__(self, *ways: str, large: bool = False) -> None:
        self._ways, self._large = ways, large

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        side = bench.a
        # RoCE v2's port; all of TCP for iWARP.
        match = ["match", "ip", "protocol", "6", "0xff"] if bench.kind == "siw" else ["match", "ip", "dport", "4791", "0xffff"]
        if self._large:
            match += ["match", "u16", "0x1000", "0xf000", "at", "2"]  # IP's total length
        bench.tc(side.far_host, "qdisc", "add", "dev", side.far, "clsact")
        for way in self._ways:
            bench.tc(side.far_host, "filter", "add", "dev", side.far, self._hook(way), "protocol", "ip", "u32", *match, "action", "drop")

    def prove(self, bench: Bench) -> str:
        dropped = {way: bench.filter_counters(bench.a.far_host, bench.a.far, self._hook(way)) for way in self._ways}
        text = ", ".join(f"{count} packets {way} a dropped" for way, count in dropped.items())
        return expect(all(count > 0 for count in dropped.values()), text)

    def end(self, bench: Bench) -> None:
        bench.tc(bench.a.far_host, "qdisc", "del", "dev", bench.a.far, "clsact")

    @staticmethod
    def _hook(way: str) -> str:
        return "ingress" if way == "from" else "egress"


class HandshakesLost(Fault):
    """Nothing passes the network over which the ends met, and which tells them of each other's end. Begun before there is traffic,
    they do not meet."""

    _DROP = "protocol all u32 match u32 0 0 action drop"

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        for host, netdev in self._places(bench):
            bench.tc(host, "qdisc", "add", "dev", netdev, "clsact")
            bench.tc(host, "filter", "add", "dev", netdev, "ingress", *self._DROP.split())

    def prove(self, bench: Bench) -> str:
        # Where traffic goes on nobody has to say anything there: that the filter stands must do.
        shown = [bench.tc(host, "filter", "show", "dev", netdev, "ingress") for host, netdev in self._places(bench)]
        dropped = sum(bench.filter_counters(host, netdev, "ingress") for host, netdev in self._places(bench))
        return expect(all("drop" in text for text in shown), f"TCP dropped where they met ({dropped} packets)")

    def end(self, bench: Bench) -> None:
        for host, netdev in self._places(bench):
            bench.tc(host, "qdisc", "del", "dev", netdev, "clsact")

    @staticmethod
    def _places(bench: Bench) -> set[tuple[str, str]]:
        return {(side.port.host, side.handshakes) for side in bench.sides}


class Both(Fault):
    """Two faults at once."""

    def __init__(self, first: Fault, second: Fault) -> None:
        self._faults = (first, second)

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        for fault in self._faults:
            fault.begin(bench, traffic)

    def prove(self, bench: Bench) -> str:
        return ", ".join(fault.prove(bench) for fault in self._faults)

    def end(self, bench: Bench) -> None:
        for fault in self._faults:
            fault.end(bench)


class Idle(Fault):
    """No fault: the ends have nothing to send for a while, and wait for each other."""

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        self._traffic = traffic
        traffic.command("hold")
        time.sleep(1)
        self._before = traffic.counts()

    def prove(self, bench: Bench) -> str:
        moved = sum(self._traffic.counts()) - sum(self._before)
        return expect(moved <= 4, f"{moved} messages meanwhile")  # the last report may have been on its way

    def end(self, bench: Bench) -> None:
        self._traffic.command("go")


class Netem(Fault):
    """A queue that loses, delays, repeats, spoils or reorders packets on both ways; `shows` says by what that is known."""

    def __init__(self, what: str, shows: str) -> None:
        self._what, self._shows = what.split(), shows
        self._before: dict[str, int] = {}

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        self._before = self._counters(bench)
        for host, netdev in self._places(bench):
            bench.tc(host, "qdisc", "add", "dev", netdev, "root", "netem", "limit", "10000", *self._what)
        if self._shows == "backlog":
            wait_for(lambda: self._now(bench)["backlog"] > 0, "packets held back by the queue")
            self._before["backlog"] = -1  # shown

    def prove(self, bench: Bench) -> str:
        # What was on its way when traffic stopped is not lost.
        deadline = time.monotonic() + 5
        while (grown := self._now(bench)[self._shows] - self._before.get(self._shows, 0)) <= 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        return expect(grown > 0, f"{self._shows} +{grown}")

    def end(self, bench: Bench) -> None:
        for host, netdev in self._places(bench):
            bench.tc(host, "qdisc", "del", "dev", netdev, "root")

    @staticmethod
    def _places(bench: Bench) -> list[tuple[str, str]]:
        """On rxe the ports of the switch: a device is told of what its own interface does not take."""
        return [("", side.far) if bench.kind == "rxe" else (side.port.host, side.port.netdev) for side in bench.wire]

    def _now(self, bench: Bench) -> dict[str, int]:
        queues = [bench.qdisc(host, netdev) for host, netdev in self._places(bench)]
        counters = self._counters(bench)
        counters["drops"] = sum(queue["drops"] for queue in queues)
        counters["backlog"] = sum(queue["qlen"] for queue in queues)
        return counters

    @staticmethod
    def _counters(bench: Bench) -> dict[str, int]:
        """Sums over all devices."""
        if bench.kind == "siw":
            counters: dict[str, int] = {}
            for side in bench.sides:
                for name, value in bench.ip_counters(side.port.host).items():
                    counters[name] = counters.get(name, 0) + value
            counters["spoilt"] = counters["TcpInCsumErrors"] + counters["IpInHdrErrors"]
            counters["repeated"] = counters["TcpExtTCPDSACKOfoRecv"] + counters["TcpExtTCPDSACKRecv"]
            counters["disorder"] = counters["TcpExtTCPOFOQueue"]
            return counters
        each = [bench.rdma_counters(side) for side in bench.sides]
        counters = {name: sum(item[name] for item in each) for name in each[0]}
        counters["repeated"] = counters["duplicate_request"]
        counters["disorder"] = counters["out_of_seq_request"]
        counters["spoilt"] = counters["disorder"]  # what is thrown away for its checksum is missing
        return counters


class AddressChanged(Fault):
    """a's addresses are removed and others take their place."""

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        port = bench.a.port
        self._old = (port.ipv4, port.ipv6)
        self._new = tuple(re.sub(r"[0-9a-f]+$", "63", address) for address in self._old)
        bench.ip(port.host, f"addr del {port.ipv4}/24 dev {port.netdev}", f"addr del {port.ipv6}/64 dev {port.netdev}",
                 f"addr add {self._new[0]}/24 dev {port.netdev}", f"addr add {self._new[1]}/64 dev {port.netdev} nodad")
        if bench.kind == "rxe":
            bench.route_also(bench.a, *self._new)
            wait_for(lambda: self._gid(bench, self._new[0]) and not self._gid(bench, self._old[0]), "the port's GIDs changed")

    def prove(self, bench: Bench) -> str:
        shown = bench.exec(bench.a.port.host, "ip", "-o", "addr", "show", "dev", bench.a.port.netdev)
        return expect(self._old[0] + "/" not in shown and self._new[0] + "/" in shown, f"{self._old[0]} became {self._new[0]}")

    def end(self, bench: Bench) -> None:
        bench.restore()

    @staticmethod
    def _gid(bench: Bench, ipv4: str) -> bool:
        text = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, ipv4.split(".")))
        for path in Path(f"/sys/class/infiniband/{bench.a.port.rdma}/ports/1/gids").iterdir():
            try:
                if path.read_text().strip() == text:
                    return True
            except OSError:
                pass  # an entry without a value
        return False


class Removed(Fault):
    """The RDMA device is deleted, or the network device below it. Either may wait for the processes to let go."""

    def __init__(self, netdev: bool) -> None:
        self._netdev = netdev

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        port = bench.a.port
        what = ["ip", *bench._in(port.host), "link", "del", "dev", port.netdev] if self._netdev else [
            *(["ip", "netns", "exec", port.host] if port.host else []), "rdma", "link", "del", port.rdma]
        self._command = subprocess.Popen(what, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(1)
        self._waits = self._command.poll() is None

    def prove(self, bench: Bench) -> str:
        return f"{' '.join(self._command.args)} " + ("waited for the processes" if self._waits else "was done at once")

    def ends_after_processes(self, bench: Bench) -> None:
        try:
            said = self._command.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            self._command.kill()
            raise NotInForce(f"{' '.join(self._command.args)} does not return although all processes have ended") from None
        bench.wait_gone(bench.a)
        expect(self._command.returncode == 0, f"{' '.join(self._command.args)}: {self._command.returncode} {said}")


class Signalled(Fault):
    """b's process gets a signal: killed, or stopped for a while (its device goes on)."""

    def __init__(self, number: int) -> None:
        self._number = number

    def begin(self, bench: Bench, traffic: Traffic | None) -> None:
        self._process = traffic.ends[1].process
        os.kill(self._process.pid, self._number)

    def prove(self, bench: Bench) -> str:
        if self._number == signal.SIGKILL:
            return expect(self._process.wait(timeout=10) == -signal.SIGKILL, "b was killed")
        state = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return expect(state == "T", f"b's process was in state {state}")

    def end(self, bench: Bench) -> None:
        os.kill(self._process.pid, signal.SIGCONT)
