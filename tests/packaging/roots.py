"""Bare roots of distributions, made by mmdebstrap, once, and kept in the user's cache."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
# Suite, archive, components, packages besides. Ubuntu 18.04 has glibc 2.27.
ROOTS = {
    "debian-12": ("bookworm", "http://deb.debian.org/debian", "main", ""),
    "debian-13": ("trixie", "http://deb.debian.org/debian", "main", ""),
    "ubuntu-24.04": ("noble", "http://archive.ubuntu.com/ubuntu", "main", ""),
    "ubuntu-22.04": ("jammy", "http://archive.ubuntu.com/ubuntu", "main", ""),
    "ubuntu-18.04": ("bionic", "http://archive.ubuntu.com/ubuntu", "main", ""),
}
# For contact_root_test.py.
CONTACT_ROOTS = {
    "debian-13-torch": ("trixie", "http://deb.debian.org/debian", "main contrib non-free", "python3-torch,libnccl2,libcudart12"),
    "ubuntu-24.04-python": ("noble", "http://archive.ubuntu.com/ubuntu", "main", "python3"),
}
# For newcomer_test.py.
NEWCOMER_ROOTS = {
    "debian-12": ROOTS["debian-12"],
    "debian-13": ROOTS["debian-13"],
    "ubuntu-24.04-apt": ("noble", "http://archive.ubuntu.com/ubuntu", "main universe", "apt,ca-certificates"),
}
UBUNTU_KEYS = pathlib.Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")


class Unavailable(Exception):
    pass


def cache_folder():
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "railwise/roots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ubuntu_keys(folder):
    """Debian 12 has no package of Ubuntu's keys; Debian 13 has one, from which they are taken into `folder`."""
    if UBUNTU_KEYS.exists():
        return UBUNTU_KEYS
    tar = folder / "keys.tar"
    made = subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=ubuntu-keyring", "trixie", tar, DEBIAN], capture_output=True, text=True)
    if made.returncode != 0:
        raise Unavailable(f"no keys of Ubuntu's archive: {made.stderr.strip().splitlines()[-1:]}")
    found = subprocess.run(["tar", "--extract", "--to-stdout", "--file", tar, f".{UBUNTU_KEYS}"], capture_output=True, check=True)
    keys = folder / UBUNTU_KEYS.name
    keys.write_bytes(found.stdout)
    return keys


def make_root(name):
    """The root as a tar file."""
    suite, archive, components, packages = {**ROOTS, **CONTACT_ROOTS, **NEWCOMER_ROOTS}[name]
    tar = cache_folder() / f"{name}.tar"
    if tar.exists():
        return tar
    new = tar.with_name(f"{name}.{os.getpid()}.tar")
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)  # apt reads the keys as a user of its own
        options = [f"--include={packages}"] if packages else []
        if archive == UBUNTU:
            options += ["--keyring", ubuntu_keys(pathlib.Path(work))]
        made = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", *options, suite, new, f"deb {archive} {suite} {components}"],
                              capture_output=True, text=True)
    if made.returncode != 0:
        new.unlink(missing_ok=True)
        raise Unavailable(f"mmdebstrap cannot make {suite} of {archive}: {made.stderr.strip().splitlines()[-1:]}")
    new.rename(tar)
    return tar


@contextlib.contextmanager
def unpacked(name):
    """The root in a folder, which goes at the end."""
    for tool in ("mmdebstrap", "unshare"):
        if shutil.which(tool) is None:
            raise Unavailable(f"no {tool} here: scripts/packages --long")
    if os.geteuid() != 0:
        raise Unavailable("not root: a root of files that belong to many users cannot be unpacked here")
    tar = make_root(name)
    with tempfile.TemporaryDirectory(prefix="railwise-root-") as folder:
        subprocess.run(["tar", "--extract", "--numeric-owner", "--file", tar, "--directory", folder, "--exclude=./dev/*"], check=True)
        yield Root(pathlib.Path(folder))


def exit_from(main):
    """Ends this program as `main` does; with 77 where a root cannot be made here."""
    try:
        sys.exit(main())
    except Unavailable as error:
        print(error)
        sys.exit(77)


class Root:
    def __init__(self, folder):
        self.folder = folder

    def run(self, script, check=True, network=False, limit=600):
        """A shell script as root of this root, in namespaces of its own, for at most `limit` seconds. Without a network, unless `network`: this machine's."""
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"] + ([] if network else ["--net"]) + ([] if os.geteuid() == 0 else ["--map-auto", "--map-root-user"])
        inside = (f"cd '{self.folder}'; mount -t proc proc proc; mount -t sysfs -o ro sysfs sys; mount -t tmpfs tmpfs dev; mkdir -m 1777 dev/shm; ln -s /proc/self/fd dev/fd; for i in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${{i%:*}} dev/${{i#*:}}; done; "
                  "mkdir dev/pts; mount -t devpts -o ptmxmode=666 devpts dev/pts; ln -s pts/ptmx dev/ptmx; "
                  "for d in null zero full random urandom; do touch dev/$d; mount --bind /dev/$d dev/$d; done; "
                  "ip link set lo up 2>/dev/null || true; "
                  f"exec chroot '{self.folder}' /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root sh -c \"$0\"")
        done = subprocess.run([*command, "sh", "-c", inside, script], capture_output=True, text=True, timeout=limit)
        if check and done.returncode != 0:
            sys.exit(f"FAIL: in the root, status {done.returncode}: {script}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr
