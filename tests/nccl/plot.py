"""Times over sizes as an SVG picture, both axes logarithmic."""
import math

WIDTH, HEIGHT, MARGIN = 760, 420, 60
COLORS = {"Railwise": "#0a6ebd", "Socket": "#b5541c"}


def plot(rows):
    """`rows`: {(collective, bytes): {net: microseconds}}."""
    sizes = sorted({size for _, size in rows})
    times = [time for row in rows.values() for time in row.values()]
    left, right = math.log2(sizes[0]), math.log2(sizes[-1])
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(size):
        return MARGIN + (math.log2(size) - left) / max(right - left, 1) * (WIDTH - 2 * MARGIN)

    def y(time):
        return HEIGHT - MARGIN - (math.log10(time) - low) / max(high - low, 1) * (HEIGHT - 2 * MARGIN)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for power in range(low, high + 1):
        parts.append(f'<path d="M{MARGIN} {y(10 ** power):.1f}H{WIDTH - MARGIN}" stroke="#ddd"/>'
                     f'<text x="{MARGIN - 6}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{10 ** power:g} us</text>')
    for size in sizes[::2]:
        unit = next((f"{size >> shift}{name}" for shift, name in ((20, "M"), (10, "K")) if size >= 1 << shift), str(size))
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{unit}</text>')
    lines = sorted({(name, net) for (name, _), row in rows.items() for net in row})
    for i, (name, net) in enumerate(lines):
        points = " ".join(f"{x(size):.1f},{y(rows[name, size][net]):.1f}" for size in sizes if net in rows.get((name, size), {}))
        dash = ' stroke-dasharray="5 4"' if name != lines[0][0] else ""
        color = COLORS.get(net, "#555")
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
                     f'<path d="M{MARGIN + 20} {MARGIN - 24 + 16 * i}h26" stroke="{color}" stroke-width="2"{dash}/>'
                     f'<text x="{MARGIN + 52}" y="{MARGIN - 20 + 16 * i}">{name}, {net}</text>')
    return "\n".join(parts + ["</svg>", ""])
