"""Check results of silver by window: each check has one result in each window, which is what the log says of the window.

Belongs here: which checks silver declares, and what a click on one window shows. Does not: judging (decisions), storing results
in Dagster (partition_results), or checks without windows (checks, quarantine_check).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lakehouse_assets.checks.drift_rows import DRIFT_ROWS
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.naming import examples_of
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import drift_metadata, last_observed, samples_markdown
from lakehouse_assets.orchestration.assets.partition_checks import count_unseen, looked_at, partition_result
from lakehouse_assets.orchestration.assets.partitions import partitions_of, windows_by_partition
from lakehouse_assets.orchestration.assets.quarantine_check import quarantine_check_spec
from lakehouse_assets.orchestration.assets.schema_checks import diff_table, schema_differences
from lakehouse_assets.orchestration.partition_results import PartitionResult, partitioned_check_spec
from lakehouse_assets.orchestration.quality_pages import check_link
from lakehouse_assets.queries.drift_evidence import plot_drift
from lakehouse_assets.queries.quarantine import failing_values
from lakehouse_assets.reports.check_text import BUILT_IN, DRIFT, describe_check
from lakehouse_assets.reports.markdown import escape_controls, table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

# A decision may have no outcome of these where they pass.
SILENT = ("source_columns", "supersede")
NOTHING_ARRIVED = "nothing arrived"
NOT_JUDGED = "no row to judge, or decided before this check existed"
# A plot takes up to half a second: of more windows, those in quarantine and the newest have one.
MOST_PLOTS = 5


@dataclass
class WindowResults:
    """``results``: of each check in each window, by check, oldest window first. ``not_checked``: by partition, the checks that
    did not look at it, each with the reason.
    """

    results: list[PartitionResult] = field(default_factory=list)
    not_checked: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


def window_check_specs(spec: TableSpec) -> list[dg.AssetCheckSpec]:
    """Return the checks of `silver_<table>` that have a result in each window: built-in, declared, drift. None is blocking in
    Dagster: the gate itself blocks.
    """
    asset, partitions = asset_key(spec, f"silver_{spec.name}"), partitions_of(spec.extraction)
    absent = {"key_not_null"} if not spec.key else set()
    absent |= {"delete_when"} if not spec.extraction.delete_when else set()
    named = [(name, text) for name, text in BUILT_IN.items() if name not in absent]
    named += [(check.id, describe_check(check)) for check in spec.checks]
    if spec.drift:
        named.append(("drift", DRIFT))
    return [partitioned_check_spec(name, asset, text, partitions) for name, text in named]


def silver_check_specs(spec: TableSpec) -> list[dg.AssetCheckSpec]:
    """Return the checks that the step of `silver_<table>` reports: those with windows, and `no_window_quarantined`."""
    return [*window_check_specs(spec), quarantine_check_spec(spec)]


def window_results(
    spec: TableSpec, settings: Settings, windows: Sequence[Window], samples: Mapping[str, Sequence[str]]
) -> WindowResults:
    """Return every check's result in each of these windows, from the decision on its newest extraction; by partition, where
    several windows share one: then ``windows`` are all of these partitions. ``samples``: failing values of a run by check, each
    as ``window: value``.
    """
    decisions = logs.decisions(settings, spec.name)
    newest = ledger.newest_by_window(ledger.current_decisions(decisions).values())
    by_partition = windows_by_partition(spec.extraction, windows)
    decided = {part: [newest[w.start] for w in some if w.start in newest] for part, some in by_partition.items()}
    chosen = logs.with_evidence(settings, spec.name, [d for some in decided.values() for d in looked_at(some)])
    by_start = {d.p_extracted_at: gate.masked_now(d, spec.checks, spec.pii_columns) for d in chosen}
    quarantined = {d.decision_id for d in ledger.quarantined_decisions(decisions)}
    values = failing_values(settings, spec, [d for d in chosen if d.decision_id in quarantined])
    shown = {
        window.key: _WindowSamples(f"{window.start:%Y-%m-%d %H:%M}: ", samples, values.get(decision.decision_id, {}))
        for window in windows
        if (decision := by_start.get(window.start))
    }
    checked, plots = WindowResults(), _plotted(settings, spec, by_start, quarantined)
    for declared in window_check_specs(spec):
        link = check_link(settings, spec.name, declared.name)

        def result_of(window: Window, declared: dg.AssetCheckSpec = declared) -> dg.AssetCheckResult | str:
            decision = by_start.get(window.start)
            if decision is None:
                return NOTHING_ARRIVED
            advice = _advice(spec, declared.name, window, decision.decision_id in quarantined)
            result = window_result(declared, window.key, decision, shown[window.key].of, advice)
            plot = plots.get(window.start) if declared.name == "drift" else None
            if isinstance(result, str) or not plot:
                return result
            return result._replace(metadata={**result.metadata, "plot": dg.MetadataValue.md(plot)})

        for part, some in by_partition.items():
            if spec.extraction.shares_partitions:
                of_windows = [(window, result_of(window)) for window in some if window.start in by_start]
                result = partition_result(part, of_windows, len(decided[part]), count_unseen(decided[part]))
            else:
                result = result_of(some[0])
            if isinstance(result, str):
                checked.not_checked.setdefault(part, []).append((declared.name, result))
                checked.results.append(PartitionResult(declared.key, part, None))
                continue
            result = result._replace(metadata={**result.metadata, **link})
            checked.results.append(PartitionResult(declared.key, part, result))
    return checked


def not_checked_metadata(not_checked: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return which checks did not look at a window, and why, for the metadata of its partition."""
    return {"not_checked": dg.MetadataValue.md(table(("check", "why"), not_checked))} if not_checked else {}


def window_result(
    declared: dg.AssetCheckSpec, window: str, decision: Decision, samples: Any, advice: str
) -> dg.AssetCheckResult | str:
    """Return a check's result in a window; or, where it did not look at the window, why. ``samples``: failing values of a
    check. ``advice``: what to do if the check fails.
    """
    outcomes = [o for o in decision.checks if _name_of(o) == declared.name]
    bad = [o for o in outcomes if o["status"] in ("failed", "error")]
    skipped = [o for o in outcomes if o["status"] == "skipped"]
    if not bad and skipped:
        return escape_controls(str(skipped[-1]["message"]).removeprefix("not judged: "))
    if not outcomes and not (declared.name in SILENT and decision.checks):
        return NOT_JUDGED
    metadata: dict[str, Any] = {"window": window, "verdict": decision.verdict, "extraction_seq": decision.extraction_seq}
    if observed := last_observed(outcomes):
        metadata["observed"] = dg.MetadataValue.json(observed)
    if declared.name == "drift" and decision.drift:
        metadata |= drift_metadata(decision.drift)
    if bad:
        rows = [(o["check"], o["status"], o["effect"], o["failed_rows"], o["message"]) for o in bad]
        metadata["failed"] = dg.MetadataValue.md(table(("check", "status", "effect", "rows", "why"), rows))
        metadata["failed_rows"] = sum(o["failed_rows"] for o in bad)
        metadata["decision_id"] = decision.decision_id
        examples = [value for o in bad for value in [*samples(o["check"]), *examples_of(o["observed"])]]
        metadata |= {"sample": samples_markdown(examples)} if examples else {}
        metadata["what_to_do"] = dg.MetadataValue.md(advice)
        if declared.name == "source_columns" and (differences := schema_differences({window: decision})):
            metadata["diff"] = diff_table(differences)
    notes = [o["message"] for o in outcomes if o["kind"] == "schema" and o["status"] == "passed" and o["message"]]
    text = "; ".join(dict.fromkeys(o["message"] for o in bad) if bad else ["passed", *notes])
    is_severe = any(o["severity"] == "critical" for o in bad)
    return dg.AssetCheckResult(
        check_name=declared.name,
        asset_key=declared.asset_key,
        passed=not bad,
        severity=dg.AssetCheckSeverity.ERROR if is_severe else dg.AssetCheckSeverity.WARN,
        description=escape_controls(f"{window}, {decision.verdict}: {text}"),
        metadata=metadata,
    )


def _name_of(outcome: Mapping[str, Any]) -> str:
    return gate.group_of(outcome["check"]) if outcome["kind"] in ("cast", "schema", DRIFT_ROWS) else outcome["check"]


@dataclass(frozen=True)
class _WindowSamples:
    """Failing values of one window: ``of_run`` has those of all windows of a run, each after its window."""

    prefix: str
    of_run: Mapping[str, Sequence[str]]
    quarantined: Mapping[str, Sequence[str]]

    def of(self, check: str) -> list[str]:
        """Return the failing values of a check."""
        here = [text.removeprefix(self.prefix) for text in self.of_run.get(check, ()) if text.startswith(self.prefix)]
        return list(dict.fromkeys([*self.quarantined.get(check, ()), *here]))


def _plotted(
    settings: Settings, spec: TableSpec, by_start: Mapping[Any, Decision], quarantined: Collection[str]
) -> dict[Any, str]:
    """Return plots of windows in which drift failed, by their start: of those in quarantine first, then of the newest."""
    failed = [
        decision
        for decision in by_start.values()
        if any(o["check"] == "drift" and o["status"] in ("failed", "error") for o in decision.checks)
    ]
    failed.sort(key=lambda d: (d.decision_id in quarantined, d.p_extracted_at))
    return {d.p_extracted_at: text for d in failed[-MOST_PLOTS:] if (text := plot_drift(settings, spec, d))}


def _advice(spec: TableSpec, check: str, window: Window, is_quarantined: bool) -> str:
    name, key = spec.name, window.key
    if not is_quarantined:
        return (
            f"Nothing of this window is in quarantine. If the check is wrong: correct it in `tables/{name}/defs.yaml`, and "
            f'judge the window again: `lakehouse run --table {name} --window {key} --rejudge --because "…"`'
        )
    release = (
        f"3. If the data is right: `lakehouse quarantine release {name} --window {key} "
        f'--override {check} --because "…"`,\n'
        f"   or correct the check in `tables/{name}/defs.yaml` and release without `--override`.\n"
    )
    if gate.is_unwaivable(check):
        release = (
            f"3. No override publishes these rows. If `tables/{name}/defs.yaml` is wrong: correct it, and release without "
            "`--override`; if the source was read wrongly, have it delivered again.\n"
        )
    return (
        f"1. See the quarantined rows: `lakehouse quarantine show {name} --window {key}`\n"
        "2. If the source is wrong: land the corrected file; the window is judged again automatically.\n"
        f"{release}"
        f'4. If it is worthless: `lakehouse quarantine discard {name} --window {key} --because "…"`'
    )


def every_window(spec: TableSpec, settings: Settings, reported: Sequence[str]) -> Iterator[list[Window]]:
    """Yield the windows with a decision, and those whose partitions are ``reported``, some partitions at a time, oldest
    first.
    """
    starts = {d.p_extracted_at for d in logs.decisions(settings, spec.name) if d.p_extracted_at}
    windows = {spec.extraction.window_at(start) for start in starts}
    if not spec.extraction.shares_partitions:
        windows |= {spec.extraction.window(key) for key in reported}
    partitions = list(windows_by_partition(spec.extraction, windows).values())
    for first in range(0, len(partitions), 100):
        yield [window for some in partitions[first : first + 100] for window in some]
