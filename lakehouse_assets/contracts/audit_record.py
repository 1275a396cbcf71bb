"""What is kept of one table's audit: a row of `ops/audits`.

Belongs here: the shape of the record. Does not: how it is stored (storage/audits) or drawn (reports).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class AuditRecord:
    """``path``: where the table lies. ``stage``: silver or gold. ``table``: as `silver/weather`. ``version``: None where the
    table could not be opened. ``results``: every rule's, as JSON-safe mappings. ``bindings``: ``[rule, column]`` of all that
    was asked. ``weight_column``: None for a uniform sample. ``distribution_column``: by which rows are counted; it may be a
    partition column. ``duration``: seconds. ``schema``: type of each column, by its path.
    """

    audit_id: str
    run_id: str
    path: str
    stage: str
    table: str
    version: int | None
    as_of: bool
    verdict: str
    total_raw_records: int | None
    total_sampled_records: int | None
    target_rows: int
    weight_column: str | None
    distribution_column: str | None
    raw_data_distribution: Mapping[str, int]
    sample_data_distribution: Mapping[str, int]
    audit_columns: tuple[str, ...]
    seed: int
    confidence: float
    ruleset_hash: str
    started_at: datetime
    duration: float
    error_message: str | None = None
    notes: tuple[str, ...] = ()
    results: tuple[Mapping[str, Any], ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    uncovered: tuple[str, ...] = ()
    unfit: tuple[tuple[str, str, str], ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    schema: Mapping[str, str] = field(default_factory=dict)


def audit_id(run_id: str, path: str) -> str:
    """The first 16 hex digits of a hash of the run and the table."""
    return hashlib.sha256(f"{run_id}\n{path}".encode()).hexdigest()[:16]
