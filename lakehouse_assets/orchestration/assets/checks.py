"""Decisions of gold and of guards as Dagster asset checks: one result a check and run, naming each version that failed.

Belongs here: how results without partitions read. Does not: silver's, one for each window
(window_checks), or judging (decisions).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.naming import examples_of, first_of
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import drift_metadata, last_observed, samples_markdown
from lakehouse_assets.pipeline.gold import GoldPublished
from lakehouse_assets.reports.check_text import describe_check
from lakehouse_assets.reports.markdown import escape_controls, table

# A decision records these only where they fail.
SILENT = ("key", "grain", "calendar")
SHOWN = 50
Advice = Callable[[str, Sequence[str]], str]  # a check and its failed windows → what to do
Outcome = tuple[str, Mapping[str, Any]]  # a window's key, and a check's recorded outcome


def gold_check_specs(gold: GoldSpec) -> list[dg.AssetCheckSpec]:
    """Return the checks of `gold_<name>`."""
    named = [(check.id, describe_check(check)) for check in gold.checks]
    named.append(("key", f"One row per ({', '.join(gold.key)})."))
    named.append(("calendar", "Every date and time is in the years 1 to 9999."))
    if gold.grain:
        named.append(("grain", f"Every row belongs to a part ({gold.grain.column}) that one of its inputs has."))
    return [dg.AssetCheckSpec(name, asset=asset_key(gold, f"gold_{gold.name}"), description=text) for name, text in named]


def gold_check_results(gold: GoldSpec, published: GoldPublished, declared_in: str) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the decision that judged the current table. ``declared_in``: the file with its checks."""
    judged = published.judged
    note = ""
    if judged is not published.decision:
        note = f". Nothing has changed since it was judged, {judged.decided_at:%Y-%m-%d %H:%M} UTC"

    def advice(check: str, windows: Sequence[str]) -> str:
        return f"The table stays as it was. Correct `{gold.sql}`, its inputs or the check in `{declared_in}`."

    specs = gold_check_specs(gold)
    return check_results(specs, {"whole table": judged}, published.samples, advice, unit="table as a whole", note=note)


def check_results(
    specs: Sequence[dg.AssetCheckSpec],
    decisions: Mapping[str, Decision],
    samples: Mapping[str, Sequence[str]],
    advice: Advice,
    unit: str = "window(s)",
    note: str = "",
) -> Iterator[dg.AssetCheckResult]:
    """Yield one result per declared check over the windows of a run (``decisions`` by window key, oldest first). ``unit``: what
    is counted. ``note``: ends each description.
    """
    outcomes: dict[str, list[Outcome]] = {}
    for window, decision in decisions.items():
        for outcome in decision.checks:
            is_grouped = outcome["kind"] in ("cast", "schema")
            name = gate.group_of(outcome["check"]) if is_grouped else outcome["check"]
            outcomes.setdefault(name, []).append((window, outcome))
    for spec in specs:
        of_check = outcomes.get(spec.name, [])
        bad = [(window, o) for window, o in of_check if o["status"] in ("failed", "error")]
        skipped = [(window, o) for window, o in of_check if o["status"] == "skipped"]
        judged = {window for window, _ in of_check}
        judged |= {window for window, decision in decisions.items() if spec.name in SILENT and decision.checks}
        not_judged = [window for window in decisions if window not in judged]
        failed = list(dict.fromkeys(window for window, _ in bad))
        metadata: dict[str, Any] = {"windows_checked": len(judged), "windows_failed": len(failed)}
        if not_judged:
            metadata["windows_not_judged"] = len(not_judged)
        if spec.name == "drift":
            metadata |= _drift(decisions, failed)
        if observed := last_observed([o for _, o in of_check]):
            metadata["observed_last"] = dg.MetadataValue.json(observed)
        if skipped:
            rows = [(window, o["message"]) for window, o in skipped]
            metadata |= {"windows_skipped": len(skipped), "skipped": dg.MetadataValue.md(table(("window", "why"), rows, SHOWN))}
        if bad:
            metadata |= _failures(bad, samples)
            metadata["what_to_do"] = dg.MetadataValue.md(advice(spec.name, failed))
        text = _sentence(failed, bad, f"{len(judged)} {unit}") + _skipped(skipped) + _not_judged(not_judged) + note
        is_severe = any(o["severity"] == "critical" for _, o in bad)
        yield dg.AssetCheckResult(
            check_name=spec.name,
            asset_key=spec.asset_key,
            # A check that judged no window has not passed.
            passed=not bad and len(judged) > len({window for window, _ in skipped}),
            severity=dg.AssetCheckSeverity.ERROR if is_severe else dg.AssetCheckSeverity.WARN,
            description=escape_controls(text),
            metadata=metadata,
        )


def _failures(bad: Sequence[Outcome], samples: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    rows = [(window, o["check"], o["status"], o["effect"], o["failed_rows"], o["message"]) for window, o in bad]
    header = ("window", "check", "status", "effect", "rows", "why")
    examples = [value for name in dict.fromkeys(o["check"] for _, o in bad) for value in samples.get(name, ())]
    examples += [f"{window}: {text}" for window, o in bad for text in examples_of(o["observed"])][:SHOWN]
    return {
        "failed": dg.MetadataValue.md(table(header, rows, SHOWN)),
        "failed_rows": sum(o["failed_rows"] for _, o in bad),
        **({"sample": samples_markdown(examples)} if examples else {}),
    }


def _drift(decisions: Mapping[str, Decision], failed: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of the last window that failed, or else of the last one."""
    judged = [window for window, decision in decisions.items() if decision.drift and (not failed or window in failed)]
    if not judged:
        return {}
    return {"window": judged[-1], **drift_metadata(decisions[judged[-1]].drift or {})}


def _skipped(skipped: Sequence[Outcome]) -> str:
    if not skipped:
        return ""
    window, outcome = skipped[-1]
    return f". Skipped in {len(skipped)}: {outcome['message'].removeprefix('not judged: ')} ({window})"


def _not_judged(windows: Sequence[str]) -> str:
    if not windows:
        return ""
    return f". Not judged in {len(windows)}: no row to judge, or decided before this check existed ({windows[-1]})"


def _sentence(failed: Sequence[str], bad: Sequence[Outcome], judged: str) -> str:
    if not bad:
        return f"{judged} checked"
    quarantined = {window for window, outcome in bad if outcome["effect"] in ("rows", "batch")}
    # Windows with rows in quarantine come first: the list is cut, and the others need no action.
    ordered = [*(w for w in failed if w in quarantined), *(w for w in failed if w not in quarantined)]
    effect = f"{len(quarantined)} of them with rows in quarantine" if quarantined else "nothing quarantined"
    return f"failed in {len(failed)} of {judged}, {effect}: {first_of(ordered, 10)}. {bad[-1][1]['message']}"
