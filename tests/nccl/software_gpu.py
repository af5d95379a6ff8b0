"""Ranks on software GPUs: NCCL itself over our CUDA runtime and kernels (software_nccl.py), and over the software verbs device."""
import json
import os
import subprocess

from unavailable import Broken

# Memory by CUDA's virtual memory management, as NCCL has it on a GPU of today. Our CUDA runtime offers no multicast.
NCCL = {"NCCL_CUMEM_ENABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "1", "NCCL_NVLS_ENABLE": "0"}
# "Device" memory is the computer's memory, and NCCL's default buffers of many ranks would take all of it.
MANY_RANKS = 8
SMALL_BUFFERS = {"NCCL_BUFFSIZE": str(512 << 10)}


def railwise_command(build):
    """The command of a build, or the part of it that a sanitizer's build has."""
    whole = build / "bin/railwise"
    return whole if whole.exists() else build / "bin/railwise-device"


class SoftwareGpu:
    """See job.py. `hosts` hosts with `gpus` ranks each, on GPUs of their own. Hosts that the machine does not have are its hosts once more, and
    other hosts to NCCL. Where the machine describes no GPU, the software GPU invents one."""

    what = "software GPUs"

    def __init__(self, nccl, build, machine, hosts, gpus):
        self.program = nccl.program
        self.plugin = build / "lib/libnccl-net-railwise.so"
        self._nccl = nccl
        self._build = build
        self._railwise = railwise_command(build)
        self._machine = machine
        self.fabric = f"check{os.getpid()}"
        described = self._describe()
        few = [host["name"] for host in described if max(len(host["gpus"]), 1) < gpus]
        if few:
            raise Broken(f"--gpus {gpus}: host {few[0]} of machine {machine} has fewer (railwise device show --machine {machine})")
        self._hosts = [described[index % len(described)]["name"] for index in range(hosts)]
        self.gpus = gpus
        self.shares_hosts = gpus > 1

    def resized(self, hosts, gpus):
        """The same machine with other ranks."""
        return SoftwareGpu(self._nccl, self._build, self._machine, hosts, gpus)

    def _describe(self):
        done = subprocess.run([str(self._railwise), "device", "show", "--machine", self._machine, "--format", "json"], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise Broken(f"machine {self._machine}: {done.stderr.strip() or done.stdout.strip()}")
        return json.loads(done.stdout)["hosts"]

    def ranks(self):
        return len(self._hosts) * self.gpus

    def gpu(self, rank):
        return rank % self.gpus

    def host(self, rank):
        return f"host{rank // self.gpus}"

    def host_name(self, rank):
        return self._hosts[rank // self.gpus]

    def command(self, rank, words):
        return [str(self._railwise), "device", "run", "--machine", self._machine, "--host", self.host_name(rank), "--fabric", self.fabric,
                "--", *words]

    def environment(self, _rank):
        many = SMALL_BUFFERS if self.ranks() >= MANY_RANKS else {}
        old = os.environ.get("LD_LIBRARY_PATH")
        return {**NCCL, **many, "LD_LIBRARY_PATH": self._nccl.library_path() + (f":{old}" if old else "")}

    def stats_command(self):
        """Prints the counters of all devices of the job."""
        return f"{self._railwise} device stats --fabric {self.fabric} --format json"
