"""What an audit's page says of drift: read from the decisions, with the rules of then. No JVM.

Belongs here: records → what the page is given. Does not: the page's HTML (reports), a browser.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse_assets.audit.pages import page_file, write_pages
from lakehouse_assets.contracts.audit import AuditRule, read_rules
from lakehouse_assets.contracts.audit_binding import Bound
from lakehouse_assets.decisions.audit.share import exact_share
from lakehouse_assets.decisions.audit.verdict import exception_result, judge_share
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.storage import audit_log
from lakehouse_assets_tests.audited import firms
from lakehouse_assets_tests.logbook import decided, outcome, write
from lakehouse_assets_tests.support import readings

MISSING = FeatureResult(
    feature="value", stratum=None, rows=10, statistic="missing", statistics={"missing": 9.5}, p_value=0.004, missing=0.9,
    baseline_missing=0.1,
).to_dict()  # fmt: skip


NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_the_windows_that_drifted_with_their_features_and_a_picture(settings):
    spec = readings(drift={"features": ["value"]})
    drift = {"status": "calibrated", "action": "hold", "worst": MISSING, "results": [MISSING], "statistics": []}
    fields = {
        "checks": (outcome("drift", status="failed", effect="batch", message="value is missing in 90 % of rows"),),
        "drift": drift,
        "profiles": (Profile("value", None, 10, nulls=9, counts=((1.0, 1),)).to_dict(),),
        "drift_p_value": 0.004,
        "baseline_version": 0,
    }
    decisions = [decided(number, ruleset=spec.ruleset(), **fields) for number in (1, 2, 3, 4)]
    # One was judged by rules that nobody could write today.
    strange = {"ruleset": "{}", "ruleset_hash": "0"}
    write(settings, [replace(decisions[0], **strange), *decisions[1:3], replace(decisions[3], **strange)])
    audit_log.append_audit(settings, firms(table="silver/readings"))
    write_pages(settings, read_rules(), NOW, {})
    html = page_file(settings, "silver/readings").read_text()
    assert html.count("its features beside the baseline") == 4
    assert html.count("90.00% (before: 10.00%)") == 4
    # Of the three newest a picture is drawn, where the rules can be read.
    assert html.count("data:image/png;base64,") == 2
    assert html.count('alt="value is missing in 90 % of rows"') == 2


@pytest.mark.parametrize("marks", [{}, {"silver/readings": {"sensor"}}, {"silver/readings": None}], ids=str)
def test_a_column_that_was_marked_later_shows_no_value(settings, marks):
    """Neither its examples and its distribution, nor its categories that drifted."""
    rules, secret = readings(drift={"features": ["sensor", "value"]}).ruleset(), "ann@example.com"
    changed = FeatureResult(
        feature="sensor", stratum=None, rows=10, statistic="shares", statistics={"shares": 9.5}, p_value=0.004,
        changed=((secret, 0.1, 0.9),), new=(secret,),
    ).to_dict()  # fmt: skip
    drift = {"status": "calibrated", "action": "hold", "worst": changed, "results": [changed], "statistics": []}
    failed = outcome("drift", status="failed", effect="batch", message=f"{secret} is new")
    write(settings, [decided(1, ruleset=rules, checks=(failed,), drift=drift)])
    rule = AuditRule(name="it", columns=("sensor",), check={"check": "not_null"})
    bound = Bound(rule, ("sensor",), rule.bound(["sensor"], 2026))
    results = judge_share(bound, exact_share(10, 1), examples=[secret]), exception_result(bound, f"Bad: {secret}")
    counts, schema = {secret: 5}, {"sensor": "string", "value": "double"}
    record = firms(
        table="silver/readings", results=tuple(each.as_dict() for each in results), schema=schema, distribution_column="sensor",
        raw_data_distribution=counts, sample_data_distribution=counts,
    )  # fmt: skip
    audit_log.append_audit(settings, record)
    write_pages(settings, read_rules(), NOW, marks)
    html = page_file(settings, "silver/readings").read_text()
    assert (secret in html) == (not marks)
    assert ("(masked: pii)" in html) == bool(marks)


@pytest.mark.parametrize("name", ["silver/readings", "guarded/readings", "gold/daily"])
def test_where_nobody_knows_the_marks_an_audit_that_read_no_schema_quotes_nothing(settings, name):
    """It stopped before the schema, so that no column of it is known."""
    secret = "ann@example.com"
    rule = AuditRule(name="it", columns=("sensor",), check={"check": "not_null"})
    bound = Bound(rule, ("sensor",), rule.bound(["sensor"], 2026))
    results = judge_share(bound, exact_share(10, 1), examples=[secret]), exception_result(bound, f"Bad: {secret}")
    record = firms(
        table=name, stage=name.partition("/")[0], results=tuple(each.as_dict() for each in results), schema={},
        error_message=f"Error: {secret}", distribution_column="sensor", raw_data_distribution={secret: 5},
        sample_data_distribution={secret: 5},
    )  # fmt: skip
    audit_log.append_audit(settings, record)
    for marks in ({}, {name: None}):
        write_pages(settings, read_rules(), NOW, marks)
        assert (secret in page_file(settings, name).read_text()) == (not marks)
