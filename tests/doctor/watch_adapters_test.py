"""`railwise doctor --watch` and `--health` as the programs of a site run them: node-problem-detector by its contract, promtool, and a
real slurmctld with slurmd where they are installed and this is root.

Usage: watch_adapters_test.py RAILWISE REPOSITORY
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

RAILWISE = pathlib.Path(sys.argv[1]).resolve()
ADAPTERS = pathlib.Path(sys.argv[2]) / "packaging/watch"
LIMIT_S = 60


def railwise(*words, **more):
    return subprocess.run([RAILWISE, "doctor", *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, **more)


def wait_until(is_so, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError("it did not become so in time")
        time.sleep(0.02)


class Node(unittest.TestCase):
    """A node with one port below a folder, and a state of the watch."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.root, self.state = self.folder / "root", self.folder / "state"
        self.port = self.root / "sys/class/infiniband/mlx5_0/ports/1"
        self.port.mkdir(parents=True)
        boot = self.root / "proc/sys/kernel/random"
        boot.mkdir(parents=True)
        (boot / "boot_id").write_text("boot-1\n")
        self.put("4: ACTIVE")
        self.state.mkdir()

    def put(self, state):
        new = self.port / "new"  # a reader never sees an empty file
        new.write_text(state + "\n")
        new.rename(self.port / "state")

    def write_state(self, *checks, last_look=None):
        """A state in which these checks have found something."""
        now = int(time.time())
        latches = [{"check": check, "port": "mlx5_0/1", "seen": "state 1: DOWN", "since": now - 60, "last": now, "reported": now, "count": 1,
                    "before_reboot": False} for check in checks]
        port = {"name": "mlx5_0/1", "active": not checks, "was_active": True, "since": now - 60, "went_down": 0}
        (self.state / "watch.json").write_text(json.dumps({"schema": 1, "boot": "boot-1", "last_look": last_look or now, "next_event": 2,
                                                           "ports": [port], "latches": latches}))

    def health(self, form):
        return railwise("--health", form, "--state", self.state)


class Watch(Node):
    def start(self):
        process = subprocess.Popen([RAILWISE, "doctor", "--watch", "--root", self.root, "--state", self.state, "--every", "10", "--json",
                                    "--textfile", self.folder / "railwise.prom"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_it_tells_a_flap_keeps_it_over_a_restart_and_ends_by_a_signal(self):
        process = self.start()
        wait_until((self.state / "watch.json").exists)
        self.put("1: DOWN")
        event = json.loads(process.stdout.readline())
        self.assertEqual((event["check"], event["state"], event["port"], event["severity"]), ("port-flap", "begin", "mlx5_0/1", "warning"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_S), 0)
        for lines in ((self.state / "events.jsonl").read_text().splitlines(), process.stdout.read().splitlines()):
            for line in lines:
                self.assertEqual(json.loads(line)["check"], "port-flap")  # each line is an event
        self.assertEqual(json.loads((self.state / "events.jsonl").read_text()), event)
        self.assertIn('railwise_watch_port_flaps_total{nic="mlx5_0",port="1"} 1', (self.folder / "railwise.prom").read_text())
        again = self.start()
        wait_until(lambda: json.loads((self.state / "watch.json").read_text())["ports"][0]["flaps"] == 1)
        again.send_signal(signal.SIGKILL)  # the state survives that too
        again.wait(LIMIT_S)
        self.assertEqual(self.health("text").returncode, 1)

    def test_two_watches_never_share_a_folder(self):
        first = self.start()
        wait_until((self.state / "watch.json").exists)
        second = railwise("--watch", "--root", self.root, "--state", self.state, "--looks", 1)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"process {first.pid}", second.stderr)
        self.assertEqual(railwise("--health", "text", "--state", self.state).returncode, 0)  # it only reads
        other = self.folder / "other"
        self.assertEqual(railwise("--watch", "--root", self.root, "--state", other, "--looks", 1).returncode, 0)
        first.kill()  # the lock ends with its process
        first.wait(LIMIT_S)
        self.assertEqual(railwise("--watch", "--root", self.root, "--state", self.state, "--looks", 1).returncode, 0)

    def test_a_state_that_is_damaged_is_kept_and_said(self):
        (self.state / "watch.json").write_text("{ cut")
        run = railwise("--watch", "--root", self.root, "--state", self.state, "--looks", 1)
        self.assertEqual(run.returncode, 0)
        self.assertIn("the watch begins anew", run.stderr)
        self.assertEqual((self.state / "watch.json.old").read_text(), "{ cut")

    def test_a_state_that_cannot_be_written_is_an_error(self):
        run = railwise("--watch", "--root", self.root, "--state", "/proc/nothing", "--looks", 1)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/proc/nothing/watch.json", run.stderr)


class NodeProblemDetector(Node):
    """Its custom plugins: 0 the condition is false, 1 true, all else unknown; stdout, cut, is the message."""

    def test_exit_statuses(self):
        for checks, npd, warning in (((), 0, 0), (("port-down",), 1, 1), (("port-flap",), 0, 1)):
            self.write_state(*checks)
            self.assertEqual((self.health("npd").returncode, self.health("npd-warning").returncode), (npd, warning), checks)
        self.write_state("port-down", last_look=int(time.time()) - 3600)
        self.assertEqual(self.health("npd").returncode, 3)
        (self.state / "watch.json").unlink()
        self.assertEqual(self.health("npd").returncode, 3)

    def test_the_message_is_one_line(self):
        self.write_state("port-down", "symbol-error-storm")
        lines = self.health("npd").stdout.splitlines()
        self.assertEqual(len(lines), 1)
        self.assertLessEqual(len(lines[0]), 256)
        self.assertIn("mlx5_0/1: the port is down", lines[0])

    def test_the_file_keeps_to_the_rules_of_its_reader(self):
        file = json.loads((ADAPTERS / "node-problem-detector.json").read_text())
        seconds = lambda text: int(text.removesuffix("s"))
        self.assertEqual(file["plugin"], "custom")
        conditions = {one["type"] for one in file["conditions"]}
        for rule in file["rules"]:
            self.assertLessEqual(seconds(rule["timeout"]), seconds(file["pluginConfig"]["timeout"]))
            self.assertTrue(rule["type"] == "temporary" or rule["condition"] in conditions)
            self.assertEqual(subprocess.run([RAILWISE, *rule["args"], "--state", self.state], capture_output=True, check=False).returncode, 3)


class OtherForms(Node):
    def test_slurm_knows_nothing_where_nobody_watches(self):
        self.assertTrue(self.health("slurm").stdout.startswith("unknown "))
        self.write_state(last_look=int(time.time()) - 3600)
        self.assertTrue(self.health("slurm").stdout.startswith("unknown "))
        self.write_state()
        self.assertEqual(self.health("slurm").stdout, "fine\n")

    def test_text(self):
        for checks, status in (((), 0), (("port-flap",), 1), (("port-down",), 2)):
            self.write_state(*checks)
            self.assertEqual(self.health("text").returncode, status, checks)
        self.assertEqual(self.health("no-such-form").returncode, 2)

    def test_nvsentinel(self):
        self.write_state("port-down")
        (event,) = json.loads(self.health("nvsentinel").stdout)["events"]
        self.assertEqual((event["componentClass"], event["checkName"], event["isFatal"], event["isHealthy"]), ("NIC", "port-down", True, False))
        self.assertEqual(event["entitiesImpacted"], [{"entityType": "NIC", "entityValue": "mlx5_0"}, {"entityType": "NICPort", "entityValue": "1"}])

    def test_the_catalogue(self):
        rules = json.loads(railwise("--watch", "--list").stdout)
        pages = (ADAPTERS.parents[1] / "docs/doctor-watch.md").read_text()
        for rule in rules:
            self.assertIn(f"`{rule['id']}`", pages)

    @unittest.skipUnless(shutil.which("promtool"), "promtool (package prometheus) is not installed")
    def test_promtool_takes_the_metrics(self):
        self.write_state("port-down", "symbol-errors")
        metrics = self.health("prometheus").stdout
        run = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))


CONFIGURATION = """\
ClusterName=railwise
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
MailProg=/bin/true
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
HealthCheckProgram={folder}/health
HealthCheckInterval=1
HealthCheckNodeState=ANY
ReturnToService=1
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@unittest.skipUnless(shutil.which("slurmctld") and shutil.which("slurmd") and os.geteuid() == 0, "slurmctld and slurmd are not installed, or this is not root")
class Slurm(Node):
    def setUp(self):
        super().setUp()
        for name in ("ctld", "spool"):
            (self.folder / name).mkdir()
        self.config = self.folder / "slurm.conf"
        self.config.write_text(CONFIGURATION.format(folder=self.folder, port=free_port(), node_port=free_port(), host=socket.gethostname().split(".")[0]))
        wrapper = self.folder / "health"
        wrapper.write_text(f"#!/bin/sh\nexport SLURM_CONF={self.config} RAILWISE_HEALTH_STATE={self.state}\n"
                           f"export RAILWISE_HEALTH_PATH={RAILWISE.parent}:/usr/sbin:/usr/bin:/sbin:/bin\nexec {ADAPTERS / 'slurm-health'}\n")
        wrapper.chmod(0o755)
        self.environment = {**os.environ, "SLURM_CONF": str(self.config)}
        self.write_state()
        for daemon in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "one"]):
            process = subprocess.Popen([*daemon, "-f", self.config], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)

    def node(self):
        run = subprocess.run(["scontrol", "-o", "show", "node", "one"], env=self.environment, capture_output=True, text=True, check=False)
        state = run.stdout.partition(" State=")[2].partition(" ")[0]
        return state, run.stdout.partition(" Reason=")[2]

    def test_it_drains_with_the_reason_and_takes_back_only_its_own_drain(self):
        wait_until(lambda: self.node()[0].startswith("IDLE"))
        self.write_state("port-down")
        wait_until(lambda: "DRAIN" in self.node()[0])
        self.assertIn("railwise: mlx5_0/1: the port is down since", self.node()[1])
        self.write_state()
        wait_until(lambda: "DRAIN" not in self.node()[0])
        subprocess.run(["scontrol", "update", "NodeName=one", "State=DRAIN", "Reason=maintenance by jo"], env=self.environment, check=True)
        self.write_state("port-down")
        time.sleep(3)  # three calls of the program
        self.assertIn("maintenance by jo", self.node()[1])
        self.write_state()
        time.sleep(3)
        self.assertIn("DRAIN", self.node()[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
