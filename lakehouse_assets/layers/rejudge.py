"""Judging windows again on request, by today's rules and baseline: a new decision on the same bronze.

Belongs here: which batches are judged again, and with which overrides. Does not: what is held and waits for a person (release).
"""

from collections.abc import Sequence
from itertools import groupby

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.results import keep_results
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import judge_and_apply, recover
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.lock import table_lock


def rejudge(run: Run, windows: Sequence[Window], *, by: str, because: str) -> list[Decision]:
    """Judge the newest extraction of each of these windows again, oldest first, each by what is known now.

    An override stays in force, since a person has said it, and what was discarded stays so. A window that was accepted and is
    held now leaves silver and the baseline; one that was held and passes enters them. Raises RefusedError where none of these
    windows was ever judged.
    """
    with table_lock(run.settings, run.spec.name):
        recover(run)
        known = logs.decisions(run.settings, run.spec.name, evidence=False)
        chosen = again(known, windows)
        if not chosen:
            raise RefusedError(
                f"{run.spec.name}: none of these windows has been judged, or all were discarded: `lakehouse run`"
            )
        records = {(r.p_extracted_at, r.extraction_seq): r for r in logs.extractions(run.settings, run.spec.name)}
        made: list[Decision] = []
        for (waived, teaches), group in groupby(chosen, key=lambda d: (d.waived, d.teaches if d.waived else None)):
            waiting = [records[d.p_extracted_at, d.extraction_seq] for d in group if d.p_extracted_at]
            act = {"kind": "rejudged", "waived": waived, "by": by, "because": because, "teach": teaches}
            now, _ = judge_and_apply(run, waiting, known, **act)
            made += now
            known = logs.decisions(run.settings, run.spec.name, evidence=False)
        keep_results(run.settings, run.spec.name, run.step)
        return made


def again(known: Sequence[Decision], windows: Sequence[Window]) -> list[Decision]:
    """The standing decisions on the newest judged extraction of these windows, without what was discarded; oldest first."""
    starts = {window.start for window in windows}
    newest: dict[object, Decision] = {}
    for decision in ledger.standing(known).values():
        if decision.p_extracted_at in starts and decision.superseded_by is None and decision.kind != "discarded":
            last = newest.get(decision.p_extracted_at)
            if last is None or last.extraction_seq < decision.extraction_seq:
                newest[decision.p_extracted_at] = decision
    return sorted(newest.values(), key=lambda d: d.p_extracted_at.isoformat() if d.p_extracted_at else "")
