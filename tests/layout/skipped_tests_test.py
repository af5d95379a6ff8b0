"""What scripts/test says at its end of the tests that were skipped. usage: skipped_tests_test.py SOURCE-TREE"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(sys.argv.pop(1)) / "scripts/skipped-tests"
LOADER = importlib.machinery.SourceFileLoader("skipped_tests", str(SCRIPT))
skipped_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("skipped_tests", LOADER))
LOADER.exec_module(skipped_tests)

# As ctest 3.25 writes it.
RELEASE = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="9" failures="1" disabled="1" skipped="6" hostname="" time="0" timestamp="2026-11-23T03:00:26">
  <testcase name="lab_prepare" classname="lab_prepare" time="0.01" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/><system-out>lab: skipped: missing packages: qemu-system-x86
</system-out></testcase>
  <testcase name="lab_perf_rxe" classname="lab_perf_rxe" time="0.01" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/><system-out>hello
lab: skipped: missing packages: qemu-system-x86
</system-out></testcase>
  <testcase name="Xml.AllOfThem" classname="Xml.AllOfThem" time="0.01" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>[ RUN      ] Xml.AllOfThem
/a/b.cc:12: Skipped
no folder of topologies

[  SKIPPED ] Xml.AllOfThem (0 ms)
</system-out></testcase>
  <testcase name="Two/Lint.Files/0" classname="Two/Lint.Files/0" time="0.01" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>/a/c.cc:12: Skipped
no folder of topologies
</system-out></testcase>
  <testcase name="model_failover" classname="model_failover" time="0.01" status="notrun">
    <skipped message="SKIP_RETURN_CODE=77"/><system-out>spin is not installed (apt-get install spin)
</system-out></testcase>
  <testcase name="soak" classname="soak" time="0" status="disabled"><skipped message="Disabled"/><system-out>Disabled</system-out></testcase>
  <testcase name="good" classname="good" time="0.01" status="run"><system-out>skipped: not me</system-out></testcase>
  <testcase name="bad" classname="bad" time="0.01" status="fail"><failure message=""/><system-out></system-out></testcase>
  <testcase name="needs_bad" classname="needs_bad" time="0" status="notrun">
    <skipped message="Fixture dependency failed"/><system-out>Failed test dependencies: bad</system-out></testcase>
</testsuite>"""
ASAN = RELEASE.replace(b"lab_", b"quick_").replace(b"missing packages: qemu-system-x86", b"")


class SkippedTests(unittest.TestCase):
    def test_one_line_for_each_reason(self):
        self.assertEqual(list(skipped_tests.lines([RELEASE])), [
            "Two/Lint.Files/0, Xml.AllOfThem: no folder of topologies",
            "lab_perf_rxe, lab_prepare: missing packages: qemu-system-x86",
            "model_failover: spin is not installed (apt-get install spin)",
            "soak: disabled in CMakeLists.txt"])

    def test_of_many_tests_the_groups_are_named(self):
        many = b"".join(b"""<testcase name="%s" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: no
        </system-out></testcase>""" % name for name in (b"Two/Lint.Files/%d" % i for i in range(20)))
        self.assertEqual(list(skipped_tests.lines([b"<testsuite>" + many + b"</testsuite>"])), ["Lint (20 tests): no"])

    def test_a_test_that_two_presets_skip_counts_once(self):
        self.assertIn("Two/Lint.Files/0, Xml.AllOfThem: no folder of topologies", list(skipped_tests.lines([RELEASE, ASAN])))

    def test_nothing_was_skipped(self):
        self.assertEqual(list(skipped_tests.lines([b"<testsuite/>"])), [])


if __name__ == "__main__":
    unittest.main()
