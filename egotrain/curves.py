"""Line plots of metrics as SVG files: plain text, no dependency, shown by every Markdown viewer."""

import math
from collections.abc import Mapping, Sequence
from html import escape

Series = Sequence[tuple[int, float]]
COLOURS = ("#2f6fde", "#e0822b", "#2d9d78", "#c8323c", "#7a5fd0", "#8a8f98", "#b0487a", "#5d8f2a")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 260, 64, 10, 24, 26


def line_plot(title: str, series: Mapping[str, Series], *, log: bool = False) -> str:
    """Draw values over steps.

    Args:
        title: Written above.
        series: By name, (step, value); values that are not finite are left out, and with `log` those that are not positive.
        log: Whether the axis of values is logarithmic.

    Returns:
        An SVG document.
    """
    shown = {name: [(x, y) for x, y in points if math.isfinite(y) and (y > 0 or not log)] for name, points in series.items()}
    shown = {name: points for name, points in shown.items() if points}
    parts = [f'<text x="{LEFT}" y="15" class="ink">{escape(title)}</text>']
    if not shown:
        parts.append(f'<text x="{LEFT}" y="{HEIGHT / 2}">no values</text>')
        return _document(parts)
    steps = [x for points in shown.values() for x, _ in points]
    values = [_scaled(y, log) for points in shown.values() for _, y in points]
    left, right, low, high = min(steps), max(steps), min(values), max(values)
    high = high if high > low else low + 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - left) / max(1, right - left)
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM)

    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = low + share * (high - low)
        y = place(left, value)[1]
        label = f"{math.exp(value) if log else value:.3g}"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">step {left}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{right}</text>')
    for number, (name, points) in enumerate(shown.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(step, _scaled(value, log)) for step, value in points))
        if len(points) > 1:
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        else:
            across, down = path.split(",")
            parts.append(f'<circle cx="{across}" cy="{down}" r="3" fill="{colour}"/>')
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{TOP + 13 * (number + 1)}" text-anchor="end" style="fill:{colour}">{escape(name)}</text>'
        )
    return _document(parts)


def bar_plot(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Draw bars side by side: groups along the axis, each with one bar per name; values that are not finite leave a gap."""
    names = list(dict.fromkeys(name for found in groups.values() for name in found))
    finite = [value for found in groups.values() for value in found.values() if math.isfinite(value)]
    top = max(finite, default=0.0) or 1.0
    parts = [
        f'<text x="{LEFT}" y="15" class="ink">{escape(title)}</text>',
        f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end">{top:.3g}</text>',
    ]
    room = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    each = 0.8 * room / max(1, len(names))
    for at, (group, found) in enumerate(groups.items()):
        for number, name in enumerate(names):
            value = found.get(name, math.nan)
            if math.isfinite(value):
                tall = value / top * (HEIGHT - TOP - BOTTOM)
                x = LEFT + at * room + number * each
                colour = COLOURS[number % len(COLOURS)]
                place = f'x="{x:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" width="{max(1.0, each - 2):.1f}" height="{tall:.1f}"'
                parts.append(f'<rect {place} fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + at * room:.1f}" y="{HEIGHT - 8}">{escape(group)}</text>')
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{TOP + 13 * (number + 1)}" text-anchor="end" style="fill:{colour}">{escape(name)}</text>'
        )
    return _document(parts)


def _scaled(value: float, log: bool) -> float:
    return math.log(value) if log else value


def _document(parts: Sequence[str]) -> str:
    style = "text{font:11px system-ui,sans-serif;fill:#5d6875}.ink{font-size:13px;fill:#1d2530;font-weight:600}"
    body = "\n".join(parts)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    back = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>\n{back}\n{body}\n</svg>\n'
