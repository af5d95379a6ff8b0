"""All waits of src/net stand in src/net/patience.h: no other file has a duration of its own.

Usage: patience_test.py REPOSITORY
"""
import pathlib
import re
import sys

HOME = "src/net/patience.h"
UNIT = r"(?:nanoseconds|microseconds|milliseconds|seconds|minutes|hours)"
DURATION = re.compile(
    rf"\bconstexpr\b[^;()=]*\b(?:Clock::duration|Duration|{UNIT})\b[^;()=]*[={{]"  # a constant
    rf"|\b{UNIT}\s*[({{]\s*[0-9]"  # seconds(3)
    r"|(?<![\w.])[0-9][0-9']*(?:ns|us|ms|s|min|h)\b"  # 3s
    r"|\bconstexpr\b[^;=]*\bk\w*(?:Ms|Millis|Seconds)\s*[={]"  # kTickMs
    r"|\bu?sleep\s*\(\s*[0-9]")
NO_CODE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def durations(text):
    text = NO_CODE.sub("", text)
    return [text[text.rfind("\n", 0, m.start()) + 1:].split("\n", 1)[0].strip() for m in DURATION.finditer(text)]


for bad in ("constexpr Clock::duration kWait = kOther;", "f(std::chrono::milliseconds(5));", "wait(1s)", "constexpr int kTickMs = 5;",
            "static constexpr std::chrono::seconds kWait{5};", "usleep(10)"):
    if not durations(bad):
        sys.exit(f"FAIL: this test does not see {bad}")
for good in ("// seconds(3)", 'log("1s")', "std::chrono::seconds(config.timeout_s)", "Clock::duration wait = Patience::kWait;", "uint8_t v10s = 0x1;"):
    if durations(good):
        sys.exit(f"FAIL: this test takes {good} for a duration")

root = pathlib.Path(sys.argv[1])
problems = []
files = [path for path in sorted((root / "src/net").rglob("*")) if path.suffix in (".h", ".cc")]
for path in files:
    name = path.relative_to(root).as_posix()
    found = durations(path.read_text())
    if name == HOME:
        if len(found) < 30:
            problems.append(f"{name}: only {len(found)} durations seen")
        continue
    problems += [f"{name}: {line}: a wait belongs into {HOME}" for line in found]
if len(files) < 60:
    problems.append(f"only {len(files)} files seen: is {root} the repository?")
for problem in problems:
    print("FAIL:", problem)
print(f"{len(files)} files, {len(problems)} problems")
sys.exit(1 if problems else 0)
