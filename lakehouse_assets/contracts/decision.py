"""A decision: the judgement of one batch with everything it used, and the record of a batch's extraction.

Belongs here: the shapes of the append-only logs. Does not: reaching a verdict, or writing a log.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.batch import Batch

Verdict = Literal["published", "published_with_warnings", "quarantined", "discarded"]
Kind = Literal["judged", "released", "discarded", "rejudged"]
ACCEPTED: frozenset[str] = frozenset({"published", "published_with_warnings"})


@dataclass(frozen=True)
class ExtractionRecord:
    """One extraction of one window into bronze. ``columns``: of any of its files; empty without a header. ``lacking``: columns
    that some file lacks. ``types``: Spark types, if the source has types. ``respelled``: columns in other letter case than in
    bronze, with the source's spelling. ``control``: the source's control totals; None if the table asks for none.
    ``position``: that of the window in `ops/positions`; None if the source can repeat its windows. ``reading``: the keys of
    `source:` that decided its rows, as JSON; None: any keys give the same rows, or an earlier version did not record them.
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
    position: str | None = None
    reading: str | None = None

    @cached_property
    def batch(self) -> Batch:
        """The window's start and the extraction's number."""
        return (self.p_extracted_at, self.extraction_seq)


@dataclass(frozen=True)
class Reason:
    """One check that did not pass. ``rows``: failing rows; 0 if the check counts none."""

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
    """``number``: counts a table's decisions. ``inputs``: of gold, its inputs' Delta versions; of silver, the last decisions
    of the tables that its checks read. ``input_tables``: of gold, the identity of its inputs, which other tables at their
    paths do not have; empty: not known. ``recomputed``: the values of gold's grain that were recomputed; None: the whole
    table. ``evolved``: bronze's names of columns that the batch added or widened, each with its type. ``baseline_version``:
    the number of the last decision in the baseline. ``superseded_by``: set on the record that a later extraction writes for an
    earlier one. ``operation``: the id of a person's request (`decisions.operation`). ``order_span``: where its rows lie in the
    total order (`decisions.order_span`); None: not known.
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
    operation: str | None = None
    superseded_by: str | None = None
    inputs: dict[str, int] = field(default_factory=dict)
    recomputed: tuple[str | None, ...] | None = None
    evolved: dict[str, str] = field(default_factory=dict)
    checks: tuple[dict[str, Any], ...] = ()
    drift: dict[str, Any] | None = None
    profiles: tuple[dict[str, Any], ...] = ()
    silver_version: int | None = None
    applied_at: datetime | None = None
    order_span: str | None = None
    input_tables: dict[str, str] = field(default_factory=dict)

    @cached_property
    def batch(self) -> Batch:
        """Of silver: (window start, extraction_seq); of gold: (None, n)."""
        return (self.p_extracted_at, self.extraction_seq)

    @cached_property
    def decision_id(self) -> str:
        """A hash: the same decision on the same batch by the same rules has the same id."""
        moment = self.p_extracted_at.isoformat() if self.p_extracted_at else ""
        text = f"{self.table}|{moment}|{self.extraction_seq}|{self.number}|{self.ruleset_hash}|{self.superseded_by or ''}"
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def accepted(self) -> bool:
        """Whether its clean rows belong in silver."""
        return self.verdict in ACCEPTED and self.superseded_by is None


def finite(value: Any) -> Any:
    """Return a value as JSON: NaN and infinities become texts, since NULL would mean that there was no value."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
