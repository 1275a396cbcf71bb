"""The logs of one moment for the pages: one version of each log, read table by table, without a JVM.

Belongs here: Delta logs → decisions and extractions, as far as they can be read; what changed. Does not: what a page shows.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyarrow.dataset import field
from pydantic_core import from_json

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, log_rows
from lakehouse_assets.storage.arrow_rows import rows_of
from lakehouse_assets.storage.delta_dataset import read_rows
from lakehouse_assets.storage.log_table import LogTable

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

EVENTS = frozenset({"decided", "superseded", "applied", "checked", "rebuilt"})
EVIDENCE = ("checks", "drift")
LIGHT = [name for name in log_rows.DECISIONS.schema.names if name not in (*EVIDENCE, "profiles")]
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class TableRows:
    """A table's decisions and extractions, and notes about what could not be read."""

    decisions: tuple[Decision, ...]
    extractions: tuple[ExtractionRecord, ...]
    notes: tuple[str, ...] = ()


class LogSnapshot:
    """One version of both logs: a run that writes meanwhile changes nothing of what is read."""

    def __init__(self, settings: Settings) -> None:
        self._logs = {log.name: _open(settings, log) for log in (log_rows.DECISIONS, log_rows.EXTRACTIONS)}

    def fingerprints(self) -> dict[str, str]:
        """Return for each table a text that changes with its rows: from the logs' file lists alone."""
        names: dict[str, list[str]] = {}
        for name, log in self._logs.items():
            for table, path in log[1] if log else ():
                names.setdefault(table, []).append(f"{name}/{path}")
        return {table: hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest() for table, paths in names.items()}

    def read(self, table: str) -> TableRows:
        """Return a table's decisions, without checks and drift, and its extractions."""
        rows = self._rows("decisions", LIGHT, field("table") == table)
        unknown = Counter(row["event"] for row in rows if row["event"] not in EVENTS)
        decided, unread = _each_readable([row for row in rows if row["event"] in EVENTS])
        records = self._rows("extractions", log_rows.EXTRACTIONS.schema.names, field("table") == table)
        try:
            extractions, lost = log_rows.extractions_from_rows(records), 0
        except UNREADABLE:
            extractions, lost = [], len(records)
        notes = [
            f"{count} log entries of the kind {event!r}, which this version does not know" for event, count in unknown.items()
        ]
        notes += [f"{unread} decisions could not be read: a newer version may have written them"] if unread else []
        notes += [f"{lost} extractions could not be read: a newer version may have written them"] if lost else []
        return TableRows(tuple(decided), tuple(extractions), tuple(notes))

    def rulesets(self, table: str) -> list[str]:
        """Return a table's rule sets as they were recorded, each once, the newest first."""
        wanted = (field("table") == table) & (field("event") == "decided")
        log = self._logs["decisions"]
        if log is None or not {"number", "ruleset"} <= {*log[0].schema.names}:
            return []
        rows = read_rows(log[0], ["number", "ruleset"], wanted)
        newest = rows.group_by("ruleset").aggregate([("number", "max")]).to_pylist()
        ordered = sorted(newest, key=lambda row: -(row["number_max"] or 0))
        return [row["ruleset"] for row in ordered if isinstance(row["ruleset"], str)]

    def with_evidence(self, table: str, chosen: Sequence[Decision]) -> list[Decision]:
        """Return these decisions with checks and drift."""
        ids = {decision.decision_id for decision in chosen}
        wanted = (field("table") == table) & field("event").isin(["decided", "superseded", "checked"])
        wanted &= field("decision_id").isin(sorted(ids))
        evidence: dict[str, tuple[list[Any], Any]] = {}
        # A supersession's own row repeats the checks of the decision that it is about.
        for row in self._rows("decisions", ["decision_id", "event", *EVIDENCE], wanted):
            checks, drift = evidence.get(row["decision_id"], ([], None))
            own = _readable_checks(row["checks"])
            checks = [*checks, *own] if row["event"] == "checked" else [*own, *checks]
            evidence[row["decision_id"]] = (checks, _parsed(row["drift"], None) or drift)
        completed = []
        for decision in chosen:
            checks, drift = evidence.get(decision.decision_id, ([], None))
            completed.append(replace(decision, checks=tuple(_last_of_each(checks)), drift=drift))
        return completed

    def _rows(self, name: str, columns: Iterable[str], wanted: Any) -> list[dict[str, Any]]:
        log = self._logs[name]
        if log is None:
            return []
        columns = list(columns)
        present = [column for column in columns if column in log[0].schema.names]
        rows = rows_of(read_rows(log[0], present, wanted))
        absent = dict.fromkeys(column for column in columns if column not in present)
        return [{**absent, **row} for row in rows] if absent else rows


def _open(settings: Settings, log: LogTable) -> "tuple[Dataset, list[tuple[str, str]]] | None":
    path = log.path(settings)
    if not delta.exists(path):
        return None
    version, files = delta.partition_files(path, "table")
    return delta.open_dataset(path, version), files


def _each_readable(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Decision], int]:
    """Return the decisions that can be read, and the number of the others."""
    try:
        return log_rows.decisions_from_rows(rows), 0
    except UNREADABLE:
        pass
    marks = [row for row in rows if row["event"] not in ("decided", "superseded")]
    readable, unread = [], 0
    for row in rows:
        if row["event"] in ("decided", "superseded"):
            try:
                log_rows.decisions_from_rows([row])
                readable.append(row)
            except UNREADABLE:
                unread += 1
    try:
        return log_rows.decisions_from_rows([*readable, *marks]), unread
    except UNREADABLE:
        return log_rows.decisions_from_rows([*readable, *(row for row in marks if row["event"] == "applied")]), unread


def _parsed(text: str | None, default: Any) -> Any:
    try:
        return from_json(text) if text else default
    except ValueError:
        return default


def _readable_checks(text: str | None) -> list[dict[str, Any]]:
    """Return recorded outcomes with every field that a page shows."""
    empty = {"kind": "", "severity": "", "status": "", "effect": "none", "failed_rows": 0, "message": "", "observed": {}}
    checks = _parsed(text, [])
    named = (
        [each for each in checks if isinstance(each, dict) and isinstance(each.get("check"), str)]
        if isinstance(checks, list)
        else []
    )
    return [each if len(each) > len(empty) else {**empty, "waived": False, **each} for each in named]


def _last_of_each(checks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({each["check"]: each for each in checks}.values())
