"""A decision: the judgement of one batch with everything it used, and the record of a batch's extraction.

Belongs here: the shapes that the append-only logs hold. Does not: how a verdict is found, or how a log is written.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from lakehouse_assets.checks.control import ControlTotals

Verdict = Literal["published", "published_with_warnings", "quarantined", "discarded"]
Kind = Literal["judged", "released", "discarded", "rejudged"]
ACCEPTED: frozenset[str] = frozenset({"published", "published_with_warnings"})


@dataclass(frozen=True)
class ExtractionRecord:
    """One extraction of one window into bronze. ``columns``: those of any of its files, empty when none had a header.

    ``lacking``: those of them that some file did not have. ``types``: of a source that knows them, its columns' Spark types.
    ``respelled``: columns that came in other letter case than bronze has them, with the source's. ``control``: what the source
    says of the window; None where it was not asked.
    """

    table: str
    p_extracted_at: datetime
    extraction_seq: int
    fingerprint: str
    rows: int
    columns: tuple[str, ...]
    bronze_version: int
    run_id: str
    extracted_at: datetime
    lacking: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    respelled: dict[str, str] = field(default_factory=dict)
    control: ControlTotals | None = None

    @property
    def in_every_file(self) -> tuple[str, ...]:
        """Columns that every row of the extraction had."""
        return tuple(column for column in self.columns if column not in self.lacking)


@dataclass(frozen=True)
class Reason:
    """One check that did not pass, as the log keeps it. ``rows``: failing rows, 0 where the check counts none."""

    check: str
    severity: str
    status: str
    effect: str
    rows: int
    message: str


@dataclass(frozen=True)
class Counts:
    """Law 2: ``rows_in`` is the sum of the other four, each counted from the rows' own flags."""

    rows_in: int = 0
    rows_published: int = 0
    rows_superseded: int = 0
    rows_quarantined: int = 0
    rows_discarded: int = 0


@dataclass(frozen=True)
class Decision:
    """``batch`` of silver: (window start, extraction_seq); of gold: (None, n). ``inputs``: of gold, its inputs' Delta versions;
    of silver, the last decisions of the tables that its checks look into. ``recomputed``: the values of gold's grain that were
    derived anew; None: the whole table.

    ``evolved``: bronze's names of columns that nobody declared and the contract took, and of declared ones that it took a
    wider type for, each with its type.

    ``number`` counts a table's decisions; ``baseline_version`` is the number of the last decision whose profiles the
    baseline held. ``superseded_by`` is set on the record that a later extraction writes for an earlier one.
    """

    table: str
    p_extracted_at: datetime | None
    extraction_seq: int
    number: int
    kind: Kind
    verdict: Verdict
    counts: Counts
    reasons: tuple[Reason, ...]
    ruleset_hash: str
    ruleset: str
    bronze_version: int | None
    baseline_version: int | None
    run_id: str
    decided_at: datetime
    drift_p_value: float | None = None
    teaches: bool = False
    waived: tuple[str, ...] = ()
    by: str | None = None
    because: str | None = None
    superseded_by: str | None = None
    inputs: dict[str, int] = field(default_factory=dict)
    recomputed: tuple[str | None, ...] | None = None
    evolved: dict[str, str] = field(default_factory=dict)
    checks: tuple[dict[str, Any], ...] = ()
    drift: dict[str, Any] | None = None
    profiles: tuple[dict[str, Any], ...] = ()
    silver_version: int | None = None
    applied_at: datetime | None = None

    @property
    def batch(self) -> tuple[datetime | None, int]:
        """What was judged."""
        return (self.p_extracted_at, self.extraction_seq)

    @property
    def decision_id(self) -> str:
        """Stable: the same judgement of the same batch by the same rules has the same id."""
        moment = self.p_extracted_at.isoformat() if self.p_extracted_at else ""
        text = f"{self.table}|{moment}|{self.extraction_seq}|{self.number}|{self.ruleset_hash}|{self.superseded_by or ''}"
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def accepted(self) -> bool:
        """Its clean rows belong in silver, unless a later extraction has taken their place."""
        return self.verdict in ACCEPTED and self.superseded_by is None


def finite(value: Any) -> Any:
    """A figure as JSON can hold it: NaN and infinities as texts; a NULL in their place would say that there was no value."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
