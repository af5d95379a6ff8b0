"""tests/layout/rooms.py and includes_test.py find what is planted in a small repository.

Usage: rooms_test.py
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import includes_test
import rooms


class Planted(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.write("tests/layout/rooms", "# a comment\nsrc/low\nsrc/middle src/beside\nsrc/high\n")
        self.write("tests/middle/CMakeLists.txt", "")
        self.write("tests/high/CMakeLists.txt", "")
        self.write("tests/middle/one_test.cc", '#include "middle/one.h"\n')
        self.write("tests/high/top_test.cc", '#include "high/top.h"\n')
        self.write("src/low/all.h", "")
        self.write("src/middle/one.h", '#include "low/all.h"\n')
        self.write("src/middle/one.cc", '#include "middle/one.h"\n')
        self.write("src/beside/two.h", "")
        self.write("src/beside/two_parts.cc", '#include "beside/two.h"\n')
        self.write("src/high/top.h", '#include "beside/two.h"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def problems(self):
        return [one for one in includes_test.check(self.root)[1] if "files seen" not in one]

    def test_lower_rooms_may_be_included(self):
        self.assertEqual(self.problems(), [])

    def test_an_arrow_back_is_found(self):
        self.write("src/low/all.h", '#include "high/top.h"\n')
        self.assertIn("the room src/high does not stand before src/low", self.problems()[0])

    def test_siblings_do_not_know_each_other(self):
        self.write("src/middle/one.h", '#include "beside/two.h"\n')
        self.assertIn("the room src/beside does not stand before src/middle", self.problems()[0])

    def test_an_include_by_dots_is_seen_through(self):
        self.write("src/low/all.h", '#include "../high/top.h"\n')
        self.assertIn("the room src/high does not stand before src/low", self.problems()[0])

    def test_a_file_outside_all_rooms_is_found(self):
        self.write("src/new/file.h", "")
        self.assertEqual(self.problems(), ["src/new/file.h: lies in no room of tests/layout/rooms"])

    def test_a_room_that_is_gone_is_found(self):
        self.write("tests/layout/rooms", "src/low src/gone\nsrc/middle src/beside\nsrc/high\n")
        self.assertEqual(self.problems(), ["tests/layout/rooms: there is no src/gone"])

    def test_a_change_reaches_who_includes_it(self):
        self.assertEqual(rooms.reached(self.root, {"src/low/all.h"}), {"layout", "middle"})
        self.assertEqual(rooms.reached(self.root, {"src/middle/one.cc"}), {"layout", "middle"})
        self.assertEqual(rooms.reached(self.root, {"src/beside/two.h"}), {"layout", "high"})
        self.assertEqual(rooms.reached(self.root, {"src/beside/two_parts.cc"}), {"layout", "high"})  # the functions of two.h
        self.assertEqual(rooms.reached(self.root, {"docs/page.md", "NEWS.md"}), {"layout"})
        self.assertEqual(rooms.reached(self.root, {"tests/high/helper.py"}), {"layout", "high"})

    def test_a_change_of_the_build_or_of_an_unknown_file_reaches_all(self):
        self.assertIsNone(rooms.reached(self.root, {"CMakeLists.txt"}))
        self.assertIsNone(rooms.reached(self.root, {"machines/dgx.conf"}))

    def test_changes_are_those_of_git_and_new_files(self):
        git = lambda *words: subprocess.run(["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True,
                                            capture_output=True)
        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "one")
        self.write("src/low/all.h", "int x;\n")
        self.write("src/low/new.h", "")
        self.assertEqual(rooms.changes(self.root, "HEAD"), {"src/low/all.h", "src/low/new.h"})
        with self.assertRaises(subprocess.CalledProcessError):
            rooms.changes(self.root, "no-such-revision")


if __name__ == "__main__":
    sys.exit(unittest.main())
