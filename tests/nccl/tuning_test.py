"""The table of latencies and bandwidths that real NCCL logs on software GPUs, beside that of `railwise topo expect`: equal to the last digit, on
machines of several shapes.
Usage: tuning_test.py BUILD [SHAPE...]
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import judge  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import exit_status  # noqa: E402

# Name: machine, hosts, ranks on a host.
SHAPES = {
    "dgx_1x4": ("@dgx;gpudirect=on", 1, 4),
    "dgx_2x1": ("@dgx;gpudirect=on", 2, 1),
    "dgx_2x2": ("@dgx;gpudirect=on", 2, 2),
    "dgx_2x4": ("@dgx;gpudirect=on", 2, 4),
    "dgx_3x2": ("@dgx;gpudirect=on", 3, 2),
    "no_gpudirect_2x2": ("dgx", 2, 2),
    "cloud_vm_2x4": ("cloud-vm", 2, 4),
    "dual_port_2x2": ("dual-port", 2, 2),
    "default_4x1": ("default", 4, 1),
}
COLLECTIVES = {"Broadcast": "broadcast", "Reduce": "reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "AllReduce": "all_reduce"}
ALGORITHMS = ("Tree", "Ring", "NVLS", "NVLSTree", "PAT")  # CollNet is not modelled
HEAD = re.compile(r"NCCL INFO\s+Algorithm\s+\|(.*)")
ROW = re.compile(r"NCCL INFO\s+(Broadcast|Reduce|AllGather|ReduceScatter|AllReduce) \|(.*)")
CELL = re.compile(r"([\d.]+)/\s*([\d.]+)")
PROTOCOLS = ("LL", "LL128", "Simple")


def nccls_table(log):
    """(collective, algorithm, protocol) -> (latency, bandwidth) as NCCL prints them, of the first communicator in the log."""
    table, algorithms = {}, []
    for line in log.splitlines():
        if head := HEAD.search(line):
            algorithms = head[1].replace("|", " ").split()
        elif (row := ROW.search(line)) and algorithms:
            for index, cell in enumerate(CELL.findall(row[2])):
                key = (COLLECTIVES[row[1]], algorithms[index // 3], PROTOCOLS[index % 3])
                table.setdefault(key, cell)
    return table


def our_table(build, release, file, nodes):
    table = {}
    for collective in COLLECTIVES.values():
        done = subprocess.run([str(build / "bin/railwise"), "topo", "expect", str(file), "--nodes", str(nodes), "--collective", collective, "--no-nvls",
                               "--nccl", release, "--quiet", "--format", "json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        expectation, = json.loads(done.stdout)["expectations"]
        for row in expectation["costs"]:
            table[collective, row["algorithm"], row["protocol"]] = (f"{row['latency_us']:.1f}", f"{row['gb_per_s']:.1f}")
    return table


def compare(nccl, build, folder, shape):
    machine, hosts, gpus = SHAPES[shape]
    job = Job(SoftwareGpu(nccl, build, machine, hosts, gpus), folder, hosts * gpus, judge.NAME, ["--checks", "finalize", "--max", "64"],
              {"NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,TUNING"})
    complaints = job.wait()
    if complaints:
        return complaints, 0
    theirs = nccls_table(job.log(0))
    ours = our_table(build, nccl.release, folder / "topology0.xml", hosts)
    rows = [key for key in theirs if key[1] in ALGORITHMS]
    if len(rows) != len(COLLECTIVES) * len(ALGORITHMS) * len(PROTOCOLS):
        return [f"NCCL's log has {len(rows)} values: is HEAD or ROW still the form of the lines?"], 0
    # A latency without a bandwidth belongs to what NCCL does not take.
    return [f"{' '.join(key)}: NCCL has {'/'.join(theirs[key])}, Railwise {'/'.join(ours[key])}" for key in rows
            if theirs[key] != ours[key] and (theirs[key][1], ours[key][1]) != ("0.0", "0.0")], len(rows)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    failed = False
    with tempfile.TemporaryDirectory(prefix="nccl-tuning-") as name:
        for shape in sys.argv[2:] or SHAPES:
            complaints, rows = compare(nccl, build, pathlib.Path(name) / shape, shape)
            print(f"{shape}: {f'{len(complaints)} differ' if complaints else f'{rows} values are equal'}", *complaints, sep="\n     ", flush=True)
            failed = failed or bool(complaints)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl tuning", main))
