#!/usr/bin/env python3
"""The wall clock jumps, back and forth by up to a day, while jobs with faults run on software devices: nothing may wait by it.

  tests/lab/run --devices 0 -- python3 suites/clock.py

Runs in a guest, whose clock nobody else needs. Exit code 1 when a job ends otherwise than scripts/fault-campaign allows, or the clock
did not jump.
"""

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

CAMPAIGN = Path(__file__).resolve().parents[3] / "scripts/fault-campaign"
DAY = 86400
BETWEEN_JUMPS = 0.05


class JumpingClock:
    """Sets the wall clock until it is left, and then right again."""

    def __enter__(self):
        self.jumps = 0
        self.over = threading.Event()
        self.ahead = time.time() - time.monotonic()
        self.thread = threading.Thread(target=self.jump)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.set(0)

    def set(self, off: float) -> None:
        time.clock_settime(time.CLOCK_REALTIME, time.monotonic() + self.ahead + off)

    def jump(self) -> None:
        chance = random.Random(1)
        while not self.over.wait(BETWEEN_JUMPS):
            self.set(chance.choice((1, DAY, -1, -DAY)) * chance.random())
            self.jumps += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=12, help="jobs (default 12)")
    options = parser.parse_args()
    command = [str(CAMPAIGN), "--count", str(options.count), "--jobs", "1", "--build", os.environ["LAB_BUILD"]]
    with JumpingClock() as clock:
        status = subprocess.run(command, check=False).returncode
    print(f"clock: {clock.jumps} jumps")
    return 1 if status != 0 or clock.jumps < options.count else 0


if __name__ == "__main__":
    sys.exit(main())
