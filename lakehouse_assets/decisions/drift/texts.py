"""What texts look like: lengths and kinds of characters, for columns whose values are too many to be compared by name.

Belongs here: these statistics of a batch beside the baseline's windows. Does not: measuring them (measures), or shares of names
(categories).
"""

from collections.abc import Iterable, Sequence
from math import asin, sqrt
from typing import NamedTuple

import numpy as np

from lakehouse_assets.decisions.drift.distances import tail_weight
from lakehouse_assets.decisions.drift.levels import FeatureComparison
from lakehouse_assets.decisions.drift.relations import shift_effect

# Lengths that hardly vary: a tenth of a character counts as one deviation.
LEAST_LENGTH_SPREAD = 0.1


class TextFigures(NamedTuple):
    """Of the texts of one window: mean and deviation of their lengths in characters, and the shares of texts with a lower-case
    letter, an upper-case letter, a digit, white space, and a character beyond ASCII.
    """

    length: float
    length_spread: float
    lower: float
    upper: float
    digits: float
    spaces: float
    beyond_ascii: float


SHARES = ("lower", "upper", "digits", "spaces", "beyond_ascii")
TEXT_STATISTICS = ("length", *SHARES)


def text_figures(texts: Sequence[str]) -> TextFigures | None:
    """Return the figures of texts in memory; None for no text."""
    if not texts:
        return None
    lengths = np.array([len(text) for text in texts], dtype=float)
    tests = (
        lambda text: text != text.upper(),
        lambda text: text != text.lower(),
        lambda text: any(c in "0123456789" for c in text),
        lambda text: any(c.isspace() for c in text),
        lambda text: not text.isascii(),
    )
    shares = [sum(map(test, texts)) / len(texts) for test in tests]
    return TextFigures(float(lengths.mean()), float(lengths.std(ddof=1)) if len(texts) > 1 else 0.0, *shares)


def compare_texts(now: TextFigures, past: Iterable[tuple[TextFigures, int]]) -> FeatureComparison:
    """Compare what the texts of a window look like with the baseline's windows, ``past``: their figures and numbers of texts.

    ``length`` is the mean length; of a share the statistic is asin √share, whose sampling does not depend on the share.
    """
    figures, texts = zip(*past, strict=True)
    weights = np.array(texts, dtype=float) / max(sum(texts), 1)
    before = TextFigures(*(weights @ np.array(figures, dtype=float)).tolist())
    statistics = {"length": now.length, **{name: asin(sqrt(min(max(getattr(now, name), 0.0), 1.0))) for name in SHARES}}
    spread = max(before.length_spread, LEAST_LENGTH_SPREAD)
    effects = {"length": shift_effect(abs(now.length - before.length) / spread)}
    for name in SHARES:
        share = getattr(before, name)
        effects[name] = abs(getattr(now, name) - share) / float(tail_weight(share))
    statistics, effects = ({name: round(value, 9) for name, value in each.items()} for each in (statistics, effects))
    return FeatureComparison(
        statistics, effects, {name: (getattr(before, name), getattr(now, name)) for name in TEXT_STATISTICS}
    )
