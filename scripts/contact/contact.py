"""What the stages use: programs run with a limit and their words kept, what was found, and where NCCL is."""
import ctypes
import dataclasses
import glob
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
COUNT_GPUS = """import ctypes, sys
cuda, count = ctypes.CDLL(sys.argv[1]), ctypes.c_int()
cuda.cudaGetErrorString.restype = ctypes.c_char_p
status = cuda.cudaGetDeviceCount(ctypes.byref(count))
sys.exit(cuda.cudaGetErrorString(status).decode() if status else print(count.value))
"""


class Finding:
    """What a stage has found. Kinds, worst first: surprise (the machine contradicts what Railwise says of it), wrong, ok, skipped."""
    kind = ""

    def __init__(self, text):
        self.text = text


class Surprise(Finding):
    kind = "surprise"


class Wrong(Finding):
    kind = "wrong"


class Ok(Finding):
    kind = "ok"


class Skipped(Finding, Exception):
    """Also raised: the rest of the stage is not tried."""
    kind = "skipped"


class Failed(Exception):
    """A program of ours failed that must not."""


@dataclasses.dataclass
class Done:
    status: int
    output: str
    errors: str

    def last(self):
        """What the program said last."""
        return ((self.errors.strip() or self.output.strip()).splitlines() or ["nothing said"])[-1]


def start(command, environment, output, errors=subprocess.STDOUT):
    """A child that ends with this script, however that ends."""
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
                            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


def kill(process):
    """False: it hangs in the kernel, and is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)
    except ProcessLookupError:
        process.poll()
    except subprocess.TimeoutExpired:
        return False
    return True


class Contact:
    """One run. `out`: the folder of everything that is written. `deadline`: time.monotonic() at which all must be over."""

    def __init__(self, place, out, options):
        self.railwise = str(place / "bin/railwise")
        # A build has it in lib, what is installed in a folder of lib.
        self.plugin = next((str(file) for file in sorted(place.glob("lib/**/libnccl-net-railwise.so"))), None)
        if self.plugin is None:
            sys.exit(f"first-contact: there is no libnccl-net-railwise.so below {place / 'lib'}: build it, or unpack the bundle again")
        self.out = out
        self.anonymous = options.anonymous
        self.apply = options.apply
        self.host = options.host
        self.largest = options.largest << 20
        self.given_nccl = options.nccl
        self.gpus_in_use = options.gpus_in_use
        # In `railwise device run` the machine's own devices are software devices, and of that machine.
        self.stand_in = os.environ.get("RAILWISE_DEVICE", "") if "RAILWISE_SYSFS_ROOT" in os.environ else ""
        self.real = self.stand_in or "verbs"  # RAILWISE_DEVICE for the machine's own devices, and for software devices
        self.software = self.stand_in or f"software:fabric=contact{os.getpid()}"
        self.deadline = time.monotonic() + options.minutes * 60
        self.figures = []  # (what, figure, the most that can be or None)

    def environment(self):
        """Of all programs: nothing of NCCL's and ours from outside counts, but where the machine is, and which NICs, class and service level
        the site allows."""
        kept = ("RAILWISE_SYSFS_ROOT", "RAILWISE_HOST", "RAILWISE_FABRIC", "NCCL_SOCKET_IFNAME", "NCCL_IBVERBS_LIB", "NCCL_CUMEM_ENABLE",
                "NCCL_CUMEM_HOST_ENABLE", "NCCL_IB_HCA", "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_PKEY", "NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE",
                "NCCL_IB_ROCE_VERSION_NUM")
        outside = {key: value for key, value in os.environ.items() if key in kept or not key.startswith(("NCCL_", "RAILWISE_"))}
        if self.stand_in:
            outside["RAILWISE_DEVICE"] = self.stand_in
        return {"RAILWISE_SLOW_CONNECT": "0", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0", **outside}

    def left(self, limit):
        left = self.deadline - time.monotonic()
        if left < 1:
            raise Skipped("the time was over")
        return min(limit, left)

    def plugin_environment(self):
        """NCCL before 2.19 takes a name only, no path."""
        places = [os.path.dirname(self.plugin), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {"NCCL_NET": "Railwise", "NCCL_NET_PLUGIN": "railwise", "LD_LIBRARY_PATH": ":".join(places)}

    def run(self, name, command, environment=(), limit=60, must=False):
        """Runs a program, and keeps what it says in NAME.txt. A program that is not there is status 127."""
        begin = time.monotonic()
        done = self._run(command, {**self.environment(), **dict(environment)}, self.left(limit))
        (self.out / f"{name}.txt").write_text(f"$ {' '.join(command)}\n{done.output}{done.errors}\n"
                                              f"# status {done.status} after {time.monotonic() - begin:.1f} s\n", encoding="utf-8")
        if must and done.status != 0:
            raise Failed(f"{' '.join(command)} ended with {done.status}: {done.last()}")
        return done

    @staticmethod
    def _run(command, environment, limit):
        # Files, not pipes: a process that cannot be killed would hold a pipe open for ever.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = start(command, environment, output, errors)
            except OSError as problem:
                return Done(127, "", str(problem))
            late = ""
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                late = f"no end within {limit:.0f} s" + ("" if kill(process) else ", and it cannot be killed")
                status = 124
            except BaseException:  # Ctrl-C
                kill(process)
                raise
            said = []
            for file in (output, errors):
                file.seek(0)
                said.append(file.read().decode("utf-8", errors="replace"))
            return Done(status, said[0], said[1] + late)

    def json(self, name, command, statuses=(0,), **how):
        done = self.run(name, command, **how)
        if done.status not in statuses:
            raise Failed(f"{' '.join(command)} ended with {done.status} ({name}.txt)")
        return json.loads(done.output)

    def wait(self, processes, limit):
        """Whether all ended in time. Those that did not, and those that wait for one that failed, are killed."""
        deadline = time.monotonic() + self.left(limit)
        grace = None
        try:
            while any(process.poll() is None for process in processes):
                now = time.monotonic()
                if grace is None and any(process.poll() for process in processes):
                    grace = now + 10
                if now > deadline or (grace is not None and now > grace):
                    return False
                time.sleep(0.1)
            return True
        finally:
            for process in processes:
                if process.poll() is None:
                    kill(process)

    def figure(self, what, value, most=None):
        self.figures.append((what, value, None if self.stand_in else most))

    @staticmethod
    def verified(what, found):
        """Of the JSON of railwise perf."""
        wrong = sum(row[place]["wrong"] for row in found["results"] for place in ("out_of_place", "in_place") if row.get(place))
        return Wrong(f"{what}: {wrong} wrong elements") if wrong else Ok(f"{what}: every element right")

    def explained(self, name, words):
        """{PCI address of a GPU: its NICs, their paths and GPUDirect} by railwise explain; None: no GPU."""
        done = self.run(name, [self.railwise, "explain", "--json", *words])
        if done.status != 0 and "no GPU" not in done.errors:
            raise Failed(f"railwise explain ended with {done.status}: {done.last()} ({name}.txt)")
        if done.status != 0:
            return None
        return {gpu["busid"]: {"nics": [each["name"] for each in gpu["chosen"]], "paths": [each["type"] for each in gpu["chosen"]],
                               "gpudirect": [each["gpudirect_send"]["mode"] for each in gpu["chosen"]]}
                for gpu in json.loads(done.output)["gpus"]}

    def nics(self):
        """The machine's RDMA devices that are up, as `railwise devices` says them. Without libibverbs there are none."""
        done = self.run("nics", [self.railwise, "devices", "--device", self.real, "--json"])
        if done.status != 0 and "no RDMA" not in done.errors:
            raise Failed(f"railwise devices ended with {done.status}: {done.last()} (nics.txt)")
        return json.loads(done.output)["devices"] if done.status == 0 else []

    def nccl(self):
        """(libnccl.so.2, libcudart.so), where there is a GPU. Raises Skipped."""
        folders = [self.given_nccl] if self.given_nccl else []
        for package in ("nvidia.nccl", "nvidia.cuda_runtime", "nvidia.cu13", "torch"):
            try:
                spec = importlib.util.find_spec(package)
            except ImportError:
                spec = None
            folders += [f"{place}/lib" for place in (spec.submodule_search_locations or [])] if spec else []
        folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
        folders += ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib", "/opt/nccl/lib"]
        found = []
        for pattern in ("libnccl.so.2", "libcudart.so*"):
            files = [file for folder in folders if folder for file in sorted(glob.glob(f"{folder}/{pattern}"))]
            if not files:
                raise Skipped(f"no {pattern} in {', '.join(filter(None, folders))} (--nccl FOLDER)")
            found.append(files[0])
        count = self.run("cuda-devices", [sys.executable, "-c", COUNT_GPUS, found[1]])
        if count.status != 0 or count.output.strip() == "0":
            raise Skipped(f"CUDA ({found[1]}) finds no GPU: {count.last()} (cuda-devices.txt)")
        self.leave_jobs_alone()
        return tuple(found)

    def leave_jobs_alone(self):
        """Raises Skipped if somebody computes on the GPUs: what NCCL takes of their memory could end a job."""
        used = self.run("gpus-in-use", ["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"])
        if used.status == 0 and used.output.strip() and not self.gpus_in_use:
            raise Skipped(f"{len(used.output.splitlines())} processes compute on the GPUs (gpus-in-use.txt; --gpus-in-use tries nevertheless)")
