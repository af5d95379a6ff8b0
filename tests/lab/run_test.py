#!/usr/bin/env python3
"""tests/lab/run itself. Without --boot: mistakes and machines that cannot run it, no QEMU needed. With --boot: its exit codes and
outputs, from guests that pass, fail, complain, die and hang; they run side by side."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUN = [sys.executable, str(Path(__file__).parent / "run")]
BOOT = ["--memory", "512", "--cpus", "1", "--devices", "0"]


def start(*arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen([*RUN, *arguments], env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate()
    return process.returncode, out, err


class Mistakes(unittest.TestCase):
    """Each is refused before anything is fetched, with the option and what it may be."""

    def refused(self, words: str, *arguments: str) -> None:
        code, out, err = finish(start(*arguments, RAILWISE_LAB_CACHE="/nonexistent"))
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(words, err)

    def test_no_command(self) -> None:
        self.refused("no command; write it after --", "--devices", "2")

    def test_too_many_devices(self) -> None:
        self.refused("--devices 9: 0 to 8", "--devices", "9", "--", "true")

    def test_too_many_siw_devices(self) -> None:
        self.refused("--iwarp 5: 0 to 4", "--iwarp", "5", "--", "true")

    def test_mtu_in_words(self) -> None:
        self.refused("--mtu large: numbers", "--mtu", "large", "--", "true")

    def test_mtu_too_small(self) -> None:
        self.refused("1280", "--mtu", "4200,600", "--", "true")

    def test_a_folder_that_is_not_there(self) -> None:
        self.refused("--build /nonexistent: does not exist", "--build", "/nonexistent", "--", "true")

    def test_a_shape_with_a_mistake(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as shape:
            shape.write('{"comment": "none", "sockets": 3, "buses": []}')
            shape.flush()
            code, _, err = finish(start("--machine", shape.name, "--", "true", PATH="/nonexistent"))
        self.assertEqual(code, 2, err)
        self.assertIn(shape.name, err)
        self.assertIn("sockets", err)


class Skips(unittest.TestCase):
    """A machine that cannot run the lab says what is missing, and that is no failure."""

    def test_without_qemu(self) -> None:
        code, _, err = finish(start("--", "true", PATH="/nonexistent"))
        self.assertEqual(code, 77, err)
        self.assertIn("qemu-system-x86", err)
        self.assertIn("scripts/packages --long", err)


class Boots(unittest.TestCase):
    """How a run ends."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.guests = {name: start(*BOOT, *arguments) for name, arguments in {
            "fails": ["--", "sh", "-c", "echo out; echo err >&2; exit 3"],
            "complains": ["--", "sh", "-c", "echo 'BUG: made up by a test' > /dev/kmsg"],
            "races": ["--", "sh", "-c", "echo 'Oops: int3: made up by a test' > /dev/kmsg"],
            "dies": ["--", "sh", "-c", "sleep 1; echo c > /proc/sysrq-trigger; sleep 60"],
            "hangs": ["--time-limit", "20", "--", "sleep", "1000"],
        }.items()}
        cls.ended = {name: finish(guest) for name, guest in cls.guests.items()}

    def test_the_commands_exit_code_and_outputs(self) -> None:
        code, out, err = self.ended["fails"]
        self.assertEqual((code, out), (3, "out\n"), err)
        self.assertEqual(err, "err\n")

    def test_a_kernel_that_complains(self) -> None:
        code, _, err = self.ended["complains"]
        self.assertEqual(code, 126, err)
        self.assertIn("BUG: made up by a test", err)

    def test_a_kernel_that_meets_the_emulators_race_has_another_try(self) -> None:
        code, _, err = self.ended["races"]
        self.assertEqual(code, 126, err)
        self.assertEqual(err.count("all CPUs on one thread"), 1, err)
        self.assertEqual(err.count("the kernel complained"), 2, err)

    def test_a_guest_that_dies(self) -> None:
        code, _, err = self.ended["dies"]
        self.assertEqual(code, 125, err)
        self.assertIn("sysrq", err)

    def test_a_guest_that_hangs(self) -> None:
        code, _, err = self.ended["hangs"]
        self.assertEqual(code, 124, err)
        self.assertIn("time limit", err)


def main() -> None:
    boot = "--boot" in sys.argv
    arguments = [argument for argument in sys.argv if argument != "--boot"]
    if boot and finish(start("--prepare"))[0] == 77:
        sys.exit(77)
    unittest.main(argv=arguments, defaultTest=None if len(arguments) > 1 else (["Boots"] if boot else ["Mistakes", "Skips"]))


main()
