"""Acts on what is held: judge it again, override it with a name and a reason, or discard it. And rebuild silver.

Belongs here: the explicit acts of a person. Does not: what happens by itself.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions import evolution, gate, ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.exchange import replace_whole
from lakehouse_assets.layers.fold import clean_rows, fold
from lakehouse_assets.layers.others import others_at
from lakehouse_assets.layers.results import keep_results
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import as_judged, carry_out, judge_and_apply, recover
from lakehouse_assets.layers.staging import stage_batches
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock


def release(
    run: Run,
    start: datetime,
    seq: int | None,
    *,
    waived: Collection[str],
    by: str,
    because: str,
    teach: bool | None = None,
) -> Decision:
    """Judge a held batch again, by today's rules; checks in ``waived`` (``*``: all that can be) lose their effect.

    ``teach``: whether the window joins the baseline; not said, it does unless drift is overridden. Raises RefusedError when
    nothing of the batch is held, or a later extraction was accepted.
    """
    with table_lock(run.settings, run.spec.name):
        recover(run)
        known, _, record = _held(run, start, seq)
        _refuse_unknown(replace(run, spec=evolution.plan(evolution.effective(run.spec, known), record).spec), waived)
        if teach and run.spec.drift is None:
            raise RefusedError(f"{run.spec.name} declares no drift: there is no baseline to teach")
        act = {"kind": "released", "waived": waived, "by": by, "because": because, "teach": teach}
        made, _ = judge_and_apply(run, [record], known, **act)
        keep_results(run.settings, run.spec.name, run.step)
        return made[0]


def _refuse_unknown(run: Run, waived: Collection[str]) -> None:
    spec = run.spec
    names = {"*", "casts", *gate.SCHEMA_CHECKS, *(f"cast_{name}" for name in spec.columns)}
    names |= {check.id for check in spec.checks} | ({"drift"} if spec.drift else set())
    if never := sorted(set(waived) & set(gate.UNWAIVABLE)):
        raise RefusedError(f"{spec.name}: {', '.join(never)} cannot be overridden: there is nothing that could be published")
    if unknown := sorted(set(waived) - names):
        raise RefusedError(f"{spec.name} has no check {', '.join(unknown)}; there are {', '.join(sorted(names))}")


def discard(run: Run, start: datetime, seq: int | None, *, by: str, because: str) -> Decision:
    """Give up what is held of a batch: its rows stay as evidence, marked discarded. Raises RefusedError as `release`."""
    with table_lock(run.settings, run.spec.name):
        recover(run)
        known, standing, record = _held(run, start, seq)
        counts = standing.counts
        given_up = replace(counts, rows_quarantined=0, rows_discarded=counts.rows_discarded + counts.rows_quarantined)
        made = replace(
            standing,
            number=max(d.number for d in known) + 1,
            kind="discarded",
            verdict="published_with_warnings" if standing.accepted else "discarded",
            counts=given_up,
            by=by,
            because=because,
            run_id=run.run_id,
            decided_at=run.clock(),
            silver_version=None,
            applied_at=None,
        )
        then = as_judged(run.spec, standing.ruleset)
        before = [d for d in known if d.number < standing.number]
        judged_as = replace(run, spec=evolution.staging_spec(then, before, [record]))
        batch = (record.p_extracted_at, record.extraction_seq)
        others = others_at(judged_as, standing.inputs)
        staged, _ = stage_batches(judged_as, [batch], run.run_id, standing.waived, others)
        carry_out(run, [made], staged, [*known, made])
        keep_results(run.settings, run.spec.name, run.step)
        return made


def done_before(
    run: Run, start: datetime, seq: int | None, kind: str, *, by: str, because: str, waived: Collection[str] | None = None
) -> Decision | None:
    """The decision of this very act, where it stands and was carried out: one that was killed before it could say so."""
    of_window = _of_window(logs.decisions(run.settings, run.spec.name, evidence=False), start)
    last = of_window.get(seq if seq is not None else max(of_window, default=0))
    if (
        last is None
        or last.applied_at is None
        or last.superseded_by
        or (last.kind, last.by, last.because) != (kind, by, because)
    ):
        return None
    return last if waived is None or set(waived) == set(last.waived) else None


def _of_window(known: Sequence[Decision], start: datetime) -> dict[int, Decision]:
    """What stands of each extraction of a window."""
    return {d.extraction_seq: d for d in ledger.standing(known).values() if d.p_extracted_at == start}


def _held(run: Run, start: datetime, seq: int | None) -> tuple[list[Decision], Decision, ExtractionRecord]:
    known = logs.decisions(run.settings, run.spec.name, evidence=False)
    of_window = _of_window(known, start)
    name = f"{run.spec.name} {start:%Y-%m-%d %H:%M}"
    if not of_window:
        raise RefusedError(f"{name} has never been judged; see `lakehouse verdicts`")
    chosen = of_window.get(seq if seq is not None else max(of_window))
    if chosen is None:
        raise RefusedError(f"{name} has no extraction {seq}; there are {', '.join(map(str, sorted(of_window)))}")
    if chosen.superseded_by:
        raise RefusedError(
            f"{name} extraction {chosen.extraction_seq} was superseded by a later one that was accepted; nothing to act on"
        )
    if not chosen.counts.rows_quarantined:
        raise RefusedError(f"{name} extraction {chosen.extraction_seq} is {chosen.verdict} and none of its rows is held")
    records = logs.extractions(run.settings, run.spec.name)
    batch, (chosen,) = (start, chosen.extraction_seq), logs.with_evidence(run.settings, run.spec.name, [chosen])
    return known, chosen, next(r for r in records if (r.p_extracted_at, r.extraction_seq) == batch)


@dataclass(frozen=True)
class Rebuilt:
    """Rows of silver after the rebuild, and how many rows it had added, taken away or changed (0: law 1 holds)."""

    rows: int
    gained: int
    lost: int
    version: int


def rebuild(run: Run) -> Rebuilt:
    """Fold silver anew from bronze and the accepted decisions, and put it in the place of what is there, in one commit.

    Raises RefusedError for a table of which nothing has been judged.
    """
    with table_lock(run.settings, run.spec.name):
        recover(run)
        known = logs.decisions(run.settings, run.spec.name, evidence=False)
        live = ledger.accepted(known)
        run = replace(run, spec=evolution.effective(run.spec, known))
        path = run.path("silver")
        if not delta.exists(path):
            raise RefusedError(f"{run.spec.name} has no silver table yet; nothing to rebuild")
        place = run.settings.path("staging", run.spec.name, run.run_id)
        folded = fold(clean_rows(run, live), run.spec, live)
        folded.write.mode("overwrite").parquet(place)
        folded = run.spark.read.schema(folded.schema).parquet(place)
        before = run.spark.read.format("delta").load(path)
        had = dict(before.dtypes)
        # Of a column of another type nothing can be compared: that alone is a reason to write.
        shared = [name for name, kind in folded.dtypes if had.get(name) == kind]
        lost = _comparable(before, shared).exceptAll(_comparable(folded, shared)).count()
        gained = _comparable(folded, shared).exceptAll(_comparable(before, shared)).count()
        rows = folded.count()
        if lost or gained or folded.dtypes != before.dtypes:
            replace_whole(run, folded, live)
        else:
            with delta.commit_named(run.spark, delta.metadata_of([d.decision_id for d in live.values()], "rebuild")):
                delta.set_property(run.spark, path, delta.MEANING, run.spec.meaning)
        delta.remove_folder(run.settings.path("staging", run.spec.name))
        return Rebuilt(rows, gained, lost, delta.version(path))


def _comparable(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns, of which Spark compares all: a map it does not, nor what has one within."""
    kinds = dict(rows.dtypes)
    return rows.select(*[F.to_json(identifier(c)) if "map<" in kinds[c] else F.col(identifier(c)) for c in columns])
