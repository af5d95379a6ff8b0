"""The table of faults on one rail: what is done, and what may come of it.

What must end in an error, with the words of it, runs with RAILWISE_FAILOVER=0; what passes by itself runs as users do, with failover,
which finds no other rail here (failover.py has two) and comes back to the one.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from faults_made import (AddressChanged, BlackHole, Both, Fault, HandshakesLost, Idle, LinkDown, Netem, Removed, Signalled,
                         SwitchPortBlocked)

# What may come of a fault: all data right and traffic goes on; or every end says by itself that and why it ends.
DATA, ERROR = "data", "error"
BOTH = frozenset({"rxe", "siw"})
RXE, SIW = frozenset({"rxe"}), frozenset({"siw"})

# What an error of the wire must say. The end that finds it names its port and queue pair, the peer and the status in words; the
# other is told by the end of the handshake's socket, and names device and peer.
QUEUE_PAIR = r"{rdma} port 1 qp \d+: .*(failed|ended)"
TRANSPORT = QUEUE_PAIR + r".*(transport retry counter exceeded|does not answer)"
PORT_DOWN = QUEUE_PAIR + r".*(its port is down|does not answer)"
# The port may be up again when somebody looks.
FLAP = QUEUE_PAIR + r".*(its port is down|Work Request Flushed Error|transport retry counter exceeded|does not answer)"
ADDRESS_GONE = QUEUE_PAIR + r".*(its address \S+ is gone from the port|does not answer)"
LINK_DOWN = r"{rdma} port 1: link down"
REMOVED = QUEUE_PAIR + r".*(device was removed|its device does not answer|its port is down|does not answer|Work Request Flushed Error)"


@dataclass(frozen=True)
class Scenario:
    name: str
    text: str
    fault: Callable[[], Fault]
    allowed: frozenset[str]  # outcomes without failover
    seconds: float = 0  # how long the fault lasts; 0: for good
    kinds: frozenset[str] = BOTH
    error: str = TRANSPORT  # what an end must say then; {rdma}, {peer}: a's and b's device
    limit: float = 60  # seconds after the fault within which it must be over: a hang else
    environment: dict[str, str] = field(default_factory=dict)
    connecting: bool = False  # it is made before the ends connect
    reports: str = ""  # what a's log must say of the device itself; {rdma}: a's device
    extra: bool = False  # nearly the same as another, and not in CI
    again: bool = False  # after an error new connections of the same processes must work, the fault taken back or not (`stays`)
    stays: bool = False
    failover: bool = True  # runs with failover; nothing but DATA is allowed then

    def outcomes(self) -> frozenset[str]:
        return frozenset({DATA}) if self.failover else self.allowed


def passing(name: str, text: str, fault: Callable[[], Fault], seconds: float, **more) -> Scenario:
    """A fault shorter than the retries: traffic goes on."""
    return Scenario(name, text, fault, frozenset({DATA}), seconds, **more)


def lasting(name: str, text: str, fault: Callable[[], Fault], **more) -> Scenario:
    """A fault for good: an error that says why."""
    return Scenario(name, text, fault, frozenset({ERROR}), failover=False, **more)


def disturbing(name: str, text: str, what: str, shows: str, **more) -> Scenario:
    """Packets suffer for as long as the scenario goes on."""
    return Scenario(name, text, lambda: Netem(what, shows), more.pop("allowed", frozenset({DATA, ERROR})), **more)


SCENARIOS = [
    passing("black-hole-short", "RDMA packets vanish both ways for 0.3 s", lambda: BlackHole("from", "to"), 0.3),
    lasting("black-hole", "RDMA packets vanish both ways", lambda: BlackHole("from", "to")),
    lasting("black-hole-out", "RDMA packets from a vanish", lambda: BlackHole("from"), extra=True),
    lasting("black-hole-in", "RDMA packets to a vanish", lambda: BlackHole("to")),
    lasting("black-hole-7", "the same with NCCL's number of retries, which rxe takes for endless", lambda: BlackHole("from", "to"), kinds=RXE,
            environment={"NCCL_IB_TIMEOUT": "12", "NCCL_IB_RETRY_CNT": "7"}, error=QUEUE_PAIR + ".*neither the end of a send nor an error"),
    lasting("all-lost", "RDMA packets vanish, and what tells the ends of each other", lambda: Both(BlackHole("from", "to"), HandshakesLost()), extra=True),
    Scenario("handshakes", "only what tells the ends of each other is lost", HandshakesLost, frozenset({DATA}), extra=True),
    passing("idle", "no fault: 3 s without messages", Idle, 3.0),
    lasting("connect-black-hole", "RDMA packets vanish before the ends connect", lambda: BlackHole("from", "to"), connecting=True,
            error=TRANSPORT + "|RDMA CM connection .*: |RAILWISE_CONNECT_TIMEOUT"),
    lasting("connect-handshakes", "the network of the handshakes loses everything", HandshakesLost, connecting=True,
            error="connecting to .* no connection: |RAILWISE_CONNECT_TIMEOUT", extra=True),
    passing("switch-short", "a's port of the switch blocks for 0.3 s", SwitchPortBlocked, 0.3, kinds=RXE, extra=True),
    lasting("switch", "a's port of the switch blocks", SwitchPortBlocked, kinds=RXE),
    lasting("smaller-mtu", "the switch drops packets of more than 4096 bytes", lambda: BlackHole("from", "to", large=True), kinds=RXE),
    Scenario("link-flap", "a's interface is down for 0.3 s", lambda: LinkDown(own=True), frozenset({DATA, ERROR}), 0.3,
             error=FLAP),
    lasting("link-down", "a's interface goes down", lambda: LinkDown(own=True), error=PORT_DOWN, reports=LINK_DOWN, again=True),
    Scenario("cable-flap", "a has no carrier for 0.3 s", lambda: LinkDown(own=False), frozenset({DATA, ERROR}), 0.3,
             error=FLAP, extra=True),
    lasting("cable-out", "a has no carrier any more", lambda: LinkDown(own=False), error=PORT_DOWN, kinds=RXE, reports=LINK_DOWN),
    lasting("cable-out", "the same on siw, which tells nobody of it", lambda: LinkDown(own=False), error=PORT_DOWN, kinds=SIW, extra=True),
    lasting("address", "a's addresses are replaced by others", AddressChanged, error=ADDRESS_GONE, again=True, stays=True),
    disturbing("loss", "2 % of the packets are lost", "loss 2%", "drops"),
    disturbing("delay", "each packet takes 15 ms", "delay 15ms", "backlog", allowed=frozenset({DATA})),
    disturbing("duplication", "5 % of the packets come twice", "duplicate 5%", "repeated", extra=True),
    disturbing("corruption", "a bit of 2 % of the packets is turned", "corrupt 2%", "spoilt"),
    disturbing("reordering", "a quarter of the packets overtakes others by 5 ms", "delay 5ms reorder 25% 50%", "disorder", extra=True),
    Scenario("device-removed", "`rdma link del`", lambda: Removed(netdev=False), frozenset({DATA, ERROR}), error=REMOVED,
             failover=False),
    Scenario("netdev-removed", "the network device is deleted", lambda: Removed(netdev=True), frozenset({ERROR}), error=REMOVED,
             failover=False),
    lasting("process-killed", "b's process is killed", lambda: Signalled(signal.SIGKILL), error="died|gone|closed"),
    passing("process-stopped", "b's process is stopped for 1 s", lambda: Signalled(signal.SIGSTOP), 1.0),
]
