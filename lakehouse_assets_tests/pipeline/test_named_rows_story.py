"""A fault in some rows of a window, with `on_drift: quarantine_rows`: these rows are quarantined, the rest is published.

Belongs here: the whole gate on real Spark and Delta, kills, rebuild, release, replay. Does not: which rows are named
(decisions/drift/test_named_rows).
"""

import json
import random
import shutil

import pytest

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import discard, rejudge, release
from lakehouse_assets.operations.replay import find_other_verdicts, replay
from lakehouse_assets.operations.restore_logs import restore_logs
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.mend import mend
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.queries.row_hashes import compare_row_hashes
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets_tests.pipeline.test_gold import Gold
from lakehouse_assets_tests.support import (
    Killed,
    copy_lake,
    heal,
    lake_settings,
    land,
    readings,
    rows_of,
    runner,
    silver,
    window,
)

LEVELS = {"hold_from": 20, "warn_from": 20, "sketch_k": 256, "lasting_at": 0, "remember": 40, "relations": False}
CITIES = ["Bonn", "Rome", 'O\'slo "x" ${y}']
FAULTY_CITY = CITIES[2]
# One city is 40 too high; a tenth of all rows is at 77; half of the rows of each city are off, by two amounts.
IN_A_SLICE, AT_A_VALUE, EVERYWHERE = 22, 23, 24
HEADER = "city,hour,value,updated"


def cities(**more):
    return readings(
        columns={"city": "string", "hour": "int", "value": "double", "updated": "timestamp"},
        key=["city", "hour"],
        checks=[{"check": "in_range", "column": "value", "min": -1000, "max": 1000}],
        drift={**LEVELS, "features": ["value", "city"], "on_drift": "quarantine_rows", **more},
    )


def rows_of_day(day: int, fault: int | None = None) -> list[tuple[str, int, float]]:
    """City, hour and value. ``fault``: of another day."""
    dice, rows = random.Random(day), []
    for n in range(120):
        city, value, fault_of = CITIES[n % 3], dice.gauss(0, 1), day if fault is None else fault
        if is_faulty(fault_of, city, n):
            value = {IN_A_SLICE: value + 40, AT_A_VALUE: 77.0}.get(fault_of, value * 100)
        rows.append((city, n, round(value, 4)))
    return rows


def is_faulty(day: int, city: str, n: int) -> bool:
    return {IN_A_SLICE: city == FAULTY_CITY, AT_A_VALUE: n % 10 == 0, EVERYWHERE: n % 2 == 0}.get(day, False)


def faulty_rows(day: int) -> set[tuple[str, int]]:
    return {(city, n) for city, n, _ in rows_of_day(day) if is_faulty(day, city, n)}


def arrive(settings, day: int, fault: int | None = None) -> None:
    quoted = [('"' + city.replace('"', '""') + '"', n, value) for city, n, value in rows_of_day(day, fault)]
    land(settings, day, [f"{c},{n},{v},2024-01-{day:02d}T00:00:00Z" for c, n, v in quoted], HEADER)


def quarantined(settings, day: int) -> set[tuple[str, int]]:
    current = decision_of(settings, day).decision_id
    rows = rows_of(settings.path("quarantine", "readings"), ["city", "hour", "decision_id"])
    return {(row["city"], int(row["hour"])) for row in rows if row["decision_id"] == current}


def published(settings, day: int) -> set[tuple[str, int, float]]:
    return {(r["city"], r["hour"], r["value"]) for r in silver(settings) if r["p_extracted_at"] == window(day).start}


def clean_rows(day: int) -> set[tuple[str, int, float]]:
    """Each day has its own rows of the keys, of which the newest day's is in silver: the last day's, for most."""
    return {row for row in rows_of_day(day) if not is_faulty(day, *row[:2])}


def decision_of(settings, day: int):
    """The last one on the window's newest extraction."""
    log = logs.decisions(settings, "readings", evidence=True)
    of_window = [d for d in log if d.p_extracted_at == window(day).start and d.superseded_by is None]
    return max(of_window, key=lambda d: (d.extraction_seq, d.number))


@pytest.fixture(scope="module")
def learnt(spark, tmp_path_factory):
    """The lake before the first fault."""
    settings = lake_settings(tmp_path_factory.mktemp("named_rows") / "learnt")
    for day in range(1, IN_A_SLICE):
        arrive(settings, day)
    heal(spark, settings, range(1, IN_A_SLICE), cities())
    assert {d.verdict for d in logs.decisions(settings, "readings")} <= {"published", "published_with_warnings"}
    return settings


def test_the_named_rows_are_quarantined_and_the_rest_is_published(spark, learnt, tmp_path):
    settings = copy_lake(learnt, tmp_path / "lake")
    for day in (IN_A_SLICE, AT_A_VALUE):
        arrive(settings, day)
    heal(spark, settings, [IN_A_SLICE, AT_A_VALUE], cities())
    for day in (IN_A_SLICE, AT_A_VALUE):
        decision = decision_of(settings, day)
        assert (decision.verdict, [reason.check for reason in decision.reasons]) == ("published_with_warnings", ["drift_rows"])
        assert quarantined(settings, day) == faulty_rows(day)
        assert decision.counts.rows_published + decision.counts.rows_quarantined == decision.counts.rows_in == 120
        assert not decision.teaches
        if day == AT_A_VALUE:
            continue
        again = replay(runner(spark, settings, cities()), decision)
        assert (again.verdict, again.counts, again.reasons) == (decision.verdict, decision.counts, decision.reasons)
        assert json.dumps(again.drift, sort_keys=True) == json.dumps(decision.drift, sort_keys=True)
        assert (again.ruleset_hash, again.teaches) == (decision.ruleset_hash, False)
    # The last day has all keys but those of its faulty rows, which the day before has, or one before that.
    assert published(settings, AT_A_VALUE) == clean_rows(AT_A_VALUE)
    older = {row for row in clean_rows(IN_A_SLICE) if row[:2] in faulty_rows(AT_A_VALUE)}
    assert published(settings, IN_A_SLICE) == older
    assert max(row["value"] for row in silver(settings)) < 10
    history = read_baseline(settings, cities(), logs.decisions(settings, "readings"), 10**6).history
    assert len(history) == IN_A_SLICE - 1
    rebuilt = rebuild(runner(spark, settings, cities()))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)
    released = release(
        runner(spark, settings, cities()), window(AT_A_VALUE).start, None, waived=["drift_rows"], by="ann", because="right"
    )
    assert (released.verdict, released.counts.rows_published) == ("published_with_warnings", 120)
    assert published(settings, AT_A_VALUE) == set(rows_of_day(AT_A_VALUE))


@pytest.mark.exhaustive(seconds=25)
@pytest.mark.parametrize("step", ["rest_measured", "decide_done", "log_done", "quarantine_done", "before_write", "write_done"])
def test_a_kill_changes_nothing(spark, learnt, tmp_path, step):
    wanted, killed = (copy_lake(learnt, tmp_path / name) for name in ("wanted", "killed"))
    for settings in (wanted, killed):
        for day in (IN_A_SLICE, AT_A_VALUE):
            arrive(settings, day)
    heal(spark, wanted, [IN_A_SLICE, AT_A_VALUE], cities())

    def die(at: str) -> None:
        if at == step:
            raise Killed

    run = runner(spark, killed, cities(), die)
    extract(run, [window(IN_A_SLICE), window(AT_A_VALUE)])
    with pytest.raises(Killed):
        publish(run, [window(IN_A_SLICE), window(AT_A_VALUE)])
    heal(spark, killed, [IN_A_SLICE, AT_A_VALUE], cities())
    for day in (IN_A_SLICE, AT_A_VALUE):
        assert quarantined(killed, day) == faulty_rows(day)
        assert published(killed, day) == published(wanted, day)
    ids = [(d.number, d.verdict, d.counts) for d in logs.decisions(wanted, "readings")]
    assert [(d.number, d.verdict, d.counts) for d in logs.decisions(killed, "readings")] == ids


@pytest.mark.exhaustive(seconds=10)
def test_a_rest_that_drifts_is_quarantined_with_the_window(spark, learnt, tmp_path):
    settings = copy_lake(learnt, tmp_path / "lake")
    arrive(settings, EVERYWHERE)
    heal(spark, settings, [EVERYWHERE], cities())
    decision = decision_of(settings, EVERYWHERE)
    assert (decision.verdict, decision.counts.rows_quarantined) == ("quarantined", 120)
    assert [reason.check for reason in decision.reasons] == ["drift"]
    attempt = (decision.drift or {})["named_rows"]
    assert attempt["rest"].startswith("drift: ")
    assert "the rest is not accepted: drift: " in decision.checks[-1]["observed"]["named_rows"]
    assert attempt["condition"]["usual"] <= 0.1 * attempt["condition"]["rows"]
    again = replay(runner(spark, settings, cities()), decision)
    assert (again.verdict, again.counts, again.reasons) == (decision.verdict, decision.counts, decision.reasons)


@pytest.mark.exhaustive(seconds=60)
def test_redeliveries_discards_and_judgements_on_request(spark, learnt, tmp_path):
    settings = copy_lake(learnt, tmp_path / "lake")
    request = {"by": "ann", "because": "so"}
    arrive(settings, IN_A_SLICE)
    heal(spark, settings, [IN_A_SLICE], cities())
    gold, day_of_gold = Gold(spark, settings), "2024-01-22"
    gold.publish()
    assert gold.rows()[day_of_gold] == (80, pytest.approx(sum(row[2] for row in clean_rows(IN_A_SLICE))))
    rejudge(runner(spark, settings, cities()), [window(IN_A_SLICE)], **request)
    assert (decision_of(settings, IN_A_SLICE).kind, quarantined(settings, IN_A_SLICE)) == ("rejudged", faulty_rows(IN_A_SLICE))
    # By rules without the key, it is the whole window.
    rejudge(runner(spark, settings, cities(on_drift="quarantine_window")), [window(IN_A_SLICE)], **request)
    assert decision_of(settings, IN_A_SLICE).verdict == "quarantined"
    rejudge(runner(spark, settings, cities()), [window(IN_A_SLICE)], **request)
    assert published(settings, IN_A_SLICE) == clean_rows(IN_A_SLICE)
    # A second extraction with the same fault keeps the same rows out; a corrected one brings them.
    land(settings, IN_A_SLICE, [*rows_as_text(IN_A_SLICE), '"Bonn",999,0.5,2024-01-22T00:00:00Z'], HEADER)
    heal(spark, settings, [IN_A_SLICE], cities())
    assert (decision_of(settings, IN_A_SLICE).extraction_seq, quarantined(settings, IN_A_SLICE)) == (2, faulty_rows(IN_A_SLICE))
    assert published(settings, IN_A_SLICE) == {*clean_rows(IN_A_SLICE), ("Bonn", 999, 0.5)}
    discard(runner(spark, settings, cities()), window(IN_A_SLICE).start, None, **request)
    assert published(settings, IN_A_SLICE) == {*clean_rows(IN_A_SLICE), ("Bonn", 999, 0.5)}
    arrive(settings, IN_A_SLICE, fault=0)
    heal(spark, settings, [IN_A_SLICE], cities())
    assert published(settings, IN_A_SLICE) == set(rows_of_day(IN_A_SLICE, fault=0))
    gold.publish()
    assert gold.rows()[day_of_gold] == (120, pytest.approx(sum(row[2] for row in rows_of_day(IN_A_SLICE, fault=0))))
    rebuilt = rebuild(runner(spark, settings, cities()))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)
    assert not list(find_other_verdicts(runner(spark, settings, cities()), 10))


MODES = {
    "append": {"key": [], "extraction": {"cadence": "daily", "start": "2024-01-01", "mode": "append"}},
    "snapshot": {"extraction": {"cadence": "daily", "start": "2024-01-01", "mode": "snapshot"}, "supersede": "any"},
    "personal": {
        "checks": [{"check": "in_set", "column": "city", "values": CITIES}],
        "columns": {"hour": {"type": "int", "pii": True}},
    },
    "by": {"drift": {"features": [{"name": "value", "by": "city"}, "city"]}},
}


@pytest.mark.exhaustive(seconds=45)
@pytest.mark.parametrize("mode", MODES)
def test_in_other_tables_each_row_is_published_or_quarantined(spark, settings, mode):
    table = cities()
    more = {**MODES[mode], "columns": {**table.model_dump()["columns"], **MODES[mode].get("columns", {})}}
    more["drift"] = {**LEVELS, "features": ["value", "city"], "on_drift": "quarantine_rows", **MODES[mode].get("drift", {})}
    spec = TableSpec.model_validate({**table.model_dump(by_alias=True, exclude_unset=True), **more})
    for day in range(1, IN_A_SLICE + 1):
        arrive(settings, day)
    heal(spark, settings, range(1, IN_A_SLICE), spec)
    heal(spark, settings, [IN_A_SLICE], spec)
    decision = decision_of(settings, IN_A_SLICE)
    assert (decision.verdict, quarantined(settings, IN_A_SLICE)) == ("published_with_warnings", faulty_rows(IN_A_SLICE))
    assert published(settings, IN_A_SLICE) == clean_rows(IN_A_SLICE)
    # A quarantined row is not absent: the row of its key before stays.
    assert mode == "append" or len(silver(settings)) == 120
    rebuilt = rebuild(runner(spark, settings, spec))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)
    again = replay(runner(spark, settings, spec), decision)
    assert (again.verdict, again.counts, again.reasons) == (decision.verdict, decision.counts, decision.reasons)
    released = release(runner(spark, settings, spec), window(IN_A_SLICE).start, None, waived=["drift"], by="ann", because="so")
    assert released.counts.rows_published == 120
    assert published(settings, IN_A_SLICE) == set(rows_of_day(IN_A_SLICE))


@pytest.mark.exhaustive(seconds=40)
def test_lost_rows_and_logs_of_a_divided_window_are_restored(spark, learnt, tmp_path):
    settings = copy_lake(learnt, tmp_path / "lake")
    for day in (IN_A_SLICE, AT_A_VALUE):
        arrive(settings, day)
    heal(spark, settings, [IN_A_SLICE, AT_A_VALUE], cities())
    run = runner(spark, settings, cities())
    rows, before = rows_of(settings.path("quarantine", "readings")), silver(settings)
    assert not [*findings_of(settings, cities()), *compare_row_hashes(settings, cities(), spark)]
    shutil.rmtree(settings.path("quarantine", "readings"))
    assert findings_of(settings, cities())
    mend(run)
    assert rows_of(settings.path("quarantine", "readings")) == rows
    rules = {d.number: d.ruleset for d in logs.decisions(settings, "readings")}
    shutil.rmtree(settings.path("ops", "decisions"))
    restore_logs(run)
    assert {d.number: d.ruleset for d in logs.decisions(settings, "readings")} == rules
    assert not [*findings_of(settings, cities()), *compare_row_hashes(settings, cities(), spark)]
    assert rebuild(run).lost == 0
    assert silver(settings) == before


def rows_as_text(day: int) -> list[str]:
    quoted = [('"' + city.replace('"', '""') + '"', n, value) for city, n, value in rows_of_day(day)]
    return [f"{c},{n},{v},2024-01-{day:02d}T00:00:00Z" for c, n, v in quoted]
