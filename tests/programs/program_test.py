"""What the tests that run other people's programs share: finding the programs, starting them on the software device,
judging a client and its server, and leaving without traces. Exit code 77 is ctest's SKIP_RETURN_CODE: the reason is
the last line printed."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

# The programs that a test starts are on a fabric of their own.
os.environ.setdefault("RAILWISE_FABRIC", f"programs{os.getpid()}")

SKIPPED = 77
PROGRAM_TIMEOUT_S = 60


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need(program, package):
    """Path of a program, or the test is skipped."""
    path = shutil.which(program)
    if path is None:
        skip(f"{program} is not installed: apt-get install {package} (scripts/packages --long does)")
    return path


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port):
    """Whether some process listens on this TCP port, without connecting to it (a server takes its first caller)."""
    ending = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(ending) and fields[3] == "0A":
                    return True
    return False


class Device:
    """A machine on a fabric of its own for one test, and how to start programs on it: with `railwise device run`."""

    def __init__(self, railwise, machine=None):
        self.railwise = railwise
        self.front = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(railwise))), "lib", "railwise-verbs")
        where = ["--machine", machine, "--fabric", f"programs{os.getpid()}"] if machine else []
        self.prefix = [railwise, "device", "run", *where, "--"]
        self.running = []

    def start(self, *command, environment=None):
        """With an environment: on what that says, and with the library in front."""
        if environment is None:
            command = [*self.prefix, *command]
        else:
            environment = {**environment, "LD_LIBRARY_PATH": self.front}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.running.append(process)
        return process

    def run(self, *command, environment=None):
        """Exit status and output."""
        process = self.start(*command, environment=environment)
        try:
            output, _ = process.communicate(timeout=PROGRAM_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.stop()
            return "no end", process.communicate()[0]
        return process.returncode, output

    def pair(self, *command, port_option="-p"):
        """The same command as server and as client. Returns the failure in words, or None, and both outputs."""
        port = free_port()
        command = (*command, port_option, str(port))
        server = self.start(*command)
        deadline = time.monotonic() + PROGRAM_TIMEOUT_S
        while not listening(port) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)  # between two looks; the condition decides
        client = self.start(*command, "127.0.0.1")
        outputs = []
        failures = []
        for name, process in (("client", client), ("server", server)):
            try:
                outputs.append(process.communicate(timeout=max(1, deadline - time.monotonic()))[0])
                if process.returncode != 0:
                    failures.append(f"{name}: exit status {process.returncode}")
            except subprocess.TimeoutExpired:
                failures.append(f"{name}: no end after {PROGRAM_TIMEOUT_S} s")
                process.kill()
                outputs.append(process.communicate()[0])
            if failures and name == "client":
                deadline = time.monotonic() + 2
        return "; ".join(failures) or None, outputs

    def stop(self):
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Report:
    """Collects what went wrong; main() ends with done()."""

    def __init__(self):
        self.failed = 0
        self.passed = 0
        self.since = time.monotonic()

    def check(self, what, failure, outputs=()):
        now = time.monotonic()
        seconds, self.since = now - self.since, now
        if failure is None:
            self.passed += 1
            print(f"ok: {what} ({seconds:.1f} s)", flush=True)
            return
        self.failed += 1
        print(f"FAIL: {what} ({seconds:.1f} s): {failure}")
        for output in outputs:
            lines = output.strip().splitlines()
            if len(lines) > 40:  # an error may come first: stderr is not buffered
                lines = [*lines[:15], "...", *lines[-25:]]
            print("    | " + "\n    | ".join(lines))
        sys.stdout.flush()

    def done(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0
