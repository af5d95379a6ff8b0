"""What figures.py makes of the devices' counters."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import figures


def process(number, scale):
    names = ("writes", "writes_with_imm", "reads", "sends", "atomics", "post_send_calls", "post_recv_calls", "completions")
    return {"host": "A", "process": number, **{name: scale * (place + 1) for place, name in enumerate(names)}}


class Counts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, *processes):
        path = self.folder / name
        path.write_text(json.dumps(processes))
        return path

    def test_of_an_operation(self):
        before = self.file("before", process(1, 100), process(2, 100))
        after = self.file("after", process(1, 150), process(2, 150))
        self.assertEqual(figures.counts(before, after, 100), {"doorbells": 6.0, "work requests": 15.0, "receive calls": 7.0, "completions": 8.0})

    def test_a_rank_that_has_ended_is_no_negative_count(self):
        before = self.file("before", process(1, 100), process(2, 100))
        after = self.file("after", process(1, 150))
        with self.assertRaisesRegex(RuntimeError, "ranks have ended"):
            figures.counts(before, after, 100)


unittest.main()
