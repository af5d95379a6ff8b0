"""scripts/day-campaign with a fault-campaign that only writes tallies."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/day-campaign"
LOADER = importlib.machinery.SourceFileLoader("day_campaign", str(SCRIPT))
day = importlib.util.module_from_spec(importlib.util.spec_from_loader("day_campaign", LOADER))
LOADER.exec_module(day)

# Of the seeds that the tally lacks it makes good runs; seed 13 is bad, and of the kind nccl this machine has nothing.
STUB = """#!/usr/bin/env python3
import json, pathlib, sys
words = sys.argv[1:]
if "--nccl" in words:
    sys.exit(77)
first, count, tally = (words[words.index(name) + 1] for name in ("--first", "--count", "--tally"))
tally = pathlib.Path(tally)
known = {json.loads(line)["seed"] for line in tally.read_text().splitlines()} if tally.exists() else set()
with tally.open("a") as file:
    for seed in range(int(first), int(first) + int(count)):
        if seed not in known:
            line = {"seed": seed, "outcome": "wrong" if seed == 13 else "completed", "faults_fired": 2}
            file.write(json.dumps(line) + chr(10))
print("stub ran")
"""


class DayCampaign(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        day.CAMPAIGN = self.folder / "fault-campaign"
        day.CAMPAIGN.write_text(STUB)
        day.CAMPAIGN.chmod(0o755)
        self.options = types.SimpleNamespace(folder=self.folder, hours=1, build=None)

    def run_kinds(self, *kinds):
        day.KINDS = kinds
        with contextlib.redirect_stdout(io.StringIO()) as said:
            return day.run_all(self.options), said.getvalue()

    def test_each_kind_comes_to_its_count(self):
        left_out, _ = self.run_kinds(day.Kind("a", "A", (), 1, 10, 4), day.Kind("b", "B", ("--enemy",), 100, 3, 2))
        self.assertEqual(left_out, set())
        self.assertEqual(len((self.folder / "a.jsonl").read_text().splitlines()), 10)
        self.assertEqual(day.table(self.folder).splitlines()[2:],
                         ["| A | 10 | 10 | 0 | 0 | 20 |", "| B | 3 | 3 | 0 | 0 | 6 |"])

    def test_it_goes_on_where_it_was(self):
        (self.folder / "a.jsonl").write_text(json.dumps({"seed": 2, "outcome": "unreachable", "faults_fired": 5}) + "\n{\"seed\": 3, \"ou")
        day.KINDS = (day.Kind("a", "A", (), 1, 10, 4),)
        self.assertEqual(day.table(self.folder).splitlines()[2], "| A | 1 | 0 | 1 | 0 | 5 |")

    def test_a_bad_run_is_counted(self):
        self.run_kinds(day.Kind("a", "A", (), 10, 5, 5))
        self.assertEqual(day.table(self.folder).splitlines()[2], "| A | 5 | 4 | 0 | 1 | 10 |")

    def test_what_the_machine_lacks_is_left_out(self):
        left_out, _ = self.run_kinds(day.Kind("a", "A", (), 1, 2, 2), day.Kind("nccl", "N", ("--nccl",), 1, 2, 2))
        self.assertEqual(left_out, {"nccl"})

    def test_a_campaign_that_cannot_run_ends_the_day(self):
        day.CAMPAIGN.write_text("#!/bin/sh\nexit 1\n")
        with self.assertRaises(SystemExit) as ended:
            self.run_kinds(day.Kind("a", "A", (), 1, 2, 2))
        self.assertIn("a made no run", str(ended.exception))

    def test_no_hours_no_run(self):
        self.options.hours = 0
        self.run_kinds(day.Kind("a", "A", (), 1, 2, 2))
        self.assertFalse((self.folder / "a.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
