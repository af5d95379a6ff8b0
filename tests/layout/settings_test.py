"""docs/settings.md must hold the table that `railwise config --markdown` prints. Usage: settings_test.py RAILWISE SETTINGS.md"""
import subprocess
import sys

table = subprocess.run([sys.argv[1], "config", "--markdown"], check=True, capture_output=True, text=True).stdout
with open(sys.argv[2]) as page:
    documented = page.read()
if len(table.splitlines()) < 5 or table not in documented:
    print(f"{sys.argv[2]} differs from `railwise config --markdown`; put this there:\n{table}")
    sys.exit(1)
