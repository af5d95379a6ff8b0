"""Installs the topology library into a folder of its own and uses it as another program would: the exported symbols and
dependencies of the shared object, the headers in plain C++17 and C99, and both programs of examples/, built and run.

Usage: install_test.py --source REPOSITORY --build BUILD --cmake CMAKE --cc CC --cxx CXX
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PUBLIC = re.compile(r"^(railwise_topology_\w+|_ZNK?8railwise8topology\w+|RAILWISE_TOPOLOGY_0)$")
RUNTIME = re.compile(r"^(lib(c|m|stdc\+\+|gcc_s|pthread|dl|z)\.so\.\d+|ld-linux.*\.so\.\d)$")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
# One switch with two GPUs and two NICs on a NUMA node.
MACHINE = """<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:12:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:13:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:14:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
"""


def run(*command, env=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"FAIL: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(condition, message):
    if not condition:
        sys.exit(f"FAIL: {message}")


def check_library(library, include):
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    strangers = [symbol for symbol in exported if not PUBLIC.match(symbol)]
    expect(not strangers, f"exports what is not public: {strangers[:10]}")
    declared = set(re.findall(r"\b(railwise_topology_\w+)\(", (include / "railwise/topology_c.h").read_text()))
    expect(len(declared) > 20 and declared <= exported, f"declared but not exported: {declared - exported}")
    dynamic = run("readelf", "-dW", library)
    expect(re.search(r"SONAME.*\[librailwise-topology\.so\.0\]", dynamic), "wrong SONAME")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    expect(needed and all(RUNTIME.match(name) for name in needed), f"needs {needed}")
    expect("RPATH" not in dynamic and "RUNPATH" not in dynamic, "has a search path of the build machine")


def check_headers(arguments, include, work):
    for name, compiler, standard, suffix in (("topology.h", arguments.cxx, "c++17", "cc"),
                                             ("topology_c.h", arguments.cxx, "c++17", "cc"),
                                             ("topology_c.h", arguments.cc, "c99", "c")):
        probe = work / f"probe.{suffix}"
        probe.write_text(f"#include <railwise/{name}>\n")
        run(compiler, f"-std={standard}", *STRICT, "-I", include, probe)


def build_examples(arguments, prefix, library_dir, work):
    # Copied away from the repository: an example that needs our tree must not build.
    for example in ("topology_cpp", "topology_c"):
        shutil.copytree(arguments.source / "examples" / example, work / example)
    run(arguments.cmake, "-S", work / "topology_cpp", "-B", work / "built", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={arguments.cxx}")
    run(arguments.cmake, "--build", work / "built")
    if shutil.which("pkg-config") is None or shutil.which("make") is None:
        print("no pkg-config or make here: the C example is not built")
        return work / "built/nics", None
    env = {**os.environ, "PKG_CONFIG_PATH": str(library_dir / "pkgconfig"), "CC": arguments.cc,
           "CFLAGS": "-Wall -Wextra -Wpedantic -Werror"}
    run("make", "-C", work / "topology_c", env=env)
    expect(run("pkg-config", "--variable=prefix", "railwise-topology", env=env).strip(), "no prefix in the .pc file")
    return work / "built/nics", work / "topology_c/explain"


def check_examples(nics, explain, library_dir, work):
    machine = work / "machine.xml"
    machine.write_text(MACHINE)
    env = {**os.environ, "LD_LIBRARY_PATH": str(library_dir)}
    lines = run(nics, machine, env=env).splitlines()
    expect(lines[0].startswith("GPU 0: mlx5_0, PIX, 48 GB/s, GPUDirect on:"), f"nics says {lines}")
    expect(lines[1].startswith("GPU 1: mlx5_1, PIX, 48 GB/s, GPUDirect on:"), f"nics says {lines}")
    expect(any(line.startswith("note: ") for line in lines), "nics says no notes")
    refused = subprocess.run([nics, "/nowhere.xml"], env=env, capture_output=True, text=True)
    expect(refused.returncode == 1 and "/nowhere.xml" in refused.stderr, f"a missing file: {refused}")
    if explain is None:
        return
    expect(run(explain, machine, env=env).startswith("2 GPUs, 2 NICs (railwise "), "explain does not count")
    answer = json.loads(run(explain, "--json", machine, env=env))
    expect([row[2] for row in answer["gpu_net"] if row[0] == "GPU/0"] == ["PIX", "PIX"], "explain --json: paths")
    expect(len(answer["gpus"]) == 2 and answer["gpus"][0]["sm"] == 90, "explain --json: GPUs")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    for tool in ("cmake", "cc", "cxx"):
        parser.add_argument(f"--{tool}", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="railwise-install-") as folder:
        work = pathlib.Path(folder)
        for component in ("topology", "topology-dev"):
            run(arguments.cmake, "--install", arguments.build, "--prefix", work / "first", "--component", component)
        prefix = (work / "first").rename(work / "prefix")  # what is installed may be moved
        library = next(prefix.rglob("librailwise-topology.so"))
        check_library(library, prefix / "include")
        check_headers(arguments, prefix / "include", work)
        nics, explain = build_examples(arguments, prefix, library.parent, work)
        check_examples(nics, explain, library.parent, work)
    print("installed, found by CMake and pkg-config, built against, run")


if __name__ == "__main__":
    main()
