"""One question, one answer: asks every command that answers about a machine, over all machines, and compares the facts that
appear twice: the release, the GPUs, their model and compute capability, the paths between them, the NICs of each GPU, the
limits, whether NCCL's init fails, and the notes. Then every way to name a machine, and every way to ask for JSON or for a file.

Usage: one_answer_test.py RAILWISE [LIBRARY]
LIBRARY: the folder of librailwise-topology.so; asked too, through the Python package.
"""

import fcntl
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "tests" / "topo" / "machines"


class Asker:
    def __init__(self, railwise: str):
        self.railwise = railwise

    def run(self, *words: str, text: str = "") -> subprocess.CompletedProcess:
        return subprocess.run([self.railwise, *words], input=text, capture_output=True, text=True, timeout=120)

    def notes(self, done: subprocess.CompletedProcess) -> list[str]:
        return [line.split(": note: ", 1)[1] for line in done.stderr.splitlines() if ": note: " in line]

    def ask(self, *words: str):
        """What a command answers in JSON, and its notes; nothing: it refuses."""
        done = self.run(*words)
        if done.returncode not in (0, 1) or not done.stdout.startswith(("{", "[")):
            return None, None
        return json.loads(done.stdout), self.notes(done)


class Facts:
    """Each fact with who has said it."""

    def __init__(self, machine: str):
        self.machine = machine
        self.said: dict = {}
        self.failures: list[str] = []

    def add(self, who: str, fact, value):
        first, known = self.said.setdefault(fact, (who, value))
        if known != value:
            self.failures.append(f"{self.machine}: {fact}: {first} says {known!r}, {who} says {value!r}")


def bandwidth(value: float) -> float:
    return float(f"{value:.5g}")


def add_topology(facts: Facts, who: str, show: dict):
    """topo show, and Python's library."""
    gpus = {gpu["id"]: gpu for gpu in show["gpus"]}
    nets = {net["id"]: net["name"] for net in show["nets"]}
    facts.add(who, "release", show["nccl"])
    facts.add(who, "GPUs", sorted((gpu["rank"], gpu["busid"]) for gpu in gpus.values()))
    for gpu in gpus.values():
        facts.add(who, ("sm", gpu["rank"]), gpu["sm"])
        facts.add(who, ("model", gpu["rank"]), gpu["model"])
    for source, to, kind, gb, *_ in show["gpu_gpu"]:
        pair = tuple(sorted((gpus[source]["rank"], gpus[to]["rank"])))
        facts.add(who, ("GPU to GPU", gpus[source]["rank"], gpus[to]["rank"]), (kind, bandwidth(gb)))
        facts.said.setdefault(("pair", pair), (who, set()))[1].add((kind, bandwidth(gb)))
    for source, net, kind, gb, *_ in show["gpu_net"]:
        facts.add(who, ("GPU to NIC", gpus[source]["rank"], net), (nets[net], kind, bandwidth(gb)))
    by_dev = {net["dev"]: net["name"] for net in show["nets"]}
    for domain in show["domains"]:
        for rank, own in domain["local_net"].items():
            facts.add(who, ("NICs", int(rank)), [by_dev[dev] for dev in own])


def add_explain(facts: Facts, who: str, explain: dict):
    facts.add(who, "release", explain["nccl"])
    facts.add(who, "GPUs", sorted((gpu["rank"], gpu["busid"]) for gpu in explain["gpus"]))
    for gpu in explain["gpus"]:
        channels = {channel: nic["name"] for nic in gpu["chosen"] for channel in nic["channels"]}
        if channels:
            facts.add(who, ("NICs", gpu["rank"]), [channels[channel] for channel in sorted(channels)])
        for nic in gpu["chosen"] + gpu["rejected"]:
            facts.add(who, ("GPU to NIC", gpu["rank"], nic["net"]), (nic["name"], nic["type"], bandwidth(nic["bandwidth"])))


def add_gpus(facts: Facts, who: str, gpus: dict):
    whole = {gpu["index"]: gpu for gpu in gpus["gpus"] if gpu["rank"] is not None and gpu["parent"] is None}
    for gpu in whole.values():
        if gpu["vendor"] == "NVIDIA":
            facts.add(who, ("sm", gpu["rank"]), gpu["sm"])
        facts.add(who, ("model", gpu["rank"]), gpu["model"])
    for nic in gpus["nics"]:
        rank = whole[nic["gpu"]]["rank"] if nic["gpu"] in whole else -1
        known = {value for fact, (_, value) in facts.said.items() if fact[:2] == ("GPU to NIC", rank)}
        told = (nic["name"].split(" of host ")[0], nic["type"], bandwidth(nic["gb_per_s"]))
        if rank >= 0 and known and told not in known:
            facts.failures.append(f"{facts.machine}: GPU {rank}: topo show says {known}, {who} says {told}")


def add_pick(facts: Facts, who: str, pick: dict):
    if len(pick["gpus"]) == 2:
        kinds = facts.said.get(("pair", tuple(sorted(pick["gpus"]))), (None, set()))[1]
        told = (pick["slowest_pair_type"], bandwidth(pick["slowest_pair_gb_per_s"]))
        if kinds and told not in kinds:
            facts.failures.append(f"{facts.machine}: GPUs {pick['gpus']}: topo show says {kinds}, {who} says {told}")


def add_release(facts: Facts, who: str, answer: dict):
    facts.add(who, "release", answer["nccl"])


def add_expect(facts: Facts, who: str, expect: dict):
    facts.add(who, "release", expect["nccl"])
    facts.add(who, "ranks", sorted(rank for of in expect["expectations"] for rank in of["ranks"]))
    if "--nodes=2" in who:
        facts.add(who, "limit of two hosts", [bandwidth(of["peak_bus_gb_per_s"]) for of in expect["expectations"]])


def add_slurm(facts: Facts, who: str, text: str):
    """The type of a GPU in gres.conf: sm_90, gfx942, or a model's name."""
    for number in re.findall(r"Type=sm_(\d+)", text):
        known = {value for fact, (_, value) in facts.said.items() if fact[0] == "sm"}
        if known and int(number) not in known:
            facts.failures.append(f"{facts.machine}: {who} says sm_{number}, topo show {known}")


COMMANDS = (("topo show", add_topology), ("explain", add_explain), ("gpus", add_gpus), ("gpus pick 2", add_pick),
            ("topo transports", add_release), ("topo graphs", add_release), ("topo expect", add_expect),
            ("topo expect --nodes=2", add_expect))


FAILS = "fails its init"


def add_init(asker: Asker, facts: Facts, machine: list[str]):
    """Whether NCCL's init fails. Of lint and doctor errors alone: a note says what another release does."""
    for command in ("topo graphs", "topo expect", "explain"):
        done = asker.run(*command.split(), "--json", "-q", *machine)
        facts.add(command, FAILS, FAILS in done.stdout + done.stderr)
    if not machine[0].startswith("-"):
        for file in json.loads(asker.run("topo", "lint", "--json", *machine).stdout):
            facts.add("topo lint", FAILS, any(FAILS in found["text"] for found in file["findings"] if found["severity"] == "error"))
    doctor = json.loads(asker.run("doctor", "--json", "--only", "topology", *machine).stdout)
    facts.add("doctor", FAILS, any(FAILS in json.dumps([found["what"], found["seen"]])
                                   for found in doctor["findings"] if found["severity"] == "error"))


def check_machine(asker: Asker, machine: list[str], library) -> Facts:
    facts = Facts(" ".join(machine).replace(str(ROOT) + "/", ""))
    for command, add in COMMANDS:
        answer, notes = asker.ask(*command.split(), "--json", *machine)
        if answer is None or "gpus" in answer and not answer["gpus"]:
            continue
        facts.add(command, "notes", notes)
        add(facts, command, answer)
    slurm = asker.run("topo", "export", "--for", "slurm", *machine)
    if slurm.returncode == 0:
        known = facts.said.get("notes", ("", []))[1]
        facts.add("topo export", "notes", asker.notes(slurm)[:len(known)])  # what gres.conf leaves out follows
        add_slurm(facts, "topo export", slurm.stdout)
    add_init(asker, facts, machine)
    if library is not None and facts.said:
        for how, loaded in library(machine):
            add_topology(facts, how, loaded)
    return facts


def python_library(folder: str):
    """Asks librailwise-topology as Python's users do."""
    package = Path(tempfile.mkdtemp()) / "railwise"
    shutil.copytree(ROOT / "python" / "railwise", package)
    (package / "lib").mkdir()
    shutil.copy(Path(folder) / "librailwise-topology.so.0", package / "lib")
    sys.path.insert(0, str(package.parent))
    from railwise import Error, topology

    def ask(machine: list[str]):
        try:
            if machine[0] == "--root":
                loaded = topology.load(root=machine[1])
            elif machine[0].startswith("-"):
                return []
            else:
                loaded = topology.load(machine[0])
        except Error:
            return []
        return [("Python", loaded.json())]

    return ask


def generated(asker: Asker, scratch: Path) -> list[str]:
    """The file of a VM says of its GPUs what the VM's /sys says."""
    file = scratch / "vm.xml"
    done = asker.run("topo", "generate", "-m", "cloud-vm", "-q", "-o", str(file))
    if done.returncode != 0:
        return [f"topo generate -m cloud-vm -o FILE: {done.stderr}"]
    of_file, _ = asker.ask("topo", "show", "--json", str(file))
    of_tree, _ = asker.ask("topo", "show", "--json", "-m", "cloud-vm")
    kinds = [[(gpu["busid"], gpu["sm"]) for gpu in show["gpus"]] + [row[:4] for row in show["gpu_gpu"]]
             for show in (of_file, of_tree)]
    return [] if kinds[0] == kinds[1] else [f"a VM is {kinds[1][:1]}, the file made of it {kinds[0][:1]}"]


def pair_agrees(asker: Asker) -> list[str]:
    """doctor --pair has the release and the limit of topo expect, and one limit only."""
    expect, notes = asker.ask("topo", "expect", "--json", "--nodes=2", "-m", "dgx")
    done = asker.run("doctor", "--pair", "-m", "dgx", "-j", "-t", "0.01")
    if not done.stdout.startswith("{"):
        return [f"doctor --pair -m dgx -j: {done.stderr}"]
    pair = json.loads(done.stdout)
    peak = bandwidth(expect["expectations"][0]["peak_bus_gb_per_s"])
    found = {bandwidth(value) for key, value in pair["all_reduce"].items() if key in ("model_gb_per_s", "nccl_gb_per_s")}
    failures = [] if found == {peak} else [f"all_reduce on two hosts: topo expect says {peak}, doctor --pair {found}"]
    if not set(notes) <= set(pair["looked"]):
        failures.append(f"topo expect goes by {notes}, doctor --pair by {pair['looked']}")
    return failures


def log_agrees(asker: Asker, scratch: Path) -> list[str]:
    """doctor --log takes the release of the log, and says it; what the user says goes before."""
    log = scratch / "nccl-tests.txt"
    log.write_text("# nThread 1 nGpus 8 minBytes 8388608 maxBytes 8388608 step: 2(factor) warmup iters: 5 iters: 20\n"
                   "#\n# Using devices\n" +
                   "".join(f"#  Rank {rank} Group  0 Pid   100{rank} on     node1 device  {rank} [0x1{rank}] NVIDIA H100\n"
                           for rank in range(8)) +
                   "NCCL version 2.28.9+cuda13.0\n#       size         count      type   redop    root     time   algbw   busbw\n"
                   "     8388608       2097152     float     sum      -1    90.00   93.21  163.11      0    90.00   93.21  163.11      0\n")
    failures = []
    for words, release in (((), "2.28.9"), (("--nccl=2.30.7",), "2.30.7")):
        done = asker.run("doctor", "--log", str(log), "-m", "dgx", *words)
        said = set(re.findall(r"rules of NCCL ([\d.]+\d)", done.stderr)) | set(re.findall(r"model \(([\d.]+)\)", done.stdout))
        if said != {release}:
            failures.append(f"doctor --log {' '.join(words)}: the release is {release}, and it says {sorted(said)}: {done.stderr}")
    return failures


# How a command is asked; {} is where the machine stands.
ASKED = ("explain {}", "topo show {}", "topo transports {}", "topo graphs {}", "topo expect {}", "topo diff {} {}", "gpus {}",
         "gpus pick 1 {}", "doctor {}")


def options_agree(asker: Asker, scratch: Path) -> list[str]:
    """FILE, -, --root, --machine and --host name a machine; -j, --json, --format json ask for JSON; -o for a file."""
    failures = []
    file = MACHINES / "gb200.xml"
    tree = scratch / "tree"
    asker.run("device", "sysfs", "-m", "dgx", "-H", "B", str(tree))
    for asked in ASKED:
        command = asked.split(" {}")[0].split()
        again = [] if asked.count("{}") == 1 else [str(file)]
        answers = {}
        for way, text in (([str(file)], ""), (["-"], file.read_text()), (["--root", str(tree)], ""),
                          (["-m", "dgx", "-H", "B"], ""), (["--machine=dgx", "--host=B"], "")):
            for json_option in (["-j"], ["--json"], ["--format", "json"], ["-f", "json"]):
                done = asker.run(*command, *again, *way, *json_option, text=text)
                if not done.stdout.startswith(("{", "[")):
                    failures.append(f"{' '.join(command + way + json_option)}: {done.stderr.strip() or done.stdout[:80]}")
                answers.setdefault(" ".join(way), set()).add(re.sub(r'"machine": "[^"]*"|/[^" ]*|standard input', "", done.stdout))
        failures += [f"{asked}: {way}: the spellings of JSON differ" for way, texts in answers.items() if len(texts) > 1]
        # A file appears whole or not at all.
        for words, kept in (([str(file)], True), (["/nowhere.xml"], False)):
            out = scratch / "out"
            done = asker.run(*command, *again, *words, "-o", str(out))
            if out.exists() != kept or done.stdout:
                failures.append(f"{' '.join(command + words)} -o FILE: {done.stderr.strip()[:200]} {done.stdout[:40]}")
            out.unlink(missing_ok=True)
    for command in ("topo generate", "topo export --for env", "topo lint " + str(file), "gpus fitness --hosts x --nodes y"):
        if "unknown option" in asker.run(*command.split(), "-o", str(scratch / "out")).stderr:
            failures.append(f"{command}: has no -o")
    for command in ("topo generate", "topo record " + str(scratch / "r.tar.gz"), "devices", "topo export --for env"):
        if "unknown option" in asker.run(*command.split(), "-m", "cloud-vm").stderr:
            failures.append(f"{command}: has no -m")
    for command in ("config", "version", "devices -m dgx", "device list", "device show", "topo lint " + str(file)):
        done = asker.run(*command.split(), "-j")
        if not done.stdout.startswith(("{", "[")):
            failures.append(f"{command} -j: {done.stderr}")
    return failures


def files_agree(asker: Asker, scratch: Path) -> list[str]:
    """A file has the same text, however wide the terminal is from which it is written, and without one."""
    file = str(MACHINES / "gb200.xml")
    failures = []
    for asked in ASKED + ("gpus pick 2 -m dgx -m cloud-vm", "gpus pick 4 {} --machine dgx", "topo lint {}"):
        command = asked.replace("{}", file).split()
        texts = set()
        for columns in (0, 40, 97):
            out = scratch / "out"
            screen, terminal = os.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            subprocess.run([asker.railwise, *command, "-o", str(out)], stdin=subprocess.DEVNULL,
                           stdout=terminal if columns else subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
            texts.add(out.read_text())
            out.unlink()
            os.close(screen)
            os.close(terminal)
        if len(texts) > 1:
            failures.append(f"{' '.join(command)} -o FILE: the file depends on the terminal")
    return failures


def main() -> int:
    asker = Asker(sys.argv[1])
    library = python_library(sys.argv[2]) if len(sys.argv) > 2 and (Path(sys.argv[2]) / "librailwise-topology.so.0").exists() else None
    names = re.findall(r"^(\S+)  ", asker.run("device", "list").stdout, re.M)
    failures = [] if len(names) >= 8 else [f"railwise device list: {names}"]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        # The machine of the first finding: GPUs that are known by their PCI ids alone.
        asker.run("device", "sysfs", "-m", "cloud-vm", str(scratch / "vm"))
        (scratch / "vm.xml").write_text(asker.run("topo", "generate", "-q", "--root", str(scratch / "vm")).stdout)
        machines = [[str(path)] for path in sorted(MACHINES.rglob("*.xml")) + [scratch / "vm.xml"]]
        machines += [["--root", str(path)] for path in sorted((MACHINES / "recorded").glob("*.tar.gz")) + [scratch / "vm"]]
        machines += [["--machine", name] for name in names]
        with ThreadPoolExecutor(2) as pool:
            walked = list(pool.map(lambda machine: check_machine(asker, machine, library), machines))
        told = 0
        for facts in walked:
            told += len(facts.said)
            failures += facts.failures
        failures += generated(asker, scratch) + pair_agrees(asker) + log_agrees(asker, scratch) + options_agree(asker, scratch)
        failures += files_agree(asker, scratch)
    for line in failures[:40]:
        print(f"FAIL: {line[:400]}")
    print(f"{len(machines)} machines, {told} facts, {len(failures)} contradictions")
    return 1 if failures or told < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
