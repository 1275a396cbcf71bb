"""Bring silver to its contract when a person says so: the plan, and carrying it out in one commit or not at all.

Belongs here: what is done of a plan, under the table's lock. Does not: making the plan (decisions), or what batches bring.
"""

from collections.abc import Mapping
from dataclasses import replace

from lakehouse_assets.decisions import evolution, ledger
from lakehouse_assets.decisions.migration import Step, migration
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.exchange import rebuild_whole
from lakehouse_assets.layers.reality import Reality, reality_of
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import recover
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock


def plan_of(reality: Reality, renames: Mapping[str, str] | None = None) -> list[Step]:
    """The steps to the contract. Raises RefusedError where there is no table, or a rename names what is not there."""
    if reality.table is None:
        raise RefusedError(f"{reality.spec.name} has no silver table yet; the first run makes it as it is promised")
    renames = dict(renames or {})
    for old, new in renames.items():
        if new in reality.spec.columns and new not in reality.filled:
            source = reality.spec.source_column(new)
            raise RefusedError(
                f"--rename {old}={new}: bronze has no column {source!r}, so that {new} would be NULL; say `from: {old}` in"
                " defs.yaml, or what the source calls it"
            )
    try:
        return migration(reality.table, reality.promised, renames, reality.filled, same_values=reality.same_values)
    except ValueError as error:
        raise RefusedError(str(error)) from None


def migrate(run: Run, renames: Mapping[str, str] | None = None) -> list[Step]:
    """Carry the plan out, and return it. Columns of which there is no value yet are added to the table's schema alone; anything
    else is the fold of bronze and the accepted decisions, schema and rows in one commit. Raises RefusedError as `plan_of`.
    """
    with table_lock(run.settings, run.spec.name):
        recover(run)
        reality = reality_of(run.settings, run.spec)
        steps = plan_of(reality, renames)
        if not steps:
            return []
        path = run.path("silver")
        delta.allow_types(run.spark, path, [kind for _, kind in reality.promised])
        if any(step.rewrites for step in steps) or not reality.same_values:
            known = logs.decisions(run.settings, run.spec.name, evidence=False)
            rebuild_whole(replace(run, spec=evolution.effective(run.spec, known)), ledger.accepted(known))
        else:
            delta.add_columns(run.spark, path, {step.column: step.becomes for step in steps})
        run.step("migrated")
        return steps
