"""A table's baseline on disk: the accepted windows' profiles (`baseline/<table>`), and the requests on it (`ops/baselines`).

Belongs here: measurements and events ↔ rows. Does not: the state that follows (baseline_state), or the requests (operations).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import pyarrow as pa

from lakehouse_assets.checks.drift_rows import DRIFT_ROWS
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import SLICES, feature_meanings, is_divided
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.relations import Measurement, Relations, read_measurement
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.log_table import LogTable, log_schema

Kind = Literal["pin", "unpin", "reset", "seed"]
EVENTS = LogTable(
    "baselines",
    log_schema("table text!, kind text!, after long!, at moment!, by text!, because text!, run_id text!, extra text!"),
)
PROFILES = log_schema(
    "p_extracted_at moment, extraction_seq int, decision_id text, decision_number long, feature text, stratum text,"
    " rows long, nulls long, nans long, infinities long, mean double, std double, minimum double, maximum double,"
    " sketch bytes, statistics text, kind text, distinct double, counts text, others long, relations text, texts text"
)


@dataclass(frozen=True)
class BaselineEvent:
    """``after``: the number of the table's last decision then; the next one is the first to be judged by the changed baseline.

    ``extra``: `operation`, the id of the request; of a seed also `source`, `column` (of the windows), `windows`, `rows`, and
    `ruleset` by which it was measured.
    """

    table: str
    kind: Kind
    after: int
    at: datetime
    by: str
    because: str
    run_id: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed_id(self) -> str:
        """The id of a seed's rows in `baseline/<table>`, where others have a decision's."""
        return f"seed-{self.extra['operation']}"

    @property
    def details(self) -> dict[str, Any]:
        """The part of ``extra`` that listings show."""
        return {name: value for name, value in self.extra.items() if name not in ("ruleset", "operation")}


def baseline_events(settings: Settings, table: str, version: int | None = None) -> list[BaselineEvent]:
    """The table's events in order; up to a version of the baseline, or all. No JVM."""
    rows = sorted(EVENTS.read(settings, filters=[("table", "=", table)]), key=lambda row: (row["after"], row["at"]))
    events = [BaselineEvent(**{**row, "extra": json.loads(row["extra"])}) for row in rows]
    return [event for event in events if version is None or event.after <= version]


def log_baseline_event(settings: Settings, event: BaselineEvent) -> None:
    """Append an event, in one commit. Its time is after that of the last one, even if the clock was set back. Events without a
    decision in between are ordered by it.
    """
    with EVENTS.lock(settings):
        last = max((earlier.at for earlier in baseline_events(settings, event.table)), default=None)
        at = event.at if last is None or event.at > last else last + timedelta(microseconds=1)
        EVENTS.append(settings, [{**asdict(event), "at": at, "extra": json.dumps(event.extra, sort_keys=True)}])


@dataclass(frozen=True)
class Entry:
    """One window of a baseline: the number of its decision (or its seed's), its measurements and statistics. ``doubtful``: it
    joins only if the next one is not (`DoubtfulWindows`).
    """

    window: datetime
    number: int
    measured: tuple[Measurement, ...]
    statistics: Mapping[Key, Mapping[str, float]]
    seeded: bool = False
    doubtful: bool = False


def write_profiles(settings: Settings, table: str, decisions: Sequence[Decision]) -> None:
    """Append the profiles of accepted decisions that are not in the table yet."""
    path = settings.path("baseline", table)
    windows = [d.p_extracted_at for d in decisions if d.p_extracted_at]
    written = _read_written(path, [d.decision_id for d in decisions], windows)
    rows = []
    for decision in decisions:
        if decision.decision_id in written or not decision.profiles:
            continue
        of_batch = {"p_extracted_at": decision.p_extracted_at, "extraction_seq": decision.extraction_seq}
        made_by = {"decision_id": decision.decision_id, "decision_number": decision.number}
        statistics = (decision.drift or {}).get("statistics", [])
        rows += _make_rows(map(read_measurement, decision.profiles), statistics, of_batch | made_by)
    if rows:
        last = max((event.at for event in baseline_events(settings, table)), default=None)
        ids, last_event = sorted(d.decision_id for d in decisions), last.isoformat() if last else ""
        metadata = json.dumps({"step": "baseline", "decisions": ids, "last_event": last_event})
        delta.append_arrow(pa.Table.from_pylist(rows, PROFILES), path, user_metadata=metadata)


def write_seed(settings: Settings, event: BaselineEvent, entries: Sequence[Entry]) -> None:
    """Append a seed's windows, unless they are in the table. They count once the event is in the log, and not before."""
    path = settings.path("baseline", event.table)
    if _read_written(path, [event.seed_id], [entry.window for entry in entries]):
        return
    rows = []
    for entry in entries:
        of_batch = {"p_extracted_at": entry.window, "extraction_seq": 0}
        made_by = {"decision_id": event.seed_id, "decision_number": event.after}
        statistics = [[feature, stratum, dict(values)] for (feature, stratum), values in entry.statistics.items()]
        rows += _make_rows(entry.measured, statistics, of_batch | made_by)
    metadata = delta.commit_metadata_of([event.seed_id], "baseline")
    delta.append_arrow(pa.Table.from_pylist(rows, PROFILES), path, user_metadata=metadata)


def _read_written(path: str, ids: Sequence[str], windows: Sequence[datetime]) -> set[str]:
    """Which of these decisions or seeds have rows. Only files of these windows are read."""
    if not windows:
        return set()
    between = [("p_extracted_at", ">=", min(windows)), ("p_extracted_at", "<=", max(windows))]
    rows = delta.read_arrow(path, ["decision_id"], [*between, ("decision_id", "in", list(ids))]).to_pylist()
    return {row["decision_id"] for row in rows}


def _make_rows(measurements: Iterable[Measurement], statistics: list[Any], more: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for one in measurements:
        if isinstance(one, Slices):
            # As a profile's values, which are read of the newest windows only.
            plain = {"feature": SLICES, "rows": one.rows, "kind": SLICES, "counts": json.dumps(one.to_dict())}
        elif isinstance(one, Relations):
            feature, stratum = one.key
            plain = {"feature": feature, "stratum": stratum, "rows": one.rows, "relations": json.dumps(one.to_dict())}
        else:
            packed = {
                name: None if (value := getattr(one, name)) is None else json.dumps(value) for name in ("counts", "texts")
            }
            plain = asdict(one) | packed
        rows.append({**plain, **more, "statistics": json.dumps(statistics)})
    return rows


@dataclass(frozen=True)
class ColumnFigures:
    """A column in one window, all strata together: its rows, those of them without a value, the extremes of finite values."""

    rows: int
    nulls: int
    minimum: float | None
    maximum: float | None


def read_column_figures(settings: Settings, spec: TableSpec, decisions: Sequence[Decision]) -> dict[str, list[ColumnFigures]]:
    """Figures of each column that is a drift feature as it is, by accepted window. No JVM; reads no sketch.

    A column is left out where an accepted window has no profile of it, or one of another meaning. Its figures would be of some
    windows only. Windows that an override released are left out, as they are of the baseline, and those that were published
    without the rows that drift named.
    """
    features = {f.name: f.expr for f in spec.features if f.expr in spec.columns}
    live = [
        d
        for d in ledger.accepted_decisions(decisions).values()
        if d.counts.rows_published and not {"drift", DRIFT_ROWS, "*"} & set(d.waived) and not is_divided(d.ruleset)
    ]
    if not features or not live:
        return {}
    columns = ["decision_id", "feature", "rows", "nulls", "minimum", "maximum"]
    strata: dict[tuple[str, str], list[dict]] = {}
    for row in delta.read_arrow(settings.path("baseline", spec.name), columns).to_pylist():
        strata.setdefault((row["decision_id"], row["feature"]), []).append(row)
    now, figures = feature_meanings(spec.ruleset()), {}
    for name, column in features.items():
        if all((d.decision_id, name) in strata and feature_meanings(d.ruleset).get(name) == now[name] for d in live):
            figures[column] = [_add_strata(strata[d.decision_id, name]) for d in live]
    return figures


def _add_strata(strata: Sequence[dict]) -> ColumnFigures:
    lows = [row["minimum"] for row in strata if row["minimum"] is not None]
    highs = [row["maximum"] for row in strata if row["maximum"] is not None]
    rows, nulls = sum(row["rows"] for row in strata), sum(row["nulls"] for row in strata)
    return ColumnFigures(rows, nulls, min(lows, default=None), max(highs, default=None))
