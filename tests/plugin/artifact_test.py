"""Reads the built plugin, or the spy, as the dynamic loader does: exported symbols, dependencies, flags, links beside it.

Usage: artifact_test.py PLUGIN.so [LINK...]
"""
import os
import re
import subprocess
import sys

LIBC_FAMILY = re.compile(r"^(libc\.so\.6|ld-linux.*\.so\.\d|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(plugin, *links):
    failures = []

    def expect(condition, message):
        if not condition:
            failures.append(message)

    tables = {f"{prefix}_v{v}" for prefix in ("ncclNetPlugin", "ncclNet") for v in range(6, 13)}
    if "spy" not in os.path.basename(plugin):
        tables |= {f"ncclTunerPlugin_v{v}" for v in range(2, 7)}
    spied_gin = range(11, 17) if "spy" in os.path.basename(plugin) else range(11, 12)
    tables |= {f"ncclRmaPlugin_v{v}" for v in range(13, 17)} | {f"ncclGinPlugin_v{v}" for v in spied_gin}
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", plugin).splitlines()}
    expect(exported == tables, f"exported symbols differ: missing {tables - exported}, extra {exported - tables}")

    dynamic = run("readelf", "-dW", plugin)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    expect(needed, "no NEEDED entry at all: is this a shared library?")
    for library in needed:
        expect(LIBC_FAMILY.match(library), f"depends on {library}, which is not of libc's family")
    expect(re.search(r"\(FLAGS_1\).*NODELETE", dynamic), "not linked with -z nodelete")
    expect(re.search(r"\(FLAGS_1\).*NOW", dynamic), "not linked with -z now")
    expect("RPATH" not in dynamic and "RUNPATH" not in dynamic, "has a search path of the build machine")
    expect(re.search(rf"\(SONAME\).*\[{re.escape(os.path.basename(plugin))}\]", dynamic), "wrong SONAME")

    undefined = run("nm", "-D", "--undefined-only", plugin)
    for word in ("GLIBCXX", "CXXABI", "ibv_", "rdma_"):
        expect(word not in undefined, f"needs a {word} symbol at load time")

    # Namespaces stand mangled in debug information and symbols: the software device is a library of its own.
    with open(plugin, "rb") as file:
        expect(b"8railwise7softdev" not in file.read(), "contains code of the software device")

    for link in links:
        path = os.path.join(os.path.dirname(plugin), link)
        expect(os.path.realpath(path) == os.path.realpath(plugin), f"{link} does not lead to the plugin")

    for failure in failures:
        print("FAIL:", failure)
    print(f"{plugin}: {len(exported)} symbols, needs {', '.join(needed)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
