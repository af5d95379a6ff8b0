"""The network and the RDMA devices of a guest: what the lab sets up by itself, and what scenarios change.

Every rxe device sits on a network device of its own. In one guest these are veths whose other ends share a bridge; between two
guests they are virtio NICs on one virtual wire. All addresses are local to one or two kernels, and rxe sends a packet where the
routing table says: so policy routing makes traffic from an address leave through its own device, even to an address of the
same kernel. siw works across network namespaces, rxe does not (its sockets live in the first one), so only siw devices move
into the namespace of their host.
"""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


class CommandFailed(Exception):
    """A command of the set-up failed; the text holds its words."""


def run(command: list[str], check: bool = True, **options) -> str:
    """Runs a command; its standard output. Raises CommandFailed with what it said."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if check and done.returncode != 0:
        raise CommandFailed(f"{' '.join(command)}: {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def batch(tool: str, lines: list[str], *arguments: str, check: bool = True) -> None:
    """Many commands of `ip`, `tc` or `bridge` in one process: each start costs 10 ms here, and 100 ms on a busy host."""
    run([tool, *arguments, "-batch", "-"], check=check, input="\n".join(lines) + "\n")


@dataclass(frozen=True)
class Port:
    """An RDMA device, its network device and addresses."""

    rdma: str
    netdev: str
    number: int  # names its routing table and addresses
    mtu: int
    ipv4: str
    ipv6: str
    kind: str = "rxe"
    host: str = ""  # network namespace of a siw device
    guest: int = 0

    @property
    def bridge_end(self) -> str:
        """The end of its veth pair in the bridge: a switch's port."""
        return f"sw{self.number}"


def make_port(number: int, mtu: int = 4200, guest: int = 0, **more) -> Port:
    """Port `number` (0..9) of a guest: addresses 10.0.0.(1 + number + 10 x guest) and fd00::same."""
    last = 1 + number + 10 * guest
    defaults = {"rdma": f"rxe{number}", "netdev": f"net{number}"}
    return Port(number=number, mtu=mtu, ipv4=f"10.0.0.{last}", ipv6=f"fd00::{last:x}", guest=guest, **{**defaults, **more})


def siw_port(wire: int, end: int, mtu: int, **more) -> Port:
    """The port at end 0 or 1 of a wire: addresses 10.8.WIRE.1 or .2."""
    return Port(**{"rdma": f"siw{wire}", "ipv4": f"10.8.{wire}.{1 + end}", "ipv6": f"fd08:{wire}::{1 + end}", "kind": "siw", "mtu": mtu,
                   "guest": end, **more})


def peer_of(port: Port) -> Port:
    """The port of the other guest on the same place of the wire."""
    if port.kind == "rxe":
        return make_port(port.number, port.mtu, 1 - port.guest)
    wire = int(port.rdma.removeprefix("siw"))
    return siw_port(wire, 1 - port.guest, port.mtu, netdev=port.netdev, number=port.number)


def mac(number: int, guest: int) -> str:
    """Known in advance, so that neighbours need not be asked for: the first connect would wait a second."""
    return f"52:54:00:00:{guest:02x}:{number:02x}"


def pin_static_keys() -> None:
    """Switches tc's static keys on for good. QEMU's threaded TCG crashes ("Oops: int3", RCU stalls) when the kernel patches one
    that the other CPU is executing; with the keys on, a test's qdiscs and filters patch nothing under traffic."""
    for module in ("dummy", "sch_netem", "cls_u32", "act_gact"):
        run(["modprobe", "-q", module])
    batch("ip", ["link add pin0 type dummy", "link set pin0 up"])
    lines = ["qdisc add dev pin0 clsact"]
    for direction in ("ingress", "egress"):
        lines.append(f"filter add dev pin0 {direction} protocol ip u32 match ip dport 9 0xffff action drop")
    batch("tc", lines)


def add_bridge() -> None:
    """The switch of one guest."""
    run(["modprobe", "-q", "bridge"])
    run(["modprobe", "-q", "veth"])
    batch("ip", ["link add br0 type bridge mcast_snooping 0", "link set br0 mtu 9000 up"])
    sysctl("net.ipv6.conf.br0.disable_ipv6", 1)


def sysctl(name: str, value: int) -> None:
    Path("/proc/sys/" + name.replace(".", "/")).write_text(str(value))


def add_veth(port: Port) -> None:
    """A network device whose other end is a port of the switch."""
    batch("ip", [
        f"link add {port.netdev} mtu {port.mtu} address {mac(port.number, 0)} type veth peer name {port.bridge_end} mtu {port.mtu}",
        f"link set {port.bridge_end} master br0 up",
    ])
    sysctl(f"net.ipv6.conf.{port.bridge_end}.disable_ipv6", 1)


def address(port: Port) -> None:
    """Gives the network device its addresses and brings it up."""
    sysctl(f"net.ipv6.conf.{port.netdev}.accept_dad", 0)
    batch("ip", [
        f"addr add {port.ipv4}/24 dev {port.netdev}",
        f"addr add {port.ipv6}/64 dev {port.netdev} nodad",
        f"link set {port.netdev} up",
    ])


def take_local_sources(netdev: str) -> None:
    """A packet may come from an address of this kernel, and only the device that has an address answers for it."""
    for key, value in (("rp_filter", 0), ("accept_local", 1), ("arp_ignore", 1), ("arp_announce", 2)):
        sysctl(f"net.ipv4.conf.{netdev}.{key}", value)


def route_by_source(ports: list[Port]) -> None:
    """Traffic from an address leaves through its device, also to another address of this kernel (to itself it stays)."""
    for name in ("all", "default", *(port.netdev for port in ports)):
        take_local_sources(name)
    for family, net in (("-4", "10.0.0.0/24"), ("-6", "fd00::/64")):
        lines = ["rule add pref 1000 lookup local", "rule del pref 0"]
        for port in ports:
            table = 100 + port.number
            own = port.ipv4 if family == "-4" else port.ipv6
            lines += [
                f"rule add pref 10 iif {port.netdev} lookup local",
                f"rule add pref 20 from {own} to {own} lookup local",
                f"route add {net} dev {port.netdev} src {own} table {table}",
                f"rule add pref 100 from {own} lookup {table}",
                f"rule add pref 101 oif {port.netdev} lookup {table}",
            ]
        batch("ip", lines, family)


def know_neighbours(ports: list[Port], others: list[tuple[str, str, str]]) -> None:
    """Permanent neighbours: `others` are (IPv4, IPv6, MAC)."""
    lines = [f"neigh replace {ip} lladdr {where} dev {port.netdev} nud permanent" for port in ports
             for ipv4, ipv6, where in others for ip in (ipv4, ipv6) if ip not in (port.ipv4, port.ipv6)]
    if lines:
        batch("ip", lines)


def add_device(port: Port) -> None:
    """The RDMA device on a network device."""
    before = ["ip", "netns", "exec", port.host] if port.host else []
    run([*before, "rdma", "link", "add", port.rdma, "type", port.kind, "netdev", port.netdev])


def add_siw_hosts(per_host: int, mtu: int) -> list[Port]:
    """Two hosts (network namespaces a and b) with `per_host` siw devices each, every one on a wire of its own (10.8.N.0/24)."""
    run(["modprobe", "-q", "veth"])
    ports = []
    for host in ("a", "b"):
        run(["ip", "netns", "add", host])
        run(["ip", "-n", host, "link", "set", "lo", "up"])
    for number in range(per_host):
        run(["ip", "link", "add", f"wa{number}", "mtu", str(mtu), "type", "veth", "peer", "name", f"wb{number}", "mtu", str(mtu)])
        for index, host in enumerate(("a", "b")):
            name = f"w{host}{number}"
            port = siw_port(number, index, mtu, rdma=f"siw{index * per_host + number}", netdev=name, number=number, host=host, guest=0)
            run(["ip", "link", "set", name, "netns", host])
            batch("ip", [f"addr add {port.ipv4}/24 dev {name}", f"addr add {port.ipv6}/64 dev {name} nodad", f"link set {name} up"], "-n", host)
            add_device(port)
            ports.append(port)
    return ports


# Where the two hosts of one guest meet for TCP.
TCP_HOSTS = {"a": "10.1.0.1", "b": "10.1.0.2"}


def add_tcp_hosts() -> None:
    """Two hosts (network namespaces a and b) with a wire for TCP. rxe devices stay where they are; their verbs work from any."""
    run(["ip", "link", "add", "tcpa", "type", "veth", "peer", "name", "tcpb"])
    for host, ipv4 in TCP_HOSTS.items():
        run(["ip", "netns", "add", host])
        run(["ip", "link", "set", f"tcp{host}", "netns", host])
        batch("ip", ["link set lo up", f"addr add {ipv4}/24 dev tcp{host}", f"link set tcp{host} up"], "-n", host)


def set_mtu(port: Port, mtu: int) -> None:
    """Of the network device and the other end of its cable; the RDMA device takes the next smaller MTU that it knows."""
    prefix = ["-n", port.host] if port.host else []
    batch("ip", [f"link set {port.netdev} mtu {mtu}"], *prefix)


def wait_active(ports: list[Port], seconds: float = 10) -> None:
    """Until every port is ACTIVE; raises CommandFailed with those that are not."""
    deadline = time.monotonic() + seconds
    while True:
        waiting = [port.rdma for port in ports if port_state(port.rdma) != "ACTIVE"]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise CommandFailed(f"ports that did not become active: {' '.join(waiting)}")
        time.sleep(0.05)


def port_state(rdma: str) -> str:
    """ACTIVE, DOWN, ...; empty where the device is not there."""
    try:
        return Path(f"/sys/class/infiniband/{rdma}/ports/1/state").read_text().split(":")[1].strip()
    except (OSError, IndexError):
        return ""


def add_rxe_ports(count: int, mtus: list[int], guest: int, guests: int) -> list[Port]:
    """rxe0.. of this guest, on the bridge or on the wire between guests."""
    ports = [make_port(number, mtus[number % len(mtus)], guest) for number in range(count)]
    if guests == 1:
        add_bridge()
        for port in ports:
            add_veth(port)
    else:
        name_nics(ports, guest)
    for port in ports:
        address(port)
    route_by_source(ports)
    everyone = [make_port(number, guest=other) for other in range(guests) for number in range(count)]
    know_neighbours(ports, [(port.ipv4, port.ipv6, mac(port.number, port.guest)) for port in everyone])
    for port in ports:
        add_device(port)
    return ports


def add_siw_ports(count: int, mtus: list[int], guest: int, first: int) -> list[Port]:
    """siw0.. of one of two guests, on its NICs from number `first` on; each pair has a subnet of its own."""
    ports = [siw_port(number, guest, mtus[0], netdev=f"iw{number}", number=first + number) for number in range(count)]
    name_nics(ports, guest)
    for port in ports:
        address(port)
        add_device(port)
    return ports


def set_up(conf: dict) -> None:
    """What `run` was asked for. `ports.json` in /run/lab tells scenarios what there is."""
    pin_static_keys()
    for module in ("ib_uverbs", "rdma_ucm", "rdma_rxe"):
        run(["modprobe", module])
    ports: list[Port] = []
    if conf["guests"] > 1:
        run(["modprobe", "-q", "virtio_net"])
    if conf["devices"]:
        ports = add_rxe_ports(conf["devices"], conf["mtu"], conf["guest"], conf["guests"])
    if conf["iwarp"]:
        if conf["siw"]:
            raise CommandFailed(conf["siw"])
        run(["modprobe", "siw"])
        if conf["guests"] == 1:
            ports += add_siw_hosts(conf["iwarp"], conf["mtu"][0])
        else:
            ports += add_siw_ports(conf["iwarp"], conf["mtu"], conf["guest"], conf["devices"])
    if conf["machine"]:
        import shape  # pylint: disable=import-outside-toplevel
        ports += shape.lay(conf["machine"])
    wait_active(ports)
    Path("/run/lab").mkdir()
    Path("/run/lab/ports.json").write_text(json.dumps([port.__dict__ for port in ports]))


def name_nics(ports: list[Port], guest: int) -> None:
    """Finds the virtio NICs by their MAC and names them as the ports say."""
    by_mac = {(path / "address").read_text().strip(): path.name for path in Path("/sys/class/net").iterdir()}
    for port in ports:
        found = by_mac.get(mac(port.number, guest))
        if found is None:
            raise CommandFailed(f"no NIC with address {mac(port.number, guest)}; there are {sorted(by_mac)}")
        batch("ip", [f"link set {found} name {port.netdev}", f"link set {port.netdev} mtu {port.mtu}"])


def ports() -> list[Port]:
    """The ports of this guest, for scenarios."""
    return [Port(**port) for port in json.loads(Path("/run/lab/ports.json").read_text())]
