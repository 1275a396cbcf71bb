"""The outcome of one check of one batch, as a decision records it.

Belongs here: the record. Does not: how it is reached (gate). Commands that read logs load this file: it imports no rules.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """One check of one batch. ``effect``: what it does to the batch: none, rows, batch or report."""

    check: str
    kind: str
    severity: str
    status: str
    effect: str
    failed_rows: int
    message: str
    observed: dict[str, Any] = field(default_factory=dict)
    waived: bool = False

    def as_dict(self) -> dict[str, Any]:
        """JSON-safe. `asdict` would copy what was observed, which takes a millisecond for the checks of one window."""
        return dict(vars(self))
