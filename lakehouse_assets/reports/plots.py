"""Plots as PNG in markdown, small enough for the UI.

Belongs here: drawing. Does not: choosing what is drawn.
"""

import base64
import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lakehouse_assets.decisions.distances import Steps


def two_distributions(title: str, baseline: Steps, batch: Steps) -> str:
    """Both cumulative distributions as step functions; the range shown is the middle 98 % of both."""
    figure = Figure(figsize=(6.4, 3.4), dpi=90, layout="constrained")
    axes = figure.subplots()
    for steps, label, colour in ((baseline, "accepted windows", "#64748b"), (batch, "this window", "#dc2626")):
        axes.step(steps.values, steps.cumulated / steps.total, where="post", label=label, color=colour, linewidth=1.8)
    ends = [steps.quantiles((0.01, 0.99)) for steps in (baseline, batch)]
    low, high = float(min(end[0] for end in ends)), float(max(end[1] for end in ends))
    margin = (high - low) * 0.1 or 1.0
    axes.set(title=title, xlim=(low - margin, high + margin), ylim=(0, 1.02), ylabel="share at or below")
    axes.grid(alpha=0.25)
    axes.legend(loc="best")
    image = io.BytesIO()
    # No metadata: the same decision gives the same bytes.
    FigureCanvasAgg(figure).print_png(image, metadata={"Software": None})
    return (
        f"![distribution of the batch beside the baseline](data:image/png;base64,{base64.b64encode(image.getvalue()).decode()})"
    )
