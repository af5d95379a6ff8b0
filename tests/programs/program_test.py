"""What the tests that run other people's programs share: finding the programs, starting them on the software device,
and leaving without traces. Exit code 77 is ctest's SKIP_RETURN_CODE: the reason is the last line printed."""
import os
import shutil
import signal
import subprocess
import sys

SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need(program, package):
    """Path of a program, or the test is skipped."""
    path = shutil.which(program)
    if path is None:
        skip(f"{program} is not installed: apt-get install {package} (scripts/packages --tests does)")
    return path


class Device:
    """A fabric of its own for one test, and how to start programs on it."""

    def __init__(self, front, config):
        self.front = front
        fabric = f"programs{os.getpid()}"
        self.config = ";".join(f"{device},fabric={fabric}" for device in config.split(";"))
        self.running = []

    def environment(self):
        return {**os.environ, "LD_LIBRARY_PATH": self.front, "RAILWISE_DEVICE": f"software:{self.config}"}

    def start(self, *command):
        process = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.running.append(process)
        return process

    def stop(self):
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
