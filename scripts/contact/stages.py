"""What is tried on a machine that Railwise has never met, one function a stage. Each reads, or sends between the machine's own NICs; only
`port` changes a setting, and only the interface that --apply names."""
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree

from contact import Failed, Ok, Skipped, Surprise, Wrong, kill, start

HERE = pathlib.Path(__file__).resolve().parent
# NCCL 2.13 to 2.31, src/transport/net.cc and src/graph/topo.cc.
GDR = re.compile(r"NET/Railwise : GPU Direct RDMA (Enabled|Disabled) for HCA \d+ '([^']*)'")
# Programs of vendors and of rdma-core: asked where they are there.
VENDORS = (("nvidia-smi",), ("nvidia-smi", "topo", "-m"), ("nvidia-smi", "-q"), ("nvidia-smi", "nvlink", "-s"), ("rocm-smi", "--showtopo"),
           ("amd-smi", "topology"), ("ibv_devinfo", "-v"), ("ibstat",), ("rdma", "link"), ("rdma", "resource"), ("show_gids",), ("lspci", "-tv"),
           ("lspci", "-nn"), ("ip", "-brief", "address"), ("mst", "status"), ("ofed_info", "-s"), ("nvidia-ctk", "--version"))
DRIVERS = r"mlx[45]|bnxt|irdma|ionic|\befa\b|\bhns|infiniband|rdma|nvrm|\bxid\b|nvidia|amdgpu|\bkfd\b|pcieport|\baer\b|dmar|iommu"
KERNEL_WORDS = r"\b(iommu|intel_iommu|amd_iommu|pci|pcie_[a-z]+|numa[a-z_]*|hugepages[a-z]*|default_hugepagesz|mitigations|nohz[a-z_]*)(=\S+)?"
FILES = ("/etc/os-release", "/proc/meminfo", "/proc/cmdline", "/proc/driver/nvidia/version", "/etc/nccl.conf", "/proc/modules", "/proc/self/limits")


def system(c):
    """What the machine is, in its own words."""
    c.run("uname", ["uname", "-a"])
    c.run("lscpu", ["lscpu"])
    c.run("df", ["df", "-h", "/dev/shm", "/tmp"])
    for file in FILES:
        if os.path.exists(file):
            of_site = c.anonymous and file == "/proc/cmdline"
            c.run(file.strip("/").replace("/", "-"), ["grep", "-oE", KERNEL_WORDS, file] if of_site else ["cat", file])
    # Of NICs, GPUs and PCIe; often root alone may read it.
    c.run("dmesg", ["sh", "-c", f"dmesg | grep -iE '{DRIVERS}' | grep -vi 'command line:' | tail -n 2000"])
    c.run("version", [c.railwise, "version"], must=True)
    yield Ok(f"kernel {os.uname().release}, {os.cpu_count()} CPUs, Python {sys.version.split()[0]}")


def vendors(c):
    """What the vendors' own programs say."""
    asked = [words for words in VENDORS if shutil.which(words[0])]
    failed = [" ".join(words) for words in asked if c.run(re.sub("[^a-z0-9]+", "-", " ".join(words)), list(words)).status != 0]
    missing = sorted({words[0] for words in VENDORS} - {words[0] for words in asked})
    yield Ok(f"{len(asked) - len(failed)} answers; failed: {', '.join(failed) or 'nothing'}; not installed: {', '.join(missing) or 'nothing'}")


def doctor(c):
    """The doctor on this machine."""
    mask = ["--mask"] if c.anonymous else []
    c.run("doctor", [c.railwise, "doctor", "--report", str(c.out / "doctor-report.tar.gz"), *mask])
    found = c.json("doctor-json", [c.railwise, "doctor", "--json"], statuses=(0, 1, 2))
    for finding in found["findings"]:
        if finding.get("severity") in ("error", "warning"):
            yield Wrong(f"doctor: {finding['severity']}: {finding.get('title') or finding.get('what')}")
    advice = [str(finding.get("title") or finding.get("what")) for finding in found["findings"] if finding.get("severity") == "advice"]
    yield Ok(f"doctor: {found['verdict']}; {'; '.join([*('advice: ' + each for each in advice), *found['looked']])}")


def model(c):
    """Our model of the machine, and whether a recording of it gives the same one."""
    record = c.out / "record.tar.gz"
    recorded = c.run("record", [c.railwise, "topo", "record", str(record), *(["--anonymise"] if c.anonymous else [])])
    if recorded.status != 0:
        yield Wrong(f"the machine was not recorded: {recorded.last()} (record.txt)")
    c.run("model", [c.railwise, "topo", "show", "--format", "xml", "-o", str(c.out / "model.xml")])
    c.run("gpus", [c.railwise, "gpus"])
    c.run("devices", [c.railwise, "devices", "--verbose"])
    c.run("explain", [c.railwise, "explain"])
    live = c.explained("explain-json", [])
    if live is None:
        raise Skipped("the machine has no GPU that explain knows")
    if recorded.status == 0 and c.explained("explain-record", ["--root", str(record)]) != live:
        yield Surprise("a recording of this machine has other NICs for its GPUs than the machine itself: explain-json, explain-record")
    yield Ok("NIC of each GPU: " + "; ".join(f"{bus}: {', '.join(each['nics']) or 'none'}" for bus, each in sorted(live.items())))


def software(c):
    """The bundle itself works here: a collective over the software device."""
    found = c.json("software-perf", [c.railwise, "perf", "all_reduce", "-b", "1K", "-e", "1M", "-f", "32", "--device", c.software, "--json"])
    yield c.verified("over the software device", found)


def loopback(c):
    """Each NIC of the machine to itself, then all of them, in host memory; every element is verified."""
    nics = c.nics()
    if not nics:
        raise Skipped("no RDMA device that is up (nics.txt)")
    most = 16
    alone = {}  # name of a NIC -> GB/s of 8 MiB, microseconds of 8 bytes
    for nic in nics[:most]:
        try:
            verdict, bandwidth, time_us = _own_nics(c, [nic])
            alone[nic["name"]] = bandwidth, time_us
            yield verdict
        except Failed as problem:
            yield Wrong(str(problem))
    if len(nics) > most:
        yield Skipped(f"each alone: {', '.join(nic['name'] for nic in nics[most:])}")
    for nic in (nic for nic in nics if nic["name"] in alone):
        name = nic["name"]
        peers = [alone[peer["name"]] for peer in nics if peer["name"] in alone and peer["name"] != name and peer["speed_mbps"] == nic["speed_mbps"]]
        usual = statistics.median(peer[0] for peer in peers) if len(peers) > 1 else 0
        for again in ("-again", "-once-more"):  # a short run may have met a busy machine
            if alone[name][0] >= usual / 3:
                break
            try:
                verdict, *measured = _own_nics(c, [nic], again)
                alone[name] = max(alone[name], tuple(measured))
            except Failed as problem:
                verdict = Wrong(str(problem))
            if verdict.kind == "wrong":
                yield verdict
        if alone[name][0] < usual / 3:
            yield Wrong(f"{name} to itself: {alone[name][0]:.3g} GB/s, where the median of its peers is {usual:.3g}; 8 bytes take "
                        f"{alone[name][1]:.0f} us, there {statistics.median(peer[1] for peer in peers):.0f} (loop-{name}*.txt; as much more at every "
                        "size is no matter of bandwidth). No cable is in this way: compare its PCIe link (record.tar.gz; lspci -vv), its firmware and its "
                        "hw_counters with theirs, and look for it in dmesg.txt")
        c.figure(f"{name} to itself: sendrecv of 8 MiB, GB/s", alone[name][0], nic["speed_mbps"] / 8e3)
    if len(nics) > 1:
        verdict, together, _ = _own_nics(c, nics)
        yield verdict
        c.figure(f"all {len(nics)} NICs: sendrecv of 8 MiB, GB/s", together, sum(nic["speed_mbps"] for nic in nics) / 8e3)
    found = c.json("put-signal", [c.railwise, "perf", "put_signal", "-b", "8", "-e", "1M", "-f", "32", "--device", c.real, "--json"], limit=30)
    yield c.verified("puts and signals", found)


def _own_nics(c, nics, again=""):
    """Of a run over these NICs: whether every element was right, the bandwidth of 8 MiB in GB/s, and the time of 8 bytes in microseconds."""
    names = [nic["name"] for nic in nics]
    channels = str(max(2, len(nics)))
    found = c.json("loop-" + (names[0] if len(names) == 1 else "all") + again,
                   [c.railwise, "perf", "sendrecv", "-b", "8", "-e", "8M", "-f", "1024", "--device", c.real, "--channels", channels, "-n", "8", "-w", "2", "--json"],
                   environment={"NCCL_IB_HCA": "=" + ",".join(names)}, limit=30)
    first, last = (found["results"][row]["out_of_place"] for row in (0, -1))
    return c.verified(f"{', '.join(names)} to itself", found), last["bus_bw"], first["time_us"]


def nccl(c):
    """Real NCCL: ranks on one GPU, each as a host of its own, over the software device, the machine's NICs, and NCCL's own network."""
    found = c.nccl()
    nics = c.nics()
    for ranks in (2, 4):
        yield from _job(c, found, f"software-{ranks}", ranks, {"RAILWISE_DEVICE": c.software})
    if not nics:
        yield Skipped("NCCL over real NICs: no RDMA device that is up (nics.txt)")
        return
    yield from _job(c, found, "nics-2", 2, {"RAILWISE_DEVICE": c.real})
    yield from _job(c, found, "net-ib-2", 2, {"NCCL_NET": "IB", "NCCL_NET_PLUGIN": "none"})


def one_sided(c):
    """Puts and signals of real NCCL."""
    found = c.nccl()
    device = {"RAILWISE_DEVICE": c.real} if c.nics() else {"RAILWISE_DEVICE": c.software}
    yield from _job(c, found, "one-sided", 2, device, ["--one-sided"])


def _job(c, found, name, ranks, environment, words=()):
    """A job of nccl_rank.py, and what its logs say beside what we say."""
    folder = c.out / f"nccl-{name}"
    folder.mkdir()
    library, cuda = found
    processes = []
    for rank in range(ranks):
        variables = {**c.plugin_environment(), "NCCL_HOSTID": f"rank{rank}", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV", "NCCL_DEBUG_FILE": str(folder / f"rank{rank}.log"),
                     "NCCL_TOPO_DUMP_FILE": str(folder / f"topology{rank}.xml"), "NCCL_NET_MERGE_LEVEL": "LOC", **environment}
        processes.append(start(
            [sys.executable, str(HERE / "nccl_rank.py"), "--nccl", library, "--cuda", cuda, "--id", str(folder / "id"), "--rank", str(rank),
             "--ranks", str(ranks), "--max", str(c.largest), *words],
            {**c.environment(), **variables}, open(folder / f"rank{rank}.out", "w")))
    ended = c.wait(processes, 120)
    (folder / "id").unlink(missing_ok=True)  # an address of this machine
    outcomes = [_outcome(folder / f"rank{rank}.out") for rank in range(ranks)]
    wrong = [f"rank {rank}: {outcome.get('wrong', 'nothing said')}" for rank, outcome in enumerate(outcomes) if "verified" not in outcome]
    if not ended:
        wrong.append("did not end within its time")
    logs = sorted(map(str, folder.glob("rank*.log")))
    if logs:
        c.run(f"log-{name}", [c.railwise, "doctor", "--log", *logs])
    if wrong:
        yield Wrong(f"NCCL, {name}: {'; '.join(wrong)} (nccl-{name}/)")
        return
    first = outcomes[0]
    yield Ok(f"NCCL {_release(first['nccl'])}, {name}: {ranks} ranks, every byte right in {len(first['verified'])} sizes")
    for size, bandwidth in first["busbw"].items():
        c.figure(f"NCCL all_reduce, {name}, {size} bytes: busbw, GB/s", bandwidth)
    if first.get("one_sided") is False:
        yield Skipped(f"one-sided: NCCL {_release(first['nccl'])} has no host RMA")
        return
    if environment.get("NCCL_NET") != "IB":
        yield from _beside_nccl(c, name, folder, logs, first["nccl"], environment)


def _outcome(file):
    for line in reversed(file.read_text(errors="replace").splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"wrong": (file.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]}


def _release(version):
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _beside_nccl(c, name, folder, logs, version, environment):
    """NCCL's own view of the machine beside ours, and the log of a job that went well beside what the doctor makes of it."""
    found = c.json(f"log-{name}-json", [c.railwise, "doctor", "--log", *logs, "--json"], statuses=(0, 1, 2))
    for finding in found["findings"]:
        if finding.get("severity") == "error":
            yield Surprise(f"{name}: the job went well, and the doctor finds an error in its log: {finding.get('title') or finding.get('what')}")
    networks = {rank.get("network") for rank in found["ranks"]}
    if networks != {"Railwise"}:
        yield Surprise(f"{name}: the log names the network {', '.join(sorted(map(str, networks)))}, not Railwise")
    if name == "one-sided":
        served = found["ranks"][0].get("one_sided")
        yield Ok(f"one-sided communication is served by {served}" + ("" if "Railwise" in str(served) else ", which is NCCL's own"))
    offered = {nic["name"]: nic["cuda_memory"] or nic["dmabuf_memory"] for nic in c.nics()}
    for enabled, nic in sorted(set(GDR.findall(open(logs[0], errors="replace").read()))):
        if nic in offered and (enabled == "Enabled") != offered[nic]:
            yield Surprise(f"{name}: GPUDirect with {nic} is {enabled} to NCCL, and railwise devices says the opposite (nics.txt)")
    if environment["RAILWISE_DEVICE"] == c.real:
        yield from _model_beside_nccl(c, name, folder, version)


def _model_beside_nccl(c, name, folder, version):
    """The NICs of the job's GPUs from NCCL's dump, and from our model of the machine with these GPUs alone."""
    dump = folder / "topology0.xml"
    if not dump.exists():
        yield Surprise(f"{name}: NCCL has written no topology (NCCL_TOPO_DUMP_FILE)")
        return
    release = _release(version)
    theirs = c.explained(f"explain-{name}", [str(dump), "--nccl", release])
    model = c.out / f"model-{name}.xml"
    c.run(f"model-{name}", [c.railwise, "topo", "show", "--format", "xml", "-o", str(model)], must=True)
    _keep_gpus(model, set(theirs or ()))
    ours = c.explained(f"explain-ours-{name}", [str(model), "--nccl", release])
    for bus, each in sorted((theirs or {}).items()):
        if ours is None or bus not in ours:
            yield Surprise(f"{name}: NCCL knows the GPU {bus}, our model of the machine does not")
        elif ours[bus] != each:
            yield Surprise(f"{name}: GPU {bus}: from NCCL's topology {each}, from ours {ours[bus]}")


def _keep_gpus(file, busids):
    """Takes the GPUs out of a topology file that are not of the job, as NCCL does."""
    tree = xml.etree.ElementTree.parse(file)
    for pci in tree.iter("pci"):
        for gpu in pci.findall("gpu") if pci.get("busid") not in busids else ():
            pci.remove(gpu)
    tree.write(file)


def nccl_tests(c):
    """nccl-tests' all_reduce_perf where it is installed: all GPUs of the machine in one process, past NVLink and shared memory."""
    program = shutil.which("all_reduce_perf") or next(iter(glob.glob("/opt/nccl*tests*/build/all_reduce_perf")), None)
    if program is None:
        raise Skipped("no all_reduce_perf in PATH")
    c.nccl()
    gpus = str(max(1, len(c.explained("explain-count", []) or {})))
    device = c.real if c.nics() else c.software
    for net, of_plugin in (("Railwise", c.plugin_environment()), *((("IB", {"NCCL_NET": "IB", "NCCL_NET_PLUGIN": "none"}),) if c.nics() else ())):
        done = c.run(f"all_reduce_perf-{net}", [program, "-b", "8", "-e", "64M", "-f", "64", "-g", gpus, "-c", "1"], limit=90, environment={
            **of_plugin, "RAILWISE_DEVICE": device, "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
        yield Ok(f"all_reduce_perf over {net}") if done.status == 0 else Wrong(f"all_reduce_perf over {net}: {done.last()}")


def torch(c):
    """PyTorch's DistributedDataParallel for some steps, two ranks on one GPU."""
    if importlib.util.find_spec("torch") is None:
        raise Skipped("this Python has no torch")
    c.leave_jobs_alone()
    device = c.real if c.nics() else c.software
    folder = c.out / "torch"
    folder.mkdir()
    processes = []
    for rank in range(2):
        variables = {**c.plugin_environment(), "RAILWISE_DEVICE": device, "NCCL_HOSTID": f"rank{rank}", "RANK": str(rank),
                     "WORLD_SIZE": "2", "INIT": f"file://{folder}/id", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(folder / f"rank{rank}.log")}
        processes.append(start([sys.executable, str(HERE / "torch_rank.py")], {**c.environment(), **variables}, open(folder / f"rank{rank}.out", "w")))
    ended = c.wait(processes, 120)
    (folder / "id").unlink(missing_ok=True)
    said = [(folder / f"rank{rank}.out").read_text(errors="replace").strip().splitlines() for rank in range(2)]
    if ended and all(process.returncode == 0 for process in processes):
        yield Ok(f"torch: {(said[0] or ['nothing said'])[-1]}")
    elif any(lines and lines[-1].startswith("skipped: ") for lines in said):
        raise Skipped((said[0] or said[1])[-1].removeprefix("skipped: "))
    else:
        yield Wrong(f"torch: {(said[0] or said[1] or ['nothing said'])[-1]} (torch/)")


def pair(c):
    """The NICs of this host and of another one (--host), which ssh reaches."""
    if not c.host:
        raise Skipped("no --host")
    if not c.nics():
        raise Skipped("no RDMA device that is up (nics.txt)")
    done = c.run("pair", [c.railwise, "doctor", "--pair", c.host], limit=180)
    yield Ok(f"doctor --pair {c.host}") if done.status == 0 else Wrong(f"doctor --pair {c.host}: status {done.status} (pair.txt)")


def port(c):
    """An interface goes down for three seconds in the middle of a run, and comes up again: only with --apply INTERFACE."""
    if not c.apply:
        raise Skipped("no --apply INTERFACE")
    _may_go_down(c.apply)
    if len(c.nics()) < 2:
        raise Skipped("one NIC only: nothing would be left")
    before = {what: c.run(f"port-{what}", ["ip", *words, "show", "dev", c.apply, *last], must=True).output.splitlines()
              for what, words, last in (("addresses", ["-6", "-o", "addr"], ["scope", "global"]), ("routes", ["route"], []), ("routes6", ["-6", "route"], []))}
    run = start([c.railwise, "perf", "sendrecv", "-b", "1M", "-e", "1M", "-D", "15", "--device", c.real, "--fuse", "--json"],
                {**c.environment(), "RAILWISE_FAILOVER_TIMEOUT": "30", "RAILWISE_FUSE_PLACELESS": "1"}, open(c.out / "port.json", "w"), open(c.out / "port.txt", "w"))
    # Whatever becomes of this script, the interface comes up.
    guard = subprocess.Popen(["sh", "-c", f"sleep 15; ip link set {c.apply} up"], start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        time.sleep(4)
        ran = run.poll() is None
        down = c.run("port-down", ["ip", "link", "set", c.apply, "down"])
        time.sleep(3)
        still = run.poll() is None
    finally:
        up = c.run("port-up", ["ip", "link", "set", c.apply, "up"])
        if up.status == 0:
            kill(guard)
            _restore(c, before)
        if sys.exc_info()[0]:
            kill(run)
    if down.status != 0 or up.status != 0:
        kill(run)
        yield Wrong(f"{c.apply} was not taken down and up: {down.last() if down.status else up.last()}")
        return
    ended = c.wait([run], 60)
    if not ran or not still:
        yield Wrong(f"the run did not go on while {c.apply} was down: it ended with {run.returncode} (port.txt)")
    elif not ended or run.returncode != 0:
        yield Wrong(f"{c.apply} was down for 3 s, and the run ended with {run.returncode} (port.txt)")
    else:
        yield c.verified(f"{c.apply} was down for 3 s, and the run went on", json.loads((c.out / "port.json").read_text()))


def _may_go_down(interface):
    """Raises Skipped for an interface that is not there, not up, of no RDMA device, or by which somebody reaches this machine."""
    place = pathlib.Path("/sys/class/net") / interface
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", interface) or not place.exists():
        raise Skipped(f"there is no interface {interface}")
    if (place / "operstate").read_text().strip() not in ("up", "unknown"):
        raise Skipped(f"{interface} is not up")
    # Soft-RoCE's devices have no link to their interface; their GIDs name it.
    by_gid = pathlib.Path("/sys/class/infiniband").glob("*/ports/*/gid_attrs/ndevs/*")
    if not list(place.glob("device/infiniband/*")) and not any(_first_line(file) == interface for file in by_gid):
        raise Skipped(f"{interface} belongs to no RDMA device")
    for line in pathlib.Path("/proc/net/route").read_text().splitlines()[1:]:
        if line.split()[:2] == [interface, "00000000"]:
            raise Skipped(f"{interface} has the default route")
    session = os.environ.get("SSH_CONNECTION", "").split()
    addresses = subprocess.run(["ip", "-o", "addr", "show", "dev", interface], capture_output=True, text=True, check=False).stdout
    if len(session) > 2 and re.search(rf"inet6? {re.escape(session[2])}/", addresses):
        raise Skipped(f"{interface} carries this ssh session")


def _first_line(file):
    """"": the entry is empty, which is an error to read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _restore(c, before):
    """What `ip link set down` takes away: IPv6 addresses, and routes that somebody has set."""
    for line in before["addresses"]:
        words = line.split()
        c.run("port-restore", ["ip", "-6", "addr", "replace", words[words.index("inet6") + 1], "dev", c.apply])
    for family, what in (("-4", "routes"), ("-6", "routes6")):
        for line in before[what]:
            if "proto kernel" not in line:
                c.run("port-restore", ["ip", family, "route", "replace", *line.split(), "dev", c.apply])


# In this order; a stage needs nothing of those before it.
ALL = (system, vendors, doctor, model, software, loopback, nccl, one_sided, nccl_tests, torch, pair, port)
