"""A table's history for its pages: what the logs say of each window, as values without any reading.

Belongs here: the state of windows and checks, masked. Does not: reading logs (reading), one page's content (*_view).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.windows import LENGTHS, Window, calendar, window_at
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.gate import group_of
from lakehouse_assets.pages.names import window_name, window_path

# The worst first: a day of many windows has the colour of its worst one.
STATES = ("quarantined", "unknown", "waiting", "partly", "warned", "discarded", "missing", "published")
LABELS = {
    "quarantined": "quarantined",
    "unknown": "a verdict of a newer version",
    "waiting": "not in the tables yet",
    "partly": "some rows quarantined",
    "warned": "published with warnings",
    "discarded": "discarded",
    "missing": "missing",
    "published": "published",
}
_OF_VERDICT = {
    "published": "published",
    "published_with_warnings": "warned",
    "quarantined": "quarantined",
    "discarded": "discarded",
}
MOST_MISSING = 20_000  # of a calendar's windows, the newest, that are compared with the log


@dataclass(frozen=True)
class Declared:
    """What a table's files declare today. ``checks``: where each check is declared, as file and line. ``files``: SQL files."""

    checks: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class WindowState:
    """One window, or one version of a table without windows. ``decision``: the current one on its newest extraction; None while
    it is only extracted, or missing. ``has_page``: whether the site has its page.
    """

    name: str
    start: datetime | None
    state: str
    decision: Decision | None = None
    path: str | None = None

    @property
    def label(self) -> str:
        """The state in words."""
        return LABELS[self.state]

    @cached_property
    def time(self) -> str:
        """Its start on a chart's axis; the name of a version, which is no date."""
        return self.start.isoformat(" ")[:16] if self.start else self.name

    @property
    def tip(self) -> str:
        """The tool-tip: name, state, rows."""
        if self.decision is None:
            return f"{self.name}: {self.label}"
        counts = self.decision.counts
        quarantined = f", {counts.rows_quarantined:,} quarantined" if counts.rows_quarantined else ""
        return f"{self.name}: {self.label}, {counts.rows_in:,} rows{quarantined}"


@dataclass(frozen=True)
class PageHistory:
    """``decisions``: all, in order; those with a page have checks and drift. ``pages``: names of windows with a page.
    ``rules``: the newest rule set as JSON values. ``notes``: what could not be read.
    ``declared``: None if no file declares the table.
    """

    table: str
    decisions: tuple[Decision, ...]
    extractions: tuple[ExtractionRecord, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)
    pages: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    declared: Declared | None = None

    @cached_property
    def extraction(self) -> ExtractionSpec | None:
        """The calendar; None without windows, or if today's code cannot read it."""
        try:
            return ExtractionSpec.model_validate(self.rules["extraction"], context={RECORDED: True})
        except (KeyError, ValueError):
            return None

    @property
    def cadence(self) -> Any:
        """The cadence of the windows."""
        return self.extraction.window_cadence if self.extraction else None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return tuple(self.rules.get("key") or ())

    def name_of(self, decision: Decision) -> str:
        """Return the name of a decision's window."""
        return window_name(decision.p_extracted_at, self.cadence, decision.extraction_seq)

    def path_of(self, name: str) -> str | None:
        """Return the path of a window's page, if it has one."""
        return window_path(self.table, name) if name in self.pages else None

    @cached_property
    def of_window(self) -> dict[str, list[Decision]]:
        """The decisions of each window, oldest first."""
        by_name: dict[str, list[Decision]] = {}
        for decision in self.decisions:
            by_name.setdefault(self.name_of(decision), []).append(decision)
        return by_name

    @cached_property
    def extractions_of(self) -> dict[datetime, list[ExtractionRecord]]:
        """The extractions of each window, oldest first."""
        by_start: dict[datetime, list[ExtractionRecord]] = {}
        for record in self.extractions:
            by_start.setdefault(record.p_extracted_at, []).append(record)
        return by_start

    @cached_property
    def windows(self) -> list[WindowState]:
        """Every window with a decision or an extraction, oldest first."""
        states = {name: self._state(name, decisions) for name, decisions in self.of_window.items()}
        newest = ledger.latest_extractions(self.extractions)
        for start, record in newest.items():
            name = window_name(start, self.cadence, record.extraction_seq)
            current = states.get(name)
            if current is None or (current.decision and current.decision.extraction_seq < record.extraction_seq):
                states[name] = WindowState(name, start, "waiting", current and current.decision, self.path_of(name))
        return sorted(states.values(), key=lambda w: (w.start is not None, w.start, w.decision.number if w.decision else 0))

    @cached_property
    def missing(self) -> list[Window]:
        """Closed windows of the calendar up to the newest judged one that nobody has extracted or judged, oldest first."""
        starts = {window.start for window in self.windows if window.start}
        if self.extraction is None or self.extraction.stream or not starts:
            return []
        end = window_at(max(starts), self.cadence).end
        begin, length = self.extraction.start, LENGTHS.get(self.cadence)
        if length and end - begin > MOST_MISSING * length:
            begin = end - MOST_MISSING * length
        return [window for window in calendar(begin, end, self.cadence) if window.start not in starts]

    @cached_property
    def timeline(self) -> list[WindowState]:
        """Windows and missing windows, oldest first."""
        gaps = [WindowState(window.key, window.start, "missing") for window in self.missing]
        return sorted([*self.windows, *gaps], key=lambda w: (w.start is not None, w.start)) if gaps else self.windows

    @cached_property
    def quarantined(self) -> list[WindowState]:
        """Windows with rows in quarantine now, newest first."""
        current = [w for w in self.windows if w.start] or self.windows[-1:]
        return [w for w in reversed(current) if w.state in ("quarantined", "partly")]

    @cached_property
    def shown(self) -> list[WindowState]:
        """Windows whose checks and drift were read, oldest first."""
        return [window for window in self.windows if window.decision is not None and window.name in self.pages]

    def with_pages(self, pages: Collection[str], decisions: Sequence[Decision]) -> "PageHistory":
        """Return the same history where these windows have a page. ``decisions``: the same ones, some with checks and drift."""
        read = {id(old): new for old, new in zip(self.decisions, decisions, strict=True) if old is not new}
        other = replace(self, decisions=tuple(decisions), pages=frozenset(pages))
        names = {self.name_of(decision) for decision in read.values()}
        # Of 100,000 windows, a thousand have a page: the others stay as they are.
        of_window = {name: [read.get(id(each), each) for each in self.of_window[name]] for name in names}
        vars(other)["of_window"] = {**self.of_window, **of_window}
        vars(other)["windows"] = [
            replace(window, decision=read.get(id(window.decision), window.decision), path=other.path_of(window.name))
            if window.name in names or window.name in other.pages
            else window
            for window in self.windows
        ]
        return other

    def _state(self, name: str, decisions: Sequence[Decision]) -> WindowState:
        current = ledger.current_decisions(decisions).values() if decisions[1:] else decisions
        decision = max(current, key=lambda d: d.extraction_seq)
        return WindowState(name, decision.p_extracted_at, state_of(decision), decision, self.path_of(name))


def state_of(decision: Decision) -> str:
    """Return the state that a decision gives its window."""
    state = _OF_VERDICT.get(decision.verdict, "unknown")
    if decision.superseded_by is not None:
        return "published" if decision.counts.rows_published else "discarded"
    if decision.applied_at is None:
        return "waiting"
    return "partly" if state in ("published", "warned") and decision.counts.rows_quarantined else state


def outcomes_by_check(decision: Decision) -> dict[str, list[Mapping[str, Any]]]:
    """Return a decision's outcomes by the check that a person knows: all casts are one."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for outcome in decision.checks:
        groups.setdefault(group_of(outcome["check"]), []).append(outcome)
    return groups


def worst(states: Iterable[str]) -> str:
    """Return the worst of some states."""
    return min(states, key=STATES.index)


def bad_outcomes(decision: Decision) -> list[Mapping[str, Any]]:
    """Return the outcomes that did not pass, those that quarantine first."""
    effects = ("batch", "rows", "report", "none")
    bad = [outcome for outcome in decision.checks if outcome["status"] in ("failed", "error")]
    return sorted(bad, key=lambda o: effects.index(o["effect"]) if o["effect"] in effects else len(effects))
