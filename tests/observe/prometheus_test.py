"""A real Prometheus scrapes `railwise metrics`, evaluates the alert rules and answers the queries of the board for Grafana.

  prometheus_test.py RAILWISE MAKE_RECORD SOURCE-TREE
"""
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

SKIPPED = 77
PATIENCE = 60  # seconds
MISSING = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
if MISSING:
    print(f"prometheus: skipped: {' and '.join(MISSING)} not installed (apt-get install prometheus)")
    sys.exit(SKIPPED)
RAILWISE, MAKE_RECORD, SOURCE = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
RULES = SOURCE / "packaging/prometheus/railwise-alerts.yml"
BOARD = SOURCE / "packaging/grafana/railwise.json"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: railwise
    static_configs: [{{targets: ["{target}"]}}]
"""


def fetch(url):
    with OPENER.open(url, timeout=PATIENCE) as answer:
        return answer.headers, answer.read().decode()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def expressions(node):
    """All queries in a part of the board."""
    if isinstance(node, list):
        return [each for child in node for each in expressions(child)]
    if isinstance(node, dict):
        own = [node["expr"]] if isinstance(node.get("expr"), str) else []
        return own + [each for child in node.values() for each in expressions(child)]
    return []


def variables(board):
    return [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]


class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="railwise-prometheus-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        (cls.folder / "records").mkdir()
        for kind in ("trouble", "spy"):
            cls.start_and_read_line(MAKE_RECORD, cls.folder / "records", kind)
        cls.exporter, line = cls.start_and_read_line(RAILWISE, "metrics", "--listen", "127.0.0.1:0", "--dir", cls.folder / "records")
        cls.url = line.removeprefix("listening at ")
        cls.start_prometheus()

    @classmethod
    def start_and_read_line(cls, *command):
        process = subprocess.Popen([str(each) for each in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end, process)
        return process, process.stdout.readline().strip()

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    @classmethod
    def start_prometheus(cls):
        config = cls.folder / "prometheus.yml"
        config.write_text(CONFIG.format(rules=RULES, target=urllib.parse.urlsplit(cls.url).netloc))
        for _ in range(3):  # another program may take the port first
            cls.api = f"127.0.0.1:{free_port()}"
            log = open(cls.folder / "log", "w+")
            cls.addClassCleanup(log.close)
            cls.prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={cls.folder}/data", f"--web.listen-address={cls.api}"],
                stdout=log, stderr=log)
            cls.addClassCleanup(cls.end, cls.prometheus)
            until = time.monotonic() + PATIENCE
            while cls.prometheus.poll() is None and time.monotonic() < until:
                try:
                    return fetch(f"http://{cls.api}/-/ready")
                except OSError:
                    time.sleep(0.1)
        log.seek(0)
        raise RuntimeError(f"Prometheus does not start: {log.read()}")

    def query(self, expression):
        """The values of an instant query, by their labels as text."""
        try:
            answer = json.loads(fetch(f"http://{self.api}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))[1])
        except urllib.error.HTTPError as error:
            self.fail(f"{expression}: {error.read().decode()}")
        return [float(each["value"][1]) for each in answer["data"]["result"]]

    def wait_for(self, expression, values):
        until = time.monotonic() + PATIENCE
        while (seen := self.query(expression)) != values:
            self.assertLess(time.monotonic(), until, f"{expression}: {seen}, not {values}")
            time.sleep(0.1)

    def test_it_scrapes(self):
        self.wait_for("up", [1])
        self.wait_for('railwise_rail_sent_bytes_total{device="mlx5_0",pid="4242"}', [1234567])
        self.wait_for('railwise_rail_errors_total{device="mlx5_1",kind="retry_exceeded"}', [2])
        self.wait_for('railwise_connections{pid="4242",state="lost"}', [1])
        self.wait_for('railwise_message_latency_seconds_count{pid="4242"}', [100])
        self.wait_for('railwise_spy_calls_total{function="isend"}', [12])

    def test_the_rules_are_evaluated(self):
        # An alert that waits for its time ("for") is pending.
        self.wait_for('count(ALERTS{alertname="RailwiseDegraded",alertstate="pending"})', [1])
        self.wait_for('count(ALERTS{alertname="RailwiseRailDown",alertstate="pending",device="mlx5_1"})', [1])
        self.assertEqual(self.query('ALERTS{alertname="RailwiseConnectionFailed"}'), [])

    def test_the_board_asks_what_prometheus_understands(self):
        self.wait_for("up", [1])
        board = json.loads(BOARD.read_text())
        queries = expressions(board)
        self.assertGreater(len(queries), 20)
        for each in queries:
            for name, value in {"$__rate_interval": "5m", "$job": ".*", "$instance": ".*", "$rank": ".*"}.items():
                each = each.replace(name, value)
            self.assertNotIn("$", each)
            self.query(each)

    def test_promtool_finds_nothing_wrong(self):
        headers, page = fetch(self.url)
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        for command, text in ((["check", "metrics"], page), (["check", "rules", RULES], ""),
                              (["test", "rules", SOURCE / "tests/observe/alerts_test.yml"], "")):
            run = subprocess.run(["promtool", *map(str, command)], input=text, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, f"{command}: {run.stdout}{run.stderr}")
            self.assertEqual(run.stderr, "")

    def test_board_and_rules_name_metrics_that_exist(self):
        there = set(re.findall(r"^(railwise_\w+)", fetch(self.url)[1], re.M))
        board = json.loads(BOARD.read_text())
        for name, text in (("board", " ".join(expressions(board) + variables(board))), ("rules", RULES.read_text())):
            used = set(re.findall(r"\brailwise_\w+", text))
            self.assertGreater(len(used), 5)
            self.assertEqual(used - there, set(), name)

    def test_each_alert_is_tested(self):
        tested = (SOURCE / "tests/observe/alerts_test.yml").read_text()
        for alert in re.findall(r"alert: (\w+)", RULES.read_text()):
            self.assertIn(f'alertname="{alert}", instance="bad"', tested)

    def test_the_exporter_ends_in_order(self):
        exporter, line = self.start_and_read_line(RAILWISE, "metrics", "--listen", "127.0.0.1:0", "--dir", self.folder)
        self.assertRegex(line, r"^listening at http://127\.0\.0\.1:\d+/metrics$")
        exporter.send_signal(signal.SIGTERM)
        self.assertEqual(exporter.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
