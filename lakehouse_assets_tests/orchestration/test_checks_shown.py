"""What decisions become as asset checks: whatever held a batch is red, and what nobody judged is not green.

Belongs here: the results, from decisions made by hand. Does not: judging (decisions), or Dagster's pages (browser).
"""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.decisions.gate import Outcome, reasons_of
from lakehouse_assets.orchestration.checks import check_results, gold_check_specs

GOLD = GoldSpec.model_validate(
    {
        "name": "days",
        "sql": "days.sql",
        "key": ["day"],
        "grain": {"column": "day", "inputs": {"silver_readings": "to_date(updated)"}},
        "checks": [{"check": "in_range", "column": "n", "max": 2, "name": "few", "severity": "warning"}],
    }
)
AT = datetime(2024, 7, 1, tzinfo=UTC)


def decided(*outcomes: Outcome, number: int = 1, **more) -> Decision:
    held = any(outcome.effect == "batch" for outcome in outcomes)
    given = {"table": "gold_days", "p_extracted_at": None, "extraction_seq": number, "number": number, "kind": "judged"}
    given |= {"verdict": "quarantined" if held else "published", "counts": Counts(), "reasons": reasons_of(outcomes)}
    given |= {"ruleset_hash": "", "ruleset": "{}", "bronze_version": None, "baseline_version": None, "run_id": "test"}
    return Decision(**{**given, "decided_at": AT, "checks": tuple(o.as_dict() for o in outcomes), **more})


def outcome(check: str, status: str = "passed", effect: str = "none") -> Outcome:
    return Outcome(check, "kind", "critical" if effect == "batch" else "warning", status, effect, 0, "it is so")


def shown(specs, decisions) -> dict[str, dg.AssetCheckResult]:
    return {str(result.check_name): result for result in check_results(specs, decisions, {}, lambda *_: "mend it")}


@pytest.mark.parametrize("why", ["grain", "key", "few"])
def test_what_holds_a_gold_table_is_red(why):
    told = shown(gold_check_specs(GOLD), {"whole table": decided(outcome("few"), outcome(why, "failed", "batch"))})
    assert {name for name, result in told.items() if not result.passed} == {why}
    assert told[why].severity == dg.AssetCheckSeverity.ERROR
    assert "it is so" in str(told[why].description)


def test_a_table_without_parts_has_no_check_of_them():
    names = [spec.name for spec in gold_check_specs(GOLD.model_copy(update={"grain": None}))]
    assert names == ["few", "key"]
