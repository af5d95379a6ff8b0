"""The report of a run: report.json for programs, report.html for people, and names made unreadable on request."""
import getpass
import html
import json
import re
import socket

ORDER = ("surprise", "wrong", "ok", "skipped")
TITLES = {"surprise": "What contradicts our assumptions", "wrong": "What went wrong", "ok": "What went well", "skipped": "What was not tried, and why"}
STYLE = """body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em } h1, h2 { line-height: 1.2 }
td, th { padding: .1em 1em .1em 0; text-align: left; vertical-align: top } .surprise, .wrong { color: #a00 } .skipped { color: #666 }
code { font-size: 13px }"""


def as_json(findings, figures, facts):
    return json.dumps({"schema": "railwise-first-contact", "schema_version": 1, **facts,
                       "findings": [{"kind": finding.kind, "stage": stage, "text": finding.text} for stage, finding in findings],
                       "figures": [{"what": what, "value": value, "most": most} for what, value, most in figures]}, indent=2) + "\n"


def as_html(findings, figures, facts):
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>Railwise: first contact</title><style>{STYLE}</style><h1>First contact</h1>",
             f"<p>{html.escape('; '.join(f'{key} {value}' for key, value in facts.items()))}</p>"]
    if "simulated" in facts:
        parts.append(f"<p class=wrong>This machine is simulated ({html.escape(facts['simulated'])}): its NICs and figures are those of software, and a "
                     "<code>fault</code> there was asked for.")
    for kind in ORDER:
        rows = [(stage, finding.text) for stage, finding in findings if finding.kind == kind]
        if rows or kind == "surprise":
            parts.append(f"<h2>{TITLES[kind]}</h2>")
            parts.append("<table>" + "".join(f'<tr class={kind}><td>{html.escape(stage)}<td>{html.escape(text)}' for stage, text in rows) + "</table>"
                         if rows else "<p>Nothing.")
    if figures:
        parts.append("<h2>Figures</h2><p>Of rank 0.<table><tr><th>what<th>measured<th>the most that the ports allow")
        parts += [f"<tr><td>{html.escape(what)}<td>{value:.3g}<td>{'' if most is None else f'{most:.3g}'}" for what, value, most in figures]
        parts.append("</table>")
    parts.append("<p>Each program's command, words and exit status are in the <code>.txt</code> of its name beside this file.</p></html>\n")
    return "\n".join(parts)


# What names a machine or a person. Numbers of versions, sizes and PCI addresses stay.
NAMES = (("0x", re.compile(r"(?<=guid=\")0x(?!0\")[0-9a-fA-F]+")),
         ("mac", re.compile(r"\b(?:[0-9a-fA-F]{2}:){5,}[0-9a-fA-F]{2}\b")), ("guid", re.compile(r"\b(?:0x)?(?![fF]{16}|0{16})[0-9a-fA-F]{16}\b|"
                                                                     r"\b(?:0x)?(?=[0-9]*[a-f])[0-9a-f]{13,15}\b")),
         ("lid", re.compile(r"(?<=lid:)\s+\d+|(?<=lid )\d+|(?<=LID )\d+|(?<=subnet-prefix )\d+")),
         ("gid", re.compile(r"\b(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}\b|"
                                               r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){1,6}:(?:[0-9a-fA-F]{1,4}:){0,5}[0-9a-fA-F]{1,4}\b")), ("guid", re.compile(r"\b(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}\b")),
         ("uuid", re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")), ("address", re.compile(r"\b(?!127\.|0\.)(?:\d{1,3}\.){3}\d{1,3}\b")))


class Mask:
    """Equal names get equal numbers in all files."""

    def __init__(self, home, others=()):
        self._numbers = {}
        names = [socket.gethostname(), socket.getfqdn(), getpass.getuser(), *others]
        words = sorted({*names, *(name.split(".")[0] for name in names)}, key=len, reverse=True)
        self._words = [("name", re.compile(rf"\b{re.escape(word)}\b(?:\.[A-Za-z][\w-]*)*")) for word in words
                       if len(word) > 1 and word not in ("root", "localhost")]
        self._words.append(("serial", re.compile(r"(?<=Serial Number).*|(?<=Board Part Number).*")))
        self._words += [("home", re.compile(re.escape(home)))] if len(home) > 1 else []

    def text(self, text):
        for kind, pattern in (*NAMES, *self._words):
            text = pattern.sub(lambda match, kind=kind: self._number(kind, match.group(0)), text)
        return text

    def _number(self, kind, name):
        number = len(self._numbers) + 1
        return self._numbers.setdefault((kind, name.lower()), f"0x{number:x}" if kind == "0x" else f"{kind}-{number}")  # NCCL reads a number

    def folder(self, folder):
        """A file that is no text of ours goes: nobody knows what is in it."""
        for file in [each for each in folder.rglob("*") if each.is_file()]:
            if file.suffix in (".txt", ".json", ".html", ".xml", ".log", ".out"):
                file.write_text(self.text(file.read_text(encoding="utf-8", errors="replace")), encoding="utf-8")
            elif not file.name.endswith(".tar.gz"):  # those are made anonymous by what writes them
                file.unlink()
