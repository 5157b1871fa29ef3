"""Plots as metadata: drawn as SVG text, so that no drawing library is needed."""

import base64
from html import escape

import dagster as dg
import numpy as np

from egodata.stats import NormStats

WIDTH_PX, ROW_PX, LEFT_PX, SHOWN = 720, 16, 210, 40


def stats_plot(stats: NormStats) -> dg.MarkdownMetadataValue:
    """Return the ranges of the channels as a picture: q01 to q99 as a bar, mean as a dot, each on its own min-max scale of the feature."""
    rows = [row for feature in stats.features for row in _rows(stats, feature)][:SHOWN]
    height = ROW_PX * len(rows) + 20
    body = "".join(_drawn(row, ROW_PX * place + 10) for place, row in enumerate(rows))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{height}" font-family="sans-serif" font-size="10">{body}</svg>'
    )
    return dg.MetadataValue.md(f"![ranges](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})")


def _rows(stats: NormStats, feature: str) -> list[tuple[str, float, float, float]]:
    """Return name, and q01, mean and q99 as shares of the feature's whole range; of actions the last step."""
    found = stats.features[feature]
    low, mean, high = (np.atleast_2d(np.asarray(found.fields[name], dtype=np.float64))[-1] for name in ("q01", "mean", "q99"))
    if not np.isfinite(np.concatenate([low, high])).any():
        return []
    least, most = np.nanmin(low), np.nanmax(high)
    scale = max(most - least, 1e-9)
    shares = [np.nan_to_num((values - least) / scale) for values in (low, mean, high)]
    return [(f"{feature} {name}", float(shares[0][at]), float(shares[1][at]), float(shares[2][at])) for at, name in enumerate(found.names)]


def _drawn(row: tuple[str, float, float, float], top: int) -> str:
    name, low, mean, high = row
    room = WIDTH_PX - LEFT_PX - 20
    at = [LEFT_PX + room * share for share in (low, mean, high)]
    return (
        f'<text x="4" y="{top + 8}" fill="#444">{escape(name[:36])}</text>'
        f'<rect x="{at[0]:.1f}" y="{top}" width="{max(1.0, at[2] - at[0]):.1f}" height="9" fill="#7aa6d8"/>'
        f'<circle cx="{at[1]:.1f}" cy="{top + 4.5}" r="3.5" fill="#1d3f66"/>'
    )
