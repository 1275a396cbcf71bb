"""The quality pages of made-up lakes: what they show, what they hide, and what is made again.

Belongs here: whole sites from real logs, without a JVM. Does not: single functions (test_views), a browser (browser/).
"""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.errors import EnvironmentMissing, LockedError, RefusedError
from lakehouse_assets.pages.folder import hold_folder
from lakehouse_assets.pages.names import check_path, slug, table_path
from lakehouse_assets.pages.reading import LogSnapshot
from lakehouse_assets.pages.site import make_site
from lakehouse_assets.storage import audit_log, log_rows, logs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.audited import firms
from lakehouse_assets_tests.logbook import outcome
from lakehouse_assets_tests.pages.lake import (
    NOW,
    day,
    drift,
    extraction,
    feature,
    files_of,
    page,
    passed,
    quarantine_gold_rows,
    quarantine_rows,
    quarantined,
    ruleset,
    write,
)  # fmt: skip

SCRIPT = "<script>alert('x')</script> [a](javascript:b) **c**"
SECRET = "Ann Personal"
ROWS = [{"id": "a", "value": "9", "name": "x"}, {"id": "b", "value": "1", "name": "y"}]


def make(settings, **options):
    return make_site(settings, clock=lambda: NOW, **options)


def windows_page(number: int) -> str:
    return f"tables/readings/windows/2024-01-{number:02}.html"


def test_from_the_overview_to_the_rows_and_the_file_that_quarantined_a_window(settings):
    fault = quarantined(3)
    write(settings, [passed(1), passed(2), fault])
    quarantine_rows(settings, fault, ROWS)
    report = make(settings)
    assert (report.tables, report.refreshed, report.notes) == (1, 1, ())
    overview = page(settings, "index.html")
    assert f'href="{windows_page(3)}"' in overview and "value is 3 kPa higher at a" in overview
    assert overview.index("readings") and f'href="{table_path("readings")}"' in overview
    window = page(settings, windows_page(3))
    for text in ("readings/2024-01-03.csv", "readings/day.csv", "value is 3 kPa higher at a", "id a, whose value drifted most"):
        assert text in window, text
    assert "lakehouse quarantine release readings --window 2024-01-03 --override drift" in window
    assert "lakehouse run --table readings --window 2024-01-03 --rejudge" in window
    assert window.count('<tr class="marked"><td>') == 1
    check = page(settings, check_path("readings", "in_range_value"))
    assert "value between 0" in check and "has never failed" in check
    assert "33 of" not in check and (settings.site / "assets/plotly.min.js").stat().st_size > 1_000_000


def test_the_tile_of_missing_windows_names_those_after_the_newest_and_which_tables_it_counts(settings):
    write(settings, [passed(1), passed(3)])
    make_site(settings, clock=lambda: day(3) + timedelta(days=1))
    tile = "</b> missing window<small>only tables that ever ran</small>"
    assert f"<b>1{tile}" in page(settings, "index.html")
    make_site(settings, clock=lambda: day(3) + timedelta(days=3))
    tile = "</b> missing windows<small>2 after a table's newest; only tables that ever ran</small>"
    assert f"<b>3{tile}" in page(settings, "index.html")


def test_what_is_the_same_is_not_written_again_and_one_new_window_changes_its_table_alone(settings):
    write(settings, [passed(1), passed(2)])
    write(settings, [passed(1, "other")])
    make(settings)
    before = files_of(settings.site)
    assert make(settings).written == 1  # the overview, which has its time
    assert files_of(settings.site) == before
    write(settings, [passed(3)])
    report = make(settings)
    after = files_of(settings.site)
    assert report.refreshed == 1 and {path for path in after if after[path] != before.get(path)} >= {
        windows_page(3),
        windows_page(2),
    }
    assert windows_page(1) in before and after[windows_page(1)] == before[windows_page(1)]
    assert all(after[path] == content for path, content in before.items() if "tables/other" in path)


def test_a_making_that_stops_half_way_goes_on_and_ends_with_the_same_files(settings, tmp_path):
    for number in range(4):
        write(settings, [passed(1, f"table_{number}")])
    report = make(settings, seconds=-1.0)
    assert (report.refreshed, report.waiting) == (0, 4) and "4 tables are not up to date" in page(settings, "index.html")
    make(settings)
    halves = files_of(settings.site)
    other = settings.model_copy(update={"quality_pages": tmp_path / "other"})
    make(other)
    assert files_of(other.site) == halves


def test_nothing_outside_the_folder_is_written(settings):
    fault = quarantined(1)
    write(settings, [fault])
    quarantine_rows(settings, fault, ROWS)
    settings = settings.model_copy(update={"quality_pages": settings.dagster_home / "pages"})
    before = {f: f.stat().st_mtime_ns for f in settings.dagster_home.rglob("*") if f.is_file()}
    make(settings)
    after = {
        f: f.stat().st_mtime_ns for f in settings.dagster_home.rglob("*") if f.is_file() and settings.site not in f.parents
    }
    assert after == before


def test_scripts_and_markdown_in_data_names_files_and_messages_are_text(settings):
    rules = ruleset(SCRIPT, columns={"id": {"type": "string"}, SCRIPT: {"type": "double"}}, checks=[], drift=None)
    bad = outcome(SCRIPT, kind=SCRIPT, status="failed", effect="batch", message=SCRIPT, observed={SCRIPT: SCRIPT})
    evidence = drift([feature(SCRIPT, SCRIPT, unit=SCRIPT, changed=[SCRIPT])], SCRIPT)
    fault = quarantined(1, SCRIPT, rules=rules, checks=(bad,), drift=evidence, by=SCRIPT, because=SCRIPT, run_id=SCRIPT)
    again = replace(fault, number=2, verdict="published", evolved={SCRIPT: "string"}, counts=Counts(24, 20, 0, 4, 0))
    logs.record_extractions(settings, [extraction(1, SCRIPT, columns=(SCRIPT,), fingerprint=SCRIPT)])
    logbook.write(settings, [fault, again])
    make(settings)
    pages = list(settings.site.rglob("*.html"))
    assert len(pages) >= 4
    for file in pages:
        text = file.read_text()
        assert "<script>alert" not in text and "javascript:b) " not in text.replace("[a](javascript:b) **c**", "")
        assert 'href="javascript' not in text
        assert "&lt;script&gt;alert" in text or file.name == "index.html"
    window = next(file for file in pages if "windows" in file.parts).read_text()
    assert window.count("&lt;script&gt;") > 5


def test_personal_values_are_on_no_page_also_of_a_column_that_was_marked_later(settings):
    open_rules, marked = (
        ruleset(columns={**COLUMNS, "name": {"type": "string", "pii": pii}}, checks=CHECKS) for pii in (False, True)
    )
    bad = outcome(
        "in_set_name", kind="in_set", status="error", effect="batch", message=f"Error: {SECRET}", observed={"worst": SECRET}
    )
    evidence = drift(
        [feature("value"), feature("name", quantiles=None, changed=[SECRET], new=[SECRET])], f"{SECRET} is new", 0.001
    )
    on = {
        "checks": (bad, outcome("drift", kind="drift", status="failed", effect="batch", message=f"{SECRET} is new")),
        "drift": evidence,
    }
    first = quarantined(1, rules=open_rules, **on)
    write(settings, [first, passed(2, rules=marked)])
    quarantine_rows(settings, first, [{"id": "a", "value": "1", "name": SECRET}])
    make(settings)
    for path, content in files_of(settings.site).items():
        assert SECRET.encode() not in content, path
    assert SECRET not in page(settings, "index.html") and SECRET not in (settings.site / "manifest.json").read_text()
    assert "(masked: pii)" in page(settings, windows_page(1))


def test_the_audits_are_made_again_where_a_column_is_marked(settings, tmp_path):
    folder = tmp_path / "tables" / "readings"
    folder.mkdir(parents=True)
    settings = settings.model_copy(update={"tables": tmp_path / "tables", "project": tmp_path})
    write(settings, [passed(1)])
    audit_log.append_audit(settings, firms(table="silver/readings", results=(), error_message=f"Error: {SECRET}"))
    for pii in (False, True, True):
        columns = {**COLUMNS, "name": {"type": "string", "pii": pii}}
        declared = ruleset(columns=columns).replace("null", "[]")
        (folder / "defs.yaml").write_text(f"type: lakehouse_assets.LakehouseTable\nattributes: {declared}\n")
        report = make(settings)
        assert any(SECRET.encode() in content for content in files_of(settings.site).values()) == (not pii)
    assert report.written == 1, "the overview, which has its time"


READS_NAMES, READS_PLACES = "select id, name as who from silver_readings", "select id, value from silver_places"


@pytest.mark.parametrize(
    ("sqls", "has_personal", "is_shown"),
    [
        ([READS_PLACES], True, True),
        ([READS_NAMES], True, False),
        ([READS_NAMES], False, True),
        ([READS_NAMES, READS_PLACES], True, False),  # the audit may be of the first version
        ([None], True, False),
        ([None], False, True),
    ],
)
def test_an_audit_of_gold_quotes_nothing_unless_none_of_its_sql_reads_a_personal_table(settings, sqls, has_personal, is_shown):
    columns = {**COLUMNS, "name": {"type": "string", "pii": has_personal}}
    write(settings, [passed(1, rules=ruleset(columns=columns, checks=[], drift=None))])
    logbook.write(settings, gold_versions(sqls))
    audit_log.append_audit(settings, firms(table="gold/daily", stage="gold", results=(), error_message=f"Error: {SECRET}"))
    assert make(settings).notes == ()
    assert any(SECRET.encode() in content for content in files_of(settings.site).values()) == is_shown


def test_an_audit_of_gold_whose_rules_cannot_be_read_quotes_nothing(settings, monkeypatch):
    write(settings, [passed(1)])
    logbook.write(settings, gold_versions([READS_PLACES]))
    audit_log.append_audit(settings, firms(table="gold/daily", stage="gold", results=(), error_message=f"Error: {SECRET}"))
    read = LogSnapshot.rulesets

    def fail_for_gold(snapshot, table):
        if table == "gold_daily":
            raise OSError("throttled")
        return read(snapshot, table)

    monkeypatch.setattr(LogSnapshot, "rulesets", fail_for_gold)
    make(settings)
    assert [path for path, content in files_of(settings.site).items() if SECRET.encode() in content] == []


def gold_versions(sqls, **changes):
    """Return a published version of `gold_daily` for each SQL."""
    rules = [json.dumps({"name": "daily", **({"sql": sql} if sql else {}), "checks": []}) for sql in sqls]
    fields = {"p_extracted_at": None, "drift": None, **changes}
    return [passed(number, "gold_daily", each, **fields) for number, each in enumerate(rules, 1)]


@pytest.mark.parametrize("is_personal", [False, True])
def test_quarantined_rows_of_gold_are_on_the_page_of_their_version_unless_an_input_is_personal(settings, is_personal):
    """Rows of gold are one JSON text each, whose names nobody has declared."""
    columns = {**COLUMNS, "name": {"type": "string", "pii": is_personal}}
    write(settings, [passed(1, rules=ruleset(columns=columns, checks=[], drift=None))])
    rules = json.dumps({"name": "daily", "sql": "select id, value, name as who from silver_readings", "checks": []})
    bad = outcome("in_range_value", status="failed", effect="rows", failed_rows=2, message="2 rows out of range")
    counts = Counts(3, 1, 0, 2, 0)
    fault = passed(1, "gold_daily", rules, p_extracted_at=None, checks=(bad,), drift=None, counts=counts)
    logbook.write(settings, [fault])
    quarantine_gold_rows(settings, fault, [{"id": "a", "value": 99.5, "who": SECRET}, {"id": SCRIPT, "who": None}])
    make(settings)
    text = page(settings, "tables/gold_daily/windows/version-1.html")
    assert ("99.5" in text and SECRET in text and "in_range_value: value out of range" in text) == (not is_personal)
    assert ("its inputs have personal columns" in text) == is_personal
    assert "<script>alert" not in text
    quarantine_gold_rows(settings, fault, ["no names"])
    assert make(settings, windows=9).notes == ()
    assert ("cannot be read just now" in page(settings, "tables/gold_daily/windows/version-1.html")) == (not is_personal)
    if is_personal:
        assert all(SECRET.encode() not in content for content in files_of(settings.site).values())


@pytest.mark.parametrize("earlier", [READS_NAMES, None], ids=["personal", "without SQL"])
def test_rows_of_an_earlier_gold_version_stay_hidden_once_the_sql_reads_no_personal_table(settings, earlier):
    columns = {**COLUMNS, "name": {"type": "string", "pii": True}}
    write(settings, [passed(1, rules=ruleset(columns=columns, checks=[], drift=None)), passed(1, "places")])
    bad = outcome("in_range_value", status="failed", effect="rows", failed_rows=1, message=f"{SECRET} is out of range")
    versions = gold_versions([earlier, READS_PLACES], checks=(bad,), counts=Counts(3, 2, 0, 1, 0))
    logbook.write(settings, versions)
    quarantine_gold_rows(settings, versions[0], [{"id": "a", "who": SECRET}])
    assert make(settings).notes == ()
    assert "its inputs have personal columns" in page(settings, "tables/gold_daily/windows/version-1.html")
    assert [path for path, content in files_of(settings.site).items() if SECRET.encode() in content] == []


COLUMNS = {"id": {"type": "string"}, "value": {"type": "double"}}
CHECKS = [{"check": "in_set", "column": "name", "values": ["x"]}]


def test_without_a_lake_the_error_names_it_and_an_empty_lake_has_a_page(settings, tmp_path):
    with pytest.raises(EnvironmentMissing, match=f"no lake at {settings.root}"):
        make(settings)
    (tmp_path / "lake").mkdir()
    assert make(settings).tables == 0
    assert "Nothing has been judged yet" in page(settings, "index.html")


def test_a_log_of_a_newer_version_is_shown_as_far_as_it_can_be_read(settings):
    write(settings, [passed(1), passed(2, verdict="embargoed")])
    strange = log_rows.decision_row(passed(3)) | {"inputs": "[]"}
    event = log_rows.entry("readings", "archived", decision_id="x", number=4)
    log_rows.DECISIONS.append(settings, [strange, event])
    make(settings)
    table = page(settings, table_path("readings"))
    assert "1 log entries of the kind &#39;archived&#39;" in table and "1 decisions could not be read" in table
    assert "a verdict of a newer version" in page(settings, windows_page(2))
    assert "2024-01-01" in table and "partly unreadable" in page(settings, "index.html")


def test_a_table_that_left_the_yaml_keeps_its_history(settings, tmp_path):
    (tmp_path / "tables" / "readings").mkdir(parents=True)
    defs = f"type: lakehouse_assets.LakehouseTable\nattributes: {ruleset().replace('null', '[]')}\n"
    (tmp_path / "tables" / "readings" / "defs.yaml").write_text(defs)
    settings = settings.model_copy(update={"tables": tmp_path / "tables", "project": tmp_path})
    write(settings, [passed(1)])
    write(settings, [passed(1, "gone")])
    make(settings)
    assert "no longer" in page(settings, "index.html")
    assert "No file of the project declares this table any more" in page(settings, table_path("gone"))
    assert "No file of the project" not in page(settings, table_path("readings"))
    assert "tables/readings/defs.yaml:2" in page(settings, check_path("readings", "in_range_value"))


@pytest.mark.parametrize("name", ["../../etc", "a/b", "CON", "con", "Ü ber", "x" * 300, ".", "", "a\x1b[31m", "\udc80"])
def test_no_name_leaves_the_folder(name):
    plain = slug(name)
    assert plain and len(plain) <= 80 and not set(plain) & set("/\\. ") and plain.isascii() and plain.lower() == plain
    assert plain != "con" and slug(name + "2") != plain


def test_a_table_with_a_name_that_is_no_file_name_has_pages(settings):
    write(settings, [passed(1, "../A b")])
    make(settings)
    assert page(settings, f"{table_path('../A b').removesuffix('index.html')}windows/2024-01-01.html")


def test_a_run_that_writes_meanwhile_changes_nothing_of_what_is_read(settings, monkeypatch):
    from lakehouse_assets.pages import site

    write(settings, [passed(1)])
    make_before = site.read_table

    def read_while_a_run_writes(*arguments):
        write(settings, [passed(2)])
        return make_before(*arguments)

    monkeypatch.setattr(site, "read_table", read_while_a_run_writes)
    make(settings)
    assert not (settings.site / windows_page(2)).exists() and (settings.site / windows_page(1)).exists()
    monkeypatch.undo()
    make(settings)
    assert (settings.site / windows_page(2)).exists()


def test_a_decision_that_is_logged_and_not_applied_is_on_its_way(settings):
    write(settings, [passed(1)], applied=False)
    make(settings)
    assert "not in the tables yet" in page(settings, windows_page(1)) and "not yet" in page(settings, windows_page(1))


def test_only_the_newest_windows_have_pages_and_those_in_quarantine(settings):
    write(settings, [quarantined(1), *[passed(n) for n in range(2, 31)]])
    make(settings, windows=5)
    names = sorted(file.name for file in (settings.site / "tables/readings/windows").iterdir())
    assert names == ["2024-01-01.html", *(f"2024-01-{n}.html" for n in range(26, 31))]
    assert "24 of 30 windows are older" in page(settings, table_path("readings"))
    make(settings, windows=2)
    assert len(list((settings.site / "tables/readings/windows").iterdir())) == 3


def test_a_folder_with_other_files_is_refused_and_so_is_a_second_process(settings):
    write(settings, [passed(1)])
    settings.site.mkdir(parents=True)
    (settings.site / "index.html").write_text("mine")
    with pytest.raises(RefusedError, match="LAKEHOUSE_PAGES"):
        make(settings)
    assert (settings.site / "index.html").read_text() == "mine"
    (settings.site / "index.html").unlink()
    with hold_folder(settings.site, 1), pytest.raises(LockedError, match="another process"):
        make(settings, wait_seconds=0.1)


def test_releases_and_later_extractions_are_on_the_window_they_decide(settings):
    first = quarantined(1)
    released = passed(
        2, p_extracted_at=first.p_extracted_at, kind="released", by="ann", because="checked by hand", waived=("drift",)
    )
    write(settings, [first])
    logbook.write(settings, [released])
    make(settings)
    window = page(settings, windows_page(1))
    assert "ann: checked by hand" in window and "released" in window and "In quarantine" not in window
    assert '<b class="bad">' not in page(settings, "index.html")


def test_the_manifest_names_every_page_and_a_table_that_left_the_log_loses_its_pages(settings, tmp_path):
    write(settings, [passed(1)])
    make(settings)
    state = json.loads((settings.site / "manifest.json").read_text())
    assert set(state["tables"]["readings"]["files"]) == {f for f in files_of(settings.site) if f.startswith("tables/")}
    other = settings.model_copy(update={"root": str(tmp_path / "second")})
    write(other, [passed(1, "new")])
    report = make(other.model_copy(update={"quality_pages": settings.site}))
    assert report.removed == len(state["tables"]["readings"]["files"])
    assert {f.split("/")[1] for f in files_of(settings.site) if f.startswith("tables/")} == {"new"}
