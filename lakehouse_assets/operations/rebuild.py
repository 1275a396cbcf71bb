"""Silver as a whole, on request: fold it anew from bronze, or bring it to its contract.

Belongs here: a migration's plan for a table, and both in one commit or not at all. Does not: the steps of a plan (decisions).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.naming import any_of
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.decisions.schema.migration import Step, declaration_steps, irreversible, migration
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.pipeline.fold import find_differences, fold, foldable
from lakehouse_assets.pipeline.mend import mend_silver
from lakehouse_assets.pipeline.publish import completed_before
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver_write import rebuild_silver
from lakehouse_assets.queries.schema_status import SchemaStatus, read_schema_status
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, delta_writes, logs
from lakehouse_assets.storage.disk_errors import find_disk_fault
from lakehouse_assets.storage.layout import is_laid_out
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.silver_contract import apply_declarations, record_contract, refuse_violated
from lakehouse_assets.storage.staging_folder import staging_path
from lakehouse_assets.storage.version_marks import log_rebuilt

# Of damaged or lost silver, `silver_mended` follows; without a difference, neither is reached.
REBUILD = ("silver_rebuilt", "silver_mended")
# Columns without a value yet are added without a rebuild.
MIGRATE = ("silver_rebuilt", "migrated")


@dataclass(frozen=True)
class Rebuilt:
    """Rows of silver, and how many were added (all, if silver was lost), or removed (0 and 0: law 1 holds)."""

    rows: int
    gained: int
    lost: int
    version: int


def rebuild(run: Run) -> Rebuilt:
    """Fold silver anew from bronze and the accepted decisions, and put it in the place of what is there, in one commit.

    Silver that is lost, older or damaged is made anew, and all its rows count as gained. Raises RefusedError for a table of
    which nothing has been accepted, EvidenceError where bronze, quarantine or a log is damaged.
    """
    path = run.path("silver")
    with table_lock(run.settings, run.table):
        folder = staging_path(run.settings, run.table, run.run_id)
        mended = mend_silver(run)
        with completed_before(run):
            decisions = logs.decisions(run.settings, run.table)
            live = ledger.live_decisions(decisions)
            run = run.with_contract(evolution.effective_table(run.spec, decisions))
            if not live.accepted and not delta.exists(path):
                raise RefusedError(f"{run.table} has no silver table yet; nothing to rebuild")
            folded = fold(foldable(run, live), run.spec)
            folded.write.mode("overwrite").parquet(folder)
            folded = run.spark.read.schema(folded.schema).parquet(folder)
            rows = folded.count()
            lost, gained, same = _compared(run, folded, rows)
            if lost or gained or not same:
                rebuild_silver(run, live, folded=folded)
                log_rebuilt(run.settings, run.table, run.run_id, run.clock())
            else:
                applied = [d.decision_id for d in live.accepted.values()]
                with delta_writes.tag_commits(run.spark, delta.commit_metadata_of(applied, "rebuild")):
                    record_contract(run.spark, path, run.spec)
            return Rebuilt(rows, rows if mended else gained, lost, delta.version(path))


def _compared(run: Run, folded: DataFrame, rows: int) -> tuple[int, int, bool]:
    """How many rows silver has and the fold has not, the reverse, and whether columns and layout are the same."""
    if not delta.exists(run.path("silver")):
        return 0, rows, False
    before = run.spark.read.format("delta").load(run.path("silver"))
    only_before, only_folded = find_differences(before, folded)
    try:
        lost = only_before.count()
    except SCAN_ERRORS as error:
        if find_disk_fault(error):
            raise
        run.step(f"silver cannot be read, and is written anew: {error_text(error, run.personal)}")
        return 0, rows, False
    same = folded.dtypes == before.dtypes and is_laid_out(run.path("silver"), run.spec.layout)
    return lost, only_folded.count(), same


def plan_of(status: SchemaStatus, renames: Mapping[str, str] | None = None) -> list[Step]:
    """The steps to the contract. Raises RefusedError where there is no table, or a rename names what is not there."""
    if status.table is None:
        way = "`lakehouse rebuild` makes it again from bronze" if status.filled else "the first run makes it as it is promised"
        raise RefusedError(f"{status.spec.name} has no silver table; {way}")
    renames = dict(renames or {})
    for old, new in renames.items():
        if new in status.spec.columns and new not in status.filled:
            source = any_of(status.spec.source_columns(new))
            raise RefusedError(
                f"--rename {old}={new}: bronze has no column {source}, so that {new} would be NULL; write `from: {old}` (or"
                " the source's own name) in defs.yaml"
            )
    try:
        steps = migration(
            status.table, status.promised, renames, status.filled,
            foreign=status.foreign, same_values=status.same_values, layout=status.layout, unread=status.unread,
        )  # fmt: skip
        return [*steps, *declaration_steps(status.pending)]
    except ValueError as error:
        raise RefusedError(str(error)) from None


def refuse_loss(table: str, steps: Sequence[Step], lose: Collection[str]) -> None:
    """Raise RefusedError where the plan loses values of a column that is not named in ``lose``."""
    if lost := [name for name in irreversible(steps) if name not in lose]:
        flags = " ".join(f"--lose {name}" for name in lost)
        raise RefusedError(
            f"{table}: no source ever had {', '.join(lost)}: a migration loses their values, and bronze cannot give them"
            f" back. Copy them elsewhere first; then `lakehouse schema migrate {table} --apply {flags}`"
        )


def describe_replaced_rows(settings: Settings, spec: TableSpec, steps: Sequence[Step]) -> str:
    """Return which changes of another program a plan that rewrites the table would replace; "" if there are none."""
    if not any(step.rewrites for step in steps):
        return ""
    messages = [finding.message for finding in findings_of(settings, spec) if finding.kind == "foreign"]
    return f"silver {spec.name}: {'; '.join(messages)}; the plan replaces them by rows of bronze" if messages else ""


def migrate(run: Run, renames: Mapping[str, str] | None = None, lose: Collection[str] = ()) -> list[Step]:
    """Carry the plan out, and return it. Columns of which there is no value yet are added to the table's schema alone; anything
    else is the fold of bronze and the accepted decisions, schema and rows in one commit. ``lose``: columns whose values may be
    lost. Raises RefusedError as `plan_of` and `refuse_loss`.
    """
    with table_lock(run.settings, run.table):
        foreign = any(finding.kind == "foreign" for finding in findings_of(run.settings, run.spec))
        return (foreign and _rewrite_foreign(run, renames, lose)) or _migrate(run, renames, lose)


def _rewrite_foreign(run: Run, renames: Mapping[str, str] | None, lose: Collection[str]) -> list[Step]:
    """Carry out a plan that rewrites the table, although another program has changed its rows, for example filled a column of
    its own. The fold replaces them. Returns no steps if the plan rewrites nothing.
    """
    steps = plan_of(read_schema_status(run.settings, run.spec), renames)
    refuse_loss(run.table, steps, lose)
    if not any(step.rewrites for step in steps):
        return []
    mend_silver(run)
    with completed_before(run):
        run.step("migrated")
    return steps


def _migrate(run: Run, renames: Mapping[str, str] | None, lose: Collection[str]) -> list[Step]:
    with completed_before(run):
        status = read_schema_status(run.settings, run.spec)
        steps = plan_of(status, renames)
        if not steps:
            return []
        refuse_loss(run.table, steps, lose)
        path = run.path("silver")
        refuse_violated(run.spark, path, status.spec)
        delta_writes.allow_types(run.spark, path, [kind for _, kind in status.promised])
        if any(step.rewrites for step in steps) or not status.same_values:
            decisions = logs.decisions(run.settings, run.table)
            rebuild_silver(run.with_contract(evolution.effective_table(run.spec, decisions)), ledger.live_decisions(decisions))
        elif added := {step.column: step.becomes for step in steps if step.action == "add"}:
            delta_writes.add_columns(run.spark, path, added)
        apply_declarations(run.spark, path, status.spec)
        run.step("migrated")
        return steps
