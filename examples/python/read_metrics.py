"""Throughput and errors of each rail of the running jobs, from what `railwise metrics` prints for Prometheus.

    python read_metrics.py                        two readings, five seconds apart
    python read_metrics.py --seconds 1 --url http://host7:9464/metrics
    railwise metrics | python read_metrics.py -   the counters of one reading
"""

import argparse
import re
import subprocess
import sys
import time
import urllib.request
from typing import Dict, Iterator, List, NamedTuple, Tuple

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Sample(NamedTuple):
    name: str
    labels: Dict[str, str]
    value: float


class Rail(NamedTuple):
    pid: str
    device: str
    port: str


def unescaped(escape: "re.Match[str]") -> str:
    return ESCAPES[escape.group()]


def samples(text: str) -> Iterator[Sample]:
    """The samples of Prometheus' text format."""
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match is None:
            continue  # a comment
        name, labels, value = match.groups()
        yield Sample(name, {key: re.sub(r'\\[\\"n]', unescaped, word) for key, word in LABEL.findall(labels or "")},
                     float(value))


def per_rail(text: str, metric: str) -> Dict[Rail, float]:
    """The values of a metric, summed over what else tells its samples apart (the kind of an error)."""
    found: Dict[Rail, float] = {}
    for sample in samples(text):
        if sample.name == metric:
            rail = Rail(sample.labels["pid"], sample.labels["device"], sample.labels["port"])
            found[rail] = found.get(rail, 0.0) + sample.value
    return found


def read(url: str) -> str:
    if url == "-":
        return sys.stdin.read()
    if url:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    return subprocess.run(["railwise", "metrics"], check=True, capture_output=True, text=True).stdout


def rows(before: str, after: str, seconds: float) -> List[Tuple[Rail, float, float, int]]:
    """Each rail with GB/s sent, GB/s received, and errors since it is there."""
    sent, received = ([per_rail(text, f"railwise_rail_{way}_bytes_total") for text in (before, after)] for way in ("sent", "received"))
    errors = per_rail(after, "railwise_rail_errors_total")
    return [(rail, (sent[1][rail] - sent[0].get(rail, 0.0)) / seconds / 1e9,
             (received[1].get(rail, 0.0) - received[0].get(rail, 0.0)) / seconds / 1e9, int(errors.get(rail, 0))) for rail in sorted(sent[1])]


def main(words: List[str]) -> int:
    parser = argparse.ArgumentParser(description="Throughput and errors of each rail of the running jobs.")
    parser.add_argument("source", nargs="?", default="", help="-: one reading from stdin")
    parser.add_argument("--url", default="", help="of `railwise metrics --listen`; without: this machine")
    parser.add_argument("--seconds", type=float, default=5.0, help="between two readings")
    options = parser.parse_args(words)
    if options.source == "-":
        for rail, value in sorted(per_rail(read("-"), "railwise_rail_sent_bytes_total").items()):
            print(f"process {rail.pid} {rail.device} port {rail.port}: {value:.0f} bytes sent")
        return 0
    before = read(options.url)
    time.sleep(options.seconds)
    for rail, sent, received, errors in rows(before, read(options.url), options.seconds):
        print(f"process {rail.pid} {rail.device} port {rail.port}: {sent:.2f} GB/s sent, {received:.2f} GB/s received, {errors} errors")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
