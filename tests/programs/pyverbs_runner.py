"""Runs the tests of one module of rdma-core's pyverbs suite and notes each as it starts and ends, so that a crash is
attributed to the test that ran. Started by pyverbs_test.py with the interpreter that has pyverbs.

Usage: pyverbs_runner.py SUITE_FOLDER NOTES MODULE[,MODULE...] [options of the suite, as --dev NAME]
NOTES gets one JSON line per event: {"test": id, "is": "start"|"ok"|"skip"|"fail"|"error", "why": text}.
"""
import importlib.machinery
import json
import os
import sys
import unittest


class Notes(unittest.TestResult):
    def __init__(self, path, done):
        super().__init__()
        self.file = open(path, "a", encoding="utf-8")
        self.done = done

    def note(self, test, outcome, why=""):
        self.file.write(json.dumps({"test": test.id(), "is": outcome, "why": why}) + "\n")
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.note(test, "start")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "fail", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "error", self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "fail", str(err[1]))


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main():
    folder, notes, modules = sys.argv[1:4]
    options = sys.argv[4:]
    done = set()
    if os.path.exists(notes):
        with open(notes, encoding="utf-8") as file:
            done = {json.loads(line)["test"] for line in file}
    sys.argv[1:] = options
    sys.path.insert(0, folder)
    package = importlib.machinery.SourceFileLoader("tests", os.path.join(folder, "__init__.py")).load_module()
    package.parser.parse_args()
    result = Notes(notes, done)
    for module in package.__test_modules__:
        if module.__name__.split(".")[-1] not in modules.split(","):
            continue
        for test in each(unittest.defaultTestLoader.loadTestsFromModule(module)):
            if test.id() not in done:
                test(result)
    result.file.close()
    os._exit(0)  # pyverbs 44 prints a traceback of its own when the interpreter takes it down


main()
