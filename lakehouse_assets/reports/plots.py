"""Plots as PNG in markdown, small enough for the UI.

Belongs here: drawing. Does not: choosing what is drawn.
"""

import base64
import io
from collections.abc import Mapping

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lakehouse_assets.decisions.distances import Steps

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


def _image(figure: Figure, what: str) -> str:
    image = io.BytesIO()
    # No metadata: the same decision gives the same bytes.
    FigureCanvasAgg(figure).print_png(image, metadata={"Software": None})
    return f"![{what}](data:image/png;base64,{base64.b64encode(image.getvalue()).decode()})"
