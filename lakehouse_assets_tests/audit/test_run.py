"""Audits of real Delta tables in one small lake: what is found, judged, kept and shown, and what one torn table does to others.

Belongs here: audit/run.py with everything below it. Does not: sampling by itself, or Dagster (orchestration/jobs).
"""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from lakehouse_assets.audit.pages import build_pages, page_file, write_pages
from lakehouse_assets.audit.run import AuditRun, DeclaredTable, audit_layer
from lakehouse_assets.contracts.audit import read_rules
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import RefusedError, SourceError
from lakehouse_assets.reports.audit_site import page_path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audit_log
from lakehouse_assets_tests.support import rows_of

ROWS = 6000
AT = datetime(2026, 11, 16, 5, tzinfo=UTC)
SCRIPT = "<script>alert`1`</script>"


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory) -> Settings:
    """Three tables of silver, one of which is torn, and one of gold that nobody describes; silver/firms has two versions."""
    home = tmp_path_factory.mktemp("audited")
    settings = Settings(root=str(home / "lake"), landing=str(home), dagster_home=home, audit_rows=500)
    number = F.col("id")
    firms = spark.range(ROWS).select(
        "id",
        F.when(number % 50 == 0, F.lit("DEU")).otherwise(F.lit("DE")).alias("iso2_country_code"),
        F.struct(F.when(number % 2 == 0, F.lit("Germany")).alias("country_name")).alias("address"),
        F.concat(F.lit("https://x.org/"), number).alias("homepage"),
        F.when(number == 77, -1.0).otherwise(5.0).alias("revenue"),
        F.when(number % 500 == 7, F.lit("rare")).otherwise(F.lit("common")).alias("kind"),
        F.concat(F.lit("ann@x.org"), number).alias("contact_url"),
        F.lit(1).alias(SCRIPT),
    )
    path = settings.path("silver", "firms")
    firms.write.format("delta").save(path)
    firms.limit(3).write.format("delta").mode("append").save(path)
    spark.range(10).withColumn("part", F.col("id") % 2).write.format("delta").partitionBy("part").save(
        settings.path("gold", "deep", "tens")
    )
    spark.range(0).withColumn("note_text", F.lit("")).write.format("delta").save(settings.path("silver", "empty"))
    log = Path(settings.path("silver", "torn", "_delta_log"))
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text('{"metaData": ')
    return settings


def runs(spark, settings, **changes) -> AuditRun:
    declared = {"silver/firms": DeclaredTable(("id",), frozenset({"contact_url"}), "silver_firms")}
    audit_run = AuditRun(settings, read_rules(), lambda: spark, "run-1", declared, seed=11, clock=lambda: AT)
    return replace(audit_run, **changes)


@pytest.fixture(scope="module")
def report(spark, lake):
    return audit_layer(runs(spark, lake), "silver")


def of(record, rule: str, column: str | None = None):
    (result,) = [r for r in record.results if r["rule"] == rule and (column is None or column in r["columns"])]
    return result


def test_every_table_on_disk_is_audited_and_one_that_is_torn_stops_itself_alone(report):
    audits = {record.table: record for record in report.audits}
    assert list(audits) == ["silver/empty", "silver/firms", "silver/torn"]
    assert (audits["silver/torn"].verdict, audits["silver/torn"].version) == ("stopped", None)
    assert audits["silver/torn"].error_message
    assert audits["silver/empty"].verdict == "passed"
    assert audits["silver/empty"].results[0]["status"] == "pass"
    assert report.stops


def test_a_guarded_table_is_audited_where_it_lies_and_a_lost_one_stops_alone(spark, lake):
    def lost(_):
        raise SourceError("lost: the catalog has no table of this name")

    def lies_elsewhere(session):
        assert session() is spark
        return lake.path("gold", "deep", "tens")

    declared = {
        "guarded/orders": DeclaredTable(("id",), frozenset(), "raw/orders", lies_elsewhere),
        "guarded/lost": DeclaredTable(location=lost),
    }
    run = runs(spark, lake, declared=declared)
    lost_one, orders = audit_layer(run, "guarded", ["lost", "orders"]).audits
    assert (lost_one.verdict, lost_one.error_message) == ("stopped", "SourceError: lost: the catalog has no table of this name")
    assert (orders.stage, orders.path, orders.total_raw_records) == ("guarded", lake.path("gold", "deep", "tens"), 10)
    assert of(orders, "key_unique")["status"] == "pass"
    with pytest.raises(RefusedError, match="there is no guard guarded/firms; there are guarded/lost, guarded/orders"):
        audit_layer(run, "guarded", ["firms"])
    assert page_path("guarded/orders") in build_pages(lake, run.rules, AT, {})


def test_each_rule_has_its_answer(report):
    firms = report.audits[1]
    assert (firms.verdict, firms.total_raw_records, firms.total_sampled_records) == ("stopped", ROWS + 3, 500)
    length = of(firms, "country_code_length")
    assert (length["status"], length["share"]["exact"], length["examples"]) == ("fail", False, ["DEU"])
    unique = of(firms, "key_unique")
    assert (unique["status"], unique["share"]) == ("fail", None)
    assert unique["message"].startswith("3 value(s) of (id)")
    assert of(firms, "country_name_present")["status"] == "fail"
    assert abs(of(firms, "country_name_present")["share"]["estimate"] - 0.5) < 0.1
    assert of(firms, "url_form", "homepage")["status"] == "pass"


def test_an_inconclusive_sample_is_followed_by_a_full_audit(report, spark, lake):
    firms = report.audits[1]
    revenue = of(firms, "revenue")
    assert (revenue["status"], revenue["escalated"]) == ("fail", True)
    assert (revenue["share"]["failed"], revenue["share"]["looked_at"]) == (1, ROWS + 3)
    assert revenue["examples"] == ["-1.0"]
    (refused,) = audit_layer(runs(spark, lake, escalate=False, as_of=1), "silver", ["firms"]).audits
    assert (of(refused, "revenue")["status"], of(refused, "revenue")["escalated"]) == ("inconclusive", False)
    assert of(refused, "key_unique")["status"] == "fail"


def test_personal_values_are_masked_everywhere(report, lake):
    firms = report.audits[1]
    form = of(firms, "url_form", "contact_url")
    assert (form["status"], form["examples"]) == ("fail", [MASKED])
    stored_text = " ".join(str(row) for row in rows_of(lake.path("ops", "audits")))
    assert "ann@x.org" not in stored_text


def test_an_old_version_is_audited_as_it_was_and_is_not_the_state(spark, lake, report):
    (old,) = audit_layer(runs(spark, lake, as_of=0, run_id="run-0"), "silver", ["firms"]).audits
    assert (old.version, old.total_raw_records, of(old, "key_unique")["status"]) == (0, ROWS, "pass")
    assert not audit_log.latest_audits(audit_log.read_audits(lake))["silver/firms"].as_of
    with pytest.raises(RefusedError, match="name it with --table"):
        audit_layer(runs(spark, lake, as_of=0), "silver")
    with pytest.raises(RefusedError, match="there is no Delta table silver/nope"):
        audit_layer(runs(spark, lake), "silver", ["nope"])


def test_the_seed_fixes_the_sample_and_a_weight_brings_the_rare(spark, lake, tmp_path, report):
    (tmp_path / "w.yaml").write_text(
        "rules:\n  - {name: name_there, columns: ['*country_name'], check: {check: not_null, threshold: 0.4}}\n"
        "settings:\n  - {tables: [silver/firms], weight: kind, rows: 300}\n"
    )
    run = runs(spark, lake, rules=read_rules(tmp_path), as_of=1, escalate=False)
    first, again, other = (audit_layer(replace(run, seed=seed), "silver", ["firms"]).audits[0] for seed in (1, 1, 2))
    assert first.results == again.results != other.results
    assert first.raw_data_distribution == {"common": ROWS + 3 - 12, "rare": 12}
    assert first.sample_data_distribution["rare"] >= 8
    assert sum(first.sample_data_distribution.values()) == first.total_sampled_records == 300
    share = first.results[0]["share"]
    assert share["low"] < 0.5 < share["high"]
    assert first.results[0]["status"] == "pass"


def test_uncovered_columns_are_listed(spark, lake, report, tmp_path):
    firms = report.audits[1]
    assert firms.uncovered == ("kind", SCRIPT)
    assert {u.rule for u in report.unmatched if u.pattern is None} == {"employee_count", "founded_year"}
    (tmp_path / "p.yaml").write_text(
        "rules:\n  - {name: planet, columns: ['*planet*'], check: {check: not_null}}\n"
        "  - {name: revenue, columns: ['*turnover*'], check: {check: not_null, severity: info}}\n"
    )
    later = audit_layer(runs(spark, lake, rules=read_rules(tmp_path), run_id="run-2"), "silver")
    assert [(u.rule, u.fails) for u in later.unmatched] == [("planet", True), ("revenue", False)]
    assert later.audits[1].lost == (("revenue", "revenue"),)
    assert later.audits[1].verdict == "passed_with_warnings"


def test_gold_that_nobody_describes_is_audited_too_and_the_pages_are_there(spark, lake, report):
    gold = audit_layer(runs(spark, lake, run_id="run-3"), "gold")
    (tens,) = gold.audits
    assert (tens.table, tens.verdict, tens.total_sampled_records) == ("gold/deep/tens", "passed_with_warnings", 10)
    assert tens.raw_data_distribution == tens.sample_data_distribution == {"0": 5, "1": 5}
    assert "no key is known" in tens.notes[0]
    first = write_pages(lake, read_rules(), AT, {})
    assert page_file(lake, "gold/deep/tens").is_file()
    assert page_file(lake, "silver/torn").is_file()
    assert SCRIPT not in first.read_text() + page_file(lake, "silver/firms").read_text()
    assert not list(first.parent.rglob("*.part"))


def test_the_rows_of_ops_audits_cannot_be_changed(lake, report):
    table = DeltaTable(lake.path("ops", "audits"))
    assert table.metadata().configuration["delta.appendOnly"] == "true"
    with pytest.raises(Exception, match=r"(?i)append"):
        table.delete()


def test_a_table_that_goes_away_while_others_are_audited_stops_itself_alone(spark, lake, report):
    shutil.copytree(lake.path("silver", "empty"), lake.path("silver", "going"))

    def remove(step: str) -> None:
        if step == "silver/going":
            shutil.rmtree(lake.path("silver", "going"))

    audits = audit_layer(runs(spark, lake, step=remove, run_id="run-4"), "silver", ["empty", "going"]).audits
    assert [record.verdict for record in audits] == ["passed", "stopped"]
