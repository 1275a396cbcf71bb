"""What decisions become as asset checks: whatever quarantined a batch is red, and what nobody judged is not green.

Belongs here: the results, from decisions made by hand. Does not: judging (decisions), or Dagster's pages (browser).
"""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.verdict import reasons_of
from lakehouse_assets.orchestration.assets.checks import check_results, gold_check_results, gold_check_specs
from lakehouse_assets.orchestration.assets.quarantine_check import result_over
from lakehouse_assets.orchestration.assets.window_checks import NOT_JUDGED, window_check_specs, window_result
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

    def of_window(decision) -> dict[str, dg.AssetCheckResult | str]:
        return {c.name: window_result(c, "2024-01-01", decision, lambda _: (), "mend it") for c in window_check_specs(spec)}

    def not_green(decision) -> set[str]:
        return {name for name, result in of_window(decision).items() if isinstance(result, str) or not result.passed}

    assert not_green(empty) == {"drift", "row_count"}
    assert of_window(empty)["drift"] == NOT_JUDGED
    assert not_green(full) == {"row_count"}
    assert of_window(decided(*built_in, skipped))["row_count"] == "not_empty failed"
    assert "row_count" not in not_green(decided(*built_in, outcome("row_count")))
    # Before this check existed, nothing was judged: neither are the checks that a decision records only where they fail.
    assert not_green(decided()) == {check.name for check in window_check_specs(spec)}


def test_the_rows_that_drift_names_fail_the_drift_check_of_their_window():
    spec = readings(drift={"features": ["value"], "on_drift": "quarantine_rows"})
    named = Outcome("drift_rows", "drift_rows", "critical", "failed", "rows", 7, "7 of 9 rows: not like the windows before")
    (check,) = [each for each in window_check_specs(spec) if each.name == "drift"]
    result = window_result(check, "2024-01-01", decided(named, outcome("drift")), lambda _: ["x"], "mend it")
    assert isinstance(result, dg.AssetCheckResult)
    assert (result.passed, result.metadata["failed_rows"].value) == (False, 7)
    assert "not like the windows before" in str(result.description)
    assert result.metadata["sample"].value == "- x"


def test_a_window_shows_its_verdict_figures_and_what_to_do():
    spec = readings(checks=[{"check": "row_count", "min": 1}])
    (check,) = [each for each in window_check_specs(spec) if each.name == "row_count"]
    bad = Outcome("row_count", "row_count", "critical", "failed", "batch", 7, "too few", {"rows": 0})
    result = window_result(check, "2024-01-01", decided(bad), lambda _: ["x"], "mend it")
    assert isinstance(result, dg.AssetCheckResult)
    assert not result.passed
    assert result.severity == dg.AssetCheckSeverity.ERROR
    assert result.description == "2024-01-01, quarantined: too few"
    values = {name: value.value for name, value in result.metadata.items()}
    assert values["verdict"] == "quarantined"
    assert values["observed"] == {"rows": 0}
    assert (values["failed_rows"], values["sample"], values["what_to_do"]) == (7, "- x", "mend it")


def test_columns_that_are_ignored_leave_the_evidence_of_missing_ones():
    (check,) = [each for each in window_check_specs(readings()) if each.name == "source_columns"]
    missing = Outcome("source_columns", "schema", "critical", "failed", "batch", 0, "lacks value", {"rejected": False})
    ignored = Outcome("new_columns", "schema", "info", "passed", "none", 0, "not declared, left in bronze: note")
    result = window_result(check, "2024-01-01", decided(missing, ignored), lambda _: (), "mend it")
    assert isinstance(result, dg.AssetCheckResult)
    assert result.metadata["observed"].value == {"rejected": False}
    assert result.description == "2024-01-01, quarantined: lacks value"
    result = window_result(check, "2024-01-01", decided(ignored), lambda _: (), "mend it")
    assert isinstance(result, dg.AssetCheckResult) and result.passed
    assert result.description == "2024-01-01, published: passed; not declared, left in bronze: note"
    spec = dg.AssetCheckSpec("source_columns", asset="silver_readings")
    assert shown([spec], {"1": decided(missing, ignored)})["source_columns"].metadata["observed_last"].value == {
        "rejected": False
    }


def test_what_is_in_quarantine_is_one_result_without_windows():
    spec = readings()
    assert result_over(spec, []).passed
    decisions = [
        decided(outcome("row_count", "failed", "batch"), p_extracted_at=datetime(2024, 1, day, tzinfo=UTC)) for day in (1, 2)
    ]
    result = result_over(spec, decisions)
    assert not result.passed
    assert result.description == "2 window(s) have rows in quarantine: 2024-01-02, 2024-01-01"
    assert "row" in result.metadata["quarantined"].value
