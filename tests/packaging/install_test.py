"""Installs the packages into a bare root, runs the command there, removes them, and finds nothing left.

Usage: install_test.py SOURCE BUILD ROOT [--packages DIR]

ROOT is a key of ROOTS. The root is made by mmdebstrap, once, and kept in the user's cache. There is no libibverbs in it, and no network. Exit
status 77: it cannot be made here.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Suite, archive, components. Ubuntu 18.04 has glibc 2.27.
ROOTS = {
    "debian-12": ("bookworm", "http://deb.debian.org/debian", "main"),
    "debian-13": ("trixie", "http://deb.debian.org/debian", "main"),
    "ubuntu-24.04": ("noble", "http://archive.ubuntu.com/ubuntu", "main"),
    "ubuntu-18.04": ("bionic", "http://archive.ubuntu.com/ubuntu", "main"),
}
UBUNTU_KEYS = pathlib.Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
# What dpkg, apt and ldconfig write about themselves.
OWN_FILES = re.compile(r"^(var/lib/dpkg/|var/log/|var/cache/|var/lib/apt/|etc/ld\.so\.cache$|proc|sys|dev/|tmp|packages)")


class Unavailable(Exception):
    pass


def cache_folder():
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "railwise/roots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_root(name, *options):
    """The root as a tar file."""
    suite, archive, components = ROOTS[name]
    tar = cache_folder() / f"{name}.tar"
    if tar.exists():
        return tar
    new = tar.with_name(f"{name}.{os.getpid()}.tar")
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", *options, suite, new, f"deb {archive} {suite} {components}"],
                          capture_output=True, text=True)
    if made.returncode != 0:
        new.unlink(missing_ok=True)
        raise Unavailable(f"mmdebstrap cannot make {suite} of {archive}: {made.stderr.strip().splitlines()[-1:]}")
    new.rename(tar)
    return tar


def ubuntu_keys():
    """Debian 12 has no package of Ubuntu's keys; Debian 13 has one, and its keys are at hand."""
    if UBUNTU_KEYS.exists():
        return UBUNTU_KEYS
    keys = cache_folder() / UBUNTU_KEYS.name
    if not keys.exists():
        with tempfile.TemporaryDirectory() as folder:
            tar = pathlib.Path(folder) / "keys.tar"
            made = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=ubuntu-keyring", "trixie", tar, ROOTS["debian-13"][1]],
                                  capture_output=True, text=True)
            if made.returncode != 0:
                raise Unavailable(f"no keys of Ubuntu's archive: {made.stderr.strip().splitlines()[-1:]}")
            found = subprocess.run(["tar", "--extract", "--to-stdout", "--file", tar, f".{UBUNTU_KEYS}"], capture_output=True, check=True)
            keys.write_bytes(found.stdout)
    return keys


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


class Root:
    def __init__(self, folder):
        self.folder = folder

    def run(self, script, check=True):
        """A shell script as root of this root, without a network, in namespaces of its own."""
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"] + ([] if os.geteuid() == 0 else ["--map-auto", "--map-root-user"])
        inside = (f"mount -t proc proc '{self.folder}/proc'; mount -t tmpfs tmpfs '{self.folder}/dev'; mkdir '{self.folder}/dev/shm'; "
                  f"for d in null zero random urandom; do touch '{self.folder}'/dev/$d; mount --bind /dev/$d '{self.folder}'/dev/$d; done; "
                  "ip link set lo up 2>/dev/null || true; "
                  f"exec chroot '{self.folder}' /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root sh -c \"$0\"")
        done = subprocess.run([*command, "sh", "-c", inside, script], capture_output=True, text=True, timeout=600)
        if check and done.returncode != 0:
            sys.exit(f"FAIL: in the root, status {done.returncode}: {script}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr


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
    parser.add_argument("root", choices=ROOTS)
    parser.add_argument("--packages", type=pathlib.Path, help="made already (default: those of the build)")
    arguments = parser.parse_args()
    for tool in ("mmdebstrap", "dpkg-deb", "unshare", "bwrap"):
        if shutil.which(tool) is None:
            print(f"no {tool} here: scripts/packages --long")
            return 77
    try:
        keys = ["--keyring", ubuntu_keys()] if arguments.root.startswith("ubuntu") else []
        tar = make_root(arguments.root, *keys)
    except Unavailable as error:
        print(error)
        return 77
    with tempfile.TemporaryDirectory(prefix="railwise-root-") as work:
        packages = arguments.packages
        if packages is None:
            packages = pathlib.Path(work) / "packages"
            subprocess.run([arguments.source / "scripts/package", "--build", arguments.build, "--fast", "--output", packages], check=True, stdout=subprocess.DEVNULL)
        folder = pathlib.Path(work) / "root"
        folder.mkdir()
        if os.geteuid() != 0:
            print("not root: a root of files that belong to many users cannot be unpacked here")
            return 77
        subprocess.run(["tar", "--extract", "--numeric-owner", "--file", tar, "--directory", folder, "--exclude=./dev/*"], check=True)
        shutil.copytree(arguments.source / "packaging/container/installer", folder / "packages/container")
        names = []
        for deb in sorted(packages.glob("*.deb")):
            shutil.copy(deb, folder / "packages")
            names.append(deb.name.split("_")[0])
        expect(len(names) >= 7, f"packages: {names}")
        exercise(Root(folder), names)
    print(f"{arguments.root}: installed {', '.join(names)}; ran; removed; nothing left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
