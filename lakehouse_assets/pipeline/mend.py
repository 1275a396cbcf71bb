"""Mend damaged tables on request: silver and quarantine from bronze and the decisions, bronze from its source.

Belongs here: writing lost rows again. Does not: finding damage (evidence), or the logs (operations/restore_logs).
"""

from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import functions as F

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.findings import DRIFT_LAYERS
from lakehouse_assets.decisions.reading import read_otherwise
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.pipeline.evidence import TABLES, damage_error, findings_of, refuse_damaged, restore_profiles
from lakehouse_assets.pipeline.extract import bronze_rows, write_bronze
from lakehouse_assets.pipeline.gate import quarantine, stage
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import decided_targets
from lakehouse_assets.pipeline.silver_write import create_silver, rebuild_silver
from lakehouse_assets.pipeline.table_source import only_in_bronze, settled_source
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.lock import confirm_lock, table_lock
from lakehouse_assets.storage.staging_folder import staging_path
from lakehouse_assets.storage.version_marks import log_rebuilt
from lakehouse_assets.storage.window_files import window_bounds

MEND = ("bronze_mended", "quarantine_mended", "silver_rebuilt", "silver_mended")


@dataclass(frozen=True)
class Mended:
    """What was mended: the number of findings; of what was written again, the numbers of extractions and of decisions with
    quarantined rows, and whether silver was.
    """

    findings: int
    extractions: int
    decisions: int
    silver: bool


def mend(run: Run) -> Mended:
    """Mend each damaged table. Raises EvidenceError if a log is: `lakehouse verify --restore-logs` restores it first."""
    with table_lock(run.settings, run.table):
        before = findings_of(run.settings, run.spec)
        refuse_damaged(run, mending=TABLES)
        extractions = mend_bronze(run)
        decisions = mend_quarantine(run)
        if run.spec.drift:
            restore_profiles(run)
        findings = findings_of(run.settings, run.spec)
        silver = not any(f.stops and f.layer != "silver" for f in findings) and mend_silver(run)
        after = findings_of(run.settings, run.spec) if silver else findings
        if not after:
            run.alarm([])
        return Mended(len({*before} - {*after}), extractions, decisions, silver)


def mend_silver(run: Run) -> bool:
    """Fold silver anew if it is lost, older or damaged; returns whether it was. Raises EvidenceError if other evidence is."""
    findings = findings_of(run.settings, run.spec)
    if other := [finding for finding in findings if finding.stops and finding.layer != "silver"]:
        run.alarm(findings)
        raise damage_error(other)
    if not any(finding.layer == "silver" for finding in findings):
        return False
    path = run.path("silver")
    # What is decided and not applied follows, once silver is there.
    applied = [d for d in logs.decisions(run.settings, run.table) if d.applied_at is not None]
    run = run.with_contract(evolution.effective_table(run.spec, applied))
    if TableFiles(path).state.unreadable:
        confirm_lock(run.settings, run.table)
        delta.remove_folder(path)
    if not delta.exists(path):
        create_silver(run)
    rebuild_silver(run, ledger.live_decisions(applied))
    log_rebuilt(run.settings, run.table, run.run_id, run.clock())
    run.step("silver_mended")
    return True


def mend_quarantine(run: Run) -> int:
    """Write lost or doubled quarantined rows again, by each decision's own rules. Returns the number of decisions."""
    files = TableFiles(run.path("quarantine"))
    findings = findings_of(run.settings, run.spec)
    damage = [f for f in findings if f.layer == "quarantine"]
    # Without all of bronze, a lost file of quarantine may be the only copy.
    if not damage or files.state.unreadable or any(f.layer not in ("quarantine", "silver", *DRIFT_LAYERS) for f in findings):
        return 0
    ids = {f.decision_id for f in damage if f.decision_id}
    log = logs.decisions(run.settings, run.table)
    decisions = [d for d in log if d.decision_id in ids and d.superseded_by is None]
    # Every row is staged before the table is changed.
    targets = decided_targets(run, decisions, log)
    for target in targets:
        stage(target)
    if files.absent:
        forget_lost_files(files)
    for target in targets:
        quarantine(target)
    run.step("quarantine_mended")
    delta.remove_folder(staging_path(run.settings, run.table))
    return len(decisions)


def mend_bronze(run: Run) -> int:
    """Read windows again of which rows are lost or doubled, if the source still has the same content. It must have the same
    fingerprint and as many rows, and today's `source:` must read it as it was read. They keep their number, so that every
    decision on them is still valid. Returns the number of extractions.
    """
    files = TableFiles(run.path("bronze"))
    if files.state.unreadable:
        return 0
    damage = {(f.window, f.seq) for f in findings_of(run.settings, run.spec) if f.layer == "bronze" and f.window}
    newest = ledger.latest_extractions(logs.extractions(run.settings, run.table)).values()
    targets = {run.spec.extraction.window_at(r.p_extracted_at): r for r in newest if r.batch in damage}
    if not damage and files.absent:
        forget_lost_files(files)  # nothing needs their rows
    if not targets or only_in_bronze(run.spec):
        return 0
    source, settled = settled_source(run, sorted(targets))
    prints = source.fingerprints(settled)
    otherwise = {r.batch for r in read_otherwise(run.spec, [*targets.values()], logs.decisions(run.settings, run.table))}
    same = [w for w, r in sorted(targets.items()) if prints.get(w) == r.fingerprint and r.batch not in otherwise]
    if not same:
        return 0
    unreadable = source.probe(run.spark, same)
    frame = source.read(run.spark, same, unreadable=unreadable or None).frame
    seqs = {window: targets[window].extraction_seq for window in same}
    start = F.unix_micros("p_extracted_at").alias("start")
    rows = {row["start"]: row["count"] for row in bronze_rows(frame, seqs).groupBy(start).count().collect()}
    micros = {window: int(window.start.timestamp() * 1_000_000) for window in same}
    same = [window for window in same if rows.get(micros[window], 0) == targets[window].rows]
    if not same:
        return 0
    if files.absent:
        # If one batch of the lost files cannot be read again, they stay on record: a backup still helps.
        if {b for b in damage if _may_be_in(files, *b)} - {targets[window].batch for window in same}:
            return 0
        forget_lost_files(files)
    frame = frame.where(F.unix_micros("p_extracted_at").isin([micros[window] for window in same]))
    write_bronze(run, frame, {window: seqs[window] for window in same}, prints, replacing=True)
    version, at = delta.version(files.path), run.clock()
    logs.record_extractions(run.settings, [replace(targets[w], bronze_version=version, extracted_at=at) for w in same])
    run.step("bronze_mended")
    return len(same)


def _may_be_in(files: TableFiles, start: datetime | None, seq: int | None) -> bool:
    """Whether a missing file may have had rows of an extraction."""
    for row in files.absent:
        first, last = row.get("min.extraction_seq"), row.get("max.extraction_seq")
        may_have = first is None or last is None or seq is None or first <= seq <= last
        bounds = window_bounds(row)
        if may_have and (bounds is None or (start is not None and bounds[0] <= start <= bounds[1])):
            return True
    return False
