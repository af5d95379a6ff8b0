"""Every file that names Railwise's version has that of CMakeLists.txt, and CHANGELOG.md has a section for it.

Usage: versions_test.py SOURCE
"""
import pathlib
import re
import sys

# File -> what stands before the version, each at least once. Text in the form of 1.2.3 that follows is the version.
NAMED = {
    "CHANGELOG.md": r"^## \[",
    "packaging/deb/changelog": r"^railwise \(",
    "packaging/deb/librailwise-topology0.shlibs": r"librailwise-topology0 \(>= ",
    "packaging/rpm/changelog": r"^\* .* - ",
    "packaging/kubernetes/README.md": r"/railwise:",
    "packaging/kubernetes/installer.yaml": r"/railwise:",
    "packaging/kubernetes/preflight.yaml": r"/railwise:",
    "docs/install.md": r"scripts/release |build/release-|/railwise-",
    "docs/doctor.md": r"Railwise: ",
}
HISTORIES = ("CHANGELOG.md", "packaging/deb/changelog", "packaging/rpm/changelog")  # the newest comes first
VERSION = r"([0-9]+\.[0-9]+\.[0-9]+)"


def differences(version, texts):
    """What disagrees with `version`: texts is file -> its text."""
    found = []
    for name, before in NAMED.items():
        named = re.findall(f"(?m)(?:{before}){VERSION}", texts[name])
        if name in HISTORIES:
            named = named[:1]
        if not named:
            found.append(f"{name} names no version")
        found += [f"{name} has {each}, CMakeLists.txt {version}" for each in sorted(set(named)) if each != version]
    if f"Version {version.rsplit('.', 1)[0]}." not in texts["README.md"]:
        found.append(f"README.md does not say \"Version {version.rsplit('.', 1)[0]}.\"")
    if not re.search(rf"(?m)^## \[{re.escape(version)}\] - [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$", texts["CHANGELOG.md"]):
        found.append(f"CHANGELOG.md has no section \"## [{version}] - YEAR-MONTH-DAY\"")
    return found


def main():
    source = pathlib.Path(sys.argv[1])
    version, = re.findall(rf"(?m)^project\(railwise VERSION {VERSION}", (source / "CMakeLists.txt").read_text())
    texts = {name: (source / name).read_text() for name in (*NAMED, "README.md")}
    found = differences(version, texts)
    # The test sees each file that lags behind.
    for name in texts:
        old = texts | {name: texts[name].replace(version, "0.0.9").replace(f"Version {version.rsplit('.', 1)[0]}.", "Version 0.0.")}
        if not found and not any(name in line for line in differences(version, old)):
            found.append(f"this test does not see another version in {name}")
    print("\n".join(found) or f"{len(texts)} files have {version}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
