"""Makes the packages for Red Hat's family, and holds them against what they should have: files, what they need and offer, rpmlint.
Then rpm installs them into an empty root, they run from there, and are removed.

Usage: rpm_test.py SOURCE [PACKAGES]

PACKAGES are made already. Otherwise scripts/package builds in build/package, which takes minutes.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIB = "/usr/lib64/"
FILES = {
    "railwise-nccl-plugin": {LIB + "libnccl-net-railwise.so", LIB + "librccl-net-railwise.so", "/usr/include/railwise/profiler.h"},
    "railwise-doctor": {"/usr/bin/railwise", "/usr/share/railwise/machines/dgx.conf", "/usr/share/railwise/watch/railwise-watch.service",
                        "/usr/libexec/railwise/slurm-health"},
    "railwise": {LIB + "libnccl-net-railwise-spy.so", "/usr/share/railwise/grafana/railwise.json", "/usr/share/railwise/prometheus/railwise-alerts.yml"},
    "railwise-device": {LIB + "railwise-verbs/libibverbs.so", LIB + "railwise-verbs/libibverbs.so.1", LIB + "railwise-verbs/librailwise-device.so", LIB + "railwise-verbs/librailwise-sysfs.so",
                        "/usr/include/railwise/device.h"},
    "librailwise-topology0": {LIB + "librailwise-topology.so.0"},
    "librailwise-topology-devel": {LIB + "librailwise-topology.so", "/usr/include/railwise/topology.h", LIB + "pkgconfig/railwise-topology.pc"},
    "railwise-nccl-default": {LIB + "libnccl-net.so", LIB + "librccl-net.so"},
    "railwise-debuginfo": set(),
}
NEEDED = {"railwise": {"railwise-doctor", "railwise-nccl-plugin", "railwise-device"}, "librailwise-topology-devel": {"librailwise-topology0"},
          "railwise-nccl-default": {"railwise-nccl-plugin"}}
NEWEST = (2, 28)
faults = []


def expect(condition, message):
    if not condition:
        faults.append(message)


def query(path, *arguments):
    return subprocess.run(["rpm", "--query", "--package", *arguments, path], check=True, capture_output=True, text=True).stdout.splitlines()


def check(name, path):
    files = set(query(path, "--list"))
    expect(FILES[name] <= files, f"{name}: lacks {sorted(FILES[name] - files)}")
    plain = {LIB + "libnccl-net.so", LIB + "librccl-net.so"} & files
    expect(not plain or name == "railwise-nccl-default", f"{name}: has the plain names {plain}")
    expect(not any("lintian" in file or "/lib/x86_64" in file for file in files), f"{name}: has files of Debian's")
    requires, provides = query(path, "--requires"), query(path, "--provides")
    for need in requires:
        version = re.search(r"GLIBC_(\d+)\.(\d+)", need)
        expect(version is None or (int(version[1]), int(version[2])) <= NEWEST, f"{name}: needs {need}")
        expect(not re.search(r"ibverbs|stdc|gcc_s|libz|nccl-default", need), f"{name}: needs {need}")
    siblings = {need.split(" = ")[0] for need in requires if " = " in need}
    expect(siblings == NEEDED.get(name, set()), f"{name}: needs {siblings} of Railwise's packages")
    expect(not any("ibverbs" in offer or "libnccl-net.so" in offer for offer in provides), f"{name}: offers what only its folder has: {provides}")
    sbom = json.loads(path.with_name(path.name + ".spdx.json").read_text())
    expect(sbom["packages"][0]["name"] == name and sbom["files"], f"{name}: SPDX names {sbom['packages'][0]['name']}")


def rpm(root, *arguments):
    # Debian's rpm asks for --force-debian before it installs.
    done = subprocess.run(["rpm", f"--root={root}", *arguments], capture_output=True, text=True)
    expect(done.returncode == 0, f"rpm {arguments[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def run_in(root, *command):
    """The command of the root with this machine's C library: it finds the plugin and the device beside itself, in lib64."""
    bare = {"PATH": f"{root}/usr/bin:/usr/bin:/bin", "HOME": str(root)}
    done = subprocess.run([root / "usr/bin/railwise", *command], capture_output=True, text=True, timeout=300, env=bare)
    expect(done.returncode == 0, f"railwise {' '.join(command)}, status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def exercise(root, packages):
    installed = [packages[name] for name in ("railwise", "railwise-nccl-plugin", "railwise-device", "railwise-nccl-default")]
    rpm(root, "--initdb")
    # The command alone. The C library is not a package of this root.
    alone = packages["railwise-doctor"]
    rpm(root, "--install", "--force-debian", "--nodeps", "--nosignature", alone)
    expect("fine" in run_in(root, "doctor", "--machine", "dgx"), "doctor --machine dgx is not fine")
    run_in(root, "topo", "show", "--machine", "dgx")
    run_in(root, "doctor", "--watch", "--looks", "1", "--state", str(root / "state"))
    rpm(root, "--install", "--force-debian", "--nodeps", "--nosignature", *installed)
    said = run_in(root, "perf", "all_reduce", "--ranks", "4", "-b", "8", "-e", "1M", "-f", "8", "-c", "1")
    expect("Out of bounds values : 0 OK" in said, f"perf says {said}")
    expect("soft0" in run_in(root, "device", "run", "railwise", "devices"), "device run does not find a software device")
    expect((root / "usr/lib64/libnccl-net.so").resolve() == (root / "usr/lib64/libnccl-net-railwise.so").resolve(), "where libnccl-net.so leads")
    installed.append(alone)
    names = [query(path, "--queryformat", "%{NAME}")[0] for path in installed]
    expect(rpm(root, "--verify", "--nodeps", *names) == "", "rpm --verify finds changed files")
    rpm(root, "--erase", "--force-debian", *names)
    left = [str(path.relative_to(root)) for path in root.rglob("*railwise*")]
    expect(not left, f"after removing, there is {left}")


def main(source, made=None):
    if shutil.which("rpmbuild") is None:
        print("no rpmbuild here: scripts/packages --packaging")
        return 77
    source = pathlib.Path(source)
    with tempfile.TemporaryDirectory(prefix="railwise-rpm-") as work:
        folder = pathlib.Path(made or work)
        if made is None:
            packed = subprocess.run([source / "scripts/package", "--rpm", "--output", folder], capture_output=True, text=True)
            if packed.returncode != 0:
                sys.exit(f"FAIL: scripts/package --rpm: {packed.stdout}{packed.stderr}")
        packages = {re.sub(r"-\d[^/]*$", "", path.name): path for path in sorted(folder.glob("*.rpm"))}
        expect(set(packages) | {"railwise-debuginfo"} == set(FILES), f"packages: {sorted(packages)}")
        for name, path in packages.items():
            if name in FILES:
                check(name, path)
        if os.geteuid() == 0:
            root = folder / "root"
            root.mkdir()
            exercise(root, packages)
            shutil.rmtree(root)
        else:
            print("not root: rpm cannot install into a root of its own here")
        if shutil.which("rpmlint"):
            said = subprocess.run(["rpmlint", "--config", source / "packaging/rpm/rpmlint.toml", *packages.values()], capture_output=True, text=True)
            lines = [line for line in said.stdout.splitlines() if re.search(r": [EW]: ", line)]
            expect(not lines, "rpmlint: " + "; ".join(lines))
        else:
            print("no rpmlint here: it was not asked")
    for fault in faults:
        print("FAIL:", fault)
    print(f"{len(packages)} packages")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
