"""One job of nccl_host_of_ranks: a process for each host, or for each GPU of it, over the software verbs device."""
import os
import shutil
import subprocess

import job
import software_gpu

LIMIT_S = 600  # the program gives each of its three checks 180
# Ranks of all hosts share this computer's memory.
SMALL_BUFFERS = {"NCCL_BUFFSIZE": "65536", "NCCL_LL_BUFFSIZE": "65536", "NCCL_LL128_BUFFSIZE": "122880", "NCCL_P2P_NET_CHUNKSIZE": "8192",
                 "NCCL_P2P_PCI_CHUNKSIZE": "8192", "NCCL_P2P_NVL_CHUNKSIZE": "8192"}


class HostsJob:
    """`hosts`: [(name of the software host, its GPUs)]. `apart`: a process for each GPU. `settings`: configuration of the software device. `extra`:
    environment variables. `within`: ranks of a host send to each other too."""

    def __init__(self, nccl, build, folder, machine, hosts, apart=False, settings=(), extra=(), within=False):
        self.folder = folder
        self.hosts = hosts
        self._nccl = nccl
        self._build = build
        self._machine = str(machine)
        self._settings = list(settings)
        self._extra = dict(extra)
        self._fabric = f"topology{os.getpid()}"
        self._within = within
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.dumps = [folder / f"host{host}.xml" for host in range(len(hosts))]
        # (host, the GPU that the process plays; None: all)
        self._parts = [(host, gpu) for host, (_, gpus) in enumerate(hosts) for gpu in (range(gpus) if apart else [None])]

    def first(self, host):
        """Its first rank."""
        return sum(gpus for _, gpus in self.hosts[:host])

    def _command(self, host, words):
        settings = [word for setting in self._settings for word in ("--set", setting)]
        return [str(self._build / "bin/railwise"), "device", "run", "--machine", self._machine, "--host", self.hosts[host][0], "--fabric",
                self._fabric, *settings, "--", *words]

    def environment(self, host):
        """Nothing of NCCL's and ours from outside counts."""
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL_", "RAILWISE_", "SOFTGPU_", "CUDA_"))}
        old = outside.get("LD_LIBRARY_PATH")
        return {**outside, **software_gpu.NCCL, **SMALL_BUFFERS,
                "LD_LIBRARY_PATH": self._nccl.library_path() + (f":{old}" if old else ""),
                "NCCL_NET": "Railwise", "NCCL_NET_PLUGIN": str(self._build / "lib/libnccl-net-railwise.so"), "NCCL_MNNVL_ENABLE": "0",
                "NCCL_GIN_TYPE": "0",  # else NCCL describes the NICs by a network of its own
                "NCCL_MAX_NCHANNELS": "8", "NCCL_MAX_P2P_NCHANNELS": "4", "NCCL_SOCKET_IFNAME": "lo", "NCCL_CONF_FILE": "/dev/null", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV",
                "NCCL_DEBUG_FILE": str(self.folder / f"host{host}.%p.log"), "NCCL_TOPO_DUMP_FILE": str(self.dumps[host]),
                "NCCL_TOPO_DUMP_FILE_RANK": str(self.first(host)), "NCCL_HOSTID": f"host{host}", **self._extra}

    def run(self):
        """Complaints: of hosts that failed or did not end."""
        program = str(self._nccl.folder / "nccl_host_of_ranks")
        ranks = sum(gpus for _, gpus in self.hosts)
        processes = {}
        for host, gpu in self._parts:
            words = [program, "--first", str(self.first(host)), "--gpus", str(self.hosts[host][1]), "--ranks", str(ranks), "--id",
                     str(self.folder / "id"), *(["--gpu", str(gpu)] if gpu is not None else []), *(["--within", "1"] if self._within else [])]
            with open(self._output(host, gpu), "w") as output:
                processes[host, gpu] = subprocess.Popen(self._command(host, words), env=self.environment(host), stdin=subprocess.DEVNULL,
                                                        stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                                        preexec_fn=job.die_with_parent)
        parts = {f"host {host}" if gpu is None else f"host {host}, GPU {gpu}": (host, gpu) for host, gpu in processes}
        return job.wait_for({name: processes[part] for name, part in parts.items()}, lambda name: self._last_words(*parts[name]), LIMIT_S)

    def _output(self, host, gpu):
        return self.folder / (f"host{host}.out" if gpu is None else f"host{host}.{gpu}.out")

    def _last_words(self, host, gpu):
        lines = self._output(host, gpu).read_text(errors="replace").strip().splitlines()
        return (lines or ["it said nothing"])[-1]

    def log(self, host):
        """Of all processes of a host."""
        return "".join(log.read_text(errors="replace") for log in sorted(self.folder.glob(f"host{host}.*.log")))

    def machine_words(self, host):
        """Options by which `railwise topo` reads the host's description."""
        return ["--machine", self._machine, "--host", self.hosts[host][0]]

    def ask(self, host, *words, extra=(), there=False):
        """What `railwise WORDS` answers with NCCL's environment; `there`: on the host, whose /sys it then reads."""
        command = [str(self._build / "bin/railwise"), *words]
        done = subprocess.run(self._command(host, command) if there else command, env={**self.environment(host), **dict(extra)},
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"railwise {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout
