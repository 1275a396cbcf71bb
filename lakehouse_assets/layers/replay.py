"""Law 3: deciding again with the versions that a decision kept. Nothing is written.

Belongs here: the same judgement from the same evidence. Does not: judging anew (release).
"""

from dataclasses import replace

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import evolution
from lakehouse_assets.decisions.relations import read_measured
from lakehouse_assets.layers.exchange import check_afterwards
from lakehouse_assets.layers.judge import Act, decide, measure
from lakehouse_assets.layers.others import others_at
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import as_judged
from lakehouse_assets.layers.staging import stage_batches
from lakehouse_assets.storage import delta, logs


def replay(run: Run, decision: Decision) -> Decision:
    """Judge a decision's batch again: its bronze rows, its rule set, its baseline version, its own profiles.

    ``decision`` must have been read with its evidence, and be one of silver's.
    """
    assert decision.p_extracted_at is not None  # noqa: S101 (gold is replayed by rewriting it)
    then = replace(run, spec=as_judged(run.spec, decision.ruleset))
    batch = (decision.p_extracted_at, decision.extraction_seq)
    records = logs.extractions(run.settings, run.spec.name)
    record = next(r for r in records if (r.p_extracted_at, r.extraction_seq) == batch)
    # What an extraction had not yet shown when it was decided, it did not know.
    seen = {c for r in records if r.extracted_at <= decision.decided_at for c in r.columns}
    place = f"{run.run_id}-replay"
    known = [d for d in logs.decisions(run.settings, run.spec.name, evidence=False) if d.number < decision.number]
    staging = replace(then, spec=evolution.staging_spec(then.spec, known, [record]))
    staged, broken = stage_batches(staging, [batch], place, decision.waived, others_at(then, decision.inputs))
    numbers, _ = measure(staging, staged, broken, [batch])
    profiles = {batch: [read_measured(p) for p in decision.profiles]}
    # What a person said of a release is kept as what came of it.
    teach = decision.teaches if decision.kind in ("released", "rejudged") else None
    act = Act(decision.kind, decision.waived, decision.by, decision.because, decision.inputs, teach)
    made = decide(then, [record], known, numbers, profiles, act, ever=seen)
    made = check_afterwards(then, made[:1], staged, log=False)
    delta.remove_folder(run.settings.path("staging", run.spec.name, place))
    return made[0]
