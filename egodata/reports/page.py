"""Pieces of self-contained HTML pages: no script, no file beside them, readable in light and dark."""

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
:root{--ink:#1d2530;--soft:#5d6875;--line:#dde2e8;--back:#fff;--panel:#f5f7f9;--one:#2f6fde;--two:#e0822b;--three:#2d9d78;--bad:#c8323c}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaef;--soft:#98a3b0;--line:#333c47;--back:#14181d;--panel:#1c2229;--one:#6ea2ff;
--two:#f0a35a;--three:#57c79f;--bad:#ff6b74}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0 auto;padding:28px 24px;max-width:1180px}
h1{font-size:25px;margin:0 0 2px}h2{font-size:18px;margin:34px 0 8px}p{margin:6px 0;color:var(--soft);max-width:90ch}
code{font:13px ui-monospace,monospace;word-break:break-all}
table{border-collapse:collapse;font-size:13.5px;margin:8px 0}th{text-align:left;font-weight:600;color:var(--soft)}
td,th{padding:3px 14px 3px 0;border-bottom:1px solid var(--line);white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.facts{display:flex;flex-wrap:wrap;gap:10px;margin:14px 0}.facts div{background:var(--panel);border-radius:8px;padding:8px 14px}
.facts b{display:block;font-size:20px;font-variant-numeric:tabular-nums}.facts span{font-size:12.5px;color:var(--soft)}
.bad{color:var(--bad);font-weight:600}.wide{overflow-x:auto}.grid{display:flex;flex-wrap:wrap;gap:14px 18px}
figure{margin:0}figcaption{font-size:12.5px;color:var(--soft)}img{border-radius:5px;display:block}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}svg .ink{fill:var(--ink)}
.key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 5px 0 14px}.key{font-size:13px;color:var(--soft)}
"""
HEAD_COLOURS = {"train": "var(--one)", "seen": "var(--three)", "unseen_operator": "var(--two)"}


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page; `parts` are HTML already."""
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def facts(items: Sequence[tuple[str, str]]) -> str:
    """Return a row of large values with small names: (value, name)."""
    return (
        '<div class="facts">' + "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in items) + "</div>"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, bad: Iterable[int] = ()) -> str:
    """Return a table; numbers are set right. Cells that are `Raw` are HTML already.

    Args:
        columns: Names.
        rows: Cells; None is left empty.
        bad: Rows to mark.
    """
    listed, marked = [list(row) for row in rows], set(bad)
    numeric = [bool(listed) and all(isinstance(row[at], (int, float)) or row[at] is None for row in listed) for at in range(len(columns))]
    head = "".join(f"<th{_right(right)}>{escape(name)}</th>" for name, right in zip(columns, numeric, strict=True))
    lines = []
    for number, row in enumerate(listed):
        cells = "".join(f"<td{_right(right)}>{_cell(cell)}</td>" for cell, right in zip(row, numeric, strict=True))
        lines.append(f"<tr{' class=bad' if number in marked else ''}>{cells}</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


class Raw(str):
    """Text that is HTML already."""

    __slots__ = ()


def _right(right: bool) -> str:
    return ' class="n"' if right else ""


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Raw):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return escape(str(value))


def colour_key(heads: Iterable[str]) -> str:
    """Return which colour stands for which head."""
    return '<div class="key">' + "".join(f'<i style="background:{HEAD_COLOURS[head]}"></i>{escape(head)}' for head in heads) + "</div>"


def bars(labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, width: int = 520, height: int = 150) -> Raw:
    """Draw stacked bars as SVG.

    Args:
        labels: One per bar; only some are written where there are many.
        series: (colour, one value per bar), stacked in this order.
        width: Pixels.
        height: Pixels.
    """
    top = max((sum(values[at] for _, values in series) for at in range(len(labels))), default=0) or 1
    left, bottom = 46, 20
    step = (width - left) / max(1, len(labels))
    parts = [f'<text x="{left - 6}" y="10" text-anchor="end">{top:,.0f}</text>']
    for at, label in enumerate(labels):
        base = float(height - bottom)
        for colour, values in series:
            tall = (height - bottom - 4) * values[at] / top
            base -= tall
            if tall > 0:
                x = left + at * step
                parts.append(f'<rect x="{x:.1f}" y="{base:.1f}" width="{max(1.0, step - 2):.1f}" height="{tall:.1f}" fill="{colour}"/>')
        if at % max(1, len(labels) // 8) == 0:
            parts.append(f'<text x="{left + at * step:.1f}" y="{height - 5}">{escape(label)}</text>')
    return Raw(f'<svg width="{width}" height="{height}" role="img">{"".join(parts)}</svg>')


def outlines(series: Sequence[tuple[str, Sequence[float]]], *, width: int = 170, height: int = 42, marks: Sequence[float] = ()) -> Raw:
    """Draw small distributions over each other as SVG lines.

    Args:
        series: (colour, one share per bin).
        width: Pixels.
        height: Pixels.
        marks: Places between 0 and 1 of the width that get a thin upright line.
    """
    top = max((max(values, default=0) for _, values in series), default=0) or 1
    parts = [f'<line x1="{m * width:.1f}" x2="{m * width:.1f}" y1="0" y2="{height}" stroke="var(--line)"/>' for m in marks]
    for colour, values in series:
        step = width / max(1, len(values) - 1)
        points = " ".join(f"{at * step:.1f},{height - 1 - (height - 4) * value / top:.1f}" for at, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
    return Raw(f'<svg width="{width}" height="{height}" role="img">{"".join(parts)}</svg>')


def band(low: Sequence[float | None], middle: Sequence[float | None], *, high: Sequence[float | None]) -> Raw:
    """Draw a band from low to high with its middle over steps, as SVG 250 x 90; steps without values are left out."""
    width, height, left = 250, 90, 44
    steps = [at for at, values in enumerate(zip(low, middle, high, strict=True)) if None not in values]
    if not steps:
        return Raw("")
    bottom, top = min(_at(low, at) for at in steps), max(_at(high, at) for at in steps)
    span = (top - bottom) or 1.0

    def point(at: int, value: float) -> str:
        return f"{left + (width - left - 2) * at / max(1, len(low) - 1):.1f},{4 + (height - 20) * (top - value) / span:.1f}"

    area = " ".join([*(point(at, _at(high, at)) for at in steps), *(point(at, _at(low, at)) for at in reversed(steps))])
    line = " ".join(point(at, _at(middle, at)) for at in steps)
    return Raw(
        f'<svg width="{width}" height="{height}" role="img"><polygon points="{area}" fill="var(--one)" opacity="0.25"/>'
        f'<polyline points="{line}" fill="none" stroke="var(--one)" stroke-width="1.5"/>'
        f'<text x="{left - 5}" y="12" text-anchor="end">{top:.3g}</text>'
        f'<text x="{left - 5}" y="{height - 14}" text-anchor="end">{bottom:.3g}</text>'
        f'<text x="{left}" y="{height - 2}">step 0</text>'
        f'<text x="{width - 2}" y="{height - 2}" text-anchor="end">{len(low) - 1}</text></svg>'
    )


def _at(values: Sequence[float | None], at: int) -> float:
    found = values[at]
    return 0.0 if found is None else found
