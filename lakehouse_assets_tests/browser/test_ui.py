"""What Dagster's UI shows after a demo, in a real browser: assets, partitions, checks, automation, a run by hand.

The README's pictures are taken on the way, where LAKEHOUSE_PICTURES names a folder (`python scripts/screenshots.py`).
Belongs here: what a user has to see. Does not: how the UI is driven (`ui`).
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from lakehouse_assets.pages.site import make_site
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.browser.demo import FAULTY, FIRST, ONE_BAD_ROW, dagster_dev, environment, land_weather, run_once
from lakehouse_assets_tests.browser.ui import MISSING, SIZE, Ui, browser
from lakehouse_assets_tests.e2e.weather_oracle import compare_gold, compare_silver

# The demo is set up within the first test's time; beside other work on a small machine it takes minutes.
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
    pytest.mark.timeout(1200),
]

TABLES = ["airlines", "airports", "flights", "planes", "weather"]
DAYS_OF_2013 = 365
TALL = {"width": 1440, "height": 1250}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def settings(home) -> Settings:
    """Settings of the lake behind the UI."""
    return Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")


@pytest.fixture(scope="module")
def landed(home) -> int:
    """The README's pictures show all windows since the beginning of the year."""
    return land_weather(home / "landing", "2013-01-01" if "LAKEHOUSE_PICTURES" in os.environ else FIRST)


@pytest.fixture(scope="module")
def opened(spark, home, landed):
    variables = environment(home)
    run_once(variables)
    pictures = os.environ.get("LAKEHOUSE_PICTURES")
    with dagster_dev(variables, home / "dev.log") as url, browser(url, Path(pictures) if pictures else None) as ui:
        yield ui


@pytest.fixture
def ui(opened, tmp_path) -> Iterator[Ui]:
    """The page, in which the browser may find no error. ``tmp_path``: for the picture of a failure."""
    opened.troubles.clear()
    yield opened
    assert opened.troubles == []


def test_the_lake_behind_the_pages_equals_the_oracle(opened, settings, landed):
    assert compare_silver(settings) > 66 * landed
    compare_gold(settings)


def test_the_graph_has_the_tables_as_groups_and_the_layers_with_their_kinds(ui):
    ui.page.set_viewport_size({"width": 1760, "height": 900})
    ui.open("/asset-groups?expanded=global@global:weather")
    graph = ui.page.locator("svg")
    for table in TABLES:
        ui.shows(table, graph)
    for asset in ("source_weather", "bronze_weather", "silver_weather", "baseline_weather", "gold_daily_weather"):
        ui.shows(asset, graph)
    for kind in ("Source", "Bronze", "Silver", "Gold", "PySpark", "SQL", "delta"):
        ui.shows(kind, graph)
    ui.picture("assets")
    ui.page.set_viewport_size(SIZE)


def test_an_asset_page_shows_its_description(ui):
    ui.open("/assets/silver_weather")
    for text in ("weather", "Silver", "PySpark", "delta", "layer: silver", "heal_windows", "pressure_kpa", "unit: kPa"):
        ui.shows(text)
    ui.page.get_by_text("Hourly readings of the weather stations").first.wait_for()


def test_partitions_show_their_decisions(ui, landed):
    ui.open(f"/assets/silver_weather?view=partitions&partition={ONE_BAD_ROW}")
    for state, count in {"Failed": 0, "Materialized": landed, "Missing": DAYS_OF_2013 - landed}.items():
        ui.shows(f"{state} ({count})")
    ui.shows("published_with_warnings", ui.row("verdict"))
    ui.shows("1", ui.row("rows_quarantined"))
    ui.open(f"/assets/silver_weather?view=partitions&partition={FAULTY[0]}")
    ui.shows("quarantined", ui.row("verdict"))
    for name, rows in {"rows_in": 72, "rows_quarantined": 72, "rows_published": 0}.items():
        ui.shows(str(rows), ui.row(name))
    ui.picture("partitions")


def test_a_window_of_the_drift_check_is_red_and_its_plot_is_drawn(ui):
    ui.open("/assets/silver_weather?view=checks&checkDetail=drift")
    # The first of this name is the asset's.
    ui.page.get_by_role("tab", name="Partitions").nth(1).click()
    for status in ("Passed", "Failed", "Missing"):
        ui.page.get_by_text(re.compile(rf"^{status} ?\([1-9]\d*\)$")).first.wait_for()
    assert {name: ui.state_of_check(name) for name in ("drift", "not_empty")} == {"drift": "Failed", "not_empty": "Succeeded"}
    ui.picture("check_windows")
    ui.partition_of_check(FAULTY[1]).click()
    ui.shows("quarantined", ui.row("verdict"))
    ui.page.get_by_text("kPa higher at LGA").first.wait_for()
    ui.row("plot").get_by_text("Show Markdown").click()
    plot = ui.page.locator("img[src^='data:image/png']").first
    plot.wait_for()
    # `decode` fails for a picture that is broken.
    assert plot.evaluate("img => img.decode().then(() => img.naturalWidth)") > 0
    assert plot.bounding_box()["width"] > 300
    ui.picture("drift_check")
    ui.close_dialog()
    ui.row("what_to_do").get_by_text("Show Markdown").click()
    ui.page.get_by_text(f"lakehouse quarantine release weather --window {FAULTY[1]}").first.wait_for()
    ui.close_dialog()
    ui.partition_of_check(ONE_BAD_ROW).click()
    ui.shows("published_with_warnings", ui.row("verdict"))


def test_the_quality_pages_of_this_lake_lead_to_the_faulty_rows(ui, settings):
    make_site(settings)
    ui.page.goto(f"file://{settings.site}/index.html")
    ui.picture("pages_overview")
    ui.page.get_by_role("link", name="weather", exact=True).click()
    ui.page.locator(".plot[data-drawn]").first.wait_for()
    ui.page.set_viewport_size(TALL)
    ui.picture("pages_table")
    ui.page.locator(".cases").get_by_role("link", name=FAULTY[0]).click()
    assert ui.page.locator("table.rows tr.marked").count() == 24
    ui.picture("pages_window")
    ui.page.set_viewport_size(SIZE)


def test_what_is_in_quarantine_is_a_check_of_its_own(ui):
    ui.open("/assets/silver_weather?view=checks&checkDetail=no_window_quarantined")
    ui.row("rows_quarantined").wait_for()
    text = ui.page.get_by_text("window(s) have rows in quarantine").first.inner_text()
    assert all(day in text for day in (*FAULTY, ONE_BAD_ROW))
    assert ui.state_of_check("no_window_quarantined") == "Failed"


def test_the_sensors_are_on_and_tick_and_the_schedules_are_there(ui):
    ui.open("/automation")
    for sensor in ("watch_sources", "heal_and_follow", "announce_quarantined", "publish_decisions", "retry_failed"):
        ui.switched_on("sensors", sensor).wait_for(state="attached")
    for schedule in ("sweep_staging_schedule", "maintain_weekly"):
        ui.switched_on("schedules", schedule).wait_for(state="attached")
    assert ui.switched_on("schedules", "prove_weather_weekly").count() == 0
    ui.open("/locations/lakehouse_assets/schedules/prove_weather_weekly")
    ui.page.get_by_text("At 04:00 AM UTC, only on Sunday").first.wait_for()
    ui.open("/locations/lakehouse_assets/sensors/watch_sources")
    ui.page.get_by_text("Reports windows that arrived").first.wait_for()
    ui.shows("0 runs requested")


@pytest.mark.exhaustive(seconds=150)
def test_materializing_a_window_by_hand_changes_nothing(ui):
    ui.open("/runs")
    before = ui.runs()
    # Those of the demo, one for each gap and one for gold: with nothing new landed the daemon has asked for nothing.
    assert len(before) == (1 if "LAKEHOUSE_PICTURES" in os.environ else 2) + 1
    window = f"/assets/silver_weather?view=partitions&partition={FAULTY[0]}"
    ui.open(window)
    decision = ui.row("decision_id").inner_text()
    ui.page.get_by_role("button", name="Materialize").first.click()
    ui.page.get_by_role("button", name="Confirm").click()
    ui.page.get_by_role("button", name="Launch 1 run").click()
    ui.open(ui.new_run(before))
    assert ui.end_of_run() == "Success"
    ui.open(window)
    ui.page.get_by_role("button", name="View all historical events (2)").wait_for()
    ui.shows("quarantined", ui.row("verdict"))
    assert ui.row("decision_id").inner_text() == decision


@pytest.mark.exhaustive(seconds=150)
def test_a_job_is_launched_by_hand_and_its_worker_starts_spark(ui):
    config = "ops: {rebuild: {config: {table: weather}}}"
    ui.open(f"/locations/lakehouse_assets/jobs/rebuild_silver/playground/setup?config={quote(config)}")
    ui.page.get_by_role("button", name="Launch Run").click()
    ui.page.wait_for_url("**/runs/*")
    assert ui.end_of_run() == "Success"
    for name in ("gained", "lost"):
        ui.shows("0", ui.row(name))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/assets", "bronze_flights"),  # the list draws what fits the window, in the order of the names
        ("/jobs", "release_quarantine"),
        ("/assets/gold_daily_weather", "gold_follows"),
        ("/assets/source_weather?view=events", FAULTY[-1]),
        ("/assets/baseline_weather?view=partitions", "No partition selected"),
        ("/deployment/locations", "Loaded"),
        ("/deployment/daemons", "Running"),
        ("/overview/activity/timeline", "Timeline"),
    ],
)
def test_other_pages_open_without_an_error(ui, path, text):
    ui.open(path)
    ui.shows(text)
    ui.page.wait_for_load_state("networkidle")
