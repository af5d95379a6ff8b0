"""The guest's kernel: Debian's own package, downloaded by apt and unpacked in a cache, never installed.

Debian builds rdma_rxe but no siw (soft-iWARP): that one module is built from Debian's linux-source. Everything lands in one
folder of the cache per kernel version and is made once; a lock lets several runs share the cache.
"""

import contextlib
import fcntl
import lzma
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from errors import LabError, Unavailable

# Command -> the Debian package that brings it.
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "depmod": "kmod",
    "xz": "xz-utils",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "ip": "iproute2",
    "rdma": "iproute2",
    "ibv_devinfo": "ibverbs-utils",
}
# 6.12 has what 6.1 lacks (udmabuf, an rxe that flushes at link down) and is Debian 13's own.
SERIES = ("6.12", "6.1")


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted."""

    version: str  # as uname -r says
    vmlinux: Path
    modules: Path  # what is /lib/modules/<version> in the guest
    initramfs: Path
    siw: str  # empty when siw is among the modules, else why it is not


def _run(command: list[str], **options) -> str:
    """Runs a command and returns its standard output; its failure is a LabError with its last words."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        words = " | ".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise LabError(f"{' '.join(map(str, command))} failed ({done.returncode}): {words}")
    return done.stdout


def check_machine() -> None:
    """Raises Unavailable, with what to install, where the lab cannot run."""
    if platform.machine() != "x86_64":
        raise Unavailable(f"the lab boots an x86_64 kernel; this is {platform.machine()}")
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool, path=path)})
    if missing:
        raise Unavailable(f"missing packages: {' '.join(missing)} (scripts/packages --long installs them)")


@contextlib.contextmanager
def locked(cache: Path) -> Iterator[None]:
    """One process at a time fills a cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _depends(package: str) -> list[str]:
    """The packages that apt's newest version of `package` depends on, without versions and alternatives."""
    shown = subprocess.run(["apt-cache", "show", "--no-all-versions", package], capture_output=True, text=True)
    found = re.search(r"^Depends: (.*)$", shown.stdout, re.MULTILINE)
    if shown.returncode != 0 or not found:
        raise Unavailable(f"apt knows no package {package} (apt-get update? The lab knows Debian's kernels only)")
    return [item.split()[0] for item in found.group(1).split(", ")]


def _one(names: list[str], pattern: str, package: str) -> str:
    found = [name for name in names if re.fullmatch(pattern, name)]
    if not found:
        raise LabError(f"{package} depends on nothing like {pattern}: {' '.join(names)}")
    return found[0]


def _unpack(package: str, into: Path, debs: Path) -> None:
    """Downloads a package and unpacks it. The download is removed: it is not needed twice."""
    debs.mkdir(parents=True, exist_ok=True)
    try:
        _run(["apt-get", "download", "-qq", package], cwd=debs)
    except LabError as error:
        raise Unavailable(f"cannot download {package}: {error}") from error
    name = package.split("=")[0]
    for deb in debs.glob(f"{name}_*.deb"):
        _run(["dpkg-deb", "-x", str(deb), str(into)])
        deb.unlink()


def _extract_vmlinux(bzimage: Path, vmlinux: Path) -> None:
    """The ELF kernel inside a bzImage: QEMU boots it 1 to 2 s sooner (PVH)."""
    data = bzimage.read_bytes()
    for magic, tool in ((b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b\x08", "gzip")):
        start = data.find(magic)
        if start <= 0 or not shutil.which(tool):
            continue
        # What follows the compressed kernel makes the tool complain; what it wrote until then is all there is.
        out = subprocess.run([tool, "-dc"], input=data[start:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        if out.startswith(b"\x7fELF"):
            vmlinux.write_bytes(out)
            return
    raise LabError(f"no ELF kernel found in {bzimage}")


def _build_siw(series: str, version: str, work: Path, debs: Path, modules: Path) -> None:
    """Builds siw.ko from Debian's linux-source with Debian's headers, both unpacked under `work`."""
    headers = f"linux-headers-{version}"
    needed = _depends(headers)
    for package in (headers, _one(needed, r"linux-headers-.*-common", headers), _one(needed, r"linux-kbuild-.*", headers)):
        _unpack(package, work, debs)
    _unpack(f"linux-source-{series}", work, debs)
    tree = f"linux-source-{series}"
    siw = f"{tree}/drivers/infiniband/sw/siw"
    _run(["tar", "-xJf", str(work / f"usr/src/{tree}.tar.xz"), "-C", str(work), siw])
    # The unpacked headers name their other half by where it would be installed.
    source = work / "usr/src" / headers
    makefile = source / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{work}/usr/src/"))
    # Debian's kernels have BTF in modules; without pahole at hand it is left out.
    _run(["make", "-s", "-C", str(source), f"M={work / siw}", "CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])
    extra = modules / "extra"
    extra.mkdir(exist_ok=True)
    shutil.copy(work / siw / "siw.ko", extra)


def _module_files(modules: Path, names: list[str]) -> list[str]:
    """The files of the named modules and of what they need, in the order in which they can be loaded."""
    dependencies: dict[str, list[str]] = {}
    by_name: dict[str, str] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, needs = line.partition(":")
        dependencies[file] = needs.split()
        by_name[Path(file).name.split(".ko")[0].replace("-", "_")] = file
    ordered: list[str] = []

    def add(file: str) -> None:
        for need in reversed(dependencies[file]):
            add(need)
        if file not in ordered:
            ordered.append(file)

    for name in names:
        if name in by_name:  # else it is built in
            add(by_name[name])
    return ordered


def _make_initramfs(modules: Path, version: str, out: Path) -> None:
    """busybox, the modules that reach the host's folders, and init (guest/init): it hands over to the host's root."""
    stage = out.with_suffix(".stage")
    shutil.rmtree(stage, ignore_errors=True)
    for folder in ("bin", "modules", "proc", "sys", "dev", "host", "lab", "new", "over"):
        (stage / folder).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), stage / "bin/busybox")
    shutil.copy(Path(__file__).parent / "guest/init", stage / "init")
    (stage / "init").chmod(0o755)
    order = []
    for file in _module_files(modules, ["virtio_pci", "9pnet_virtio", "9p", "overlay"]):
        name = Path(file).name.removesuffix(".xz")
        data = (modules / file).read_bytes()
        (stage / "modules" / name).write_bytes(lzma.decompress(data) if file.endswith(".xz") else data)
        order.append(name)
    (stage / "modules/order").write_text("\n".join(order) + "\n")
    (stage / "modules/version").write_text(version + "\n")
    names = _run(["find", ".", "-print"], cwd=stage)
    packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "--owner", "0:0"], input=names.encode(), cwd=stage, check=True,
                            stdout=subprocess.PIPE).stdout
    out.write_bytes(packed)
    shutil.rmtree(stage)


def prepare(cache: Path, series: str) -> Kernel:
    """The kernel of a series, made ready in the cache when it is not there yet. Raises Unavailable or LabError."""
    check_machine()
    with locked(cache):
        return _prepare(cache, series)


def _prepare(cache: Path, series: str) -> Kernel:
    folder = cache / series
    stamp = folder / "ready"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        root = folder / "root"
        root.mkdir(parents=True)
        # Debian 12 calls its own series linux-image-amd64 only.
        meta = f"linux-image-{series}-amd64" if series != "6.1" else "linux-image-amd64"
        image = _one(_depends(meta), r"linux-image-[0-9].*", meta)
        _unpack(image, root, cache / "debs")
        version = image.removeprefix("linux-image-")
        modules = root / "usr/lib/modules" / version
        if not modules.exists():
            modules = root / "lib/modules" / version
        _extract_vmlinux(root / "boot" / f"vmlinuz-{version}", folder / "vmlinux")
        siw = ""
        try:
            _build_siw(series, version, folder / "build", cache / "debs", modules)
        except (LabError, Unavailable) as error:
            siw = f"siw could not be built: {error}"
        shutil.rmtree(folder / "build", ignore_errors=True)
        # depmod wants lib/modules/VERSION below its base.
        _run(["depmod", "-b", str(modules.parents[2]), version], env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        stamp.write_text(f"{version}\n{modules}\n{siw}\n")
    version, modules_path, siw = (stamp.read_text().split("\n") + [""])[:3]
    initramfs = folder / "initramfs.cpio"
    init = Path(__file__).parent / "guest/init"
    if not initramfs.exists() or initramfs.stat().st_mtime < max(init.stat().st_mtime, Path(__file__).stat().st_mtime):
        _make_initramfs(Path(modules_path), version, initramfs)
    return Kernel(version, folder / "vmlinux", Path(modules_path), initramfs, siw)
