"""What scripts/standstills notes. usage: standstills_test.py SOURCE-TREE"""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1)) / "scripts/standstills"
SHORTEST = 0.7  # seconds
PATIENCE = 60


class Standstills(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.notes = pathlib.Path(self.folder.name) / "notes"
        self.watch = subprocess.Popen([SCRIPT, self.notes, str(SHORTEST)])
        self.addCleanup(self.end)
        self.wait_for(self.notes.exists)

    def wait_for(self, holds):
        until = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), until)
            self.assertIsNone(self.watch.poll())
            time.sleep(0.01)

    def end(self):
        self.watch.kill()
        self.watch.wait()

    def test_a_process_that_was_stopped(self):
        self.watch.send_signal(signal.SIGSTOP)
        time.sleep(2 * SHORTEST)
        self.watch.send_signal(signal.SIGCONT)
        self.wait_for(self.notes.read_text)
        self.assertRegex(self.notes.read_text(), r"^\d+\.\d s until \d\d:\d\d:\d\d UTC, then load \d+\.\d+, \d+ MiB of memory available\n")
        self.assertGreaterEqual(float(self.notes.read_text().split()[0]), SHORTEST)

    def test_one_that_ran_has_nothing_to_note(self):
        before = time.monotonic()
        time.sleep(0.3)
        if time.monotonic() - before < SHORTEST / 2:  # else this machine did stand still
            self.assertEqual(self.notes.read_text(), "")


unittest.main()
