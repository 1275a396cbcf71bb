"""Evidence of a table: its records, the inventory of its tables, and the findings about their difference.

Belongs here: these shapes, and building a finding. Does not: comparing them (comparison), or counting (storage/evidence).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions.naming import name_start

Layer = Literal[
    "bronze", "silver", "quarantine", "baseline", "ops/decisions", "ops/extractions", "ops/positions", "ops/baselines"
]
Kind = Literal["lost", "unreadable", "files", "older", "fewer", "more", "doubled", "foreign", "replayed"]
LOGS: tuple[Layer, ...] = ("ops/decisions", "ops/extractions", "ops/positions", "ops/baselines")
# Only the drift check needs these: without them windows are quarantined, and nothing else stops.
DRIFT_LAYERS: tuple[Layer, ...] = ("baseline", "ops/baselines")
SHOWN = 10
# Stands for the lost decisions of a silver table whose commits name none any more.
UNNAMED = "unnamed"


@dataclass(frozen=True)
class TableState:
    """One Delta table on disk. ``version``: None if there is none. ``absent``: live data files that are missing or of another
    size. ``unreadable``: why its Delta log cannot be read.
    """

    version: int | None = None
    rows: int | None = None
    absent: tuple[str, ...] = ()
    unreadable: str = ""


@dataclass(frozen=True)
class Change:
    """One commit of silver, or all those that the log no longer has (as one of ours, with unknown rows). ``ours``: this project
    made it. ``rows``: how many it added by its own metrics; 0 if it changed none, None if that is unknown. ``replaces_all``:
    they are all rows of the table after it.
    """

    version: int
    operation: str
    ours: bool
    rows: int | None
    replaces_all: bool = False


@dataclass(frozen=True)
class LoggedEvidence:
    """The logs of a table. ``recorded_twice``: extractions with two records of the same source content. ``silver``: version and
    rows (None: without statistics) when decisions were last applied or silver was rebuilt. ``unmeasured``: decisions that join
    the baseline without anything to measure. ``seeds``: windows by seed. ``last_event``: of `ops/baselines`. ``given_up``: ids
    of lost decisions that a person has given up.
    """

    extractions: Sequence[ExtractionRecord] = ()
    recorded_twice: Collection[Batch] = ()
    decisions: Sequence[Decision] = ()
    teaching: Collection[str] = ()
    unmeasured: Collection[str] = ()
    silver: tuple[int, int | None] | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    last_event: datetime | None = None
    given_up: Collection[str] = ()


@dataclass(frozen=True)
class Inventory:
    """The content of the tables. ``unrecorded``: undecided extractions that this project has written to bronze once more since
    their record. ``changes``: of silver since the version on record. ``profiles``: windows by decision or seed. ``doubled``:
    decisions and seeds that have a profile more than once. ``named``: decisions that the newest commits name. ``last_event``:
    of `ops/baselines`, when profiles were last written. ``positions``: windows with one. ``in_silver``: those of ``named`` that
    commits of silver name.
    """

    tables: Mapping[Layer, TableState] = field(default_factory=dict)
    bronze: Mapping[Batch, int] = field(default_factory=dict)
    unrecorded: Collection[Batch] = ()
    quarantine: Mapping[str, int] = field(default_factory=dict)
    profiles: Mapping[str, int] = field(default_factory=dict)
    doubled: Collection[str] = ()
    changes: Sequence[Change] = ()
    named: Collection[str] = ()
    last_event: datetime | None = None
    positions: Collection[datetime] = ()
    in_silver: Collection[str] = ()


@dataclass(frozen=True)
class Finding:
    """One difference, with the step that mends it. ``window`` and ``seq``: its batch, if it belongs to one."""

    table: str
    layer: Layer
    kind: Kind
    message: str
    mend: str
    window: datetime | None = None
    seq: int | None = None
    decision_id: str | None = None

    @property
    def stops(self) -> bool:
        """Whether the table stops. Lost profiles alone only quarantine its windows."""
        return self.layer not in DRIFT_LAYERS or self.kind in ("unreadable", "files")

    @property
    def where(self) -> str:
        """The layer or log, with the window if the finding belongs to one."""
        name = self.layer if self.layer in LOGS else f"{self.layer}/{self.table}"
        return f"{name} {name_start(self.window)} #{self.seq}" if self.window else name

    def as_row(self) -> dict[str, object]:
        """Return a row of a listing."""
        row = {"table": self.table, "layer": self.layer, "window": self.window, "extraction_seq": self.seq}
        return {**row, "kind": self.kind, "finding": self.message, "mend": self.mend}


def describe_mend(table: str, layer: Layer) -> str:
    """Return the step that mends a layer of a table, for a person."""
    backup = f"put {layer if layer in LOGS else f'{layer}/{table}'} back from a backup"
    again = f"`lakehouse verify --table {table} --mend`"
    restore = f"{backup}; or `lakehouse verify --table {table} --restore-logs`"
    reset = f'`lakehouse baseline reset {table} --because "…"`'
    return {
        "bronze": f"{backup}; or {again}, which reads again what the source still has",
        "silver": f"`lakehouse rebuild {table}`",
        "quarantine": f"{again}, which writes the rows again from bronze and the decisions",
        "baseline": f"{again}, which writes the profiles again from the decisions; what they lack: {backup}, or {reset}, after"
        " which it learns anew",
        "ops/decisions": restore,
        "ops/extractions": restore,
        "ops/positions": restore,
        "ops/baselines": f"{backup}; or say it again: {reset}, then seed or pin it",
    }[layer]


def format_findings(findings: Sequence[Finding]) -> str:
    """Return the first ten findings of a table for a person, then the steps that mend them, each once."""
    lines = [f"{finding.where}: {finding.message}" for finding in findings[:SHOWN]]
    lines += [f"… and {len(findings) - SHOWN} more: lakehouse verify --table {findings[0].table}"] if findings[SHOWN:] else []
    lines += [f"Mend: {mend}" for mend in dict.fromkeys(finding.mend for finding in findings)]
    return "\n".join(lines)


def make_finding(table: str, layer: Layer, kind: Kind, message: str, batch: Batch | None = None, mend: str = "") -> Finding:
    """Return a finding. ``mend``: the step that mends it, if it is not the layer's own."""
    window, seq = batch or (None, None)
    return Finding(table, layer, kind, message, mend or describe_mend(table, layer), window, seq)


def state_of(inventory: Inventory, layer: Layer) -> TableState:
    """Return a layer on disk; without a version if it was not measured."""
    return inventory.tables.get(layer, TableState())


def find_damage(table: str, inventory: Inventory, *layers: Layer) -> Iterator[Finding]:
    """Yield tables whose log or data files cannot be read."""
    for layer in layers:
        state = state_of(inventory, layer)
        if state.unreadable:
            first = "" if layer == "silver" else f"move {layer if layer in LOGS else f'{layer}/{table}'} away; then "
            text = f"its Delta log cannot be read: {state.unreadable}"
            yield make_finding(table, layer, "unreadable", text, mend=first + describe_mend(table, layer))
        elif state.absent:
            names = ", ".join(state.absent[:3]) + (", …" if len(state.absent) > 3 else "")
            yield make_finding(table, layer, "files", f"{len(state.absent)} data file(s) are missing or damaged: {names}")


def make_count_finding(
    table: str, layer: Layer, state: TableState, rows: int, expected: int, why: str, batch: Batch | None = None, of: str = ""
) -> Finding:
    """Return a finding of two numbers of rows. ``why``: the cause, if it is known and the table is there. ``of``: the id of the
    rows' decision.
    """
    kind: Kind = "lost" if state.version is None else "fewer" if rows < expected else "more"
    why = "; the table is not there" if state.version is None else why
    text = f"{rows} rows{f' of decision {of}' if of else ''} are there, {expected} are on record{why}"
    return replace(make_finding(table, layer, kind, text, batch), decision_id=of or None)
