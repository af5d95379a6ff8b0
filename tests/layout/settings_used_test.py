"""Every field of config.def is read by somebody: a setting that does nothing is a promise that nobody keeps.

Usage: settings_used_test.py REPOSITORY
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
fields = re.findall(r"^RAILWISE_(?:INT|STRING|CHOICE|CHECKED)\((\w+),", (root / "src/base/settings/config.def").read_text(), re.M)
code = "".join(
    path.read_text()
    for folder in ("src", "plugin", "softdev", "spy")
    for path in (root / folder).rglob("*")
    if path.suffix in (".h", ".cc") and path.name not in ("config.h", "config.cc"))
unread = [field for field in fields if not re.search(rf"\bconfig\w*(?:\(\))?(?:\.|->){field}\b", code)]
for field in unread:
    print(f"FAIL: nobody reads config.{field}: give it a meaning, or make it RAILWISE_UNUSED with the reason")
if len(fields) < 30:
    print(f"FAIL: only {len(fields)} settings found: is {root} the repository?")
    sys.exit(1)
print(f"{len(fields)} settings, {len(unread)} that nobody reads")
sys.exit(1 if unread else 0)
