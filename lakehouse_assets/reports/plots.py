"""Plots as PNG in markdown, small enough for the UI.

Belongs here: drawing. Does not: choosing what is drawn.
"""

import base64
import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lakehouse_assets.decisions.distances import Steps
from lakehouse_assets.decisions.relations import Relations

BEFORE, NOW, GREY, RED = "accepted windows", "this window", "#64748b", "#dc2626"


def two_distributions(title: str, baseline: Steps, batch: Steps) -> str:
    """Both cumulative distributions as step functions; the range shown is the middle 98 % of both."""
    figure = Figure(figsize=(6.4, 3.4), dpi=90, layout="constrained")
    axes = figure.subplots()
    for steps, label, colour in ((baseline, BEFORE, GREY), (batch, NOW, RED)):
        axes.step(steps.values, steps.cumulated / steps.total, where="post", label=label, color=colour, linewidth=1.8)
    ends = [steps.quantiles((0.01, 0.99)) for steps in (baseline, batch)]
    low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
    margin = (high - low) * 0.1 or 1.0
    axes.set(title=title.replace("$", r"\$"), xlim=(low - margin, high + margin), ylim=(0, 1.02), ylabel="share at or below")
    axes.grid(alpha=0.25)
    axes.legend(loc="best")
    return _image(figure, "distribution of the batch beside the baseline")


def two_shares(title: str, baseline: Mapping[str, float], batch: Mapping[str, float]) -> str:
    """Shares (in [0, 1]) of the same categories as pairs of bars, in the given order."""
    figure = Figure(figsize=(6.4, 1.2 + 0.36 * max(len(batch), 2)), dpi=90, layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(batch))
    for shares, label, colour, step in ((baseline, BEFORE, GREY, -0.2), (batch, NOW, RED, 0.2)):
        axes.barh(places + step, [shares.get(name, 0.0) for name in batch], height=0.38, label=label, color=colour)
    # A category's name is anybody's text: matplotlib would read mathematics between two dollars.
    names = [(name if len(name) <= 30 else name[:29] + "…").replace("$", r"\$") for name in batch]
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(title=title.replace("$", r"\$"), xlabel="share of the rows")
    axes.grid(alpha=0.25, axis="x")
    axes.legend(loc="best")
    return _image(figure, "shares of the batch beside the baseline")


def two_ellipses(title: str, baseline: Relations, batch: Relations) -> str:
    """Two features beside each other: about each mean, the ellipse that holds 86 % of a normal distribution of that covariance
    (two deviations). Both must be of the same two features.
    """
    figure = Figure(figsize=(6.4, 4.2), dpi=90, layout="constrained")
    axes = figure.subplots()
    turn = np.linspace(0.0, 2.0 * np.pi, 181)
    circle = 2.0 * np.stack([np.cos(turn), np.sin(turn)])
    for relations, label, colour in ((baseline, BEFORE, GREY), (batch, NOW, RED)):
        values, vectors = np.linalg.eigh(relations.matrix())
        x, y = (vectors * np.sqrt(np.maximum(values, 0.0))) @ circle
        axes.plot(relations.mean[0] + x, relations.mean[1] + y, color=colour, linewidth=1.8, label=label)
        axes.plot(*relations.mean, marker="+", markersize=9, color=colour)
    names = [name.replace("$", r"\$") for name in batch.features]
    axes.set(title=title.replace("$", r"\$"), xlabel=names[0], ylabel=names[1])
    axes.grid(alpha=0.25)
    axes.legend(loc="best")
    return _image(figure, "how two features of the batch go together, beside the baseline")


def volumes(title: str, before: Sequence[int], now: int) -> str:
    """Rows of the accepted windows in their order, and of this one."""
    figure = Figure(figsize=(6.4, 3.4), dpi=90, layout="constrained")
    axes = figure.subplots()
    axes.plot(np.arange(-len(before), 0), before, color=GREY, linewidth=1.4, marker=".", markersize=4, label=BEFORE)
    axes.plot([0], [now], color=RED, marker="o", linestyle="", label=NOW)
    axes.set(title=title.replace("$", r"\$"), xlabel="windows before this one", ylabel="rows")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(loc="best")
    return _image(figure, "rows of the batch beside those of the accepted windows")


def _image(figure: Figure, what: str) -> str:
    image = io.BytesIO()
    # No metadata: the same decision gives the same bytes.
    FigureCanvasAgg(figure).print_png(image, metadata={"Software": None})
    return f"![{what}](data:image/png;base64,{base64.b64encode(image.getvalue()).decode()})"


def address(picture: str) -> str:
    """Of the Markdown that each of these gives the image alone: a data URI."""
    return picture.rpartition("](")[2].removesuffix(")")
