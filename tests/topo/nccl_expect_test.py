"""The same choices and times as NCCL 2.31.2's own cost model, on the machines of a collection (topologies/expect-2.31).

Usage: nccl_expect_test.py RAILWISE TOPOLOGIES   skipped where the collection is not there
"""
import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SKIPPED = 77
CLOSE = 2e-5  # the answers have six digits


def differences(railwise, machine, nodes, answer):
    done = subprocess.run([railwise, "topo", "expect", machine, "--nccl", "2.31.2", "-q", "--json", "-n", nodes, "-c",
                           answer["collective"]], capture_output=True, text=True)
    where = f"{machine.name}, {nodes} nodes, {answer['collective']}"
    if done.returncode != 0:
        return [f"{where}: {done.stderr.strip()}"]
    ours = {of["bytes"]: of for of in json.loads(done.stdout)["expectations"][0]["sizes"]}
    shared = [row for row in answer["sizes"] if row[0] in ours]
    wrong = [] if shared else [f"{where}: no size in common"]
    for size, algorithm, protocol, time_us in shared:
        of = ours[size]
        if (of["algorithm"], of["protocol"]) != (algorithm, protocol) or abs(of["time_us"] - time_us) > CLOSE * time_us:
            wrong.append(f"{where}, {size} bytes: NCCL takes {algorithm} {protocol} {time_us}, we say {of}")
    return wrong


def main():
    railwise, root = sys.argv[1], pathlib.Path(sys.argv[2])
    answers = root / "expect-2.31"
    if not answers.is_dir():
        print(f"skipped: there is no {answers}")
        return SKIPPED
    questions = [(railwise, root / "machines" / path.relative_to(answers).with_suffix(".xml"), nodes, answer)
                 for path in sorted(answers.rglob("*.json"))
                 for nodes, of in json.loads(path.read_text())["nodes"].items() for answer in of["expectations"]]
    with ThreadPoolExecutor(2) as pool:
        wrong = [line for lines in pool.map(lambda question: differences(*question), questions) for line in lines]
    for line in wrong[:20]:
        print("FAIL:", line)
    print(f"{len(questions)} questions, {len(wrong)} differences")
    return 1 if wrong or not questions else 0


if __name__ == "__main__":
    sys.exit(main())
