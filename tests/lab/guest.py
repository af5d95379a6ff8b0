"""One guest: QEMU's command line, its folder on the host, and what it said."""

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from kernel import Kernel

HERE = Path(__file__).resolve().parent
# What a sick kernel prints. The command may still have passed; the run has not.
SPLATS = ("BUG:", "WARNING: CPU", "Oops", "Kernel panic", "rcu: INFO", "soft lockup", "refcount_t:", "KASAN")
# Not the TSC: on a busy host its calibration can be wrong, and the guest's clock ran twenty times too fast.
KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off nowatchdog audit=0 apparmor=0 cryptomgr.notests random.trust_cpu=on "
    "tsc=unstable clocksource=hpet no_timer_check rcupdate.rcu_cpu_stall_timeout=21 sysctl.kernel.panic_on_rcu_stall=1"
)


@dataclass
class Plan:
    """What all guests of a run have in common."""

    kernel: Kernel
    command: list[str]
    devices: int = 1
    iwarp: int = 0
    guests: int = 1
    mtu: list[int] = field(default_factory=lambda: [4200])
    build: str = ""
    share: str = ""
    memory_mb: int = 1024
    cpus: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    machine: list[str] = field(default_factory=list)  # QEMU arguments of its shape, in place of cpus and memory
    machine_setup: dict = field(default_factory=dict)  # what guest/shape.py lays over /sys
    threads: str = "multi"
    counts_instructions: bool = False


class Guest:
    """A guest from start to end. Owns its QEMU process and the folder `folder`."""

    def __init__(self, plan: Plan, number: int, folder: Path) -> None:
        self.plan, self.number, self.folder = plan, number, folder
        folder.mkdir(parents=True)
        for name in ("stdout", "stderr", "console"):
            (folder / name).touch()
        (folder / "main").write_text(str(HERE / "guest/main.py") + "\n")
        (folder / "conf.json").write_text(json.dumps(self._conf()))
        self._requests: set[str] = set()
        self.killed_as_asked = False
        self._qemu_log = open(folder / "qemu", "wb")
        self._process = subprocess.Popen(self._arguments(), stdin=subprocess.DEVNULL, stdout=self._qemu_log, stderr=self._qemu_log,
                                         start_new_session=True, preexec_fn=lambda: os.nice(5))

    def _conf(self) -> dict:
        plan = self.plan
        return {"guest": self.number, "guests": plan.guests, "command": plan.command, "devices": plan.devices, "iwarp": plan.iwarp,
                "siw": plan.kernel.siw, "mtu": plan.mtu, "build": plan.build, "share": plan.share, "cwd": str(HERE), "lab": str(HERE),
                "environment": plan.environment, "machine": plan.machine_setup}

    def _arguments(self) -> list[str]:
        plan, kernel = self.plan, self.plan.kernel
        shared = [("lab", self.folder, ""), ("host", Path("/"), ",readonly=on"), ("modules", kernel.modules, ",readonly=on")]
        if plan.share:
            shared.append(("share", Path(plan.share), ""))
        command = ["qemu-system-x86_64", "-accel", f"tcg,thread={plan.threads}", "-M", "q35", "-cpu", "max", "-nodefaults", "-no-reboot",
                   "-display", "none", "-vga", "none", "-monitor", "none", "-kernel", str(kernel.vmlinux), "-initrd", str(kernel.initramfs),
                   "-append", KERNEL_ARGUMENTS, "-serial", f"file:{self.folder / 'console'}"]
        if plan.counts_instructions:
            command += ["-icount", "shift=0,sleep=off"]
        for tag, path, more in shared:
            command += ["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{more}"]
        command += plan.machine or ["-smp", str(plan.cpus), "-m", str(plan.memory_mb)]
        if plan.guests > 1:
            command += self._wire()
        return command

    def _wire(self) -> list[str]:
        """One virtual switch over all NICs of both guests: unix datagrams (stream sockets over TCP cost 50 ms each way)."""
        mine, peer = (self.folder.parent / f"wire{number}" for number in (self.number, 1 - self.number))
        arguments = ["-netdev", f"dgram,id=wire,local.type=unix,local.path={mine},remote.type=unix,remote.path={peer}",
                     "-netdev", "hubport,id=uplink,hubid=1,netdev=wire"]
        for device in range(self.plan.devices + self.plan.iwarp):
            arguments += ["-netdev", f"hubport,id=nic{device},hubid=1", "-device",
                          f"virtio-net-pci,netdev=nic{device},mac=52:54:00:00:{self.number:02x}:{device:02x},host_mtu=9000"]
        return arguments

    def running(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """Stops every virtual CPU and device, as a stopped host would look to others."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self, asked: bool = False) -> None:
        """`asked`: by a guest, so its end is part of the scenario."""
        self.killed_as_asked = self.killed_as_asked or asked
        if self.running():
            self._process.kill()
        self._process.wait()
        self._qemu_log.close()

    def requests(self) -> list[str]:
        """What the guest asked of the host since the last call (guest/bin/lab-host writes files `request.*`)."""
        found = sorted(path.name for path in self.folder.glob("request.*") if path.name not in self._requests)
        self._requests.update(found)
        return [(self.folder / name).read_text() for name in found]

    def result(self) -> int | None:
        """The command's exit code; None when the guest ended without one."""
        try:
            return int((self.folder / "result").read_text())
        except (OSError, ValueError):
            return None

    def splats(self) -> list[str]:
        """Lines of the kernel's log that say it is sick."""
        lines: list[str] = []
        for name in ("dmesg", "console"):
            path = self.folder / name
            if path.exists():
                lines += path.read_text(errors="replace").splitlines()
        return list(dict.fromkeys(line for line in lines if any(splat in line for splat in SPLATS)))[:5]

    def met_emulators_race(self) -> bool:
        """The kernel patches its code behind a breakpoint (text_poke_bp). QEMU can let another CPU run into that one after it has
        gone, and the kernel knows of none there."""
        return any("Oops: int3" in line for line in self.splats())

    def last_words(self) -> str:
        """For a guest that died or failed to set itself up."""
        words = []
        for name in ("failure", "console", "qemu"):
            path = self.folder / name
            if path.exists():
                words += [f"{name}: {line}" for line in path.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(words)

    def keep(self, where: Path) -> None:
        shutil.copytree(self.folder, where / f"guest{self.number}", dirs_exist_ok=True)
