"""Installs the packages into a bare root, runs the command there, removes them, and finds nothing left.

Usage: install_test.py SOURCE BUILD ROOT [--packages DIR]

ROOT is a key of ROOTS in roots.py. There is no libibverbs in it, and no network. Exit
status 77: it cannot be made here.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import roots

# What dpkg, apt and ldconfig write about themselves.
OWN_FILES = re.compile(r"^(var/lib/dpkg/|var/log/|var/cache/|var/lib/apt/|etc/ld\.so\.cache$|proc|sys|dev/|tmp|packages)")


def tree(root):
    """Every file of the root with what tells one from another, except logs and databases."""
    seen = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = pathlib.Path(folder) / name
            short = str(path.relative_to(root))
            if not OWN_FILES.match(short):
                status = path.lstat()
                link = os.readlink(path) if path.is_symlink() else ""
                seen[short] = (status.st_mode, status.st_uid, 0 if path.is_dir() else status.st_size, link)
    return seen


def expect(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


# What a container that runs this root does, and what the installer leaves in a shared volume.
IMAGE = """set -e
[ "$(id -u)" = 65534 ]
! touch /etc/written 2>/dev/null
railwise perf all_reduce --ranks 2 -b 64K -e 64K -c 1
sh /packages/container/install.sh /srv/railwise
. /srv/railwise/railwise-env.sh
/srv/railwise/bin/railwise perf all_reduce --ranks 2 -b 8 -e 8 -c 1 --plugin "$NCCL_NET_PLUGIN"
! RAILWISE_PREFIX='/srv/a b' sh /packages/container/install.sh /srv/other
! sh /packages/container/install.sh --node /srv/node  # no GPU to export
[ -f /srv/node/lib/libnccl-net-railwise.so ] && [ ! -e /srv/node/railwise-env.sh ]
status=0; sh /packages/container/preflight.sh || status=$?
[ $status = 0 ] || [ $status = 2 ]
! RAILWISE_PREFLIGHT=lax sh /packages/container/preflight.sh
"""


def run_as_image(folder):
    """The root as a container without privileges: read-only, nobody's user, no network. Its output."""
    command = ["bwrap", "--ro-bind", folder, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/srv", "--unshare-all", "--die-with-parent",
               "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "sh", "-c", IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    expect(done.returncode == 0, f"as an image, status {done.returncode}: {done.stdout}{done.stderr}")
    expect(done.stdout.count("Out of bounds values : 0 OK") == 2, f"as an image perf says {done.stdout}")
    expect("RAILWISE_PREFLIGHT is error or strict, not 'lax'" in done.stderr, f"the preflight says {done.stderr}")


def exercise(root, names):
    """Installs as users do, runs, removes."""
    before = tree(root.folder)
    root.run("test ! -e /usr/lib/*/libibverbs.so.1")
    # The command alone, which needs none of the others.
    root.run("dpkg --install /packages/railwise-doctor_*.deb")
    expect("fine" in root.run("railwise doctor --machine dgx"), "doctor --machine dgx, alone, is not fine")
    expect("Looked at:" in root.run("railwise doctor", check=False), "doctor, alone, does not say what it looked at")
    root.run("railwise explain --machine dgx; railwise topo show --machine dgx; railwise doctor --watch --looks 1 --state /tmp/watch")
    root.run("apt-get install -y --no-install-recommends /packages/*.deb 2>&1 || dpkg --install /packages/*.deb")
    said = root.run("railwise perf all_reduce --ranks 4 -b 8 -e 1M -f 8 -c 1")
    expect(re.search(r"Out of bounds values : 0 OK", said), f"perf says {said}")
    version = root.run("railwise --version")
    expect(version.startswith("railwise "), f"--version says {version}")
    devices = root.run("railwise device run railwise devices")
    expect("soft0" in devices, f"device run says {devices}")
    run_as_image(root.folder)
    # Every library starts on this C library, all symbols at once.
    root.run("for f in $(dpkg -L " + " ".join(names) + " | grep '\\.so'); do LD_BIND_NOW=1 LD_PRELOAD=$f true || exit 1; done 2>&1 | grep . && exit 1 || exit 0")
    root.run("dpkg --purge " + " ".join(names))
    after = tree(root.folder)
    left = {name for name in after if before.get(name) != after[name]} | (set(before) - set(after))
    expect(not left, f"after purging, these differ from before: {sorted(left)}")
    return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("root", choices=roots.ROOTS)
    parser.add_argument("--packages", type=pathlib.Path, help="made already (default: those of the build)")
    arguments = parser.parse_args()
    for tool in ("dpkg-deb", "bwrap"):
        if shutil.which(tool) is None:
            raise roots.Unavailable(f"no {tool} here: scripts/packages --long")
    with roots.unpacked(arguments.root) as root:
        packages = arguments.packages or root.folder / "tmp/packages"
        if arguments.packages is None:
            subprocess.run([arguments.source / "scripts/package", "--build", arguments.build, "--fast", "--output", packages], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(arguments.source / "packaging/container/installer", root.folder / "packages/container")
        names = []
        for deb in sorted(packages.glob("*.deb")):
            shutil.copy(deb, root.folder / "packages")
            names.append(deb.name.split("_")[0])
        expect(len(names) >= 7, f"packages: {names}")
        exercise(root, names)
    print(f"{arguments.root}: installed {', '.join(names)}; ran; removed; nothing left")


if __name__ == "__main__":
    roots.exit_from(main)
