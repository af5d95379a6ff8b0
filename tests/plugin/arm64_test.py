#!/usr/bin/env python3
"""Compiles the plugin for arm64, from nothing, without optimisation: some 2 minutes of CPU. The tests of arm64 run with
scripts/test --all.

arm64_test.py SOURCE FOLDER CMAKE   FOLDER: where to build
"""
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
AARCH64 = 183  # e_machine of the ELF header
LIBRARIES = pathlib.Path("/usr/lib/aarch64-linux-gnu")


def missing():
    """What is not installed of what the build needs, or None."""
    if not shutil.which("aarch64-linux-gnu-g++"):
        return "aarch64-linux-gnu-g++"
    return None if (LIBRARIES / "libz.so").exists() else "zlib1g-dev:arm64"


def main():
    source, folder, cmake = sys.argv[1:]
    if missing():
        print(f"skipped: {missing()} is not installed (scripts/packages --arm64)")
        return SKIPPED
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([cmake, "-S", source, "-B", folder, "-G", "Ninja", "--toolchain", f"{source}/cmake/arm64.cmake",
                    "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DRAILWISE_WERROR=ON",
                    "-DRAILWISE_UNITY=ON", "-DRAILWISE_TESTS=OFF"], check=True)
    subprocess.run([cmake, "--build", folder, "--target", "railwise_plugin", "--parallel", "2"], check=True)
    header = pathlib.Path(folder, "lib/libnccl-net-railwise.so").read_bytes()[:20]
    machine = int.from_bytes(header[18:20], "little")
    if machine != AARCH64:
        print(f"the plugin is for the ELF machine {machine}, not for arm64 ({AARCH64})")
        return 1
    return 0


sys.exit(main())
