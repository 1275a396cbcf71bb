"""The pages of one table: its own, its windows' and its checks'.

Belongs here: log rows → history → files of the site. Does not: which tables changed, the overview (site).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.masking import Mask, personal_names, rules_of
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.pages.check_view import check_views
from lakehouse_assets.pages.declared import TableDeclaration
from lakehouse_assets.pages.history import PageHistory, WindowState
from lakehouse_assets.pages.names import check_path, table_path
from lakehouse_assets.pages.overview import Summary, summary
from lakehouse_assets.pages.reading import LogSnapshot
from lakehouse_assets.pages.render import render
from lakehouse_assets.pages.samples import PageSample, SampleReader
from lakehouse_assets.pages.table_view import Lineage, check_list, table_view
from lakehouse_assets.pages.window_view import window_view
from lakehouse_assets.settings import Settings

MOST_QUARANTINED = 2_000  # windows in quarantine that have a page, however old


@dataclass(frozen=True)
class Neighbours:
    """What other tables contribute. ``gold_sql``: SQL of each gold table. ``personal``: tables with `pii` columns."""

    gold_sql: Mapping[str, str] = field(default_factory=dict)
    personal: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TableSite:
    """A table ready for its pages."""

    history: PageHistory
    mask: Mask
    spec: TableSpec | None

    def summary(self) -> Summary:
        """Return the row of the overview."""
        return summary(self.history)

    def files(self, settings: Settings, neighbours: Neighbours, audit: Any) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of every page of the table."""
        history, root = self.history, "../../"
        views = check_views(history, self.spec)
        yield from self._windows([window for window in history.windows if window.path], SampleReader(settings, history.table))
        for check in views:
            yield check_path(history.table, check["name"]), render("check", f"{root}../", check)
        # Last, so that each of its links has its page.
        view = table_view(history, self._lineage(neighbours), check_list(history, views), audit)
        yield table_path(history.table), render("table", root, view)

    def _windows(self, paged: Sequence[WindowState], samples: SampleReader) -> Iterator[tuple[str, bytes]]:
        # The newest first: their samples are read before the limit.
        for index in reversed(range(len(paged))):
            window = paged[index]
            around = (paged[index - 1] if index else None, paged[index + 1] if index + 1 < len(paged) else None)
            view = window_view(self.history, window, self._sample(window, samples), around)
            assert window.path is not None  # noqa: S101 (`paged` has no other)
            yield window.path, render("window", "../../../", view)

    def _sample(self, window: WindowState, samples: SampleReader) -> PageSample | None:
        decision = window.decision
        if decision is None or window.state not in ("quarantined", "partly"):
            return None
        if window.start is None:
            return samples.read_version(decision, None if self.mask.all_texts else self.mask.names)
        return samples.read(decision, self.mask.spec(decision))

    def _lineage(self, neighbours: Neighbours) -> Lineage:
        """Return for each column the gold tables and columns that derive from it; nothing of SQL that cannot be read."""
        if self.spec is None:
            return {}
        name, schema = f"silver_{self.history.table}", silver_schemas([self.spec])
        by_column: dict[str, list[tuple[str, str, str]]] = {}
        for gold, sql in sorted(neighbours.gold_sql.items()):
            if name not in sql:
                continue
            try:
                lineage = read_gold(sql, gold, schema, is_recorded=True).lineage
            except LakehouseError:
                continue  # it joins other tables, whose columns are not known here
            for target, sources in lineage.items():
                for table, column in sorted(sources):
                    if table == name:
                        by_column.setdefault(column, []).append((gold, target, table_path(gold)))
        return by_column


def facts_of(rulesets: Sequence[str], declared: TableDeclaration | None) -> dict[str, Any]:
    """Return what other pages need of a table, as JSON values. ``rulesets``: the newest first. ``personal``: its columns that
    any of them, or the YAML, marks `pii`. ``all_sql``: the SQL of all of them; None where one has no SQL.
    """
    rules = [rules_of(ruleset) for ruleset in rulesets]
    personal = (declared.personal if declared else frozenset()).union(*map(personal_names, rules))
    texts = [text if isinstance(text := each.get("sql"), str) else None for each in rules]
    return {
        "personal": sorted(personal),
        "sql": texts[0] if texts else None,
        "all_sql": None if None in texts else "\n".join(text for text in dict.fromkeys(texts) if text),
    }


def read_table(
    snapshot: LogSnapshot, table: str, declared: TableDeclaration | None, most_windows: int, neighbours: Neighbours
) -> TableSite:
    """Return a table with the evidence of its newest windows, of those in quarantine, and nothing personal."""
    rows = snapshot.read(table)
    newest = max(rows.decisions, key=lambda d: d.number, default=None)
    rules = rules_of(newest.ruleset) if newest else {}
    # Of all decisions: each version of gold keeps its page, and its own SQL.
    all_rules = [rules_of(ruleset) for ruleset in {d.ruleset for d in rows.decisions}]
    names = frozenset[str]().union(*map(personal_names, all_rules), declared.personal if declared else ())
    reads_personal = any(_may_read(table, own.get("sql"), neighbours.personal) for own in all_rules)
    mask = Mask(names, all_texts=reads_personal)
    notes = (*rows.notes, *((f"its YAML cannot be read: {declared.problem}",) if declared and declared.problem else ()))
    shown = declared.shown if declared else None
    history = PageHistory(table, rows.decisions, rows.extractions, rules, frozenset(), notes, shown)
    pages = _with_pages(history, most_windows)
    wanted = [w.decision for w in history.windows if w.decision and w.name in pages]
    evidence = {(d.decision_id, d.superseded_by): mask.apply(d) for d in snapshot.with_evidence(table, wanted)}
    decisions = tuple(_masked_light(evidence.get((d.decision_id, d.superseded_by), d), mask) for d in rows.decisions)
    spec = mask.spec(newest) if newest else None
    return TableSite(history.with_pages(pages, decisions), mask, spec)


def _may_read(table: str, sql: Any, tables: Collection[str]) -> bool:
    """Return whether rules with this SQL read one of these tables. Of gold whose rules have no SQL, nobody knows."""
    if isinstance(sql, str):
        return any(f"silver_{each}" in sql for each in tables)
    return table.startswith("gold_") and bool(tables)


def _with_pages(history: PageHistory, most: int) -> set[str]:
    named = [w.name for w in history.windows[-most:]] if most else []
    return {*named, *(w.name for w in history.quarantined[:MOST_QUARANTINED])}


def _masked_light(decision: Decision, mask: Mask) -> Decision:
    """Return a decision whose reasons quote nothing: a page shows their checks' own messages."""
    if not (mask.names or mask.all_texts) or not decision.reasons:
        return decision
    messages = {each["check"]: each["message"] for each in decision.checks}
    return replace(decision, reasons=tuple(replace(r, message=messages.get(r.check, "")) for r in decision.reasons))
