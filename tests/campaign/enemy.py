"""An enemy on the management network of a run with faults: strangers call the ranks' TCP ports, and their side channels are cut.

It finds the sockets of the ranks in /proc. Strangers say nothing, noise, HTTP, or the begin of a message of ours; some come as a crowd. A TCP connection
is cut by `ss -K`, which needs CAP_NET_ADMIN. perf's own connections (to the port of rank 0) are left alone: perf has no failover. So is a connection that
is younger than CUT_AFTER_S: of a handshake the last message cannot be repeated (docs/security.md).
"""
import collections
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import threading
import time

ESTABLISHED, LISTENS = "01", "0A"
CUT_AFTER_S = 0.15
CROWD = 40
MOST_HELD = 200
PAUSE_S = (0.01, 0.08)
MAGIC = b"RAILWISE"  # of our messages (src/net/wireup/handshake.h)
HEADER = pathlib.Path(__file__).resolve().parents[2] / "src/base/protocol_spoken.cc"
VERSION = int(re.search(r"kProtocol = \{\d+, (\d+)\}", HEADER.read_text())[1])

Socket = collections.namedtuple("Socket", "inode state local remote")  # local, remote: (address, port)


def descendants(pid):
    """The processes below `pid`."""
    children = collections.defaultdict(list)
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(entry.parent.name))
    found, left = [], [pid]
    while left:
        more = children[left.pop()]
        found += more
        left += more
    return found


def address_of(text):
    words, port = text.split(":")
    raw = b"".join(struct.pack("=I", int(words[at:at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def all_sockets():
    """The TCP sockets of this network namespace, by inode."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] in (ESTABLISHED, LISTENS):
                found[fields[9]] = Socket(fields[9], fields[3], address_of(fields[1]), address_of(fields[2]))
    return found


def sockets_of(pids):
    known = all_sockets()
    found = []
    for pid in pids:
        try:
            links = [os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        found += [known[link[8:-1]] for link in links if link.startswith("socket:[") and link[8:-1] in known]
    return found


def ports_of_perf(pids):
    """The port of rank 0, where perf's ranks meet."""
    found = set()
    for pid in pids:
        try:
            words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found |= {int(word.rpartition(b":")[2]) for word in words if word.startswith(b"RAILWISE_PERF_ADDRESS=")}
    return found


def may_cut():
    """Can this process cut TCP connections of others?"""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            cut(Socket("", ESTABLISHED, one.getsockname(), one.getpeername()))
            other.settimeout(1)
            try:
                other.recv(1)
            except ConnectionResetError:
                return True
            except OSError:
                pass
            return False


def cut(victim):
    """Cuts a TCP connection."""
    host = victim.local[0].removeprefix("::ffff:")
    command = ["ss", "-K", "-t", "src", f"[{host}]" if ":" in host else host, "sport", "=", str(victim.local[1]), "dport", "=", str(victim.remote[1])]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


class Enemy(threading.Thread):
    """Attacks the ranks below a process until stop()."""

    def __init__(self, pid, seed, cuts):
        super().__init__(daemon=True)
        self.strangers = self.cut_connections = 0
        self._pid = pid
        self._random = random.Random(seed)
        self._cuts = cuts
        self._seen = {}  # inode: when it was first there
        self._held = collections.deque()
        self._stopping = threading.Event()

    def stop(self):
        self._stopping.set()
        self.join()
        for stranger in self._held:
            stranger.close()

    def run(self):
        while not self._stopping.wait(self._random.uniform(*PAUSE_S)):
            pids = descendants(self._pid)
            sockets = sockets_of(pids)
            listening = [each for each in sockets if each.state == LISTENS]
            own = ports_of_perf(pids)
            ports = sorted({each.local[1] for each in listening} - own)
            now = time.monotonic()
            victims = [each for each in sockets if each.state == ESTABLISHED and not {each.local[1], each.remote[1]} & own and
                       now - self._seen.setdefault(each.inode, now) > CUT_AFTER_S]
            if victims and self._cuts and self._random.random() < 0.4:
                cut(self._random.choice(victims))
                self.cut_connections += 1
            elif ports:
                for _ in range(CROWD if self._random.random() < 0.05 else 1):
                    self._call(self._random.choice(ports))

    def _call(self, port):
        said = self._random.choice((b"", self._random.randbytes(self._random.randint(1, 4000)), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                    MAGIC + struct.pack("<HHI", VERSION, self._random.randint(1, 20), self._random.choice((0, 40, 64, 2296, 1 << 30))) +
                                    bytes(self._random.randint(0, 2400))))
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=0.05)
            stranger.sendall(said)
        except OSError:
            return
        self.strangers += 1
        self._held.append(stranger)
        while len(self._held) > MOST_HELD or (self._held and self._random.random() < 0.3):
            self._held.popleft().close()
