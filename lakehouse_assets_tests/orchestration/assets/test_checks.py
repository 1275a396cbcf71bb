"""What decisions become as asset checks: whatever held a batch is red, and what nobody judged is not green.

Belongs here: the results, from decisions made by hand. Does not: judging (decisions), or Dagster's pages (browser).
"""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.verdict import reasons_of
from lakehouse_assets.orchestration.assets.checks import check_results, gold_check_results, gold_check_specs, silver_check_specs
from lakehouse_assets.pipeline.gold import GoldPublished
from lakehouse_assets_tests.support import readings

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
    is_quarantined = any(outcome.effect == "batch" for outcome in outcomes)
    fields = {"table": "gold_days", "p_extracted_at": None, "extraction_seq": number, "number": number, "kind": "judged"}
    fields |= {"verdict": "quarantined" if is_quarantined else "published", "counts": Counts(), "reasons": reasons_of(outcomes)}
    fields |= {"ruleset_hash": "", "ruleset": "{}", "bronze_version": None, "baseline_version": None, "run_id": "test"}
    return Decision(**{**fields, "decided_at": AT, "checks": tuple(o.as_dict() for o in outcomes), **more})


def outcome(check: str, status: str = "passed", effect: str = "none") -> Outcome:
    return Outcome(check, "kind", "critical" if effect == "batch" else "warning", status, effect, 0, "it is so")


def shown(specs, decisions) -> dict[str, dg.AssetCheckResult]:
    return {str(result.check_name): result for result in check_results(specs, decisions, {}, lambda *_: "mend it")}


@pytest.mark.parametrize("why", ["grain", "key", "few"])
def test_a_check_that_quarantines_gold_fails(why):
    results = shown(gold_check_specs(GOLD), {"whole table": decided(outcome("few"), outcome(why, "failed", "batch"))})
    assert {name for name, result in results.items() if not result.passed} == {why}
    assert results[why].severity == dg.AssetCheckSeverity.ERROR
    assert "it is so" in str(results[why].description)


def test_a_table_without_parts_has_no_check_of_them():
    names = [spec.name for spec in gold_check_specs(GOLD.model_copy(update={"grain": None}))]
    assert names == ["few", "key", "calendar"]


def test_without_a_new_derivation_the_checks_repeat_the_last_results():
    before = decided(outcome("few", "failed", "report"))
    published = GoldPublished(decided(number=2, recomputed=()), True, {}, before)
    results = {str(result.check_name): result for result in gold_check_results(GOLD, published, "tables/days/defs.yaml")}
    assert {name: result.passed for name, result in results.items()} == {
        "few": False,
        "key": True,
        "calendar": True,
        "grain": True,
    }
    for result in results.values():
        assert "Nothing has changed since it was judged, 2024-07-01 00:00 UTC" in str(result.description)
    now = GoldPublished(before, False, {}, before)
    assert not any("since" in str(result.description) for result in gold_check_results(GOLD, now, "x"))


def test_a_check_judged_in_no_window_has_not_passed():
    spec = readings(drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {"check": "row_count", "min": 1}])
    cast = Outcome("cast_value", "cast", "critical", "passed", "none", 0, "")
    built_in = [outcome("readable_row"), cast, outcome("key_not_null")]
    empty, full = decided(*built_in, outcome("not_empty")), decided(*built_in, outcome("not_empty"), outcome("drift"))
    skipped = Outcome("row_count", "row_count", "warning", "skipped", "none", 0, "not judged: not_empty failed")
    specs = silver_check_specs(spec)
    results = shown(specs, {"2024-01-01": empty})
    assert {name for name, result in results.items() if not result.passed} == {"drift", "row_count"}
    assert results["drift"].severity == dg.AssetCheckSeverity.WARN
    assert str(results["drift"].description).startswith("0 window(s) checked. Not judged in 1: no row to judge")
    results = shown(specs, {"2024-01-01": empty, "2024-01-02": full})
    assert results["drift"].passed
    assert str(results["drift"].description).startswith("1 window(s) checked. Not judged in 1")
    assert not results["row_count"].passed
    # Skipped in one and not asked in the other.
    results = shown(specs, {"2024-01-01": empty, "2024-01-02": decided(*built_in, skipped)})
    assert not results["row_count"].passed
    results = shown(specs, {"2024-01-01": decided(*built_in, skipped), "2024-01-02": decided(*built_in, outcome("row_count"))})
    assert results["row_count"].passed
