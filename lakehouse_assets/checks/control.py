"""Control totals: the figures that a source itself reports for a window, in a control file or from a database.

Belongs here: their shape, and parsing a control file (pure). Does not: comparing (kinds/control), or finding the file.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NoReturn

MAX_BYTES = 64 * 1024


@dataclass(frozen=True)
class ControlTotals:
    """``figures`` by name; None is NULL. ``problem``: why there are no figures."""

    figures: Mapping[str, float | None]
    problem: str = ""

    def as_text(self) -> str:
        """Return JSON for `from_text`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "ControlTotals":
        """Return the totals that `as_text` wrote."""
        return cls(**json.loads(text))


def read_totals(content: bytes) -> ControlTotals:
    """Return the totals of a control file: one JSON object of finite numbers and nulls. Raises ValueError for anything else."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES // 1024} KB")
    try:
        figures = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_unique_figures, parse_constant=_refuse_constant)
    except (UnicodeDecodeError, RecursionError, json.JSONDecodeError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(figures, dict):
        raise ValueError(f'not a JSON object such as {{"rows": 24}}, but {json.dumps(figures)[:40]}')
    return ControlTotals({name: _number(name, value) for name, value in figures.items()})


def _unique_figures(pairs: list[tuple[str, object]]) -> dict[str, object]:
    figures = dict(pairs)
    if len(figures) < len(pairs):
        raise ValueError("it has a key twice")
    return figures


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _number(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name!r} is no number, but {json.dumps(value)[:40]}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"{name!r} is too large")
    return number
