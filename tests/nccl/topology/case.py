"""One machine and one way to run NCCL on it."""
import dataclasses
import json
import pathlib
import re
import subprocess
import xml.etree.ElementTree

import compare
import nccl_log
import xml_dump
from answers import Answers
from hosts_job import HostsJob
from unavailable import Broken

FILE = re.compile(r"NCCL_TOPO_FILE set by environment to (\S+)")


def hosts_of(build, machine):
    """[(name, number of GPUs)] of a software machine."""
    done = subprocess.run([str(build / "bin/railwise"), "device", "show", "--machine", str(machine), "--format", "json"], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise Broken(f"machine {machine}: {done.stderr.strip()}")
    return [(host["name"], len(host["gpus"])) for host in json.loads(done.stdout)["hosts"]]


def pair(hosts):
    """Two hosts: those of the machine, or its only one twice."""
    return (hosts * 2)[:2]


def cpu_of(dump):
    """What NCCL found by CPUID, as `railwise --cpu` takes it: a software machine cannot pretend to NCCL that it has another CPU."""
    cpu = xml.etree.ElementTree.parse(dump).find("cpu")
    return ",".join(cpu.get(name, "") for name in ("arch", "vendor", "familyid", "modelid"))


@dataclasses.dataclass
class Case:
    """NCCL on all GPUs of two hosts. Railwise answers for the machine by itself (`from_dump` false), or for NCCL's dump, which has the devices as
    they are: NCCL must not merge them."""

    name: str
    job: HostsJob
    rules: str
    from_dump: bool = False
    file: pathlib.Path | None = None  # NCCL_TOPO_FILE

    def run(self):
        score = compare.Score(complaints=self.job.run())
        if score.complaints:
            return score
        for host in range(len(self.job.hosts)):
            try:
                of_host = self.judge(host)
            except Exception as error:  # whatever it is, the other machines go on
                of_host = compare.Score(complaints=[f"{type(error).__name__}: {error}"])
            of_host.complaints = [f"host {self.job.hosts[host][0]}: {complaint}" for complaint in of_host.complaints]
            score.add(of_host)
        return score

    def judge(self, host):
        dump = self.job.dumps[host]
        if not dump.exists():
            return compare.Score(complaints=["NCCL wrote no dump"])
        source = self.source(host)
        answers = self.answers(host, source)
        channels = min(self.answers(other, self.source(other)).channels for other in range(len(self.job.hosts)))
        score = compare.paths(self.job.log(host), answers)
        score.add(compare.graphs(self.job.log(host), answers))
        score.add(compare.connections(self.job.log(host), answers, channels))
        if not self.from_dump:
            shown = self.job.ask(host, "topo", "show", "--format", "xml", "--nccl", self.rules, "--quiet", *source,
                                 extra={"NCCL_NET_MERGE_LEVEL": "LOC"})  # NCCL dumps the devices as they are
            score.attributes, complaints = xml_dump.compare(dump.read_text(), shown, self.job.first(host))
            score.complaints += complaints
        return score

    def source(self, host):
        """The words that name a host's machine to railwise."""
        dump = self.job.dumps[host]
        if self.from_dump:
            return [str(dump)]
        return ([str(self.file)] if self.file else []) + self.job.machine_words(host) + ["--cpu", cpu_of(dump)]

    def answers(self, host, source):
        """What Railwise says of the machine that these words describe."""
        first = 0 if self.from_dump else self.job.first(host)  # a dump has NCCL's ranks
        return Answers(lambda *words: self.job.ask(host, *words, *source), first, self.rules)


NIC_OF_A_BRIDGE = ("PIX", "PXB")


class HiddenTree(Case):
    """A VM that hides its PCIe tree: with RAILWISE_TOPOLOGY=auto NCCL reads the file that the plugin makes, which `railwise topo generate` prints
    too, and finds for every GPU a NIC that is nearer than without."""

    def judge(self, host):
        self.file = self.job.folder / f"generated{host}.xml"
        self.file.write_text(self.job.ask(host, "topo", "generate", "--quiet", "--cpu", cpu_of(self.job.dumps[host]), there=True))
        log = self.job.log(host)
        files = set(FILE.findall(log))
        if not files or not all(file.startswith("/proc/self/fd/") for file in files):
            return compare.Score(complaints=[f"NCCL read the topology file {', '.join(sorted(files)) or '(none)'}, not the plugin's"])
        score = super().judge(host)
        before = self.answers(host, self.job.machine_words(host) + ["--cpu", cpu_of(self.job.dumps[host])]).paths()
        now, _ = nccl_log.paths(log)
        for gpu in sorted({start for start, _ in now if start.startswith("GPU/")}):
            near, far = ({path.type for (start, end), path in paths.items() if start == gpu and end.startswith("NET/")} for paths in (now, before))
            if not near & set(NIC_OF_A_BRIDGE) or far & set(NIC_OF_A_BRIDGE):
                score.complaints.append(f"{gpu}: paths to NICs were {sorted(far)} and are {sorted(near)}")
        return score
