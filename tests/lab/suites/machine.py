"""The shapes of tests/lab/machines: what Railwise says of each in its guest, held against the shape.

Usage: machine.py --railwise-build DIR [--save DIR] [SHAPE...]   boots a guest for each shape (default: all)
                                                                 and judges; --save keeps recorded machines
       machine.py --guest                                        in the guest: writes its answers
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from expectation import Expectation  # noqa: E402
from judge import Judge, way_of  # noqa: E402

ARCHIVE = "machine.tar.gz"
BOOT_LIMIT_S = 150  # 15 on a machine that has nothing else to do
# By the rules of one release: without it, those of the guest's libnccl count for the live machine.
RULES = ["--nccl", "2.30"]
# The answers that a recorded machine must give as the live one did.
QUESTIONS = {
    "show.json": ["topo", "show", "--format", "json", *RULES],
    "show.xml": ["topo", "show", "--format", "xml", *RULES],
    "explain.json": ["explain", "--format", "json", *RULES],
    "explain.txt": ["explain", *RULES],
    "net_ib.json": ["topo", "show", "--format", "json", "--net-plugin=net_ib", *RULES],
    "generated.xml": ["topo", "generate"],
}


# ---------------------------------------------------------------- in the guest


def answer(name: str, command: list[str], environment: dict[str, str]) -> None:
    """NAME, NAME.err and NAME.code: what a command said."""
    with open(name, "wb") as out, open(f"{name}.err", "wb") as errors:
        code = subprocess.call(command, stdout=out, stderr=errors, env={**os.environ, **environment})
    Path(f"{name}.code").write_text(str(code))


def guest() -> int:
    functions = [str(path.resolve()) for path in Path("/sys/bus/pci/devices").iterdir()]
    Path("functions.json").write_text(json.dumps(functions))
    module = Path("/run/peer/sys/module/nvidia_peermem")  # NVIDIA's, beside Soft-RoCE
    module.mkdir(parents=True)
    (module / "version").write_text("1\n")
    devices = ["devices", "--device", "verbs", "--plugin",
               f"{os.environ['LAB_BUILD']}/lib/libnccl-net-railwise.so"]
    asked = [(name, question, {}) for name, question in QUESTIONS.items()] + [
        ("record", ["topo", "record", ARCHIVE], {}),
        ("devices.json", [*devices, "--json"], {}),
        ("auto", [*devices, "-v"], {"RAILWISE_TOPOLOGY": "auto"}),
        ("peer.json", [*devices, "--json"], {"RAILWISE_SYSFS_ROOT": "/run/peer"})]
    with ThreadPoolExecutor(max_workers=2) as pool:  # as many as the host's cores
        list(pool.map(lambda it: answer(it[0], ["railwise", *it[1]], it[2]), asked))
    return 0


# ---------------------------------------------------------------- on the host


class Answers:
    """What a guest wrote."""

    def __init__(self, folder: Path, judge: Judge) -> None:
        self.folder, self.judge = folder, judge

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def said(self, name: str) -> str:
        """On stderr."""
        return self.text(f"{name}.err")

    def json(self, name: str) -> dict:
        return json.loads(self.text(name))

    def code(self, name: str) -> int:
        return int(self.text(f"{name}.code"))

    def succeeded(self, name: str) -> bool:
        self.judge.check(self.code(name) == 0, f"{name}: exit {self.code(name)}: {self.said(name)[:500]}")
        return self.code(name) == 0


def railwise_says(railwise: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([railwise, *arguments], capture_output=True, text=True, check=False)


def same_from_archive(answers: Answers, railwise: str) -> None:
    """Each question again, on this machine, to the recorded one."""
    archive = str(answers.folder / ARCHIVE)
    for name, question in QUESTIONS.items():
        done = railwise_says(railwise, *question, "--root", archive)
        answers.judge.equal(f"{name} of the recorded machine, exit", done.returncode, answers.code(name))
        recorded, live = done.stdout, answers.text(name)
        if name.endswith(".json"):
            recorded, live = (json.loads(text) | {"machine": ""} for text in (recorded, live))
        elif name.endswith(".txt"):
            # The name of the machine moves the ends of lines.
            recorded, live = recorded.removeprefix(f"{archive}:").split(), live.removeprefix("/:").split()
        answers.judge.check(recorded == live, f"{name} of the recorded machine is not what the live one said")


def check_lint(answers: Answers, railwise: str) -> None:
    """The machine as a file is one that NCCL reads; of AMD's GPUs it lacks what only their driver tells."""
    lint = railwise_says(railwise, "topo", "lint", str(answers.folder / "show.xml"))
    errors = [line for line in lint.stdout.splitlines() if ": error: " in line]
    answers.judge.check("1 file: " in lint.stdout, f"topo lint: {lint.stdout} {lint.stderr}")
    if answers.judge.expected.amd():
        errors = [line for line in errors if not line.endswith("[gpu-incomplete]")]
    answers.judge.check(not errors, f"topo lint: {errors}")


def check_generated(answers: Answers, railwise: str) -> None:
    """With switches in sight it is refused; else each GPU gets its share of the cards, behind a switch."""
    judge = answers.judge
    auto = answers.said("auto")
    if judge.expected.has_switches():
        judge.equal("topo generate, exit", answers.code("generated.xml"), 1)
        judge.check("below the PCIe switch" in answers.said("generated.xml"), answers.said("generated.xml"))
        judge.check("no topology generated" in auto, f"RAILWISE_TOPOLOGY=auto: {auto[-500:]}")
        return
    judge.check("restored for NCCL" in auto, f"RAILWISE_TOPOLOGY=auto: {auto[-500:]}")
    if answers.succeeded("generated.xml"):
        groups = bridges(answers)
        check_bridges(answers, groups)
        check_restored(answers, groups, railwise)
        lint = railwise_says(railwise, "topo", "lint", str(answers.folder / "generated.xml"))
        judge.equal(f"topo lint of the generated file ({lint.stdout}), exit", lint.returncode, 0)


def bridges(answers: Answers) -> list[list[str]]:
    """The GPUs and cards (function 0) on each made-up bridge."""
    judge = answers.judge
    known = {judge.address(device) for device in (*judge.expected.gpus, *judge.expected.cards)}
    return [[pci.get("busid") for pci in bridge.findall("pci") if pci.get("busid") in known]
            for bridge in ElementTree.fromstring(answers.text("generated.xml")).iter("pci")
            if bridge.get("busid").startswith("ffff")]


def check_restored(answers: Answers, groups: list[list[str]], railwise: str) -> None:
    """Laid over the machine, as NCCL lays it, the file puts behind one switch what it has on one bridge.
    Without GPUDirect the way leads through the CPU all the same."""
    files = [str(answers.folder / "generated.xml"), "--root", str(answers.folder / ARCHIVE)]
    shown = json.loads(railwise_says(railwise, "topo", "show", *files, "--format", "json").stdout)
    nics = {nic["id"]: nic["busid"] for nic in shown["nics"]}
    gpus = {gpu["id"]: gpu["busid"] for gpu in shown["gpus"]}
    cards = {net["id"]: (net["name"], nics[net["nic"]]) for net in shown["nets"]}
    bridge_of = {address: number for number, group in enumerate(groups) for address in group}
    for start, end, kind, *_ in shown["gpu_net"]:
        name, place = cards[end]
        together = (bridge_of[gpus[start]] == bridge_of[place]
                    and name not in answers.judge.expected.software())
        answers.judge.equal(f"with the generated file {start} to {end} is PIX", kind == "PIX", together)


def check_bridges(answers: Answers, groups: list[list[str]]) -> None:
    """What hangs on the made-up bridges: everything, shared out evenly within a NUMA node."""
    judge = answers.judge
    gpus = {judge.address(gpu): gpu for gpu in judge.expected.gpus}
    cards = {judge.address(card): card for card in judge.expected.cards}
    known = gpus | cards
    judge.equal("GPUs and cards on bridges", sorted(sum(groups, [])), sorted(known))
    for group in groups:
        nodes = {known[address].cpu for address in group}
        judge.equal(f"NUMA nodes on the bridge of {group}", len(nodes), 1)
        shares = sum(address in cards for address in group) / sum(address in gpus for address in group)
        judge.equal(f"cards for each GPU on the bridge of {group}", shares, len(cards) / len(gpus))


def check_software(answers: Answers) -> None:
    """Soft-RoCE that shows itself as such: what a user must be told, and what must not be claimed."""
    judge, software = answers.judge, answers.judge.expected.software()
    names = {name for card in software for name in card.split("+")}
    for name in names:
        judge.check(f"{name} is Soft-RoCE" in answers.said("show.json"), f"nothing is said of {name}")
    memory = {device["name"]: device["cuda_memory"] for device in answers.json("peer.json")["devices"]}
    judge.equal("registers GPU memory by its address with nvidia_peermem", memory,
                {name: name not in names for name in memory})
    if len(names) > 1:
        nets = answers.json("net_ib.json")["nets"]
        judge.check(not nets and "have no PCI place" in answers.said("net_ib.json"),
                    f"NCCL's own plugin loses several of them: {nets} {answers.said('net_ib.json')}")


def judge_answers(shape: Path, folder: Path, railwise: str) -> list[str]:
    paths = {path.rsplit("/", 1)[1]: path for path in json.loads((folder / "functions.json").read_text())}
    judge = Judge(Expectation.of(shape), {way_of(path): address for address, path in paths.items()})
    answers = Answers(folder, judge)
    asked = ["record", "devices.json", "auto", "peer.json", *QUESTIONS]
    asked.remove("generated.xml")
    if all([answers.succeeded(name) for name in asked]):
        judge.machine(answers.json("show.json"), answers.json("explain.json"))
        judge.devices(answers.json("devices.json"), paths)
        check_lint(answers, railwise)
        check_generated(answers, railwise)
        check_software(answers)
        same_from_archive(answers, railwise)
    return judge.failures


def boot(shape: Path, build: Path, folder: Path) -> int:
    command = [HERE.parent / "run", "--verbose", "--build", build, "--machine", shape, "--share", folder,
               "--time-limit", BOOT_LIMIT_S, "--", "python3", Path(__file__).resolve(), "--guest"]
    return subprocess.call([str(word) for word in command])


def run(shape: Path, build: Path, save: Path | None) -> int:
    """The exit code for one shape."""
    with tempfile.TemporaryDirectory(prefix="railwise-lab-machine.") as name:
        folder = Path(name)
        if code := boot(shape, build, folder):
            return code
        failures = judge_answers(shape, folder, str(build / "bin/railwise"))
        for failure in failures:
            print(f"FAIL: {shape.stem}: {failure}")
        if save and not failures:
            (save / f"{shape.stem}.tar.gz").write_bytes((folder / ARCHIVE).read_bytes())
        print(f"{shape.stem}: {len(failures)} answers differ from its shape", flush=True)
        return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--guest", action="store_true")
    parser.add_argument("--railwise-build", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("shapes", nargs="*", type=Path)
    options = parser.parse_args()
    if options.guest:
        return guest()
    shapes = options.shapes or sorted((HERE.parent / "machines").glob("*.json"))
    codes = [run(shape, options.railwise_build, options.save) for shape in shapes]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
