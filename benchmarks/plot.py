#!/usr/bin/env python3
"""Draws what a message costs over its size (SVG), from the JSON of `railwise bench`: a line for each plugin, both axes logarithmic.

    railwise bench --all-sizes --raw --json | benchmarks/plot.py > cost.svg
    benchmarks/plot.py FILE.json > cost.svg

scripts/nccl-check draws the times of collectives with it.
"""
import argparse
import collections
import html
import json
import math
import pathlib
import sys

STYLE = pathlib.Path(__file__).resolve().parent.parent / "src/topo/outputs/page/drawing.css"  # as the drawn machines
WIDTH, HEIGHT = 760, 460  # CSS pixels
LEFT, RIGHT, TOP, BOTTOM = 76, 200, 56, 52
LEGEND_LINE = 22
COLOURS = ("pick", "bad", "nvl", "c2c", "sys", "muted")  # of the style; more lines than these begin anew, dashed
LABELS = 10  # sizes that have a text, at most


def size_text(size):
    unit, name = next(((unit, name) for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")) if size >= unit), (1, "B"))
    return f"{size / unit:.0f} {name}"


def time_text(ns):
    unit, name = next(((unit, name) for unit, name in ((1e6, "ms"), (1e3, "µs")) if ns >= unit), (1, "ns"))
    return f"{ns / unit:.0f} {name}"


def share(value, low, high):
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def text(style, anchor, x, y, words):
    return f'<text class="{style}" style="text-anchor:{anchor}" x="{x:.1f}" y="{y:.1f}">{html.escape(words)}</text>'


def draw(title, subtitle, x_title, lines):
    """The whole file. `lines`: {name: [(bytes, ns), ...]}, all greater than 0."""
    sizes = sorted({size for points in lines.values() for size, _ in points})
    times = [ns for points in lines.values() for _, ns in points]
    low, high = min(times) / 1.3, max(times) * 1.3  # room for the marks

    def x(size):
        return LEFT + share(size, sizes[0], sizes[-1]) * (WIDTH - LEFT - RIGHT)

    def y(ns):
        return HEIGHT - BOTTOM - share(ns, low, high) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" class="rw" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
             f'aria-label="{html.escape(title)}">', f"<style>{STYLE.read_text()}</style>", '<rect width="100%" height="100%" fill="var(--bg)"/>',
             text("head", "start", LEFT, 26, title), text("sub", "start", LEFT, 44, subtitle)]
    for decade in range(math.floor(math.log10(low)), math.ceil(math.log10(high))):
        for ns in (step * 10.0 ** decade for step in (1, 2, 5)):
            if low <= ns <= high:
                parts += [f'<path class="frame" d="M{LEFT} {y(ns):.1f}H{WIDTH - RIGHT}"/>', text("small", "end", LEFT - 8, y(ns) + 4, time_text(ns))]
    for i, size in enumerate(sizes):
        parts.append(f'<path class="frame" d="M{x(size):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        if i % math.ceil(len(sizes) / LABELS) == 0:
            parts.append(text("small", "middle", x(size), HEIGHT - BOTTOM + 18, size_text(size)))
    parts.append(text("sub", "middle", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_title))
    for i, (name, points) in enumerate(lines.items()):
        stroke = f"stroke:var(--{COLOURS[i % len(COLOURS)]})" + ("" if i < len(COLOURS) else ";stroke-dasharray:5 3")
        path = "M" + "L".join(f"{x(size):.1f} {y(ns):.1f}" for size, ns in points)
        legend = TOP + 8 + LEGEND_LINE * i
        parts += [f'<path style="fill:none;stroke-width:1.8;{stroke}" d="{path}"/>']
        parts += [f'<circle r="3" cx="{x(size):.1f}" cy="{y(ns):.1f}" style="fill:var(--bg);{stroke}"><title>{html.escape(name)}: '
                  f"{size_text(size)}, {ns:.1f} ns</title></circle>" for size, ns in points]
        parts += [f'<path style="stroke-width:2.5;{stroke}" d="M{WIDTH - RIGHT + 16} {legend}h22"/>',
                  text("name", "start", WIDTH - RIGHT + 46, legend + 4, name)]
    return "\n".join(parts + ["</svg>", ""])


def costs(rows):
    """The drawing of what `railwise bench --json` printed: one pattern over sizes, the plugins of one size before those of the next."""
    lines, met = {}, collections.Counter()
    for row in rows:
        place = met[row["size"]]  # two plugins may have one name
        met[row["size"]] += 1
        lines.setdefault((place, row["plugin"]), []).append((row["size"], row["cpu_ns_min"]))
    names = collections.Counter(name for _, name in lines)
    named = {name if names[name] == 1 else f"{name} ({place + 1})": points for (place, name), points in lines.items()}
    first = rows[0]
    return draw("CPU time of a message", f"both ends: {first['ends']}; window {first['window']}, {first['grouped']} buffer(s) in a receive; "
                f"least of {first['repeats']} repeats", "size of the message", named)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=argparse.FileType(), default=sys.stdin, help="what railwise bench --json printed (default: stdin)")
    file = parser.parse_args().file
    try:
        rows = json.load(file)
    except ValueError as error:
        sys.exit(f"plot.py: {file.name} is not what railwise bench --json prints: {error}")
    rows = rows if isinstance(rows, list) else [rows]
    if not rows or len({(row["pattern"], row["connections"]) for row in rows}) > 1:
        sys.exit("plot.py: one pattern over sizes can be drawn (railwise bench --all-sizes --json), not the table of patterns (--all)")
    sys.stdout.write(costs(rows))


if __name__ == "__main__":
    main()
