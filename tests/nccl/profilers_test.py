"""NCCL's example profiler and its Inspector beside Railwise, under real NCCL on software GPUs, and a profiler that reads Railwise's own events
(profilers/net_events.cc). What each has written is judged. Usage: profilers_test.py BUILD
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import host_library  # noqa: E402
import judge  # noqa: E402
import software_nccl  # noqa: E402
from job import Job  # noqa: E402
from software_gpu import SoftwareGpu  # noqa: E402
from unavailable import Broken, exit_status  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RANKS = 2
EVERYTHING = str((1 << 12) - 1)  # all events of NCCL's profiler interface v5


def compile_library(into, command):
    command = [*command, "-fPIC", "-shared", "-O1", "-o", str(into)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Broken(f"{into.name} does not compile:\n{done.stdout[-2000:]}")
    return into


class Profilers:
    """The libraries, compiled of `sources` (NCCL's plugins/profiler) into `folder`."""

    def __init__(self, folder, sources, cuda, softgpu):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        compiler = host_library.compiler()[0].split()
        example, inspector = sources / "example", sources / "inspector"
        runtime = ["-I", str(cuda), f"-L{softgpu}", "-lcudart"]
        headers = ["-I", str(example / "nccl"), "-I", str(cuda)]
        self.example = compile_library(folder / "libnccl-profiler-example.so", [*compiler, *headers, *map(str, sorted(example.glob("*.cc")))])
        version = folder / "version.cc"  # Inspector's Makefile makes it
        version.write_text('extern "C" const char* get_git_version_info() { return "test"; }\n')
        self.inspector = compile_library(folder / "libnccl-profiler-inspector.so", [
            *compiler, "-std=c++17", "-I", str(inspector), "-I", str(inspector / "nccl"), *map(str, sorted(inspector.glob("*.cc"))), str(version),
            str(HERE / "profilers/inspector_join.cc"), "-Wl,--wrap=pthread_create,--wrap=nanosleep", *runtime])
        compile_library(folder / "libcuda.so.1", [*compiler, "-x", "c", str(HERE / "profilers/driver.c"), "-x", "none", *runtime])
        self.net_events = compile_library(folder / "libnccl-profiler-railwise-events.so",
                                          [*compiler, "-std=c++20", *headers, "-I", str(ROOT / "include"), str(HERE / "profilers/net_events.cc")])


def run(nccl, build, profilers, folder, checks, environment):
    """(complaints, job) of a job of two ranks, each a host of its own."""
    place = SoftwareGpu(nccl, build, "@dgx;gpudirect=on", RANKS, 1)
    path = place.environment(0)["LD_LIBRARY_PATH"]
    job = Job(place, folder, RANKS, judge.NAME, ["--checks", checks, "--max", "65536"],
              {"LD_LIBRARY_PATH": f"{profilers.folder}:{path}", **environment(folder)})
    complaints = job.wait()
    for rank in range(RANKS if not complaints else 0):
        complaints += [f"rank {rank}: {what}" for what in judge.loaded(job.log(rank), job.versions()["nccl"])]
        if "Successfully loaded external profiler plugin" not in job.log(rank):
            complaints.append(f"rank {rank}: NCCL has not loaded the profiler")
    return complaints, job


def example(nccl, build, profilers, folder):
    """It knows the events of NCCL's own networks and leaves out ours; all else is there, and each event ends."""
    complaints, _ = run(nccl, build, profilers, folder, "collectives", lambda out: {
        "NCCL_PROFILER_PLUGIN": str(profilers.example), "NCCL_PROFILE_EVENT_MASK": EVERYTHING, "NCCL_PROFILE_DUMP_FILE": str(out / "trace")})
    traces = sorted(folder.glob("trace*"))
    if len(traces) < RANKS:
        return complaints + [f"{len(traces)} traces of {RANKS} ranks"]
    for trace in traces:
        events = [event for event in json.loads(trace.read_text()) if event]
        begun = collections.Counter((event["cat"], event["name"]) for event in events if event["ph"] == "b")
        ended = collections.Counter((event["cat"], event["name"]) for event in events if event["ph"] == "e")
        names = {name for _, name in begun}
        complaints += [f"{trace.name}: {begun - ended} without an end"] if begun != ended else []
        complaints += [f"{trace.name}: no {name}" for name in ("AllReduce", "ProgressSend", "ProgressRecv", "SendWait", "RecvWait") if name not in names]
    return complaints


def inspector(nccl, build, profilers, folder):
    """A line for each collective, with its size, time and bandwidth."""
    out = folder.with_name("inspector-out")
    out.mkdir()
    complaints, _ = run(nccl, build, profilers, folder, "collectives", lambda _: {
        "NCCL_PROFILER_PLUGIN": str(profilers.inspector), "NCCL_INSPECTOR_ENABLE": "1", "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "500",
        "NCCL_INSPECTOR_DUMP_DIR": str(out)})
    lines = [json.loads(line) for file in sorted(out.glob("*")) for line in file.read_text().splitlines() if line.strip()]
    found = [line for line in lines if "coll_perf" in line]
    ranks = {line["header"]["rank"] for line in found}
    complaints += [] if ranks == set(range(RANKS)) else [f"lines of ranks {sorted(ranks)}, not of all"]
    # A small collective on busy CPUs has a bandwidth of 0.000000 GB/s.
    names = {line["coll_perf"]["coll"] for line in found if line["coll_perf"]["coll_busbw_gbs"] > 0 and line["coll_perf"]["coll_exec_time_us"] > 0}
    complaints += [f"no line of {name} with a bandwidth: {sorted(names)}" for name in ("AllReduce", "AllGather", "ReduceScatter") if name not in names]
    return complaints


def net_events(nccl, build, profilers, folder):
    """Railwise's events: each below a proxy step of its direction, each with an end, and what one rank has sent is what the other has received."""
    complaints, _ = run(nccl, build, profilers, folder, "collectives", lambda out: {
        "NCCL_PROFILER_PLUGIN": str(profilers.net_events), "NET_EVENTS": str(out),
        "NCCL_PROTO": "Simple"})  # with LL and LL128 a receive may have no event (docs/observability.md)
    if complaints:
        return complaints
    sent, came = [0] * RANKS, [0] * RANKS
    for rank in range(RANKS):
        lines = [json.loads(line) for line in (folder / f"net_events{rank}").read_text().splitlines()]
        events = [line for line in lines if "kind" in line]
        left = lines[-1]
        complaints += [f"rank {rank}: at the end {left}"] if left != {"open": 0, "others": 0} else []
        complaints += [f"rank {rank}: not below a proxy step of its direction: {event}" for event in events
                       if not event["below_step"] or event["of_send"] != (event["kind"] == "send")][:1]
        sent[rank] = sum(event["bytes"] for event in events if event["kind"] == "send")
        came[rank] = sum(event["came"] for event in events if event["kind"] == "receive")
    print(f"     net events: sent {sent}, received {came}")
    if 0 in sent or sent != came[::-1]:
        complaints.append(f"sent {sent}, received {came}")
    return complaints


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    nccl = software_nccl.prepared(build)
    host = host_library.ensure()
    profilers = Profilers(build / "nccl/profilers", host_library.plugins(host) / "profiler", host.cuda_include, nccl.softgpu)
    failed = 0
    for case in (example, inspector, net_events):
        with tempfile.TemporaryDirectory(prefix="nccl-profilers-") as folder:
            complaints = case(nccl, build, profilers, pathlib.Path(folder) / "job")
        print(f"{'FAIL' if complaints else 'ok  '} {case.__name__}", *complaints, sep="\n     ", flush=True)
        failed += bool(complaints)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(exit_status("nccl profilers", main))
