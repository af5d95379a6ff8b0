"""Uses the page of `railwise topo show --format html` in Chromium as people do: at three widths, light and dark, with the keyboard alone, and
as a screen reader reads it.

Usage: page_use_test.py RAILWISE [AXE.JS]
AXE.JS: the file axe.min.js of axe-core (npm pack axe-core); its rules are then run too.
Exit 0: all right; 1: not; 77: skipped, there is no Chromium here (apt install chromium).
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import browser

WIDTHS = ((390, 844), (1024, 768), (1600, 1000))


class Check:
    def __init__(self):
        self.failed = 0

    def __call__(self, right, what):
        if not right:
            self.failed += 1
            print("FAIL:", what)


def check_widths(check, tab):
    looks = set()
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        for width, height in WIDTHS:
            tab.resize(width, height, mobile=width < 500)
            wide = tab.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            check(wide <= 0, f"{scheme}, {width} wide: the page is {wide} pixels wider than the window")
            looks.add(tab.screenshot())
        ink, paper = tab.run("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
        bright = [sum(int(n) for n in re.findall(r"\d+", colour)[:3]) for colour in (ink, paper)]
        check((bright[0] < bright[1]) == (scheme == "light"), f"{scheme}: {ink} on {paper}")
    check(len(looks) == 2 * len(WIDTHS), "each width and scheme looks different")
    tab.resize(1400, 1000)


def focused(tab):
    return tab.run("document.activeElement.id || document.activeElement.textContent.slice(0, 40)")


def check_keyboard(check, tab):
    """From the top of the page, without a mouse."""
    tab.run("document.activeElement.blur()")
    passed = []
    while len(passed) < 60 and not (passed and passed[-1] == "gpu-0"):
        tab.key("Tab")
        passed.append(focused(tab))
        shown = tab.run("(() => { const s = getComputedStyle(document.activeElement); "
                        "return s.outlineStyle !== 'none' || document.activeElement.matches('.rw .box'); })()")
        check(shown, f"nothing shows that {passed[-1]} has the focus")
    check("find" in passed and "fit" in passed and passed[-1] == "gpu-0", f"Tab goes by the field and the button to the GPUs: {passed}")
    tab.key("Enter")
    check(tab.run("document.getElementById('panel').textContent").startswith("GPU 0"), "Enter opens the panel of GPU 0")
    tab.key("ArrowRight")
    check(focused(tab) not in ("gpu-0", ""), "an arrow goes to the next thing")
    tab.key("Escape")
    check(tab.run("document.getElementById('panel').hidden"), "Escape closes the panel")
    tab.run("document.getElementById('find').focus()")
    for letter in "mlx5_4":
        tab.key(letter, letter)
    tab.key("Enter")
    check(tab.run("document.getElementById('panel').textContent").startswith("mlx5_4"), "the field finds mlx5_4")
    tab.key("Escape")


def check_reader(check, tab):
    """Everything that can be operated has a name, and what is drawn has one too."""
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    known = [(node.get("role", {}).get("value"), node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")]
    for role, name in known:
        if role in ("button", "link", "searchbox", "combobox", "table", "image"):
            check(name.strip() != "", f"a {role} has no name")
    check(any(name.startswith("GPU 7") for role, name in known if role == "button"), "GPU 7 is a button")


def check_axe(check, tab, file):
    tab.call("Page.setBypassCSP", enabled=True)
    tab.call("Page.reload")
    tab.wait(browser.READY, "the page's script")
    tab.run(pathlib.Path(file).read_text() + "; 1")
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        tab.run("document.getElementById('gpu-3').dispatchEvent(new MouseEvent('click'))")
        found = json.loads(tab.run("axe.run().then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.help, v.nodes.map((n) => n.html.slice(0, 160))])))"))
        for violation in found:
            check(False, f"axe, {scheme}: {violation}")
        count = tab.run("axe.run().then((r) => r.passes.length)")
        print(f"axe-core, {scheme}: {count} rules hold, {len(found)} do not")


def use(check, program, address, axe):
    with browser.Browser(program) as tab:
        tab.resize(1400, 1000)
        tab.open(address)
        check_widths(check, tab)
        check_keyboard(check, tab)
        check_reader(check, tab)
        if axe:
            check_axe(check, tab, axe)
        check(not tab.console, f"the console says {tab.console[:3]}")


def main():
    railwise = sys.argv[1]
    program = browser.find()
    if program is None:
        print("skipped: no Chromium here (apt install chromium)")
        return 77
    check = Check()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "machine.html"
        subprocess.run([railwise, "topo", "show", "--machine", "dgx", "--quiet", "--format", "html", "--output", page], check=True)
        use(check, program, page.as_uri(), sys.argv[2] if len(sys.argv) > 2 else None)
    print(f"{check.failed} problems with {program}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
