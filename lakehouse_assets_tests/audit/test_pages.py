"""What an audit's page says of drift: read from the decisions, with the rules of then. No JVM.

Belongs here: records → what the page is given. Does not: the page's HTML (reports), a browser.
"""

from dataclasses import replace
from datetime import UTC, datetime

from lakehouse_assets.audit.pages import page_file, write_pages
from lakehouse_assets.contracts.audit import read_rules
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
    write(settings, [replace(decisions[0], ruleset="{}"), *decisions[1:3], replace(decisions[3], ruleset="{}")])
    audit_log.append_audit(settings, firms(table="silver/readings"))
    write_pages(settings, read_rules(), datetime(2026, 11, 22, tzinfo=UTC))
    html = page_file(settings, "silver/readings").read_text()
    assert html.count("its features beside the baseline") == 4
    assert html.count("90.00% (before: 10.00%)") == 4
    # Of the three newest a picture is drawn, where the rules can be read.
    assert html.count("data:image/png;base64,") == 2
    assert html.count('alt="value is missing in 90 % of rows"') == 2
