"""The audits' pages, written from `ops/audits` and the decisions: all of them, since they are small.

Belongs here: reading the pages' data, writing files atomically. Does not: HTML (reports/audit_site), auditing (run). No JVM.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lakehouse_assets.audit.run import GUARDED, STAGES
from lakehouse_assets.contracts.audit import AuditRecord, AuditRules
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.audit.masking import mask_record, personal_leaves
from lakehouse_assets.decisions.masking import Mask, personal_names, rules_of
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.queries.drift_evidence import plot_drift
from lakehouse_assets.reports.audit_site import DriftedWindow, TableContext, build_site, page_path
from lakehouse_assets.reports.drift import feature_rows
from lakehouse_assets.reports.plots import image_address
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audit_log, logs
from lakehouse_assets.storage.atomic_write import write_atomically

SHOWN_DRIFT, SHOWN_FEATURES, DRAWN = 10, 10, 3


# By table (`silver/weather`): its columns marked `pii` today; None where nobody knows which are.
Marks = Mapping[str, Collection[str] | None]


def write_pages(settings: Settings, rules: AuditRules, made_at: datetime, marks: Marks) -> Path:
    """Write the site; return its first page. Each page is replaced atomically."""
    for path, html in build_pages(settings, rules, made_at, marks).items():
        target = settings.pages / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, html.encode())
    return settings.pages / "index.html"


def build_pages(settings: Settings, rules: AuditRules, made_at: datetime, marks: Marks) -> dict[str, str]:
    """Return ``{path: HTML}`` of the site."""
    records = [_masked(record, rules, marks) for record in audit_log.read_audits(settings)]
    on_disk = [table for stage in STAGES for table in audit_log.find_tables(settings, stage)]
    # Where a guarded table lies is known to the project only; its guard is what may go.
    on_disk += sorted({record.table for record in records if record.stage == GUARDED})
    contexts = {table: _table_context(settings, table, marks.get(table, ())) for table in {r.table: None for r in records}}
    return build_site(records, rules, contexts, made_at, on_disk)


def page_file(settings: Settings, table: str) -> Path:
    """Return the file of one table's page."""
    return settings.pages / page_path(table)


def _masked(record: AuditRecord, rules: AuditRules, marks: Marks) -> AuditRecord:
    marked, patterns = marks.get(record.table, ()), rules.setting(record.table).pii or ()
    return mask_record(record, None if marked is None else personal_leaves(record.schema, marked, patterns))


def _table_context(settings: Settings, table: str, marked: Collection[str] | None) -> TableContext:
    """Return the gate's decisions on this table, if it knows the table. ``marked``: its columns marked `pii` today, or None, as
    in `Marks`.
    """
    stage, _, name = table.partition("/")
    decisions_of_table = logs.decisions(settings, f"gold_{name}" if stage == "gold" else name, checks=True)
    if not decisions_of_table:
        return TableContext()
    current = list(ledger.current_decisions(decisions_of_table).values())
    quarantined = ledger.quarantined_decisions(decisions_of_table)
    figures = (
        ("batches judged", len({d.batch for d in decisions_of_table})),
        ("batches quarantined now", len(quarantined)),
        ("rows quarantined now", sum(d.counts.rows_quarantined for d in current)),
        ("rows published", sum(d.counts.rows_published for d in current)),
    )
    checks = [
        (d, check) for d in decisions_of_table if d.superseded_by is None for check in d.checks if check["check"] == "drift"
    ]
    drifted = [(d, check) for d, check in checks if check["status"] in ("failed", "error")]
    rulesets = {d.ruleset for d in decisions_of_table}
    names = frozenset(marked or ()).union(*(personal_names(rules_of(ruleset)) for ruleset in rulesets))
    mask = Mask(names, all_texts=marked is None)
    return TableContext(figures, _drift(settings, name, [d for d, _ in drifted[-SHOWN_DRIFT:]][::-1], mask))


def _drift(settings: Settings, table: str, drifted: Sequence[Decision], mask: Mask) -> tuple[DriftedWindow, ...]:
    """Return drifted windows, newest first; the first few with a picture, which reads the decision's baseline."""
    starts = sorted(d.p_extracted_at for d in drifted if d.p_extracted_at)
    evidence = logs.read_drift(settings, table, starts[0], starts[-1]) if starts else {}
    pictured = [d for d in drifted if d.p_extracted_at][:DRAWN]
    with_evidence = logs.with_evidence(settings, table, pictured, ["drift", "profiles"])
    pictures = {d.decision_id: _picture(settings, mask, d) for d in with_evidence}
    windows = []
    for d in (mask.apply(replace(each, drift=evidence.get(each.decision_id))) for each in drifted):
        outcome = next(check for check in d.checks if check["check"] == "drift")
        name = f"{d.p_extracted_at:%Y-%m-%d %H:%M}" if d.p_extracted_at else "whole table"
        features = tuple(feature_rows(d.drift or {})[:SHOWN_FEATURES])
        verdict, picture = d.verdict.replace("_", " "), pictures.get(d.decision_id)
        windows.append(DriftedWindow(name, verdict, d.drift_p_value, outcome["message"], features, picture))
    return tuple(windows)


def _picture(settings: Settings, mask: Mask, decision: Decision) -> str | None:
    """Return the decision's plot as a data URI, by the rules of its time. None if today's code refuses those rules, and for
    personal data.
    """
    spec = mask.spec(decision)
    if spec is None:
        return None
    try:
        plot = plot_drift(settings, spec, mask.apply(decision))
    except (ValueError, LakehouseError):
        return None
    return image_address(plot) if plot else None
