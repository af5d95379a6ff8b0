"""Packs a build as scripts/package does, and holds every package against what it should have: files, control fields, SPDX lists, equal
bytes when packed once more, and lintian. Also what `cmake --install` installs.

Usage: contents_test.py SOURCE BUILD
"""
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

COMMON = {"share/doc/{package}/changelog.gz", "share/doc/{package}/copyright"}
OVERRIDES = {"share/lintian/overrides/{package}"}
# Below /usr, {lib} being lib/x86_64-linux-gnu; "*" is anything.
FILES = {
    "railwise-nccl-plugin": {"{lib}/libnccl-net-railwise.so", "{lib}/librccl-net-railwise.so", "include/railwise/profiler.h"} | OVERRIDES,
    "railwise-doctor": {"bin/railwise", "share/railwise/machines/*.conf", "share/railwise/watch/*", "libexec/railwise/slurm-health",
                        "share/man/man1/railwise.1.gz", "share/man/man1/railwise-*.1.gz", "share/doc/railwise-doctor/docs/*.md",
                        "share/doc/railwise-doctor/docs/develop/*.md", "share/doc/railwise-doctor/*.md",
                        "share/bash-completion/completions/railwise", "share/zsh/site-functions/_railwise",
                        "share/fish/vendor_completions.d/railwise.fish"} | OVERRIDES,
    "railwise": {"{lib}/libnccl-net-railwise-spy.so", "share/railwise/grafana/railwise.json",
                 "share/railwise/prometheus/railwise-alerts.yml"} | OVERRIDES,
    "railwise-device": {"{lib}/railwise-verbs/libibverbs.so", "{lib}/railwise-verbs/libibverbs.so.1", "{lib}/railwise-verbs/librailwise-device.so", "{lib}/railwise-verbs/librailwise-sysfs.so",
                        "include/railwise/device.h"},
    "librailwise-topology0": {"{lib}/librailwise-topology.so.0", "{lib}/librailwise-topology.so.{version}"} | OVERRIDES,
    "librailwise-topology-dev": {"{lib}/librailwise-topology.so", "include/railwise/topology.h", "include/railwise/topology_c.h",
                                 "{lib}/pkgconfig/railwise-topology.pc", "{lib}/cmake/railwise/*.cmake"},
    "railwise-nccl-default": {"{lib}/libnccl-net.so", "{lib}/librccl-net.so"},
}
LIBC = "libc6 (>= 2.27)"
DEPENDS = {
    "railwise-nccl-plugin": LIBC,
    "railwise-doctor": LIBC,
    "railwise": LIBC + ", railwise-doctor (= {version}), railwise-nccl-plugin (= {version}), railwise-device (= {version})",
    "railwise-device": LIBC,
    "librailwise-topology0": LIBC,
    "librailwise-topology-dev": "librailwise-topology0 (= {version})",
    "railwise-nccl-default": "railwise-nccl-plugin (= {version})",
}
faults = []


def expect(condition, message):
    if not condition:
        faults.append(message)


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, **options).stdout


def pack(source, build, to):
    packed = subprocess.run([source / "scripts/package", "--build", build, "--fast", "--output", to], capture_output=True, text=True)
    if packed.returncode != 0:
        sys.exit(f"scripts/package failed: {packed.stdout}{packed.stderr}")
    return {path.name.split("_")[0]: path for path in sorted(to.glob("*.deb"))}


def field(path, name):
    return output("dpkg-deb", "--field", path, name).decode().strip()


def members(path):
    with tarfile.open(fileobj=io.BytesIO(output("dpkg-deb", "--fsys-tarfile", path))) as archive:
        return {member.name.removeprefix("./"): (member, archive.extractfile(member).read() if member.isfile() else b"") for member in archive}


def check_files(package, path, library_folder, version):
    wanted = {name.format(lib=library_folder, package=package, version=version) for name in FILES[package] | COMMON}
    patterns = {name: re.compile(re.escape("usr/" + name).replace(r"\*", r"[\w.-]+")) for name in wanted}
    have = {name: member for name, (member, _) in members(path).items() if not member.isdir()}
    for name, pattern in patterns.items():
        expect(any(pattern.fullmatch(file) for file in have), f"{package}: lacks {name}")
    for file, member in have.items():
        expect(any(pattern.fullmatch(file) for pattern in patterns.values()), f"{package}: has {file}, which this test does not know")
        expect((member.uname, member.gname) in {("root", "root"), ("", "")}, f"{package}: {file} belongs to {member.uname}")
        mode = 0o755 if file.startswith(("usr/bin/", "usr/libexec/")) else 0o777 if member.issym() else 0o644
        expect(member.mode == mode, f"{package}: {file} has mode {member.mode:o}, not {mode:o}")


def check_control(package, path, version):
    expect(field(path, "Depends") == DEPENDS[package].format(version=version), f"{package}: depends on {field(path, 'Depends')}")
    expect(field(path, "Version") == version, f"{package}: version {field(path, 'Version')}, not {version}")
    for name in ("Depends", "Recommends", "Suggests"):
        expect("railwise-nccl-default" not in field(path, name), f"{package}: {name} brings the plain names, unasked")
    for name in ("Maintainer", "Section", "Priority", "Description", "Installed-Size"):
        expect(field(path, name), f"{package}: no {name}")
    expect(field(path, "Description").count("\n") >= 2, f"{package}: no long description")


def check_sbom(package, path, version):
    sbom = json.loads(path.with_name(path.name + ".spdx.json").read_text())
    content = members(path)
    for name in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "files", "relationships"):
        expect(sbom.get(name), f"{package}: SPDX: no {name}")
    expect(sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0", f"{package}: SPDX: wrong version or licence of the list")
    expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"]), f"{package}: SPDX: date {sbom['creationInfo']}")
    described = sbom["packages"][0]
    expect((described["name"], described["versionInfo"], described["licenseDeclared"]) == (package, version, "Apache-2.0"), f"{package}: SPDX: {described}")
    expect(described["checksums"] == [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}],
           f"{package}: SPDX: the package has another SHA-256")
    listed = {file["fileName"].removeprefix("./"): {sum["algorithm"]: sum["checksumValue"] for sum in file["checksums"]} for file in sbom["files"]}
    files = {name: data for name, (member, data) in content.items() if member.isfile()}
    expect(set(listed) == set(files), f"{package}: SPDX: other files than the package's: {set(listed) ^ set(files)}")
    for name in set(listed) & set(files):
        expect(listed[name]["SHA256"] == hashlib.sha256(files[name]).hexdigest(), f"{package}: SPDX: {name} has another SHA-256")
        expect(listed[name]["SHA1"] == hashlib.sha1(files[name]).hexdigest(), f"{package}: SPDX: {name} has another SHA-1")
    identities = {"SPDXRef-DOCUMENT"} | {entry["SPDXID"] for entry in sbom["packages"] + sbom["files"]}
    expect(len(identities) == 1 + len(sbom["packages"]) + len(sbom["files"]), f"{package}: SPDX: an identity occurs twice")
    for relation in sbom["relationships"]:
        expect({relation["spdxElementId"], relation["relatedSpdxElement"]} <= identities, f"{package}: SPDX: {relation} leads nowhere")
    inside = {entry["name"] for entry in sbom["packages"][1:]}
    linked = any(data.startswith(b"\x7fELF") and b"St9exception" in data for data in files.values())
    expect(("libstdc++" in inside) == linked, f"{package}: SPDX: libraries inside: {inside}")


def check_links(packages, library_folder):
    for package, names in (("railwise-nccl-default", ("libnccl-net.so", "librccl-net.so")), ("railwise-nccl-plugin", ("librccl-net-railwise.so",))):
        content = members(packages[package])
        for name in names:
            member = content[f"usr/{library_folder}/{name}"][0]
            expect(member.issym() and member.linkname == "libnccl-net-railwise.so", f"{package}: {name} is no link to the plugin")


def check_pages(package, path):
    """A link of a page leads to a file of the package."""
    content = {name: data for name, (_, data) in members(path).items()}
    pages = [name for name in content if name.endswith(".md")]
    expect(len(pages) > 20, f"{package}: {len(pages)} pages")
    for page in pages:
        for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", content[page].decode()):
            there = os.path.normpath(os.path.join(os.path.dirname(page), target))
            expect(there in content, f"{package}: {page}: the link to {target} leads nowhere")


def check_install(build, library_folder, work):
    """cmake --install gives plain names to those alone who ask for them."""
    plain = {"libnccl-net.so", "librccl-net.so"}
    subprocess.run(["cmake", "--install", build, "--strip", "--prefix", work / "all"], check=True, stdout=subprocess.DEVNULL)
    folder = work / "all" / library_folder
    expect((folder / "libnccl-net-railwise.so").is_file() and (work / "all/bin/railwise").is_file(), "cmake --install: no plugin or no command")
    expect(not any((folder / name).exists() for name in plain), "cmake --install: brings the plain names unasked")
    subprocess.run(["cmake", "--install", build, "--prefix", work / "all", "--component", "nccl-default"], check=True, stdout=subprocess.DEVNULL)
    expect(all((folder / name).resolve() == (folder / "libnccl-net-railwise.so").resolve() for name in plain), "the component nccl-default: no plain names")


def check_alone(path, work):
    """railwise-doctor in an empty root, with this machine's C library: it does its work, and says which package has the rest."""
    root = work / "alone"
    output("dpkg-deb", "--extract", path, root)
    state = root / "state"
    bare = {"PATH": f"{root}/usr/bin:/usr/bin:/bin", "HOME": str(root)}
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "--dynamic", root / "usr/bin/railwise").decode())
    strange = [name for name in needed if not re.match(r"(libc|libm|libdl|librt|libpthread|ld-linux-[\w-]+)\.so", name)]
    expect(not strange, f"railwise-doctor: the command needs {strange}")
    for words, statuses, said in (
            ("doctor", (0, 1, 2), "Looked at:"), ("doctor --machine dgx", (0,), "fine"), ("doctor --list", (0,), "rdma-devices"),
            ("explain --machine dgx --gpu 3", (0,), "uses mlx5_3"), ("topo show --machine dgx", (0,), "GPU7"),
            (f"doctor --watch --looks 1 --state {state}", (0,), ""), (f"doctor --health text --state {state}", (0, 1, 2), ""),
            ("doctor --pair --machine dgx", (2,), "the package railwise-device"),
            ("devices", (1, 2), "install the package railwise-nccl-plugin"),
            ("device run true", (125,), "install the package railwise-device")):
        done = subprocess.run([root / "usr/bin/railwise", *words.split()], capture_output=True, text=True, timeout=120, env=bare, stdin=subprocess.DEVNULL)
        expect(done.returncode in statuses and said.lower() in (done.stdout + done.stderr).lower(),
               f"railwise-doctor alone: railwise {words}, status {done.returncode}: {done.stdout}{done.stderr}")
    expect((state / "watch.json").is_file(), "railwise-doctor alone: the watch left no state")


def check_stripped(package, path, sources):
    for name, (_, data) in members(path).items():
        if data.startswith(b"\x7fELF"):
            expect(b".debug_info" not in data, f"{package}: {name} has debug information")
            expect(sources not in data and b"/home/" not in data, f"{package}: {name} names a folder of the build machine")


def lint(packages):
    if shutil.which("lintian") is None:
        print("no lintian here: it was not asked (scripts/packages --packaging)")
        return
    command = ["lintian", "--fail-on", "error,warning", *packages.values()]
    if os.geteuid() == 0:
        command.insert(1, "--allow-root")
    said = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in said.stdout.splitlines() if line.startswith(("E:", "W:"))]
    expect(said.returncode == 0 and not lines, "lintian: " + ("; ".join(lines) or said.stderr))


def main(source, build):
    if shutil.which("dpkg-deb") is None:
        print("no dpkg-deb here: packages for Debian are not made")
        return 77
    source, build = pathlib.Path(source), pathlib.Path(build)
    cache = (build / "CMakeCache.txt").read_text()
    library_folder = re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.*)$", cache, re.M)[1]
    version = re.search(r"^CMAKE_PROJECT_VERSION:\w+=(.*)$", cache, re.M)[1]
    with tempfile.TemporaryDirectory(prefix="railwise-packages-") as folder:
        packages = pack(source, build, pathlib.Path(folder) / "first")
        again = pack(source, build, pathlib.Path(folder) / "second")
        expect(set(packages) == set(FILES), f"packages: {sorted(packages)}")
        for package, path in packages.items():
            if package not in FILES:
                continue
            check_files(package, path, library_folder, version)
            check_control(package, path, version)
            check_sbom(package, path, version)
            check_stripped(package, path, f"{pathlib.Path(source).resolve().parent}/".encode())
            expect(path.read_bytes() == again[package].read_bytes(), f"{package}: packed once more, it has other bytes")
        check_links(packages, library_folder)
        check_pages("railwise-doctor", packages["railwise-doctor"])
        check_alone(packages["railwise-doctor"], pathlib.Path(folder))
        check_install(build, library_folder, pathlib.Path(folder))
        lint(packages)
    for fault in faults:
        print("FAIL:", fault)
    print(f"{len(packages)} packages of version {version}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
