"""docs/supported-versions.md must be what scripts/supported-versions prints. Usage: supported_versions_test.py SOURCE BUILD RAILWISE"""
import pathlib
import subprocess
import sys

source, build, railwise = map(pathlib.Path, sys.argv[1:])
page = source / "docs/supported-versions.md"
done = subprocess.run([source / "scripts/supported-versions", "--build", build, "--railwise", railwise], capture_output=True, text=True)
if done.returncode != 0:
    sys.exit(f"FAIL: {done.stderr}")
lines, rows = set(page.read_text().splitlines()), [line for line in done.stdout.splitlines() if line.startswith("| ")]
if done.stdout != page.read_text():
    sys.exit(f"FAIL: {page} is not what the tests say: scripts/supported-versions >docs/supported-versions.md\n"
             + "\n".join(line for line in done.stdout.splitlines() if line not in lines))
if len(rows) < 25:
    sys.exit(f"FAIL: only {len(rows)} rows")
print(f"{len(rows)} rows")
