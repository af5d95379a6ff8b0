"""Two ends on one guest, with everything that a fault needs to be made, proved and taken back.

rxe: end a on rxe0 (net0), b on rxe1 (net1), each a veth whose other end (sw0, sw1) is a port of a bridge; handshakes go over
loopback, so that a fault of the wire is one of RDMA alone. With more rails each end has as many devices (a: rxe0, rxe1; b: rxe2, rxe3),
and faults are those of one rail. siw: end a on siw0 (wa0) in namespace a, b on siw2 (wb0) in b, joined by a wire of their
own; handshakes go over the last wire (wa1, wb1). With two rails: siw0 and siw1 to siw3 and siw4, handshakes over wa2 and wb2.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import network
from network import CommandFailed, Port

RESOURCES = ("qp", "cq", "mr", "pd", "cm_id", "ctx", "srq")
# The kernel lets go of some objects a little after their process has ended (siw: with its last TCP timer).
RELEASE_SECONDS = 20.0


@dataclass
class Side:
    """An end's place: its port, the namespace and what its process needs to know."""

    name: str
    port: Port
    far: str  # what the other end of its veth is called
    far_host: str  # and in which namespace that is
    handshakes: str  # network interface


class Bench:
    """The guest's network between scenarios and under them."""

    def __init__(self, kind: str, rails: int = 1) -> None:
        self.kind = kind
        ports = [port for port in network.ports() if port.kind == kind]
        if kind == "rxe":
            if len(ports) < 2 * rails:
                raise CommandFailed(f"needs {2 * rails} rxe devices, there are {len(ports)}: tests/lab/run --devices {2 * rails}")
            self.sides = tuple(Side(host if rail == 0 else f"{host}{rail}", port, port.bridge_end, "", "lo") for host, rail, port in
                               zip("a" * rails + "b" * rails, [*range(rails)] * 2, ports))
            self.a, self.b = self.sides[0], self.sides[rails]
        else:
            hosts = {host: [port for port in ports if port.host == host] for host in "ab"}
            if any(len(found) <= rails for found in hosts.values()):
                raise CommandFailed(f"needs {rails + 1} siw devices in each host: tests/lab/run --devices 0 --iwarp {rails + 1}")
            self.sides = tuple(Side(host if rail == 0 else f"{host}{rail}", hosts[host][rail], hosts[other][rail].netdev, other,
                                    hosts[host][rails].netdev) for host, other in ("ab", "ba") for rail in range(rails))
            self.a, self.b = self.sides[0], self.sides[rails]
            for host in "ab":  # siw connects in the kernel, where nobody can end it: 7 s, not 127
                self.exec(host, "sh", "-c", "echo 2 >/proc/sys/net/ipv4/tcp_syn_retries")
        self.wire = (self.a, self.b)  # where the faults of a wire are made
        self._settings = {side.name: self._identity(side) for side in self.sides}
        self._more_rules: dict[str, list[str]] = {}  # by the family option of `ip`
        self._resources = self.resources()

    def take(self, a: str, b: str) -> None:
        """Of several rails, the devices whose wire is to suffer."""
        self.a, self.b = self.wire = tuple(next(side for side in self.sides if side.port.rdma == rdma) for rdma in (a, b))

    # ---- what processes are started with

    def commands(self) -> dict[str, list[str]]:
        return {side.name: ["ip", "netns", "exec", side.port.host] if side.port.host else [] for side in self.wire}

    def environments(self, more: dict[str, str]) -> dict[str, dict[str, str]]:
        return {side.name: {"NCCL_IB_HCA": "=" + side.port.rdma, "NCCL_SOCKET_IFNAME": "=" + side.handshakes, **more}
                for side in self.wire}

    # ---- commands in a side's namespace

    @staticmethod
    def _in(host: str) -> list[str]:
        return ["-n", host] if host else []

    def ip(self, host: str, *lines: str) -> None:
        network.batch("ip", list(lines), *self._in(host))

    def tc(self, host: str, *words: str, check: bool = True) -> str:
        return network.run(["tc", *self._in(host), *words], check=check)

    def exec(self, host: str, *words: str, check: bool = True) -> str:
        return network.run([*(["ip", "netns", "exec", host] if host else []), *words], check=check)

    # ---- counters, for proofs

    def rdma_counters(self, side: Side) -> dict[str, int]:
        """What the device has counted; siw counts nothing."""
        folder = Path(f"/sys/class/infiniband/{side.port.rdma}/ports/1/hw_counters")
        return {path.name: int(path.read_text()) for path in folder.iterdir() if path.name != "lifespan"} if folder.exists() else {}

    def ip_counters(self, host: str) -> dict[str, int]:
        """TCP's and IP's counters of a namespace, as /proc/net names them: TcpInCsumErrors, TcpExtTCPOFOQueue, ..."""
        counters = {}
        text = self.exec(host, "cat", "/proc/net/snmp", "/proc/net/netstat")
        lines = text.splitlines()
        for names, values in zip(lines[::2], lines[1::2]):
            kind, *fields = names.split()
            counters.update({kind.rstrip(":") + name: int(value) for name, value in zip(fields, values.split()[1:])})
        return counters

    def filter_counters(self, host: str, netdev: str, direction: str) -> int:
        """Packets that the actions of a side's filters have met."""
        shown = json.loads(self.tc(host, "-s", "-j", "filter", "show", "dev", netdev, direction) or "[]")
        return sum(action["stats"]["packets"] for item in shown for action in item.get("options", {}).get("actions", []))

    def qdisc(self, host: str, netdev: str) -> dict:
        """The statistics of the root qdisc: packets, drops, backlog."""
        shown = json.loads(self.tc(host, "-s", "-j", "qdisc", "show", "dev", netdev))
        return next(item for item in shown if item.get("root"))

    # ---- back to the beginning

    @staticmethod
    def _identity(side: Side) -> list[str]:
        """The lines for `ip` that give a side its addresses, routes and neighbours back."""
        port = side.port
        return [f"link set dev {port.netdev} mtu {port.mtu} up", f"addr replace {port.ipv4}/24 dev {port.netdev}",
                f"addr replace {port.ipv6}/64 dev {port.netdev} nodad"]

    def restore(self) -> None:
        """Undoes what a scenario did to devices, addresses, links, queues and filters, whatever it was. In few commands: each takes
        0.1 s here."""
        self._rules("del")
        self._more_rules = {}
        for side in self.sides:
            if not self._has_netdev(side):
                self._restore_netdev(side)
        for host in self._hosts():
            self._clear_queues(host)
            self._restore_links(host)
        if self.kind == "rxe":
            network.batch("bridge", [f"link set dev {side.far} state 3" for side in self.sides])
        for side in self.sides:
            if not Path(f"/sys/class/infiniband/{side.port.rdma}").exists():
                network.add_device(side.port)
        network.wait_active([side.port for side in self.sides])

    def mend(self, side: Side) -> None:
        """What a side has lost with its link, in one command: traffic may be waiting for it."""
        if self.kind != "rxe":
            return self.restore()
        port = side.port
        self.ip("", *self._settings[side.name], *self.routes(port, port.ipv4, port.ipv6))
        return network.wait_active([port])

    def _hosts(self) -> set[str]:
        return {side.port.host for side in self.sides}  # far ends are in one of these too

    def _has_netdev(self, side: Side) -> bool:
        if not side.port.host:
            return Path(f"/sys/class/net/{side.port.netdev}").exists()
        return network.run(["ip", *self._in(side.port.host), "-o", "link", "show", "dev", side.port.netdev], check=False) != ""

    def _restore_netdev(self, side: Side) -> None:
        port = side.port
        self.wait_gone(side)
        if self.kind == "rxe":
            network.add_veth(port)
        else:
            self.ip("", f"link add {port.netdev} mtu {port.mtu} netns {port.host} type veth peer name {side.far} mtu {port.mtu} "
                    f"netns {side.far_host}")

    def _clear_queues(self, host: str) -> None:
        netdevs = {netdev for side in self.sides for where, netdev in
                   ((side.port.host, side.port.netdev), (side.far_host, side.far), (side.port.host, side.handshakes)) if where == host}
        lines = [f"qdisc del dev {netdev} {queue}" for netdev in sorted(netdevs) for queue in ("root", "clsact")]
        network.batch("tc", lines, *self._in(host), "-force", check=False)  # most are not there

    def _restore_links(self, host: str) -> None:
        lines = [f"link set dev {netdev} mtu {side.port.mtu} up" for side in self.sides for where, netdev in
                 ((side.port.host, side.port.netdev), (side.far_host, side.far)) if where == host]
        shown = {item["ifname"]: item["addr_info"] for item in json.loads(network.run(["ip", *self._in(host), "-j", "addr", "show"]))}
        mine = [side for side in self.sides if side.port.host == host]
        for side in mine:
            port = side.port
            if self.kind == "rxe":
                network.sysctl(f"net.ipv6.conf.{port.netdev}.accept_dad", 0)
                network.take_local_sources(port.netdev)
            lines += [f"addr del {item['local']}/{item['prefixlen']} dev {port.netdev}" for item in shown[port.netdev]
                      if item["local"] not in (port.ipv4, port.ipv6) and item["scope"] == "global"]
            lines += self._settings[side.name]
        if self.kind == "rxe":  # routes go by a link that is up
            lines += [line for side in mine for line in self.routes(side.port, side.port.ipv4, side.port.ipv6)]
        self.ip(host, *lines)

    def wait_gone(self, side: Side, seconds: float = 30.0) -> None:
        """Until a device that was deleted is really gone."""
        deadline = time.monotonic() + seconds
        while Path(f"/sys/class/infiniband/{side.port.rdma}").exists():
            if time.monotonic() > deadline:
                raise CommandFailed(f"{side.port.rdma} is still there {seconds:.0f} s after its removal")
            time.sleep(0.05)

    def routes(self, port: Port, ipv4: str, ipv6: str) -> list[str]:
        """Routes and neighbours of an rxe port, which the kernel forgets with link and address (network.route_by_source)."""
        table = 100 + port.number
        lines = [f"route replace 10.0.0.0/24 dev {port.netdev} src {ipv4} table {table}",
                 f"route replace fd00::/64 dev {port.netdev} src {ipv6} table {table}"]
        for other in (side.port for side in self.sides if side.port != port):
            where = network.mac(other.number, 0)
            lines += [f"neigh replace {ip} lladdr {where} dev {port.netdev} nud permanent" for ip in (other.ipv4, other.ipv6)]
        return lines

    def route_also(self, side: Side, ipv4: str, ipv6: str) -> None:
        """Makes traffic from and to another address of an rxe port go the same way. restore() forgets it."""
        port, table = side.port, 100 + side.port.number
        self._more_rules = {family: [f"pref 20 from {own} to {own} lookup local", f"pref 100 from {own} lookup {table}"]
                            for family, own in (("-4", ipv4), ("-6", ipv6))}
        self._rules("add")
        self.ip("", f"route replace 10.0.0.0/24 dev {port.netdev} src {ipv4} table {table}",
                f"route replace fd00::/64 dev {port.netdev} src {ipv6} table {table}",
                *[f"neigh replace {ip} lladdr {network.mac(port.number, 0)} dev {other.port.netdev} nud permanent"
                  for other in self.sides if other is not side for ip in (ipv4, ipv6)])

    def _rules(self, what: str) -> None:
        for family, rules in self._more_rules.items():
            network.batch("ip", [f"rule {what} {rule}" for rule in rules], family)

    # ---- what must not stay

    def resources(self) -> dict[str, int]:
        """How many objects of each kind the devices of the bench hold."""
        shown = json.loads(network.run(["rdma", "-j", "resource", "show"]))
        ours = [item for item in shown if item["ifname"] in [side.port.rdma for side in self.sides]]
        return {kind: sum(item.get(kind, 0) for item in ours) for kind in RESOURCES}

    def left_behind(self) -> str:
        """Objects beyond those of the beginning that do not go away; empty when there are none."""
        deadline = time.monotonic() + RELEASE_SECONDS
        while (now := self.resources()) != self._resources:
            if time.monotonic() > deadline:
                details = [line for kind in ("qp", "cq", "mr", "pd", "cm_id") for line in
                           network.run(["rdma", "resource", "show", kind], check=False).splitlines() if " pid " in line]
                return f"the kernel holds {now}, at the beginning {self._resources}: " + " | ".join(details)
            time.sleep(0.1)
        return ""
