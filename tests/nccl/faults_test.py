"""What faults.py makes of the ends of ranks."""
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
import faults

COMPLETED = {"ended": "completed"}
REMOTE = {"ended": "ncclRemoteError"}
GAVE_UP = {"ended": faults.GAVE_UP}
TOLD = {"ended": "ended with the job"}
LOG = "vm:1:1 [0] x.cc:1 NCCL WARN NET/Railwise : soft0: the peer closed the connection or died\n"
IN_INIT = f"WRONG ncclCommInitRank(&comm, options.ranks, id, options.rank): {faults.REMOTE_ERROR}: \n"
ERROR = f"WRONG asynchronous error: {faults.REMOTE_ERROR}: \n"


def end_of(output, log, status):
    job = types.SimpleNamespace(processes=[types.SimpleNamespace(returncode=status)], output=lambda _: output, log=lambda _: log,
                                last_words=lambda _: output.strip().splitlines()[-1] if output else "it said nothing")
    return faults.end_of(job, 0)["ended"]


class Ends(unittest.TestCase):
    def test_the_end_of_a_rank(self):
        self.assertEqual(end_of("ok traffic\n", "", 0), "completed")
        self.assertEqual(end_of("info traffic begins\n", "", 0), "status 0")
        self.assertEqual(end_of(ERROR, LOG, 1), "ncclRemoteError")
        self.assertEqual(end_of(ERROR, "", 1), "ncclRemoteError without a reason")
        self.assertEqual(end_of("ok traffic\n" + ERROR, LOG, 1), "ended with the job")
        self.assertEqual(end_of(IN_INIT, "", 1), "ended with the job")
        self.assertEqual(end_of(IN_INIT, LOG, 1), "ncclRemoteError")
        self.assertEqual(end_of("WRONG traffic: 3 elements\n", "", 1), "wrong data")
        self.assertEqual(end_of("WRONG asynchronous error: internal error\n", LOG, 1), "status 1")
        self.assertEqual(end_of("", "", -11), "signal 11")
        self.assertEqual(end_of("", "", 3), "status 3")


class Outcomes(unittest.TestCase):
    def outcome(self, ends, hang=(), unreachable=False, left_behind=False):
        return faults.outcome_of(ends, hang, unreachable, left_behind)

    def test_good_ends(self):
        self.assertEqual(self.outcome([COMPLETED, COMPLETED]), "completed")
        self.assertEqual(self.outcome([REMOTE, REMOTE], unreachable=True), "unreachable")
        self.assertEqual(self.outcome([REMOTE, TOLD], unreachable=True), "unreachable")

    def test_one_sided_communication_that_was_given_up(self):
        self.assertEqual(self.outcome([GAVE_UP, GAVE_UP], unreachable=True), "unreachable")
        self.assertEqual(self.outcome([GAVE_UP, TOLD], unreachable=True), "unreachable")
        self.assertEqual(self.outcome([GAVE_UP, GAVE_UP]), "failed")
        self.assertEqual(self.outcome([GAVE_UP, {"ended": "did not end"}], hang=[1], unreachable=True), "failed")

    def test_an_error_while_something_was_left(self):
        self.assertEqual(self.outcome([REMOTE, REMOTE]), "failed")

    def test_an_error_that_nobody_explains(self):
        self.assertEqual(self.outcome([REMOTE, {"ended": "ncclRemoteError without a reason"}], unreachable=True), "failed")
        self.assertEqual(self.outcome([TOLD, TOLD], unreachable=True), "failed")

    def test_a_rank_that_hangs(self):
        self.assertEqual(self.outcome([COMPLETED, {"ended": "did not end"}], hang=[1]), "failed")
        self.assertEqual(self.outcome([REMOTE, {"ended": "did not end"}], hang=[1], unreachable=True), "failed")

    def test_a_crash(self):
        self.assertEqual(self.outcome([REMOTE, {"ended": "signal 11"}], unreachable=True), "failed")

    def test_wrong_data_whatever_else(self):
        self.assertEqual(self.outcome([REMOTE, {"ended": "wrong data"}], unreachable=True, left_behind=True), "wrong")

    def test_something_left_behind(self):
        self.assertEqual(self.outcome([COMPLETED, COMPLETED], left_behind=True), "failed")


class LeftBehind(unittest.TestCase):
    def test_a_process_of_a_rank_that_has_ended(self):
        rank = subprocess.Popen(["sh", "-c", "sleep 1000 & exit 0"], start_new_session=True)
        rank.wait()
        job = types.SimpleNamespace(processes=[rank])
        self.assertEqual(faults.kill_all(job), [rank.pid])

    def test_nothing(self):
        rank = subprocess.Popen(["true"], start_new_session=True)
        rank.wait()
        self.assertEqual(faults.kill_all(types.SimpleNamespace(processes=[rank])), [])

    def test_a_socket(self):
        import socket
        name = f"left{os.getpid()}"
        self.assertFalse(faults.sockets_of(name, seconds=0))
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(f"\0railwise/{name}/1")
            self.assertTrue(faults.sockets_of(name, seconds=0))


class Trees(unittest.TestCase):
    def test_only_where_nccl_fuses(self):
        self.assertEqual(faults.write_trees("/no/such", {"fuse": False, "hosts": ["h0"]}, pathlib.Path(tempfile.gettempdir())), [])


if __name__ == "__main__":
    unittest.main()
