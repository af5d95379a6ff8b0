"""The built drop-in, or librailwise-device.so, as the dynamic loader sees it: the versions of symbols.txt, and all that Debian's
libibverbs.so.1 exports when there is one.

Usage: exports_test.py LIBRARY SYMBOLS.txt
"""
import glob
import os
import re
import subprocess
import sys

LIBC_FAMILY = re.compile(r"^(libc\.so\.6|ld-linux.*\.so\.\d|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1)$")
# Numbers of IBVERBS_PRIVATE_N that released versions of rdma-core had (22.0 to 64.0), and one not yet released.
RELEASED_ABIS = (22, 25, 33, 34, 57, 59, 64, 65)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    """{"name@VERSION": "FUNC" or "OBJECT"}, and the names that have a default version."""
    symbols = {}
    defaults = set()
    for line in run("readelf", "--dyn-syms", "-W", library).splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[6] not in ("UND", "ABS", "Ndx") and "@" in fields[7]:
            symbols[fields[7].replace("@@", "@")] = fields[3]
            if "@@" in fields[7]:
                defaults.add(fields[7].split("@")[0])
    return symbols, defaults


def main(library, list_file):
    failures = []

    def expect(condition, message):
        if not condition:
            failures.append(message)

    symbols, defaults = exported(library)
    listed = set()
    for line in open(list_file, encoding="utf-8"):
        if line.startswith("#"):
            continue
        version, name, kind = line.split()
        for abi in RELEASED_ABIS if version == "PRIVATE" else [None]:
            symbol = f"{name}@IBVERBS_{version}" if abi is None else f"{name.replace('ABI', str(abi))}@IBVERBS_PRIVATE_{abi}"
            listed.add(symbol)
            expect(symbols.get(symbol) == ("OBJECT" if kind == "data" else "FUNC"), f"{symbol} is missing")
        expect(version == "PRIVATE" or name in defaults, f"{name} has no default version: linking would not find it")
    expect(len(listed) > 500, f"only {len(listed)} symbols in {list_file}")
    extra = {s for s in symbols if s not in listed and not re.search(r"@IBVERBS_PRIVATE_", s)}
    ours = {f"railwise_device_{name}@RAILWISE_1.0"
            for name in ("cm", "configure", "counters", "fabric", "gpu_memory", "pci_path", "qp_counters")}
    expect(extra == ours, f"exports more than the list says: {sorted(extra)}")

    dynamic = run("readelf", "-dW", library)
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        expect(LIBC_FAMILY.match(needed), f"depends on {needed}, which is not of libc's family")
    # Nobody who asks for libibverbs.so.1 may get the library that the plugin has loaded.
    expect(re.search(rf"\(SONAME\).*\[{re.escape(os.path.basename(library))}\]", dynamic), "wrong SONAME")
    expect(re.search(r"\(FLAGS_1\).*NODELETE", dynamic), "not linked with -z nodelete")
    expect("(SYMBOLIC)" in dynamic or "SYMBOLIC" in dynamic, "not linked with -Bsymbolic")
    expect("RPATH" not in dynamic and "RUNPATH" not in dynamic, "has a search path of the build machine")
    link = library.split(".so")[0] + ".so"
    expect(os.path.realpath(link) == os.path.realpath(library), f"{link} does not lead to the library")

    compared = "none here to compare with"
    for system in glob.glob("/usr/lib/*/libibverbs.so.1") + glob.glob("/usr/lib64/libibverbs.so.1"):
        theirs, _ = exported(system)
        for symbol in sorted(set(theirs) - set(symbols)):
            failures.append(f"{system} has {symbol}, and we do not")
        compared = f"{system} has {len(theirs)} of them"

    for failure in failures:
        print("FAIL:", failure)
    print(f"{library}: {len(symbols)} versioned symbols; {compared}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
