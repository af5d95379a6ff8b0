"""One job of the program nccl_check: a process for each rank, over one network of NCCL's."""
import ctypes
import os
import shutil
import signal
import subprocess
import time

LIMIT_S = 600  # of one job; its checks have limits of their own
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Ends a rank when the script that started it dies; otherwise the rank polls for minutes."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(processes, last_words, limit_s):
    """Complaints: of processes that failed or did not end. `processes`: by name; `last_words(name)`: what that process said last. After the first
    failure, and when the time is over, those that still run are killed with all of their session."""
    complaints = []
    deadline = time.monotonic() + limit_s
    waiting = dict(processes)
    try:
        while waiting and time.monotonic() < deadline and not complaints:
            for name, process in list(waiting.items()):
                if process.poll() is None:
                    continue
                del waiting[name]
                if process.returncode != 0:
                    complaints.append(f"{name} ended with status {process.returncode}: {last_words(name)}")
            time.sleep(0.05)
        if waiting and not complaints:
            complaints.append(f"{', '.join(waiting)} did not end within {limit_s} s")
    finally:
        for process in waiting.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return complaints


class Job:
    """Ranks of the program at a place (real_gpu.py, software_gpu.py), over `net`; logs and outputs are in `folder`.

    `net`: "Railwise", or one that NCCL brings ("Socket", "IB"). `extra`: environment variables on top; None: not set.
    """

    def __init__(self, place, folder, ranks, net, words, extra=()):
        self.place = place
        self.folder = folder
        self.net = net
        self.ranks = ranks
        self.extra = dict(extra)
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier check
        folder.mkdir(parents=True)
        self.outputs = [folder / f"rank{rank}.out" for rank in range(ranks)]
        self.logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
        self.processes = []
        for rank in range(ranks):
            program = [str(place.program), "--ranks", str(ranks), "--id", str(folder / "id"), "--gpu", str(place.gpu(rank)), *words]
            with open(self.outputs[rank], "w") as output:
                self.processes.append(subprocess.Popen(place.command(rank, program + ["--rank", str(rank)]), env=self.environment(rank),
                                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                                       preexec_fn=die_with_parent))

    def environment(self, rank):
        """Nothing of NCCL's and ours from outside counts."""
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL_", "RAILWISE_", "SOFTGPU_", "CUDA_"))}
        of_job = {"NCCL_NET": self.net, "NCCL_NET_PLUGIN": str(self.place.plugin) if self.net == "Railwise" else "none", "NCCL_MNNVL_ENABLE": "0",
                  "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV",
                  "NCCL_CONF_FILE": "/dev/null", "NCCL_NET_MERGE_LEVEL": "LOC",  # the devices as they are
                  # NCCL writes a dump for every communicator whose rank 0 this is: each process has its own.
                  "NCCL_DEBUG_FILE": str(self.logs[rank]), "NCCL_TOPO_DUMP_FILE": str(self.folder / f"topology{rank}.xml"),
                  "RAILWISE_SLOW_CONNECT": "0",  # ranks that start late on a busy machine are no finding
                  "NCCL_HOSTID": self.place.host(rank), **self.place.environment(rank), **self.extra}
        return {**outside, **{name: value for name, value in of_job.items() if value is not None}}

    def wait(self):
        """Complaints: of ranks that failed or did not end."""
        return wait_for({f"rank {rank}": process for rank, process in enumerate(self.processes)}, lambda name: self.last_words(int(name.split()[1])),
                        LIMIT_S)

    def output(self, rank):
        return self.outputs[rank].read_text(errors="replace")

    def log(self, rank):
        return self.logs[rank].read_text(errors="replace") if self.logs[rank].exists() else ""

    def last_words(self, rank):
        lines = self.output(rank).strip().splitlines()
        wrong = [line for line in lines if line.startswith("WRONG")]
        return (wrong or lines or ["it said nothing"])[-1]

    def versions(self):
        """NCCL's, CUDA's and the driver's release, and the GPU's name."""
        line = next(line for line in self.output(0).splitlines() if line.startswith("versions"))
        words = line.split(maxsplit=8)
        return {"nccl": int(words[2]), "cuda": int(words[4]), "driver": int(words[6]), "gpu": words[8]}
