"""Decisions' outcomes as Dagster asset checks: one result a check and run, naming each window that failed.

Belongs here: which checks an asset declares and how their results read. Does not: judging (decisions).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.checks.base import Check, RowCheck
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.gate import group_of
from lakehouse_assets.decisions.naming import examples_of, first_of
from lakehouse_assets.layers.gold import GoldPublished
from lakehouse_assets.orchestration.metadata import drift_metadata, samples_markdown
from lakehouse_assets.orchestration.schema import diff_table, held_diff
from lakehouse_assets.reports.markdown import table

BUILT_IN = {
    "readable_row": "Every record could be read.",
    "casts": "Every value is of its column's declared type.",
    "key_not_null": "Every row has a whole key.",
    "source_columns": "The batch has the columns that the contract names.",
}
DRIFT = "The batch is distributed as the accepted windows before it. The gate has held one that is not, before this shows."
# Of these a decision speaks only where they fail.
SILENT = ("source_columns", "key", "grain")
SHOWN = 50
Plot = Callable[[Decision], str | None]


def silver_check_specs(spec: TableSpec) -> list[dg.AssetCheckSpec]:
    """The checks of `silver_<table>`: built-in, declared, drift. None blocks: the gate itself does."""
    asset = f"silver_{spec.name}"
    named = [(name, text) for name, text in BUILT_IN.items() if name != "key_not_null" or spec.key]
    named += [(check.id, _describe(check)) for check in spec.checks]
    if spec.drift:
        named.append(("drift", DRIFT))
    return [dg.AssetCheckSpec(name, asset=asset, description=text) for name, text in named]


def gold_check_specs(gold: GoldSpec) -> list[dg.AssetCheckSpec]:
    """The checks of `gold_<name>`."""
    named = [(check.id, _describe(check)) for check in gold.checks]
    named.append(("key", f"One row per ({', '.join(gold.key)})."))
    if gold.grain:
        named.append(("grain", f"Every row belongs to a part ({gold.grain.column}) that one of its inputs has."))
    return [dg.AssetCheckSpec(name, asset=f"gold_{gold.name}", description=text) for name, text in named]


def gold_check_results(gold: GoldSpec, published: GoldPublished, promised_in: str) -> Iterator[dg.AssetCheckResult]:
    """Results over the decision that judged the table as it is. ``promised_in``: the file that declares it."""
    judged = published.judged
    since = (
        ""
        if judged is published.decision
        else f". Nothing has changed since it was judged, {judged.decided_at:%Y-%m-%d %H:%M} UTC"
    )

    def advice(check: str, windows: Sequence[str]) -> str:
        return f"The table stays as it was. Mend `{gold.sql}`, its inputs or the check in `{promised_in}`."

    specs = gold_check_specs(gold)
    return check_results(specs, {"whole table": judged}, published.samples, advice, each="table as a whole", since=since)


def _describe(check: Check) -> str:
    """Its own description, or what it promises with its parameters."""
    if check.description:
        return check.description
    if isinstance(check, RowCheck):
        return f"{check.message()} · {check.check}, {check.severity}"
    given = check.model_dump(mode="json", exclude_defaults=True, exclude={*Check.model_fields, "check"})
    given |= {"where": check.where} if check.where else {}
    parameters = ", ".join(f"{n} {' '.join(map(str, v)) if isinstance(v, list | dict) else v}" for n, v in given.items())
    return f"{check.summary}{f' ({parameters})' if parameters else ''} · {check.check}, {check.severity}"


def check_results(
    specs: Sequence[dg.AssetCheckSpec],
    decisions: Mapping[str, Decision],
    samples: Mapping[str, Sequence[str]],
    advice: Callable[[str, Sequence[str]], str],
    plot: Plot | None = None,
    each: str = "window(s)",
    since: str = "",
) -> Iterator[dg.AssetCheckResult]:
    """One result per declared check over the windows of a run (``decisions`` by window key, oldest first). ``each``: what
    these are called. ``since``: a last word to all of them.
    """
    outcomes: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for window, decision in decisions.items():
        for outcome in decision.checks:
            outcomes.setdefault(
                group_of(outcome["check"]) if outcome["kind"] in ("cast", "schema") else outcome["check"], []
            ).append((window, outcome))
    for spec in specs:
        found = outcomes.get(spec.name, [])
        bad = [(window, o) for window, o in found if o["status"] in ("failed", "error")]
        skipped = [(window, o) for window, o in found if o["status"] == "skipped"]
        windows = list(dict.fromkeys(window for window, _ in bad))
        asked = {window for window, _ in found}
        asked |= {window for window, decision in decisions.items() if spec.name in SILENT and decision.checks}
        unasked = [window for window in decisions if window not in asked]
        metadata: dict[str, Any] = {"windows_checked": len(asked), "windows_failed": len(windows)}
        if unasked:
            metadata["windows_not_judged"] = len(unasked)
        if spec.name == "drift":
            metadata |= _drift(decisions, windows)
        if found and found[-1][1]["observed"]:
            metadata["observed_last"] = dg.MetadataValue.json(found[-1][1]["observed"])
        if skipped:
            metadata["windows_skipped"] = len(skipped)
            metadata["skipped"] = dg.MetadataValue.md(table(("window", "why"), [(w, o["message"]) for w, o in skipped], SHOWN))
        if bad:
            rows = [(window, o["check"], o["status"], o["effect"], o["failed_rows"], o["message"]) for window, o in bad]
            metadata["failed"] = dg.MetadataValue.md(table(("window", "check", "status", "effect", "rows", "why"), rows, SHOWN))
            metadata["failed_rows"] = sum(o["failed_rows"] for _, o in bad)
            metadata["what_to_do"] = dg.MetadataValue.md(advice(spec.name, windows))
            shown = [value for name in dict.fromkeys(o["check"] for _, o in bad) for value in samples.get(name, ())]
            shown += [f"{window}: {text}" for window, o in bad for text in examples_of(o["observed"])][:SHOWN]
            if shown:
                metadata["sample"] = samples_markdown(shown)
            if spec.name == "source_columns" and (rows := held_diff({w: decisions[w] for w in windows})):
                metadata["diff"] = diff_table(rows)
            picture = plot(decisions[windows[-1]]) if plot and spec.name == "drift" else None
            if picture:
                metadata["plot"] = dg.MetadataValue.md(picture)
        severe = any(o["severity"] == "critical" for _, o in bad)
        yield dg.AssetCheckResult(
            check_name=spec.name,
            asset_key=spec.asset_key,
            # What was not judged anywhere has not passed.
            passed=not bad and len(asked) > len({window for window, _ in skipped}),
            severity=dg.AssetCheckSeverity.ERROR if severe else dg.AssetCheckSeverity.WARN,
            description=_sentence(windows, bad, f"{len(asked)} {each}") + _of_skipped(skipped) + _of_unasked(unasked) + since,
            metadata=metadata,
        )


def _drift(decisions: Mapping[str, Decision], failed: Sequence[str]) -> dict[str, Any]:
    """Of the last window that failed, or else of the last one."""
    judged = [window for window, decision in decisions.items() if decision.drift and (not failed or window in failed)]
    if not judged:
        return {}
    return {"window": judged[-1], **drift_metadata(decisions[judged[-1]].drift or {})}


def _of_skipped(skipped: Sequence[tuple[str, dict[str, Any]]]) -> str:
    if not skipped:
        return ""
    window, outcome = skipped[-1]
    return f". Skipped in {len(skipped)}: {outcome['message'].removeprefix('not judged: ')} ({window})"


def _of_unasked(windows: Sequence[str]) -> str:
    if not windows:
        return ""
    return f". Not judged in {len(windows)}: no row to judge, or decided before there was this check ({windows[-1]})"


def _sentence(windows: Sequence[str], bad: Sequence[tuple[str, dict[str, Any]]], checked: str) -> str:
    if not bad:
        return f"{checked} checked"
    holding = {window for window, outcome in bad if outcome["effect"] in ("rows", "batch")}
    # What holds something first: the list is cut, and of the rest nothing has to be done.
    ordered = [*(w for w in windows if w in holding), *(w for w in windows if w not in holding)]
    held = f"{len(holding)} of them with something held" if holding else "nothing held"
    return f"failed in {len(windows)} of {checked}, {held}: {first_of(ordered, 10)}. {bad[-1][1]['message']}"
