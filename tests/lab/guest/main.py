"""First program in the host's root inside a guest: sets the guest up, runs the command, reports, powers off.

Runs as process 1. /lab is the folder of this guest on the host: `conf.json` says what to do; `stdout`, `stderr`, `dmesg` and,
last, `result` tell the host how it went.
"""

import ctypes
import json
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

import network  # noqa: E402

LAB = Path("/lab")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def mount(kind: str, where: str, source: str = "none", options: str = "") -> None:
    Path(where).mkdir(parents=True, exist_ok=True)
    network.run(["mount", "-t", kind, *(["-o", options] if options else []), source, where])


def prepare_system(conf: dict) -> None:
    mount("devpts", "/dev/pts")
    mount("tmpfs", "/dev/shm")
    for link, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        if not os.path.lexists(f"/dev/{link}"):
            os.symlink(target, f"/dev/{link}")
    mount("debugfs", "/sys/kernel/debug")
    if conf["share"]:
        mount("9p", conf["share"], "share", "trans=virtio,version=9p2000.L,msize=512000,cache=none")
    network.run(["hostname", f"guest{conf['guest']}"])
    network.run(["ip", "link", "set", "lo", "up"])



def environment(conf: dict) -> dict[str, str]:
    build = conf["build"]
    return {
        "PATH": (f"{build}/bin:" if build else "") + f"{conf['lab']}/guest/bin:{PATH}",
        "HOME": "/root",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{conf['lab']}/guest",
        "LAB_GUEST": str(conf["guest"]),
        "LAB_GUESTS": str(conf["guests"]),
        "LAB_BUILD": build or "",
        **conf["environment"],
    }


def relay(pipe, path: Path) -> None:
    """Copies what the command writes to the host, until its last process has closed the pipe."""
    with open(path, "wb", buffering=0) as out:
        while data := os.read(pipe, 65536):
            out.write(data)


def run_command(conf: dict) -> int:
    """Runs the command with its outputs relayed; 128 + signal where a signal ended it."""
    ends, threads = [], []
    for name in ("stdout", "stderr"):
        read, write = os.pipe()
        threads.append(threading.Thread(target=relay, args=(read, LAB / name), daemon=True))
        threads[-1].start()
        ends.append(write)
    child = subprocess.Popen(conf["command"], cwd=conf["share"] or conf["cwd"], env=environment(conf), stdin=subprocess.DEVNULL,
                             stdout=ends[0], stderr=ends[1], start_new_session=True)
    for end in ends:
        os.close(end)
    code = child.wait()
    for thread in threads:
        thread.join(timeout=2)  # a process that the command left behind may hold the pipe
    return code if code >= 0 else 128 - code


def power_off() -> None:
    network.run(["sync"])
    ctypes.CDLL(None).reboot(0x4321FEDC)


def main() -> None:
    os.environ["PATH"] = PATH
    code = 125
    conf = json.loads((LAB / "conf.json").read_text())
    try:
        prepare_system(conf)
        network.set_up(conf)
        (LAB / "ready").write_text(Path("/proc/uptime").read_text().split()[0])
        code = run_command(conf)
    except Exception:  # pylint: disable=broad-except
        (LAB / "failure").write_text(traceback.format_exc())
    with open(LAB / "dmesg", "wb") as out:
        subprocess.run(["dmesg"], stdout=out, check=False)
    (LAB / "result.new").write_text(str(code))
    (LAB / "result.new").rename(LAB / "result")
    power_off()


main()
