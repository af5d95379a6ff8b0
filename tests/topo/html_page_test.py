"""Opens the page of `railwise topo show --format html` in headless Chromium and looks at what its script made of it.

Usage: html_page_test.py RAILWISE [FOLDER FOR SCREENSHOTS]
Exit 0: all right; 1: not; 77: skipped, there is no Chromium here (apt install chromium).
"""
import html.parser
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=x>"


def pci(busid, pci_class, inner, speed="32.0 GT/s PCIe"):
    return f'<pci busid="{busid}" class="{pci_class}" link_speed="{speed}" link_width="16">\n{inner}</pci>\n'


def machine(nic_speed="32.0 GT/s PCIe", name_of_nic_0="mlx5_0"):
    """Two NUMA nodes, two switches each, a GPU and a NIC on every switch."""
    text = '<system version="1">\n'
    for numa in range(2):
        text += (f'<cpu numaid="{numa}" affinity="{"0000000f" if numa == 0 else "000000f0"}" arch="x86_64" '
                 'vendor="GenuineIntel" familyid="6" modelid="143">\n')
        for i in (numa * 2, numa * 2 + 1):
            gpu = (f'<gpu dev="{i}" sm="90" rank="{i}" gdr="1">\n'
                   '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>\n</gpu>\n')
            name = name_of_nic_0 if i == 0 else f"mlx5_{i}"
            net = f'<nic>\n<net name="{name}" dev="{i}" speed="400000" port="1" guid="0x{i + 1}" gdr="1"/>\n</nic>\n'
            text += pci(f"0000:{i + 1}0:00.0", "0x060400",
                        pci(f"0000:{i + 1}1:00.0", "0x030200", gpu) +
                        pci(f"0000:{i + 1}2:00.0", "0x020700", net, nic_speed))
        text += "</cpu>\n"
    return text + "</system>\n"


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the text of those with an id."""

    VOID = {"meta", "br", "img", "link", "input"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data + " "

    def classes(self, element_id):
        return next((a.get("class", "").split() for _, a in self.elements if a.get("id") == element_id), None)

    def count(self, tag, **attributes):
        return sum(t == tag and all(a.get(k.replace("_", "-")) == v for k, v in attributes.items())
                   for t, a in self.elements)


def browse(browser, page, fragment, *options):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1500,1100", *options,
             page.as_uri() + fragment], capture_output=True, text=True, timeout=90)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, complaints


def colours(png):
    """Width, height and how many different bytes the picture's lines have: a blank page has few."""
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "not a PNG"
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    return width, height, len(set(zlib.decompress(packed)))


class Check:
    def __init__(self):
        self.failed = 0

    def __call__(self, right, what):
        if not right:
            self.failed += 1
            print("FAIL:", what)


def make_page(railwise, folder, name, text):
    source = folder / f"{name}.xml"
    source.write_text(text)
    done = subprocess.run([railwise, "topo", "show", str(source), "--format", "html"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAIL: {railwise} topo show: exit {done.returncode}: {done.stderr}")
    page = folder / f"{name}.html"
    page.write_text(done.stdout)
    return page


def check_start(check, dom):
    page = Page(dom)
    check(page.count("html", data_ready="yes") == 1, "the script ran to its end")
    for i in range(4):
        check(page.classes(f"gpu-{i}") is not None, f"GPU {i} is drawn")
        check(page.classes(f"nic-{i}") is not None, f"NIC {i} is drawn")
        check(f"mlx5_{i}" in page.texts["drawing"] and f"mlx5_{i}" in page.texts["nics"], f"mlx5_{i} is named")
    check("bad" in page.classes("gpu-3"), "GPU 3 is marked: its NIC is slow")
    check("panel" not in page.texts, "nothing is selected at the start")
    check(not any("on" in (a.get("class") or "").split() for _, a in page.elements), "nothing is lit at the start")


def check_gpu(check, dom):
    page = Page(dom)
    panel = " ".join(page.texts.get("panel", "").split())
    check("GPU 3 (0000:41:00.0, NVML index 3, sm 90, NUMA node 1)" in panel, f"the panel tells of GPU 3: {panel[:120]}")
    check("What to do: write the true speed" in panel, "the panel says what to do about the slow link")
    check("mlx5_0" in panel and "why it is not chosen" in panel, "the panel tells of the other NICs")
    check("picked" in page.classes("gpu-3"), "GPU 3 is marked as selected")
    check("on" in page.classes("nic-3"), "its NIC is lit")
    check("on" not in page.classes("nic-0"), "another NIC is not")
    lit = [a for t, a in page.elements if t == "path" and "on" in (a.get("class") or "").split()]
    check(len(lit) == 2, f"the two links between GPU 3 and its NIC are lit, not {len(lit)}")
    check("PCIe switch 0000:40:00.0" in page.texts["way"], "the way is told by name")
    check("P2P/CUMEM" in panel and "transport" in panel, "the panel tells the transport to the other GPUs")
    check("NET/GDRDMA, mlx5_1 \u2192 mlx5_1 through GPU 1 (PXN)" in panel, "and that to another host")
    check("the ranks are on two hosts" in panel, "with its reason")


def drawn(page):
    """Classes of the lines that are drawn for channels."""
    return [set((a.get("class") or "").split()) for t, a in page.elements if t == "path" and "ring" in (a.get("class") or "").split()]


def pressed(page):
    """Channels that are chosen."""
    return {a["data-channel"] for t, a in page.elements if t == "button" and "data-channel" in a and a.get("aria-pressed") == "true"}


def check_no_channel(check, dom):
    page = Page(dom)
    check(not drawn(page) and pressed(page) == {"none"}, f"no channel is drawn at the start: {len(drawn(page))}, {pressed(page)}")
    check("Ring, one host" in page.texts["channels"], "the list of the rings is there")
    check(page.count("option", value="ring") == 1 and page.count("option", value="tree") == 1, "rings and trees can be chosen")


def check_ring(check, dom):
    page = Page(dom)
    lines = drawn(page)
    check(len(lines) == 5 and all("c0" in line for line in lines), f"a ring of four GPUs has 3 hops and 2 to NICs, not {lines}")
    check(pressed(page) == {"0"}, f"channel 0 is chosen: {pressed(page)}")
    badges = sum(t == "g" and "badge" in (a.get("class") or "").split() for t, a in page.elements)
    check(badges == 4, f"each GPU has its number in the ring, not {badges}")
    check("ringed" in next(a for t, a in page.elements if t == "svg" and "rw" in (a.get("class") or "").split())["class"].split(), "the rest is pale")
    check("Ring, two hosts" in page.texts["channels"] and "mlx5_" in page.texts["channels"], "the NICs are listed")


def check_trees(check, dom):
    page = Page(dom)
    lines = drawn(page)
    colours = {name for line in lines for name in line if re.fullmatch(r"c\d", name)}
    check(len(lines) >= 6 and len(colours) >= 2, f"trees have a colour each: {len(lines)} lines, {colours}")
    check("all" in pressed(page), f"all channels are chosen: {pressed(page)}")


def check_nic(check, dom):
    page = Page(dom)
    panel = " ".join(page.texts.get("panel", "").split())
    check("mlx5_1 (0000:22:00.0, device 1, 400 Gb/s)" in panel, f"the panel tells of mlx5_1: {panel[:120]}")
    check("The NIC of GPU 1." in panel, "and whose NIC it is")
    check("on" in page.classes("gpu-1"), "its GPU is lit")


def check_evil(check, dom):
    page = Page(dom)
    check(page.count("script") == 2 and page.count("img") == 0, "a device's name made an element")
    check("owned" not in (re.search(r"<title>(.*?)</title>", dom) or [""])[0], "a device's name ran a script")
    check("bad" not in page.classes("gpu-3"), "GPU 3 is not marked: nothing is slow here")
    check(EVIL in page.texts.get("panel", ""), "the name is shown as it is")


def main():
    railwise = sys.argv[1]
    browser = next((b for b in BROWSERS if shutil.which(b)), None)
    if browser is None:
        print("skipped: no Chromium here (apt install chromium)")
        return 77
    check = Check()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        page = make_page(railwise, folder, "page", machine("Unknown"))
        evil = make_page(railwise, folder, "evil", machine(name_of_nic_0=EVIL))
        for file, fragment, looks in ((page, "", check_start), (page, "", check_no_channel), (page, "#ring=0&nodes=2", check_ring),
                                      (page, "#tree=all", check_trees), (page, "#gpu=3", check_gpu), (page, "#nic=1", check_nic),
                                      (evil, "#nic=0", check_evil)):
            dom, complaints = browse(browser, file, fragment, "--dump-dom")
            check(not complaints, f"{file.name}{fragment}: the console says {complaints[:3]}")
            looks(check, dom)
        shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else folder
        os.makedirs(shots, exist_ok=True)
        pictures = []
        for scheme, number in (("dark", 0), ("light", 1)):
            shot = shots / f"page-{scheme}.png"
            browse(browser, page, "#gpu=3", f"--screenshot={shot}", f"--blink-settings=preferredColorScheme={number}")
            width, height, different = colours(shot)
            check((width, height) == (1500, 1100) and different > 100, f"{shot.name}: {width}x{height}, {different} values")
            pictures.append(shot.read_bytes())
        check(pictures[0] != pictures[1], "dark and light look different")
    print(f"{check.failed} problems with {browser}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
