"""benchmarks/plot.py draws what `railwise bench --json` prints.

Usage: plot_test.py RAILWISE PLUGIN
"""
import json
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/plot.py"
ROW = {"plugin": "one & only", "size": 8, "cpu_ns_min": 100.0, "pattern": "proxy", "connections": 1, "ends": "one-thread", "window": 8,
       "grouped": 1, "repeats": 3}
railwise, plugin = sys.argv[1:3]


def plot(text):
    return subprocess.run([sys.executable, SCRIPT], input=text, capture_output=True, text=True, timeout=60)


def words(svg):
    """The texts of a drawing, which must be XML."""
    return {element.text for element in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}


class Plot(unittest.TestCase):
    def test_draws_what_the_bench_prints(self):
        measured = subprocess.run([railwise, "bench", "--plugin", plugin, "--json", "--raw", "--all-sizes", "--messages", "32", "--repeats", "1"],
                                  capture_output=True, text=True, timeout=100)
        self.assertEqual(measured.returncode, 0, measured.stderr)
        drawn = plot(measured.stdout)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertLessEqual({"Railwise", "raw WRITE", "8 B", "1 MiB"}, words(drawn.stdout))

    def test_draws_one_point(self):
        drawn = plot(json.dumps(ROW))
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        self.assertIn("one & only", words(drawn.stdout))
        self.assertNotIn("nan", drawn.stdout)

    def test_two_plugins_may_have_one_name(self):
        drawn = plot(json.dumps([ROW, ROW]))
        self.assertLessEqual({"one & only (1)", "one & only (2)"}, words(drawn.stdout))

    def test_says_what_it_cannot_draw(self):
        for text, complaint in (("# a table", "is not what railwise bench --json prints"),
                                (json.dumps([ROW, ROW | {"pattern": "lone"}]), "--all-sizes")):
            drawn = plot(text)
            self.assertEqual(drawn.returncode, 1)
            self.assertIn(complaint, drawn.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
