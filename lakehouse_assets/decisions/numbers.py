"""The numbers of a batch's scan: counts by the rows' own flags, and the checks' measurements.

Belongs here: the shape between measuring and judging. Does not: either of the two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class BatchNumbers:
    """Rows in; clean and newest of their key; clean and older; failing a removing check; keys with unequal twins.
    ``unreadable``: files. ``failed_rows``: rows by row check. ``metrics``: ``{batch check: {metric: value}}``. ``errors``:
    ``{check: message}`` of those that could not be evaluated.
    """

    rows_in: int = 0
    newest: int = 0
    older: int = 0
    failing: int = 0
    key_conflicts: int = 0
    unreadable: int = 0
    failed_rows: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    def completed(
        self, checks: Iterable[str], answers: Mapping[str, Mapping[str, Any]], errors: Mapping[str, str]
    ) -> "BatchNumbers":
        """These with the answers and errors of the batch checks that have a query of their own."""
        metrics = {check: {**self.metrics.get(check, {}), **answers.get(check, {})} for check in checks}
        return replace(self, metrics=metrics, errors=errors)
