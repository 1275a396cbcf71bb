"""The plot of a drift decision, as a PNG in markdown that is small enough for the UI: its worst feature beside the baseline's.

Belongs here: choosing the plot and drawing it. Does not: finding the decision and its baseline (queries).
"""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lakehouse_assets.contracts.drift import VOLUME
from lakehouse_assets.decisions.drift.baseline import Baseline, read_shape
from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.relations import Measurement, Relations, find_farthest_pair

BARS = 12
WINDOWS = 200
BEFORE, NOW, GREY, RED = "accepted windows", "this window", "#64748b", "#dc2626"


def draw_drift(title: str, worst: Mapping[str, Any], now: Measurement | None, baseline: Baseline) -> str | None:
    """Markdown with a PNG. It shows distributions of a number, shares of categories or of missing values, two features that no
    longer vary together, or rows of the windows. None where there is nothing to draw. ``worst``: the decision's worst feature,
    as stored; ``now``: the batch's measurement of it; None for the volume.
    """
    if worst["feature"] == VOLUME:
        return plot_volumes(title, baseline.volumes()[-WINDOWS:], worst["rows"]) if baseline.volumes() else None
    if worst.get("statistic") == "missing":
        before, share = worst["baseline_missing"], worst["missing"]
        return plot_shares(title, *({"no value": each, "a value": 1.0 - each} for each in (before, share)))
    normal, batch = baseline.shape((worst["feature"], worst["stratum"])), read_shape(now) if now else None
    if isinstance(normal, Ecdf) and isinstance(batch, Ecdf):
        return plot_distributions(title, normal, batch)
    if isinstance(normal, Categories) and isinstance(batch, Categories):
        return plot_shares(title, *_most_changed(normal, batch))
    if isinstance(normal, Relations) and isinstance(batch, Relations) and normal.features == batch.features:
        pair = find_farthest_pair(batch, normal, worst.get("statistic"))
        return plot_ellipses(title, pair[1], pair[0]) if pair else None
    return None


def _most_changed(baseline: Categories, batch: Categories) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the categories that changed most, and of all others together."""
    before = {name: rows / baseline.total for name, rows in baseline.counts.items()}
    now = {name: rows / batch.total for name, rows in batch.counts.items()}
    names = sorted({*before, *now}, key=lambda name: (-abs(now.get(name, 0.0) - before.get(name, 0.0)), name))[:BARS]
    most_changed = [{name: shares.get(name, 0.0) for name in names} for shares in (before, now)]
    if len(names) < len({*before, *now}) or baseline.others or batch.others:
        for shares in most_changed:
            shares["all others"] = max(0.0, 1.0 - sum(shares.values()))
    return most_changed[0], most_changed[1]


def plot_distributions(title: str, baseline: Ecdf, batch: Ecdf) -> str:
    """Both cumulative distributions as step functions, over the middle 98 % of both."""
    axes = _axes(title, ylim=(0, 1.02), ylabel="share at or below")
    for ecdf, label, colour in ((baseline, BEFORE, GREY), (batch, NOW, RED)):
        axes.step(ecdf.values, ecdf.cumulated / ecdf.total, where="post", label=label, color=colour, linewidth=1.8)
    ends = [ecdf.quantiles((0.01, 0.99)) for ecdf in (baseline, batch)]
    low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
    margin = (high - low) * 0.1 or 1.0
    axes.set_xlim(low - margin, high + margin)
    return _to_markdown(axes, "distribution of the batch beside the baseline")


def plot_shares(title: str, baseline: Mapping[str, float], batch: Mapping[str, float]) -> str:
    """Shares (in [0, 1]) of the same categories as pairs of bars, in the given order."""
    axes = _axes(title, 1.2 + 0.36 * max(len(batch), 2), xlabel="share of the rows")
    centres = np.arange(len(batch))
    for shares, label, colour, step in ((baseline, BEFORE, GREY, -0.2), (batch, NOW, RED, 0.2)):
        axes.barh(centres + step, [shares.get(name, 0.0) for name in batch], height=0.38, label=label, color=colour)
    axes.set_yticks(centres, [_literal(name if len(name) <= 30 else name[:29] + "…") for name in batch])
    axes.invert_yaxis()
    return _to_markdown(axes, "shares of the batch beside the baseline", grid="x")


def plot_ellipses(title: str, baseline: Relations, batch: Relations) -> str:
    """Two features beside each other: about each mean, the ellipse that holds 86 % of a normal distribution of that covariance
    (two deviations). Both have the same two features.
    """
    axes = _axes(title, 4.2, xlabel=_literal(batch.features[0]), ylabel=_literal(batch.features[1]))
    angles = np.linspace(0.0, 2.0 * np.pi, 181)
    circle = 2.0 * np.stack([np.cos(angles), np.sin(angles)])
    for relations, label, colour in ((baseline, BEFORE, GREY), (batch, NOW, RED)):
        values, vectors = np.linalg.eigh(relations.matrix())
        x, y = (vectors * np.sqrt(np.maximum(values, 0.0))) @ circle
        axes.plot(relations.mean[0] + x, relations.mean[1] + y, color=colour, linewidth=1.8, label=label)
        axes.plot(*relations.mean, marker="+", markersize=9, color=colour)
    return _to_markdown(axes, "how two features of the batch vary together, beside the baseline")


def plot_volumes(title: str, before: Sequence[int], now: int) -> str:
    """Rows of the accepted windows in their order, and of this one."""
    axes = _axes(title, xlabel="windows before this one", ylabel="rows")
    axes.plot(np.arange(-len(before), 0), before, color=GREY, linewidth=1.4, marker=".", markersize=4, label=BEFORE)
    axes.plot([0], [now], color=RED, marker="o", linestyle="", label=NOW)
    axes.set_ylim(bottom=0)
    return _to_markdown(axes, "rows of the batch beside those of the accepted windows")


def _axes(title: str, height: float = 3.4, **more: object) -> Axes:
    axes = Figure(figsize=(6.4, height), dpi=90, layout="constrained").subplots()
    axes.set(title=_literal(title), **more)
    return axes


def _literal(text: str) -> str:
    """Escape dollars: between two of them matplotlib reads mathematics."""
    return text.replace("$", r"\$")


def _to_markdown(axes: Axes, description: str, grid: str = "both") -> str:
    axes.grid(alpha=0.25, axis=grid)  # type: ignore[arg-type]
    axes.legend(loc="best")
    image = io.BytesIO()
    # No metadata: the same decision gives the same bytes.
    FigureCanvasAgg(axes.get_figure(root=True)).print_png(image, metadata={"Software": None})
    return f"![{description}](data:image/png;base64,{base64.b64encode(image.getvalue()).decode()})"


def image_address(picture: str) -> str:
    """The image in a plot's Markdown: a data URI."""
    return picture.rpartition("](")[2].removesuffix(")")
