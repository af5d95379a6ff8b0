"""The content security policy of the drawn page names the page's own script and style: a wrong hash, and a browser runs neither.

Usage: page_policy_test.py RAILWISE
"""
import base64
import hashlib
import re
import subprocess
import sys


def named(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main():
    page = subprocess.run([sys.argv[1], "topo", "show", "--machine", "dgx", "--format", "html"], capture_output=True, text=True, check=True).stdout
    failed = 0
    for what, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        policy, own = re.findall(f"{what}-src '([^']*)'", page), [named(text) for text in re.findall(pattern, page, re.S)]
        if len(own) != 1 or policy != own:
            failed += 1
            print(f"FAIL: {what}: the policy names {policy}, the page has {own}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
