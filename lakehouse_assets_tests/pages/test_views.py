"""The pages' pure functions, by tables of cases: states, order of need, lateness, figures, commands, charts, masking.

Belongs here: one function a test. Does not: files (test_site).
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.contracts.drift import undivided_hash
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions import masking
from lakehouse_assets.decisions.healing import WindowFacts, window_statuses
from lakehouse_assets.decisions.schema.comparison import Difference
from lakehouse_assets.decisions.schema.gate import schema_outcome
from lakehouse_assets.pages import charts, fragments, overview, window_view
from lakehouse_assets.pages import history as history_module
from lakehouse_assets.pages.history import PageHistory, WindowState, state_of
from lakehouse_assets.pages.names import page_url, window_file, window_name, window_path
from lakehouse_assets.pages.render import figure_json, render
from lakehouse_assets.pages.samples import choose_rows
from lakehouse_assets.pages.table_view import calendar_years, why
from lakehouse_assets_tests.logbook import outcome
from lakehouse_assets_tests.pages.lake import NOW, START, day, drift, extraction, feature, passed, quarantined, ruleset

AT = NOW


def history(*decisions, extractions=(), **changes) -> PageHistory:
    """A history of applied decisions, each with a page."""
    applied = tuple(d if d.applied_at else replace(d, applied_at=AT) for d in decisions)
    without_pages = PageHistory("readings", applied, tuple(extractions), json.loads(ruleset()), **changes)
    return replace(without_pages, pages=frozenset(w.name for w in without_pages.windows))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "published"),
        ({"verdict": "published_with_warnings"}, "warned"),
        ({"counts": Counts(3, 2, 0, 1, 0)}, "partly"),
        ({"verdict": "quarantined", "counts": Counts(3, 0, 0, 3, 0)}, "quarantined"),
        ({"verdict": "discarded"}, "discarded"),
        ({"verdict": "later"}, "unknown"),
        ({"applied_at": None}, "waiting"),
        ({"superseded_by": "x", "counts": Counts(3, 0, 3, 0, 0)}, "discarded"),
    ],
)
def test_a_decision_gives_its_window_a_state(changes, state):
    assert state_of(replace(passed(1), **{"applied_at": AT, **changes})) == state


def test_windows_that_are_missing_or_only_extracted_are_in_the_timeline():
    shown = history(passed(1), passed(3), extractions=[extraction(n) for n in (1, 3, 4)])
    assert [(w.name[-2:], w.state) for w in shown.timeline] == [
        ("01", "published"),
        ("02", "missing"),
        ("03", "published"),
        ("04", "waiting"),
    ]
    redelivered = history(passed(1), extractions=[extraction(1), extraction(1, extraction_seq=2)])
    assert [w.state for w in redelivered.windows] == ["waiting"]


def test_tables_that_need_a_person_come_first():
    def table(name: str, *decisions) -> dict:
        return {**overview.summary(history(*decisions)), "table": name}

    late = table("late", passed(1))
    good = table("good", passed(1), passed(2))
    bad = table("bad", passed(1), quarantined(2))
    shown = overview.overview([good, late, bad], {}, day(4) + timedelta(hours=1))
    assert [(row["table"], row["late"]) for row in shown["rows"]] == [("bad", 0), ("late", 1), ("good", 0)]
    assert [(row["table"], row["missing"]) for row in shown["rows"]] == [("bad", 1), ("late", 2), ("good", 1)]
    assert (shown["windows_in_quarantine"], shown["rows_in_quarantine"], shown["late"]) == (1, 24, 1)
    assert bad["drift"][2:] == [0.004, "value is 3 kPa higher at a"] and bad["quarantined"][0][0] == "2024-01-02"
    stopped = overview.overview([good, late], {"silver/good": ["stopped", "2024-01-01", "x.html"]}, day(3))
    assert [row["table"] for row in stopped["rows"]] == ["good", "late"]


@pytest.mark.parametrize(
    ("cadence", "newest", "end", "now", "began", "missing", "late"),
    [
        ("daily", "2024-01-01", None, "2024-01-04", None, 2, 0),
        ("daily", "2024-01-01", None, "2024-01-02T23:59", None, 0, 0),
        ("daily", "2024-01-01", "2024-01-03", "2025-01-01", None, 1, 1),
        ("hourly", "2024-01-01", None, "2024-01-01T05:30", None, 4, 3),
        ("weekly", "2024-01-01", None, "2024-01-22", None, 2, 0),
        ("monthly", "2024-01-01", None, "2024-04-15", None, 2, 1),
        # Windows that ended before the first ingestion are no more late than in `heal status`.
        ("daily", "2024-01-01", None, "2024-01-08", "2024-01-05", 6, 2),
        ("daily", "2024-01-01", None, "2024-01-08", "2024-02-05", 6, 0),
        (None, "2024-01-01", None, "2024-04-15", None, 0, 0),
        ("daily", None, None, "2024-04-15", None, 0, 0),
    ],
)
def test_closed_windows_after_the_newest_are_missing_and_late_when_they_are_old(
    cadence, newest, end, now, began, missing, late
):
    row = {"cadence": cadence, "newest_start": newest, "end": end, "began": began, "missing": 0}
    row |= {name: f"{row[name]}T00:00:00+00:00" for name in ("newest_start", "end", "began") if row[name]}
    moment = datetime.fromisoformat(now).replace(tzinfo=NOW.tzinfo)
    assert overview.missing_windows(row, moment) == {"missing": missing, "late": late}
    assert overview.missing_windows(row | {"missing": 2}, moment) == {"missing": missing + 2, "late": late + 2}


def test_the_overview_counts_the_missing_and_late_windows_that_heal_status_lists():
    extractions = [extraction(n) for n in (1, 2, 4)]
    shown = overview.overview([overview.summary(history(passed(1), passed(2), extractions=extractions))], {}, day(9))
    facts = [
        WindowFacts(
            window=window_at(day(n), "daily"),
            first_extracted_at=day(n + 1) if n in (1, 2, 4) else None,
            has_arrived=n in (1, 2, 4),
            is_fresh=n in (1, 2, 4),
        )
        for n in range(1, 9)
    ]
    statuses = window_statuses(facts, day(9), retries=2)
    assert shown["missing"] == sum("missing" in status.states for status in statuses) == 5
    assert shown["missing_after"] == 4
    assert shown["rows"][0]["late"] == sum({"missing", "late"} <= {*status.states} for status in statuses) == 3


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (1200, "rows", "1,200"),
        (0.5, "share_passed", "50 %"),
        (None, "x", "none"),
        (True, "x", "true"),
        (0.123456, "x", "0.1235"),
        (list("abcdef"), "x", "a, b, c, d, e …"),
        ({"group": "JFK", "rows": 1200, "sum": None}, "x", "group JFK, rows 1,200"),
        ([{"id": 1, "n": 3}, {"id": 2}], "x", "id 1, n 3; id 2"),
        (dict.fromkeys("abcdef", 1), "x", "a 1, b 1, c 1, d 1, e 1 …"),
        ("x" * 300, "x", "x" * 199 + "…"),
    ],
)
def test_figures_are_short(value, name, text):
    assert window_view.figure(value, name) == text


def test_figures_of_a_schema_check_do_not_repeat_the_differences_of_its_message():
    difference = Difference("note", "", "string", "quarantined", "declare it", "new", "note")
    observed = schema_outcome("new_columns", [difference], "an undeclared column: note").observed
    assert window_view.figures(observed) == "rejected: false"


def test_commands_are_quoted_for_a_shell_and_only_where_something_is_in_quarantine():
    bad = quarantined(1)
    shown = history(bad)
    commands = dict(window_view.commands(replace(shown, table="a; rm -rf /"), shown.windows[0]))
    assert commands["See the quarantined rows"] == "lakehouse quarantine show 'a; rm -rf /' --window 2024-01-01"
    assert window_view.commands(shown, history(passed(1)).windows[0]) == []


def test_no_release_is_proposed_where_no_override_is_accepted():
    unread = quarantined(1, checks=(outcome("readable_row", status="failed", effect="rows", failed_rows=1),))
    shown = history(unread)
    names = [sentence for sentence, _ in window_view.commands(shown, shown.windows[0])]
    assert names == [
        "See the quarantined rows",
        "The rules have changed: judge it again",
        "The data is worthless: discard it",
    ]


@pytest.mark.parametrize(
    ("start", "cadence", "seq", "file"),
    [
        (day(1), "daily", 1, "2024-01-01.html"),
        (day(1).replace(hour=5), "hourly", 1, "2024-01-01-05-00.html"),
        (day(1).replace(second=5), None, 1, "2024-01-01-00-00-05-000000.html"),
        (None, None, 3, "version-3.html"),
    ],
)
def test_a_window_has_a_file_of_its_own(start, cadence, seq, file):
    assert window_file(window_name(start, cadence, seq)) == file
    assert page_url("http://h/pages/", window_path("a b", window_name(start, cadence, seq))).endswith(f"/windows/{file}")


def test_charts_have_one_value_a_window_and_no_tag_that_plotly_reads():
    failed = outcome("<b>x", status="failed", effect="rows", failed_rows=6)
    shown = history(passed(1), passed(2, checks=(failed,)), quarantined(3))
    assert [trace["y"] for trace in charts.rows_chart(shown)["data"]] == [[24, 24, 0], [0, 0, 24]]
    assert [(t["name"], t["y"]) for t in charts.failing_chart(shown)["data"]] == [
        ("drift", [None, None, 1.0]),
        ("&lt;b&gt;x", [None, 0.25, None]),
    ]
    assert charts.p_value_chart(shown)["data"][0]["y"] == [0.5, 0.5, 0.004]
    (name, chart), *_ = charts.feature_charts(shown)
    assert name == "value · a" and chart["data"][2]["y"] == [3.0, 3.0, 3.0]
    assert charts.missing_chart(history(passed(1, drift=None))) is None
    assert "<" not in figure_json({"a": "</script>"}) and json.loads(figure_json({"a": "</script>"})) == {"a": "</script>"}


def test_the_band_of_a_feature_follows_its_season():
    """A decision from before seasons were known has no usual shift, and its band stays where it was."""
    sunday = passed(2)
    results = [{**each, "usual_shift": 1.5} for each in (sunday.drift or {})["results"]]
    shown = history(passed(1), passed(2, drift={**(sunday.drift or {}), "results": results}))
    (_, chart), *_ = charts.feature_charts(shown)
    lower, upper = chart["data"][:2]
    assert [trace["y"][1] - trace["y"][0] for trace in (lower, upper)] == [1.5, 1.5]
    assert upper["name"] == "baseline of the season, middle half"
    (_, plain), *_ = charts.feature_charts(history(passed(1)))
    assert plain["data"][1]["name"] == "baseline, middle half"


def test_what_is_not_watched_is_a_line_of_its_own_and_no_reason_of_a_window():
    shown = history(quarantined(1, "readings", "value is higher; not watched: restless at <b>, whose windows differ"))
    (window,) = shown.windows
    assert why(window) == "drift: value is higher"
    values = window_view.window_view(shown, window, None, (None, None))
    assert [each["message"] for each in values["bad"]] == ["value is higher"]
    assert (values["drift"]["message"], values["drift"]["unwatched"]) == (
        "value is higher",
        "restless at <b>, whose windows differ",
    )
    page = render("window", "../../../", values).decode()
    assert "<p>Not watched: restless at &lt;b&gt;, whose windows differ.</p>" in page


def test_the_levels_of_a_stream_are_lines():
    levels = {"hold_at": 1e-4, "warn_at": 1e-3, "windows_per_week": 9999.0}
    later, fixed = passed(2), charts.p_value_chart(history(passed(1)))
    later = replace(later, drift={**(later.drift or {}), "levels": levels})
    stream = charts.p_value_chart(history(passed(1), later))
    assert [(line["name"], line["role"], line["y"]) for line in stream["data"][1:]] == [
        ("warn_at", "warned", [None, 0.001]),
        ("hold_at", "quarantined", [None, 0.0001]),
    ]
    assert stream["layout"]["levels"] == []
    assert len(fixed["data"]) == 1


def test_changes_of_columns_and_rules_are_marks():
    records = [extraction(1), extraction(2, columns=("id", "value", "new"))]
    shown = history(passed(1), passed(2, ruleset_hash="other"), extractions=records)
    assert charts.schema_marks(shown) == [("2024-01-02", "new column new; column name is gone; the rules changed")]


def test_the_rows_that_drift_named_are_no_changed_rules():
    rules = ruleset()
    ones_hash = undivided_hash(rules)
    divided = f'{rules[:-1]},"drift_rows":{{}}}}'
    before, after = passed(1, ruleset_hash=ones_hash), passed(2, rules=divided, ruleset_hash="other")
    assert charts.schema_marks(history(before, after)) == []


def test_a_day_has_the_worst_state_of_its_windows():
    states = [
        WindowState(f"h{hour}", day(1).replace(hour=hour), state) for hour, state in enumerate(["published", "quarantined"])
    ]
    (year,) = calendar_years(states)
    assert [(cell["state"], cell["week"], cell["weekday"]) for cell in year["cells"]] == [("quarantined", 1, 1)]


def test_rows_of_the_stratum_that_drifted_come_first():
    spec = masking.Mask().spec(passed(1))
    rows = [{"reasons": "drift", "_source_file": "f", "id": id, "value": "1", "name": "n"} for id in "cab"]
    sample = choose_rows(rows, spec, {"feature": "value", "stratum": "b"})
    assert sample.header == ("_source_file", "id", "value", "name") and [row[1] for row in sample.rows] == ["b", "a", "c"]
    assert (sample.marked, sample.cause, sample.files) == (1, "id b, whose value drifted most", {"f": 3})


def test_rules_that_cannot_be_read_hide_every_text():
    mask = masking.Mask(frozenset({"name"}))
    bad = quarantined(
        1,
        rules='{"name": "readings", "checks": [{"check": "of the future"}]}',
        checks=(outcome("x", message="Ann", observed={"a": "Ann", "n": 1}),),
    )
    shown = mask.apply(bad)
    assert "Ann" not in str(shown.checks) and shown.checks[0]["observed"]["n"] == 1
    assert shown.drift["message"] == "(masked: pii)" and shown.drift["results"][0]["quantiles"] is None


def test_extremes_and_strata_of_a_personal_column_are_in_no_page():
    """Also those of a decision from before the column was personal."""
    before = passed(1)
    results = [{**each, "figures": {"high": [40.0, 98765.0]}, "usual_shift": 43.0} for each in (before.drift or {})["results"]]
    verdict = {**(before.drift or {}), "results": results, "absent": [["value", "Ann"]], "unwatched": [["value", "Ann"]]}
    verdict["statistics"] = [["value", "Ann", {"ks": 0.5}]]
    shown = masking.Mask(frozenset({"value"})).apply(passed(1, drift=verdict))
    assert shown.drift is not None
    assert not [text for text in ("Ann", "98765", "43.0") if text in json.dumps(shown.drift)]


def test_the_rows_that_drifted_are_named_and_hidden_where_they_are_personal():
    part = {"conditions": [["site", "<b>\n"], ["kind", "day"]], "rows": 24, "of_rows": 72}
    excess = {"rows": 180, "usual": 20.0, "low": 101.2, "high": 101.4, "category": None, "precision": 0.888}
    verdict = drift([feature(stratum=None, slice=part, excess=excess)], "value is higher")
    assert window_view._drift_values(verdict)["rows"] == [
        'site = "<b>\\n" and kind = day: 24 of 72 rows',
        "between 101.2 and 101.4: 180 rows where 20 are usual; 89% of them too many",
    ]
    assert window_view._drift_values(drift([feature()]))["rows"] == []
    named = {"condition": {"low": 98765.0}, "rest": "98765"}
    of_drift = outcome(
        "drift", kind="drift", status="failed", effect="batch", message="98765", observed={"named_rows": "98765"}
    )
    of_rows = outcome("drift_rows", kind="drift_rows", status="failed", effect="rows", message="98765")
    before = passed(1, drift={**verdict, "named_rows": named}, checks=(of_drift, of_rows))
    hidden = masking.Mask(frozenset({"value"})).apply(before)
    assert hidden.drift is not None
    assert window_view._drift_values(hidden.drift)["rows"] == []
    assert "98765" not in json.dumps([hidden.drift, hidden.checks])


def test_fragments_are_escaped():
    html = str(fragments.passed_rows([("<b>", "p", "<i>", "<u>")], "../")) + str(
        fragments.feature_rows([feature("<b>", "<i>", unit="<u>", changed=["<s>"], quantiles=None)])
    )
    assert not any(f"<{tag}>" in html for tag in "bius") and "&lt;s&gt;" in html
    assert "NaN" not in str(fragments.feature_rows([feature(p_value=None, quantiles=["NaN"] * 5)]))


def test_lineage_reads_the_sql_of_a_gold_rule_set():
    query = read_gold(
        "SELECT id, max(value) AS most FROM silver_readings GROUP BY id",
        "g",
        {"silver_readings": {"id": "string", "value": "double"}},
    )
    assert query.lineage["most"] == {("silver_readings", "value")}


def test_a_drift_that_is_like_before_has_no_marks():
    values = window_view._drift_values(drift([feature(p_value=0.2), feature(stratum="b", p_value=0.001)]))
    assert [f["stratum"] for f in values["results"]] == ["b", "a"]
    assert str(fragments.feature_rows(values["results"])).count('class="marked"') == 1


@pytest.mark.parametrize(
    ("cadence", "moments", "gaps"),
    [
        ("hourly", [START + timedelta(hours=n) for n in (0, 1, 8, 10)], [START + timedelta(hours=n) for n in (7, 9)]),
        ("daily", [day(n) for n in (1, 2, 9, 11)], [day(8), day(10)]),
        (
            "monthly",
            [datetime(2024, n, 1, tzinfo=UTC) for n in (1, 9)],
            [datetime(2024, n, 1, tzinfo=UTC) for n in range(2, 9)],
        ),
    ],
)
def test_gaps_are_looked_for_among_the_newest_windows(monkeypatch, cadence, moments, gaps):
    """Months are few: all of them are compared."""
    monkeypatch.setattr(history_module, "MOST_MISSING", 4)
    rules = json.loads(ruleset(extraction={"cadence": cadence, "start": "2024-01-01", "mode": "upsert"}))
    decisions = tuple(passed(number, p_extracted_at=start) for number, start in enumerate(moments, 1))
    assert [window.start for window in PageHistory("readings", decisions, rules=rules).missing] == gaps
