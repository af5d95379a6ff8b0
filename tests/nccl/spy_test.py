"""Real NCCL on software GPUs over the spy, before Railwise: the job is right, no side breaks the contract, and the counts of all ranks agree.
Usage: spy_test.py BUILD
"""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import judge  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import exit_status  # noqa: E402

WORDS = ["--checks", "collectives,several,registered,again,finalize", "--max", "65536"]


def environment(build, folder):
    return {"NCCL_NET_PLUGIN": str(build / "lib/libnccl-net-railwise-spy.so"), "RAILWISE_SPY": str(build / "lib/libnccl-net-railwise.so"),
            "RAILWISE_SPY_REPORT": str(folder / "spy.%p.json"), "RAILWISE_METRICS_DIR": str(folder)}


def run(nccl, build, folder):
    """Complaints."""
    job = Job(SoftwareGpu(nccl, build, "@dgx;gpudirect=on", 2, 1), folder, 2, judge.NAME, WORDS, environment(build, folder))
    complaints = job.wait()
    if complaints:
        return complaints
    for rank in range(job.ranks):
        log = job.log(rank)
        complaints += [f"rank {rank}: {what}" for what in judge.loaded(log, job.versions()["nccl"])]
        complaints += [] if "NET/Spy : watching Railwise" in log else [f"rank {rank}: the spy is not there"]
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("spy.*.json"))]
    if len(reports) != job.ranks:
        return complaints + [f"{len(reports)} reports of {job.ranks} ranks"]
    totals = {"sender": [0, 0], "receiver": [0, 0]}
    for report in reports:
        complaints += [f"{breach['by']} {breach['kind']}: {breach['first']}" for breach in report["breaches"]]
        left = {what: count for what, count in report["left_open"].items() if count and what != "listeners"}
        complaints += [f"left open: {left}"] if left else []
        for connection in report["connections"]:
            totals[connection["side"]][0] += connection["done"]
            totals[connection["side"]][1] += connection["bytes"]
    if totals["sender"][0] == 0:
        complaints.append("no message was counted")
    # A receive whose end NCCL does not need (LL and LL128) may be done without a size.
    if totals["sender"][0] != totals["receiver"][0] or totals["receiver"][1] > totals["sender"][1]:
        complaints.append(f"what was sent did not arrive: {totals}")
    return complaints


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    with tempfile.TemporaryDirectory(prefix="nccl-spy-") as folder:
        complaints = run(nccl, build, pathlib.Path(folder) / "job")
    print("FAIL" if complaints else "ok", *complaints, sep="\n     ", flush=True)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl spy", main))
