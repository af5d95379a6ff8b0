"""What is held against the logs and dumps of a job that has ended well."""
import collections
import json
import re
import shutil
import subprocess

import judge
from job import LIMIT_S, Job
from software_gpu import railwise_command

BUS_ID = re.compile(r" rank (\d+) nranks \d+ cudaDev \d+ nvmlDev \d+ busId ([0-9a-f]+)")


def railwise(place, build, job, rank, *words):
    """What the command `railwise` answers on the host of a rank."""
    done = subprocess.run(place.command(rank, [str(railwise_command(build)), *words]), env=job.environment(rank), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"railwise {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def devices(job, build, rank):
    """The devices of a rank's host, as `railwise devices --json` has them."""
    return json.loads(railwise(job.place, build, job, rank, "devices", "--plugin", str(job.place.plugin), "--json"))["devices"]


def judge_job(job, build):
    """Complaints about what the logs say."""
    release = job.versions()["nccl"]
    seen = {}
    complaints = []
    for rank in range(job.ranks):
        host = job.place.host_name(rank)
        if host not in seen:
            seen[host] = devices(job, build, rank)
        log = job.log(rank)
        found = judge.loaded(log, release) + judge.devices(log, seen[host]) + judge.transport(log, shares_hosts=job.place.shares_hosts)
        complaints += [f"rank {rank}: {what}" for what in found]
    return complaints + choices(job, build, release, {device["index"]: device["name"] for device in seen[job.place.host_name(0)]})


def choices(job, build, release, names):
    """Which NIC rank 0 sends by, as `railwise explain` says for NCCL's own dump of its host, of which the first GPUs are those of ranks 0, 1 ...
    Where NCCL relays (PXN), the NIC is that of the relaying rank's GPU."""
    rules = f"{release // 10000}.{release // 100 % 100}.{release % 100}"
    complaints = []
    sends = [send for send in judge.sends(job.log(0)) if send[1] == 0]
    if not sends:
        return ["rank 0: the log has no send"]
    for channel, _, relay, device in sends:
        text = railwise(job.place, build, job, 0, "explain", str(job.folder / "topology0.xml"), "--nccl", rules, "--quiet", "--channel",
                        str(channel), "--format", "json")
        chosen = [net["name"] for net in json.loads(text)["gpus"][relay]["chosen"]]
        if names.get(device) not in chosen[:1]:
            by = f" (by rank {relay})" if relay != 0 else ""
            complaints.append(f"rank 0, channel {channel}: NCCL sends by {names.get(device)}{by}, railwise explain says {', '.join(chosen)}")
    return complaints


def topology_file(place, build, out, first):
    """A file that we write is what NCCL then reads, and the machine it makes of it is the same."""
    made = out / "made.xml"
    made.write_text(railwise(place, build, first, 0, "topo", "show", str(first.folder / "topology0.xml"), "--format", "xml"))
    job = Job(place, out / "topology-file", first.ranks, judge.NAME, ["--max", "4096"], {"RAILWISE_TOPOLOGY": str(made)})
    complaints = job.wait() or judge.topology_file(job.log(0), made)
    if complaints:
        return complaints
    done = subprocess.run([str(railwise_command(build)), "topo", "diff"] + [str(of.folder / "topology0.xml") for of in (first, job)],
                          capture_output=True, text=True)
    return [f"NCCL makes another machine of it: {(done.stdout + done.stderr).strip()}"] if done.returncode != 0 else []


def nics(job, build):
    """A table: the NICs that NCCL chose for each rank, with the number of channels."""
    lines = ["| rank | host | GPU | sends by | receives by |", "|---|---|---|---|---|"]
    for rank in range(job.ranks):
        names = {device["index"]: device["name"] for device in devices(job, build, rank)}
        used = judge.nics(job.log(rank), rank)
        bus = next((bus for of, bus in BUS_ID.findall(job.log(rank)) if int(of) == rank), None)

        def text(way):
            count = collections.Counter(names.get(device, f"device {device}") for _, device in used[way])
            return ", ".join(f"{name} ({channels})" for name, channels in sorted(count.items())) or "(no network)"

        lines.append(f"| {rank} | {job.place.host_name(rank)} | {bus_id(bus)} | {text('send')} | {text('receive')} |")
    return "\n".join(lines)


def one_sided(job):
    """A table: who serves one-sided communication of each rank, and over which NICs."""
    lines = ["| rank | host | RMA | GIN | over |", "|---|---|---|---|---|"]
    for rank in range(job.ranks):
        log = job.log(rank)
        tables = judge.one_sided(log)

        def server(kind):
            name = tables.get(kind)
            if name is None:
                # 2.31 says only of GIN that it has failed.
                return "not in the log" if kind == "GIN" and judge.gin_is_silent(log, job.versions()["nccl"]) else "nobody"
            return name if name == judge.NAME else f"{name}, beside {judge.NAME}"

        nics_of_rank = ", ".join(judge.one_sided_nics(log)) or "(no connection of NCCL's own)"
        lines.append(f"| {rank} | {job.place.host_name(rank)} | {server('RMA')} | {server('GIN')} | {nics_of_rank} |")
    return "\n".join(lines)


def bus_id(number):
    """"0000:1b:00.0" of NCCL's 1b000."""
    if number is None:
        return "?"
    value = int(number, 16)
    return f"{value >> 20:04x}:{value >> 12 & 0xff:02x}:{value >> 4 & 0xff:02x}.{value & 0xf:x}"


def all_reduce_perf(place, out, program):
    """nccl-tests' program, under mpirun with two ranks."""
    if shutil.which("mpirun") is None:
        return ["--all-reduce-perf needs mpirun"]
    job = Job(place, out / "all_reduce_perf", 0, judge.NAME, [])
    job.logs = [job.folder / "%p.log"]
    environment = {key: value for key, value in job.environment(0).items() if key != "NCCL_TOPO_DUMP_FILE"}
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "sh", "-c",
                           'NCCL_HOSTID=rank${OMPI_COMM_WORLD_RANK:-$PMI_RANK} exec "$0" -b 8 -e 64M -f 8 -g 1 -c 1', str(program.resolve())],
                          env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    print(done.stdout)
    if done.returncode != 0:
        return [f"all_reduce_perf ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"]
    return [] if "Out of bounds values : 0 OK" in done.stdout else ["all_reduce_perf found wrong values"]
