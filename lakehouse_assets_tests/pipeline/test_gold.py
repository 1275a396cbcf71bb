"""Gold on real Delta: whole, by parts, after a crash; and that the parts give the same table as the whole.

Belongs here: deriving and publishing gold. Does not: reading its SQL (test_bad_gold), or when it runs (automation).
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.pipeline import gate, gold_rows
from lakehouse_assets.pipeline import gold as gold_module
from lakehouse_assets.pipeline.gold import GoldPublished, publish_gold
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.pipeline.silver_write import SILVER_PROPERTIES
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.check_results import find_lagging_tables
from lakehouse_assets.storage.layout import create
from lakehouse_assets.storage.version_marks import log_rebuilt
from lakehouse_assets_tests.chaos.play import points_of
from lakehouse_assets_tests.support import Killed, copy_lake, lake_settings, readings, rows_of

SQL = """
select to_date(updated) as day, count(*) as n, sum(value) as total
from silver_readings group by to_date(updated)
"""
GRAIN = {"column": "day", "inputs": {"silver_readings": "to_date(updated)"}}
READINGS = readings(checks=[])


class Gold:
    """A gold table of one SELECT, published again and again with a clock that ticks."""

    def __init__(self, spark, settings, number: int = 0) -> None:
        self.spark, self.settings, self.number = spark, settings, number
        self.published: GoldPublished | None = None

    def publish(self, sql: str = SQL, step=lambda _: None, **more):
        self.number += 1
        attributes = {"name": "days", "sql": "days.sql", "key": ["day"], "grain": GRAIN, **more}
        run = GoldRun(
            settings=self.settings,
            spec=GoldSpec.model_validate(attributes),
            query=read_gold(sql, "days.sql", silver_schemas([READINGS])),
            session=lambda: self.spark,
            run_id=f"gold-{self.number}",
            clock=lambda: datetime(2024, 7, 1, 0, self.number, tzinfo=UTC),
            step=step,
        )
        self.published = publish_gold(run)
        return self.published.decision

    def rows(self) -> dict[str, tuple]:
        return {str(r["day"]): (r["n"], r["total"]) for r in rows_of(self.settings.path("gold", "days"))}

    def columns(self) -> list[str]:
        return self.spark.read.format("delta").load(self.settings.path("gold", "days")).columns

    def derive_whole(self) -> dict[str, tuple]:
        silver = self.spark.read.format("delta").load(self.settings.path("silver", "readings"))
        silver.createOrReplaceTempView("silver_readings")
        return {str(r["day"]): (r["n"], r["total"]) for r in self.spark.sql(SQL).collect()}

    def change(self, sql: str) -> None:
        """Change silver as a run would have, in one commit."""
        self.spark.sql(sql.format(silver=f"delta.`{self.settings.path('silver', 'readings')}`"))


def create_silver(spark, settings, tens: float = 10) -> None:
    """Three days with two rows each. ``tens``: the value of each day's second row."""
    rows = [(f"{name}{day}", float(day if name == "a" else tens), day) for day in (1, 2, 3) for name in "ab"]
    frame = spark.createDataFrame(rows, "sensor string, value double, day int")
    updated = "make_timestamp(2024, 1, day, 0, 0, 0) as updated"
    create(frame.selectExpr("sensor", "value", updated), settings.path("silver", "readings"), SILVER_PROPERTIES)


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Silver of three days, and gold of it, derived whole. Silver is made and changed by hand, without any decision: gold's
    comparison of its inputs with the logs (test_evidence) would refuse it.
    """
    settings = lake_settings(tmp_path_factory.mktemp("gold") / "lake")
    create_silver(spark, settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gold_module, "refuse_damaged_inputs", lambda *_: None)
        first = Gold(spark, settings).publish()
    assert (first.verdict, first.recomputed) == ("published", None)
    return settings


@pytest.fixture
def gold(spark, template, monkeypatch, tmp_path):
    monkeypatch.setattr(gold_module, "refuse_damaged_inputs", lambda *_: None)
    return Gold(spark, copy_lake(template, tmp_path), number=1)


def test_a_check_in_error_stops_no_other_and_never_passes(gold):
    gold.change("update {silver} set value = 0 where sensor = 'a2'")
    raises = {"check": "expression", "name": "raises", "expr": "100 / (total - 10) > 0", "severity": "warning"}
    divides = {"check": "metric", "name": "divides", "sql": "sum(n) / (sum(n) - sum(n))", "max": 1, "severity": "warning"}
    fine = {"check": "in_range", "column": "n", "max": 2, "name": "fine"}
    decision = gold.publish(checks=[raises, divides, fine])
    outcomes = {o["check"]: (o["status"], o["message"]) for o in decision.checks}
    assert {name: status for name, (status, _) in outcomes.items()} == {"raises": "error", "divides": "error", "fine": "passed"}
    assert "DIVIDE_BY_ZERO" in outcomes["raises"][1]
    assert (decision.verdict, gold.rows()) == ("published_with_warnings", gold.derive_whole())
    quarantined = gold.publish(checks=[{**raises, "severity": "critical"}, fine])
    assert quarantined.verdict == "quarantined"


def test_a_failed_deferred_check_is_recorded(gold):
    gold.change("update {silver} set value = 5 where sensor = 'a2'")
    decision = gold.publish(checks=[{"check": "unique", "columns": ["n"], "severity": "warning"}])
    assert [(o["check"], o["status"]) for o in decision.checks] == [("unique_n", "failed")]
    assert [text.endswith(" rows") for text in decision.checks[0]["observed"]["examples"]] == [True]
    assert decision.verdict == "published_with_warnings"
    result_rows = rows_of(gold.settings.path("ops", "check_results"), ["check", "status"])
    assert result_rows == [{"check": "unique_n", "status": "failed"}]
    delta.remove_folder(gold.settings.path("ops", "check_results"))
    assert find_lagging_tables(gold.settings) == ["gold_days"]


def test_only_the_changed_day_is_derived(gold):
    gold.change("update {silver} set value = 5 where sensor = 'a2'")
    decision = gold.publish()
    assert (decision.recomputed, decision.counts.rows_in) == (("2024-01-02",), 1)
    assert gold.rows() == gold.derive_whole()
    assert gold.rows()["2024-01-02"] == (2, 15.0)
    assert gold.publish().decision_id == decision.decision_id, "nothing new, nothing done"


def test_a_row_that_moves_to_another_day_changes_both_and_a_row_that_goes_its_own(gold):
    gold.change("update {silver} set updated = timestamp'2024-01-03T00:00:00Z' where sensor = 'a1'")
    assert gold.publish().recomputed == ("2024-01-01", "2024-01-03")
    assert gold.rows() == gold.derive_whole()
    gold.change("delete from {silver} where sensor = 'b2'")
    assert gold.publish().recomputed == ("2024-01-02",)
    assert gold.rows() == gold.derive_whole()
    assert gold.rows()["2024-01-02"] == (1, 2.0)


@pytest.mark.exhaustive(seconds=8)
def test_a_day_of_which_nothing_is_left_goes(gold):
    gold.change("delete from {silver} where to_date(updated) = date'2024-01-03'")
    assert gold.publish().recomputed == ("2024-01-03",)
    assert set(gold.rows()) == {"2024-01-01", "2024-01-02"}


@pytest.mark.exhaustive(seconds=10)
def test_rows_without_a_day_are_a_part_of_their_own(gold):
    gold.change("insert into {silver} values ('z', 7, null)")
    assert gold.publish().recomputed == (None,)
    gold.change("update {silver} set value = 8 where sensor = 'z'")
    assert gold.publish().recomputed == (None,)
    assert gold.rows() == gold.derive_whole()
    assert gold.rows()["None"] == (1, 8.0)


def test_a_version_without_a_change_writes_nothing(gold):
    gold.change("optimize {silver}")
    before = gold.rows()
    decision = gold.publish()
    assert (decision.recomputed, decision.verdict, decision.checks) == ((), "published", ())
    assert gold.rows() == before
    assert gold.published.judged.number == decision.number - 1, "what was said of the table as it is"
    assert gold.publish().decision_id == decision.decision_id
    assert gold.published.judged.number == decision.number - 1
    gold.change("update {silver} set value = 9 where sensor = 'a1'")
    assert gold.publish().recomputed == ("2024-01-01",)
    assert gold.rows() == gold.derive_whole()


@pytest.mark.parametrize(
    "why", ["sql", *(pytest.param(why, marks=pytest.mark.exhaustive(seconds=8)) for why in ("grain", "many", "unnamed"))]
)
def test_these_changes_derive_the_whole_table(gold, monkeypatch, why):
    gold.change("update {silver} set value = 9 where sensor = 'a1'")
    gold.change("update {silver} set value = 9 where sensor = 'a2'")
    if why == "many":
        monkeypatch.setattr(gold_rows, "MOST", 1)
    changed = {"sql": SQL.replace("count(*)", "count(sensor)")} if why == "sql" else {}
    if why == "unnamed":
        changed = {"grain": None}
    if why == "grain":
        changed = {"grain": {"column": "day", "inputs": {"silver_readings": "date_trunc('day', updated)"}}}
    assert gold.publish(**changed).recomputed is None
    assert gold.rows() == gold.derive_whole()


def test_rules_that_are_reverted_derive_the_whole_table(gold):
    """The table has the rows of the rules in between, also where no input has changed since."""
    wrong = SQL.replace("count(*)", "2 * count(*)")
    assert gold.publish(sql=wrong).recomputed is None
    assert gold.rows() != gold.derive_whole()
    assert gold.publish().recomputed is None
    assert gold.rows() == gold.derive_whole()


@pytest.mark.exhaustive(seconds=12)
def test_a_quarantined_day_is_derived_later(gold):
    strict = [{"check": "in_range", "column": "total", "max": 100, "on_fail": "quarantine_batch"}]
    assert gold.publish(checks=strict).recomputed is None
    before = gold.rows()
    gold.change("update {silver} set value = 500 where sensor = 'a1'")
    quarantined = gold.publish(checks=strict)
    assert (quarantined.verdict, quarantined.recomputed) == ("quarantined", ("2024-01-01",))
    assert gold.rows() == before
    gold.change("update {silver} set value = 50 where sensor = 'a2'")
    assert gold.publish(checks=strict).verdict == "quarantined", "the first day is still wrong"
    gold.change("update {silver} set value = 5 where sensor = 'a1'")
    mended = gold.publish(checks=strict)
    assert (mended.verdict, mended.recomputed) == ("published", ("2024-01-01", "2024-01-02"))
    assert gold.rows() == gold.derive_whole()


@pytest.mark.exhaustive(seconds=8)
def test_sql_that_breaks_the_grain_is_quarantined(gold):
    wrong = {"column": "day", "inputs": {"silver_readings": "sensor"}}
    gold.publish(grain=wrong)
    before = gold.rows()
    gold.change("update {silver} set value = 9 where sensor = 'a1'")
    decision = gold.publish(grain=wrong)
    assert decision.verdict == "quarantined"
    assert "is `grain.inputs` what the SQL says?" in decision.reasons[0].message
    assert gold.rows() == before


POINTS = points_of(gate.STEPS)
LOGGED = POINTS[POINTS.index("log_done") :]
# In `make test`: after the write. The other steps are left to `make test-all`.
STRUCK = {"write_done"}


@pytest.mark.parametrize(
    "at", [pytest.param(at, marks=[] if at in STRUCK else [pytest.mark.exhaustive(seconds=15)]) for at in POINTS]
)
def test_the_next_run_completes_a_crashed_one(gold, at):
    gold.change("update {silver} set value = 9 where sensor = 'a1'")

    def stop(step: str) -> None:
        if step == at:
            raise Killed

    with pytest.raises(Killed):
        gold.publish(step=stop)
    gold.change("update {silver} set value = 9 where sensor = 'a2'")
    # A decision that was logged is completed first; without one, both days are still to do.
    assert gold.publish().recomputed == (("2024-01-02",) if at in LOGGED else ("2024-01-01", "2024-01-02"))
    assert gold.rows() == gold.derive_whole()


@pytest.mark.parametrize("at", [None, pytest.param("log_done", marks=pytest.mark.exhaustive(seconds=8))])
def test_another_table_at_the_same_version_is_other_rows(gold, at):
    """A lost silver that was made anew. If a run was killed, its decision is on rows that nobody has any more."""

    def stop(step: str) -> None:
        if step == at:
            raise Killed

    if at:
        gold.change("update {silver} set value = 9 where sensor = 'a1'")
        with pytest.raises(Killed):
            gold.publish(step=stop)
    path = gold.settings.path("silver", "readings")
    version = delta.version(path)
    delta.remove_folder(path)
    create_silver(gold.spark, gold.settings, tens=20)
    while delta.version(path) < version:
        gold.change("update {silver} set value = 8 where sensor = 'a2'")
    decision = gold.publish()
    assert (decision.inputs, decision.recomputed) == ({"silver_readings": version}, None)
    assert gold.rows() == gold.derive_whole()
    assert [d.number for d in logs.decisions(gold.settings, "gold_days") if d.applied_at is None] == ([2] if at else [])
    assert gold.publish().decision_id == decision.decision_id


@pytest.mark.parametrize("at", ["write_done", "log_done"])
def test_a_decision_whose_rules_the_project_no_longer_has_is_made_anew(gold, at):
    """A run with other columns was killed before the mark, after or before the write, and the project's own kind of check was
    removed.
    """

    def stop(step: str) -> None:
        if step == at:
            raise Killed

    with pytest.raises(Killed):
        gold.publish(sql=SQL.replace("count(*) as n", "'two' as n, count(*) as more"), step=stop)
    path = gold.settings.path("ops", "decisions")
    change = """update delta.`{}` set ruleset = replace(ruleset, '"checks": []', '"checks": [{{"check": "removed"}}]')"""
    gold.spark.sql(change.format(path))
    decision = gold.publish()
    assert (decision.number, decision.recomputed) == (3, None), "the killed run's rows are replaced, too"
    assert decision.accepted
    assert gold.rows() == gold.derive_whole()
    assert gold.publish().decision_id == decision.decision_id


def test_a_decision_of_an_earlier_release_does_not_say_which_tables_it_read(gold):
    """Its versions count, unless silver was rebuilt since."""
    (first,) = logs.decisions(gold.settings, "gold_days", evidence=True)
    delta.remove_folder(gold.settings.path("ops", "decisions"))
    logs.log_decisions(gold.settings, [replace(first, input_tables={})])
    logs.mark_applied(gold.settings, [first], first.silver_version, first.applied_at)
    assert gold.publish().number == 1
    log_rebuilt(gold.settings, "readings", "a-rebuild", datetime(2024, 7, 1, 0, gold.number, tzinfo=UTC))
    again = gold.publish()
    assert (again.number, again.recomputed) == (2, None)
    assert gold.publish().number == 2


def test_gold_checks_its_key_and_other_tables(gold):
    decision = gold.publish(sql="select to_date(updated) as day, value as total, 1 as n from silver_readings", grain=None)
    assert decision.verdict == "quarantined"
    assert "key(s) (day) with more than one row" in decision.reasons[0].message
    by = {"day": "to_date(updated)"}
    check = {"check": "reconcile", "measure": "sum(n)", "table": "readings", "against": "count(*)", "by": by}
    assert gold.publish(checks=[check]).verdict == "published"
    lacking = SQL.replace("group by", "where value <> 10 group by")
    gold_decision = gold.publish(sql=lacking, checks=[check])
    assert gold_decision.verdict == "quarantined"
    assert "3 of 3 group(s): sum(n) is not count(*) of readings" in gold_decision.reasons[0].message


def test_two_rows_of_a_key_that_differ_by_microseconds_contradict_each_other(gold):
    moments = [f"timestamp'2024-01-01 00:00:00.123{micros}'" for micros in (456, 789)]
    both = " union all ".join(f"select 'all' as day, {moment} as at" for moment in moments)
    sql = f"with two as ({both}) select day, at, count(sensor) as n from two cross join silver_readings group by day, at"
    decision = gold.publish(sql=sql, grain=None)
    assert decision.verdict == "quarantined" and "key(s) (day) with more than one row" in decision.reasons[0].message


def test_a_star_selects_the_columns_of_the_contract(gold):
    gold.change("alter table {silver} add columns (p_extracted_at timestamp, extraction_seq int, _content_hash string)")
    sql = "select * except (p_extracted_at) from silver_readings"
    assert gold.publish(sql=sql, key=["sensor"], grain=None).verdict == "published"
    assert gold.columns() == ["sensor", "value", "updated"]


@pytest.mark.exhaustive(seconds=8)
def test_a_date_that_no_light_reader_can_open_quarantines_gold(gold):
    before = gold.rows()
    select = "select to_date(updated) as day, count(*) as n, sum(value) as total, {} as since from silver_readings group by 1"
    for beyond in ("struct(max(date_add(to_date(updated), -740000)) as first)", "max(make_timestamp(10000, 1, 1, 0, 0, 0))"):
        decision = gold.publish(select.format(beyond))
        [reason] = decision.reasons
        assert (decision.verdict, reason.check, reason.rows) == ("quarantined", "calendar", 3)
        assert "since (3 row(s)); mend the SQL" in reason.message
        assert gold.rows() == before
    assert gold.publish(select.format("max(to_date(updated))")).verdict == "published"
    assert gold.rows() == before
