"""A build by hand is portable: configured without a preset, RAILWISE_PORTABLE is on, and what is linked needs an old C library alone.

Usage: default_test.py SOURCE FOLDER CMAKE CC CXX   FOLDER: where to build
"""
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def configured(folder, arguments):
    """Whether RAILWISE_PORTABLE is on in a new build folder."""
    source, cmake, cc, cxx = arguments
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([cmake, "-S", source, "-B", folder, f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_CXX_COMPILER={cxx}",
                           "-DRAILWISE_TESTS=OFF", *folder.name.split()[1:]], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAIL: {folder.name}: {done.stdout}{done.stderr}")
    option, = re.findall("^RAILWISE_PORTABLE:BOOL=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M)
    said = "RAILWISE_PORTABLE is off" in done.stdout
    if said == (option == "ON"):
        sys.exit(f"FAIL: {folder.name}: the option is {option}, and cmake {'says' if said else 'does not say'} that it is off")
    return option == "ON"


def main():
    source, folder, *tools = sys.argv[1:]
    for options, portable in [("", True), (" -DRAILWISE_SANITIZE=thread", False)]:
        plain = pathlib.Path(folder, f"build{options}")
        if configured(plain, [source, *tools]) != portable:
            sys.exit(f"FAIL: cmake{options}: a build is {'not ' if portable else ''}portable")
    # The smallest library that is shipped: all are linked alike (railwise_shipped).
    plain = pathlib.Path(folder, "build")
    subprocess.run([tools[0], "--build", plain, "--target", "railwise_sysfs_preload"], check=True, stdout=subprocess.DEVNULL)
    built, = (plain / "lib").rglob("*sysfs*.so*")
    return subprocess.run([sys.executable, HERE / "symbols_test.py", built]).returncode


if __name__ == "__main__":
    sys.exit(main())
