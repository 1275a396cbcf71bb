"""The check `no_window_quarantined` of silver: whether any window has rows in quarantine now, whatever run brought them there.

Belongs here: what is in quarantine, as one result without windows. Does not: the results of checks by window (window_checks).
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.reports.markdown import escape_controls, table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

CHECK = "no_window_quarantined"
SHOWN = 50


def quarantine_check_spec(spec: TableSpec) -> dg.AssetCheckSpec:
    """Return the check's declaration. It has no partitions: it fails as long as anything is in quarantine."""
    description = f"Nothing of the table is in quarantine now: `lakehouse quarantine list --table {spec.name}`."
    return dg.AssetCheckSpec(CHECK, asset=asset_key(spec, f"silver_{spec.name}"), description=description)


def quarantine_check_result(spec: TableSpec, settings: Settings) -> dg.AssetCheckResult:
    """Return its result, from the log as it is now."""
    return result_over(spec, ledger.quarantined_decisions(logs.decisions(settings, spec.name)))


def result_over(spec: TableSpec, quarantined: Sequence[Decision]) -> dg.AssetCheckResult:
    """Return the result while these decisions have rows in quarantine, oldest window first."""
    by_key = [(spec.extraction.window_at(d.p_extracted_at).key, d) for d in quarantined if d.p_extracted_at]
    keys = list(dict.fromkeys(key for key, _ in reversed(by_key)))
    metadata: dict[str, Any] = {"windows_quarantined": len(keys)}
    if by_key:
        metadata["rows_quarantined"] = sum(d.counts.rows_quarantined for _, d in by_key)
        rows = [
            (key, d.extraction_seq, d.verdict, d.counts.rows_quarantined, ", ".join(_causes(d))) for key, d in reversed(by_key)
        ]
        metadata["quarantined"] = dg.MetadataValue.md(
            table(("window", "extraction", "verdict", "rows in quarantine", "checks"), rows, SHOWN)
        )
        metadata["what_to_do"] = dg.MetadataValue.md(
            f"See the rows: `lakehouse quarantine show {spec.name} --window {keys[0]}`. A red window of a check (Checks →"
            " Partitions) says why, and what to do."
        )
    text = f"{len(keys)} window(s) have rows in quarantine: {first_of(keys, 10)}" if keys else "nothing is in quarantine"
    return dg.AssetCheckResult(
        check_name=CHECK,
        asset_key=asset_key(spec, f"silver_{spec.name}"),
        passed=not by_key,
        severity=dg.AssetCheckSeverity.ERROR,
        description=escape_controls(text),
        metadata=metadata,
    )


def _causes(decision: Decision) -> list[str]:
    return list(dict.fromkeys(reason.check for reason in decision.reasons if reason.effect in ("rows", "batch")))
