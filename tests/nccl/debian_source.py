"""Fetches the sources of NCCL from Debian's source package, by apt with a configuration, lists and a cache of its own.

The system's apt is read (its mirror, its proxies) and never changed. Signatures are checked with Debian's own keys.
"""
import os
import pathlib
import re
import shutil
import subprocess

from unavailable import Unavailable

PACKAGE = "nvidia-nccl"
SUITE = "sid"
COMPONENT = "contrib"
KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FALLBACK = "http://deb.debian.org/debian"
# What of the package is kept: the host code, its release, its licence, its profilers and other examples of plugins.
KEPT = ("src", "makefiles", "LICENSE.txt", "plugins")


def fetch(into):
    """Unpacks NCCL's sources into `into`, which must not exist, and returns its release ("2.29.7"). Raises Unavailable."""
    if not shutil.which("apt-get"):
        raise Unavailable("NCCL's sources come from Debian by apt-get, and there is none here; unpack a release of NCCL yourself and "
                          "use scripts/nccl-source --source DIR")
    if not KEYRING.is_file():
        raise Unavailable(f"{KEYRING} is not there, so Debian's signatures cannot be checked: install debian-archive-keyring")
    work = into.with_name(into.name + ".apt")
    shutil.rmtree(work, ignore_errors=True)
    try:
        archive = _download(work)
        into.mkdir(parents=True)
        subprocess.run(["tar", "-xf", str(archive), "-C", str(into), "--strip-components=1", "--no-same-owner"], check=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for entry in into.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    return release(into)


def release(source):
    """"2.29.7": what makefiles/version.mk of NCCL's sources says. Raises Unavailable."""
    try:
        text = (source / "makefiles/version.mk").read_text()
        return ".".join(re.search(rf"^NCCL_{part}\s*:=\s*(\d+)", text, re.MULTILINE)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    except (OSError, TypeError) as error:
        raise Unavailable(f"{source} does not hold NCCL's sources: makefiles/version.mk does not tell a release") from error


def _download(work):
    """The package's tar archive, in `work`. Raises Unavailable with what apt said of each mirror."""
    problems = []
    for mirror in mirrors(*_system_sources()):
        shutil.rmtree(work, ignore_errors=True)
        environment = _configure(work, mirror)
        problem = None
        for command in (["update"], ["source", "--download-only", "--tar-only", PACKAGE]):
            done = subprocess.run(["apt-get", "-qq", *command], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            words = [line for line in done.stdout.splitlines() if line.startswith(("E:", "W:", "Err:"))]
            if done.returncode != 0:
                problem = f"apt-get {command[0]} on {mirror} failed: {' '.join(words[:3]) or done.stdout.strip()[-200:]}"
                break
        found = sorted(work.glob(f"{PACKAGE}_*.orig.tar.*"))
        archives = [path for path in found if path.suffix != ".asc"]
        if problem is None and archives:
            return archives[0]
        problems.append(problem or f"{mirror} has no sources of {PACKAGE}")
    raise Unavailable("; ".join(problems))


def _configure(work, mirror):
    """The environment of an apt-get that reads and writes nothing of the system's but how it reaches mirrors."""
    for folder in ("lists/partial", "cache/archives/partial", "sources"):
        (work / folder).mkdir(parents=True)
    (work / "sources/debian.sources").write_text(
        f"Types: deb-src\nURIs: {mirror}\nSuites: {SUITE}\nComponents: {COMPONENT}\nSigned-By: {KEYRING}\n")
    # Hooks and what the system's configuration says of lists stay out; proxies, retries and the like come along.
    dumped = subprocess.run(["apt-config", "dump"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    ours = [line for line in dumped
            if line.startswith("Acquire::") and not re.match(r"Acquire::(Allow|IndexTargets|Languages|Changelogs|cdrom)", line)]
    ours += ['Dir::Etc::Main "/dev/null";', 'Dir::Etc::Parts "/dev/null";', 'Dir::Etc::SourceList "/dev/null";',
             f'Dir::Etc::SourceParts "{work}/sources";', 'Dir::Etc::Preferences "/dev/null";', 'Dir::Etc::PreferencesParts "/dev/null";',
             f'Dir::State::Lists "{work}/lists";', f'Dir::Cache "{work}/cache";', 'Acquire::Languages "none";',
             # A mirror out of reach is an error, not a warning.
             'APT::Update::Error-Mode "any";',
             # Root's apt would download as the user _apt, who cannot write here.
             'APT::Sandbox::User "root";']
    (work / "apt.conf").write_text("\n".join(ours) + "\n")
    return {**os.environ, "APT_CONFIG": str(work / "apt.conf"), "LC_ALL": "C.UTF-8"}


# ---- the mirror that the system uses

def _system_sources():
    """(what /etc/os-release says, the texts of apt's .list files, those of its .sources files)"""
    system = pathlib.Path("/etc/os-release")
    apt = pathlib.Path("/etc/apt")
    lists = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]
    stanzas = sorted(apt.glob("sources.list.d/*.sources"))

    def read(paths):
        return [path.read_text(errors="replace") for path in paths if os.access(path, os.R_OK) and path.is_file()]

    return "\n".join(read([system])), read(lists), read(stanzas)


def mirrors(system, lists, stanzas):
    """URIs to try: Debian's mirror that the system's sources name, then Debian's own."""
    codename = re.search(r"^VERSION_CODENAME=\"?(\w+)", system, re.MULTILINE)
    suites = {"stable", "testing", "unstable", "sid"} | ({codename[1]} if codename else set())
    found = []

    def consider(uris, suites_named, components, signed_by):
        """A Debian mirror: a suite of Debian's with main, signed by nobody else's key."""
        if suites & set(suites_named) and "main" in components and (not signed_by or "debian-archive" in signed_by):
            found.extend(uri.rstrip("/") for uri in uris)

    if re.search(r"^ID=\"?debian\b", system, re.MULTILINE):
        for text in stanzas:
            for stanza in re.split(r"\n\s*\n", "\n".join(line for line in text.splitlines() if not line.startswith("#"))):
                fields = {name.lower(): value for name, value in re.findall(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE)}
                if fields.get("enabled", "yes").strip().lower() != "no":
                    consider(*(fields.get(name, "").split() for name in ("uris", "suites", "components")), fields.get("signed-by", ""))
        for text in lists:
            for options, uri, suite, components in re.findall(r"^deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)$", text, re.MULTILINE):
                signed = re.search(r"signed-by=(\S+)", options)
                consider([uri], [suite], components.split(), signed[1] if signed else "")
    return list(dict.fromkeys([*found, FALLBACK]))
