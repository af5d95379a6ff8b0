"""Steady traffic between two ends (programs/traffic.cc), and what became of each of them."""

import os
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("/run/lab/traffic")
# Seconds for what has no fault in it. Generous: the emulated machine is slow, and shared.
PATIENCE = 90.0


class Hang(Exception):
    """Something did not happen within its time limit; the text says what, and what was there instead."""


@dataclass
class Line:
    when: float
    text: str


@dataclass
class End:
    """One of the two processes. Threads read its outputs; everything else is the caller's."""

    name: str
    process: subprocess.Popen
    out: list[Line] = field(default_factory=list)
    log: list[Line] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    begin: int = 0  # of the lines of `out` since connections were last asked for

    def says(self, pattern: str) -> Line | None:
        """The first line of stdout that begins like this, of the present connections."""
        return next((line for line in self.out[self.begin:] if re.match(pattern, line.text)), None)

    def counts(self) -> tuple[int, int]:
        """Messages sent and received, as far as it has said."""
        for line in reversed(self.out[self.begin:]):
            if line.text.startswith(("flow ", "done ")):
                sent, received = line.text.split()[1:3]
                return int(sent), int(received)
        return 0, 0

    def command(self, word: str) -> None:
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; the caller will see how

    def state(self) -> str:
        """For a message: its last words and whether it runs."""
        code = self.process.poll()
        runs = "runs" if code is None else f"ended with {code}"
        return f"{self.name} {runs}, last said '{self.out[-1].text if self.out else 'nothing'}'"


class Traffic:
    """Both ends from start to end. As a context manager it leaves no process behind."""

    def __init__(self, commands: dict[str, list[str]], environments: dict[str, dict[str, str]], message_bytes: int = 16384) -> None:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        program = os.environ["LAB_BUILD"] + "/tests/lab/programs/lab_traffic"
        self.ends: list[End] = []
        for name, before in commands.items():
            process = subprocess.Popen([*before, program, name, str(FOLDER), str(message_bytes)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, **environments[name]})
            end = End(name, process)
            for pipe, lines in ((process.stdout, end.out), (process.stderr, end.log)):
                end.threads.append(threading.Thread(target=self._read, args=(pipe, lines), daemon=True))
                end.threads[-1].start()
            self.ends.append(end)

    @staticmethod
    def _read(pipe, lines: list[Line]) -> None:
        for text in pipe:
            lines.append(Line(time.monotonic(), text.rstrip("\n")))

    def __enter__(self) -> "Traffic":
        return self

    def __exit__(self, *_) -> None:
        for end in self.ends:
            if end.process.poll() is None:
                end.process.kill()
            end.process.wait()
            for thread in end.threads:
                thread.join(timeout=5)

    def wait(self, what: str, done, seconds: float = PATIENCE) -> None:
        """Until done(); Hang where that takes longer."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise Hang(f"not {what} within {seconds:.0f} s: " + "; ".join(end.state() for end in self.ends))
            time.sleep(0.02)

    def failed(self) -> list[End]:
        """The ends that have met an error, or wrong data, or have ended before they should."""
        return [end for end in self.ends if end.says("error|wrong") or end.process.poll() is not None]

    def wait_ready(self) -> None:
        self.wait("connected", lambda: all(end.says("ready") for end in self.ends) or self.failed())

    def counts(self) -> list[int]:
        """Of both ends, sent and received: four numbers that traffic makes grow."""
        return [count for end in self.ends for count in end.counts()]

    def moved(self, since: list[int], messages: int) -> bool:
        """Has every direction, as each end sees it, gone on by so many messages?"""
        return all(now >= before + messages for now, before in zip(self.counts(), since))

    def flow(self, messages: int) -> None:
        """Until so many more messages went both ways, or an end failed."""
        since = self.counts()
        self.wait(f"{messages} messages further", lambda: self.moved(since, messages) or self.failed())

    def command(self, word: str) -> None:
        for end in self.ends:
            end.command(word)

    def again(self) -> None:
        """New connections in the same processes, whose last ones have failed."""
        for end in self.ends:
            end.begin = len(end.out)
        self.command("again")

    def finish(self, seconds: float = PATIENCE) -> None:
        """Closes the ends' inputs and waits until both have closed everything and exited."""
        for end in self.ends:
            try:
                end.process.stdin.close()
            except BrokenPipeError:
                pass
        self.wait("ended", lambda: all(end.process.poll() is not None for end in self.ends), seconds)
        for end in self.ends:
            for thread in end.threads:
                thread.join(timeout=5)

    def wrong(self) -> list[str]:
        """What must never be: wrong data, or a process that died."""
        lines = [f"{end.name}: {line.text}" for end in self.ends for line in end.out if line.text.startswith("wrong")]
        return lines + [f"{end.name} ended with {end.process.poll()}" for end in self.ends
                        if end.process.poll() not in (None, 0, 3, 4)]
