"""Refuse a table whose evidence is damaged, before a step writes; restore profiles that decisions contain.

Belongs here: the guard of every write, and quarantining without a baseline. Does not: counting (storage), or mending (mend).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException

from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.evidence.changes import Evidence, is_still_whole
from lakehouse_assets.decisions.evidence.comparison import compare_baseline, compare_evidence
from lakehouse_assets.decisions.evidence.findings import DRIFT_LAYERS, Finding, Layer, format_findings, make_finding
from lakehouse_assets.decisions.evidence.silver import compare_silver
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.errors import DiskError, EnvironmentMissing, EvidenceError
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import baseline_events, write_profiles
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.evidence import (
    find_unmeasured,
    measure_baseline_evidence,
    measure_evidence,
    measure_silver_evidence,
)
from lakehouse_assets.storage.leases.guards import commit_properties
from lakehouse_assets.storage.lock import read_at_rest
from lakehouse_assets.storage.newest_values import NewestValues
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.version_marks import read_last_mark

TABLES: tuple[Layer, ...] = ("bronze", "silver", "quarantine")
# Evidence in which nothing was found, by lake and table: of so many decisions in all.
_compared_evidence = NewestValues[Evidence](300_000, lambda evidence: len(evidence[0].decisions))


def findings_of(settings: Settings, spec: TableSpec) -> list[Finding]:
    """Return what is missing, doubled or older in a table's evidence. No JVM, and nothing is changed."""
    return _findings(settings, spec.name, drift=spec.drift is not None)


def _findings(settings: Settings, table: str, *, drift: bool) -> list[Finding]:
    """The findings, once a run that writes the table now has ended. Its commits come one by one, and it may remove files that
    are being read. A lake that cannot be written, not even a lock, has no writer to wait for.
    """
    try:
        if not _compare(settings, table, drift=drift):
            return []
    except (OSError, DeltaError, ArrowException):
        pass
    try:
        return read_at_rest(settings, table, lambda: _compare(settings, table, drift=drift))
    except DiskError:
        return _compare(settings, table, drift=drift)
    except (OSError, DeltaError, ArrowException) as error:
        error_line = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise EnvironmentMissing(
            f"{table}: its tables cannot be read now: {error_line}. Whether they are damaged is unknown. Make"
            f" {settings.root} readable, and run again"
        ) from error


def _compare(settings: Settings, table: str, *, drift: bool) -> list[Finding]:
    """The findings. Where nothing was found before in this process, only what has changed since is compared."""
    key, now = (settings.root, table, drift), measure_evidence(settings, table, drift=drift)
    before = _compared_evidence.get(key)
    findings = [] if before and is_still_whole(table, before, now) else compare_evidence(table, *now)
    if not findings:
        _compared_evidence.put(key, now)
    return findings


def refuse_damaged(run: Run, mending: Collection[Layer] = (), *, written: bool = False) -> None:
    """Raise EvidenceError if the table's evidence is damaged, except in layers that the caller is about to mend. Call it under
    the table's lock, before a write. Leftovers of a killed process are no damage. Profiles that the decisions contain are
    restored to the baseline. ``written``: as `damage_error` has it.
    """
    findings = findings_of(run.settings, run.spec)
    if any(finding.layer == "baseline" for finding in findings) and restore_profiles(run):
        findings = findings_of(run.settings, run.spec)
    if findings:
        run.alarm(findings)
    if stopping := [finding for finding in findings if finding.stops and finding.layer not in mending]:
        raise damage_error(stopping, written=written)


def damage_error(findings: Sequence[Finding], *, written: bool = False) -> EvidenceError:
    """The error of these findings, all of one table. ``written``: after this run has written."""
    table = findings[0].table
    then = "and nothing was changed"
    if written:
        then = "noticed after this run had written; another program may have written at the same time"
    return EvidenceError(f"{table} stops: its evidence is damaged, {then}\n{format_findings(findings)}")


def count_silver_rows(run: Run) -> int | None:
    """Return silver's rows, for a mark. Raises EvidenceError if other commits than this project's changed them since the last
    mark: the new mark would hide that. The decisions stay unapplied, and the run after `lakehouse rebuild` applies them.
    """
    record, measured = measure_silver_evidence(run.settings, run.table)
    if findings := list(compare_silver(run.table, record, measured)):
        run.alarm(findings)
        raise damage_error(findings, written=True)
    return measured.tables["silver"].rows


def refuse_other_rows(run: Run, records: Sequence[ExtractionRecord], numbers: Mapping[Batch, BatchNumbers]) -> None:
    """Raise EvidenceError if an extraction was staged with more or fewer rows than it has on record: bronze has changed since
    it was compared.
    """
    findings = [
        make_finding(run.table, "bronze", "fewer" if staged < record.rows else "more", text, record.batch)
        for record in records
        if (staged := numbers[record.batch].rows_in) != record.rows
        for text in [f"{staged} rows were staged, {record.rows} are on record"]
    ]
    if findings:
        run.alarm(findings)
        raise damage_error(findings)


def refuse_damaged_inputs(settings: Settings, inputs: Collection[str]) -> None:
    """Raise EvidenceError where a silver table that gold reads is not what is on record. ``inputs``: as the SQL names them."""
    for name in sorted(inputs):
        layer, _, table = name.partition("_")
        if layer == "silver":
            refuse_damaged_table(settings, table, unread=("bronze", "quarantine"))


def refuse_damaged_table(settings: Settings, table: str, unread: Collection[Layer]) -> None:
    """Raise EvidenceError if a table that another one reads is damaged, except in layers that are not read."""
    findings = _findings(settings, table, drift=False)
    if stopping := [finding for finding in findings if finding.stops and finding.layer not in unread]:
        raise damage_error(stopping)


def gold_lies_whole(settings: Settings, table: str) -> bool:
    """Whether a gold table (``table``: as in the logs) is as it was last written; if not, it is derived anew."""
    mark = read_last_mark(settings, table)
    if mark is None:
        return True
    state = TableFiles(settings.path("gold", table.removeprefix("gold_"))).state
    if state.absent or state.unreadable or state.version is None or state.version < mark.version:
        return False
    return state.version > mark.version or mark.rows is None or state.rows == mark.rows


def restore_profiles(run: Run) -> int:
    """Restore lost and doubled profiles from the decisions to the baseline. Lost files are removed from its Delta log only if
    the decision log has the profiles of every decision that has none left, and if no seed lacks a window. Else a backup still
    helps. Returns the number of windows and files.
    """
    settings, table = run.settings, run.table
    log = logs.decisions(settings, table)
    record, measured = measure_baseline_evidence(settings, table, log)
    state = measured.tables["baseline"]
    if state.unreadable or measured.tables["ops/baselines"].unreadable:
        return 0
    doubled = measured.doubled
    unprofiled = [
        d for d in log if d.superseded_by is None and (d.decision_id in doubled or not measured.profiles.get(d.decision_id))
    ]
    files = TableFiles(settings.path("baseline", table))
    if files.absent:
        # Of versions of the baseline before this one as well: decisions were judged by them.
        unprofiled = [d for d in unprofiled if d.accepted and d.teaches and d.applied_at is not None]
    else:
        missing = set(record.teaching) - set(record.unmeasured)
        unprofiled = [d for d in unprofiled if d.decision_id in missing]
    with_profiles = logs.with_evidence(settings, table, unprofiled, ("drift", "profiles"))
    restorable = [d for d in with_profiles if d.profiles]
    if files.absent:
        unmeasured = find_unmeasured(settings, table, [d.decision_id for d in with_profiles if not d.profiles])
        seeds = {e.seed_id: int(e.extra.get("windows", 0)) for e in baseline_events(settings, table) if e.kind == "seed"}
        complete = all(measured.profiles.get(name, 0) >= windows for name, windows in seeds.items())
        if not complete or any(not d.profiles and d.decision_id not in unmeasured for d in with_profiles):
            return 0
        forget_lost_files(files)
    if rewritten := [d.decision_id for d in restorable if d.decision_id in doubled]:
        condition = f"decision_id IN ({', '.join(map(literal, rewritten))})"
        open_to_change(files.path).delete(condition, commit_properties=commit_properties(files.path))
    write_profiles(settings, table, restorable)
    if restorable:
        run.step(f"profiles_of_{len(restorable)}_windows_restored")
    return len(restorable) + len(state.absent)


def hold_without_baseline(
    run: Run, log: Sequence[Decision], numbers: Mapping[Batch, BatchNumbers]
) -> dict[Batch, BatchNumbers]:
    """These numbers. If the baseline lacks profiles, each has an error of the drift check, which quarantines its window."""
    if run.spec.drift is None:
        return dict(numbers)
    record, measured = measure_baseline_evidence(run.settings, run.table, log)
    findings = [finding for finding in compare_baseline(run.table, record, measured) if finding.layer in DRIFT_LAYERS]
    if not findings:
        return dict(numbers)
    first = findings[0]
    text = f"the baseline lacks what is on record ({len(findings)}): {first.where}: {first.message}. Mend: {first.mend}"
    return {batch: replace(n, errors={**n.errors, "drift": text}) for batch, n in numbers.items()}
