"""Guards in Dagster: their files, their asset and checks, the sensor, and what a failed check blocks.

Belongs here: the guard as a component of a project. Does not: which rows are judged (guards), or the story (e2e/test_guard).
"""

import dagster as dg
import pytest

from lakehouse_assets.contracts.new_project import plan_project
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.errors import ConfigError, SourceError
from lakehouse_assets.orchestration.assets.project_tables import find_tables, load_tables
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders

GUARD = """\
type: lakehouse_assets.GuardedTable
attributes:
  name: {name}
  path: {path}
  start: 0
  key: [id]
  columns: {{id: bigint, amount: double, country: string}}
  checks:
    - {{check: in_range, column: amount, min: 0, on_fail: quarantine_batch}}
{more}
"""


class SparkOfTests(dg.ConfigurableResource):
    """The session of the tests, under the name of the project's resource."""

    @property
    def spark_session(self):
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()


def project(tmp_path, monkeypatch, **guards) -> Settings:
    """A project of guards only: file text by name."""
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    for name, text in guards.items():
        (tmp_path / "tables" / name).mkdir(parents=True)
        (tmp_path / "tables" / name / "defs.yaml").write_text(text)
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return Settings.from_environment()


def tick(definitions, instance, cursor=None):
    sensor = definitions.resolve_sensor_def("watch_guards")
    context = dg.build_sensor_context(instance, cursor=cursor, repository_def=definitions.get_repository_def())
    return sensor.evaluate_tick(context)


def results(instance, definitions, asset):
    graph = definitions.resolve_asset_graph()
    keys = [key for key in graph.asset_check_keys if key.asset_key == dg.AssetKey(asset)]
    found_records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {key.name: found_records[key].status.value for key in keys if key in found_records}


@pytest.mark.exhaustive(seconds=60)
def test_a_guard_runs_when_its_table_has_a_new_version_and_blocks_what_is_downstream(spark, tmp_path, monkeypatch):
    settings = project(tmp_path, monkeypatch, orders=GUARD.format(name="orders", path="theirs", more=""))
    table = ForeignOrders(spark, tmp_path / "theirs")
    table.append((1, 1.0, "DE"))
    table.append((2, -1.0, "DE"))
    read = []

    @dg.asset(deps=["guard_orders"])
    def report():
        read.append(1)

    ours = build_definitions(settings, overrides={SPARK: SparkOfTests()})
    one_check = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("guard_orders"), "in_range_amount"))
    job_of_one = dg.define_asset_job("one_check", selection=one_check, executor_def=dg.in_process_executor)
    definitions = dg.Definitions.merge(ours, dg.Definitions(assets=[report], jobs=[job_of_one]))
    dg.Definitions.validate_loadable(definitions)
    with dg.instance_for_test() as instance:
        first = tick(definitions, instance)
        (request,) = first.run_requests
        assert request.job_name == "guard_orders_job"
        assert tick(definitions, instance, first.cursor).run_requests[0].run_key == request.run_key
        job = definitions.resolve_implicit_global_asset_job_def()
        assert not job.execute_in_process(instance=instance, raise_on_error=False).success
        assert read == []
        assert results(instance, definitions, "guard_orders")["in_range_amount"] == "FAILED"
        assert results(instance, definitions, "guard_orders")["table_history"] == "SUCCEEDED"
        alone = definitions.resolve_job_def("one_check").execute_in_process(instance=instance, raise_on_error=False)
        (result,) = alone.get_asset_check_evaluations()
        assert (result.check_name, result.passed) == ("in_range_amount", False)
        assert "tried alone on the table as it is: 1 of 2 rows" in result.description
        again = tick(definitions, instance, first.cursor)
        assert not again.run_requests
        table.run("DELETE FROM {T} WHERE id = 2")
        assert len(tick(definitions, instance, again.cursor).run_requests) == 1
        assert job.execute_in_process(instance=instance).success
        assert read == [1]
    assert [(d.bronze_version, d.verdict) for d in logs.decisions(settings, "orders") if not d.superseded_by] == [
        (0, "published"),
        (1, "quarantined"),
        (2, "published"),
    ]


def test_two_guards_of_one_table_stop_and_unknown_keys_are_named_with_their_line(tmp_path, monkeypatch):
    one, two = (GUARD.format(name=name, path=path, more="") for name, path in (("one", "t"), ("two", f"{tmp_path}/t/")))
    odd = GUARD.format(name="odd", path="u", more="  cadance: daily")
    settings = project(tmp_path, monkeypatch, one=one, two=two, odd=odd, good=GUARD.format(name="good", path="v", more=""))
    loaded = find_tables(settings)
    assert [guard.spec.name for guard in loaded.guards] == ["good"]
    lines = "\n".join(loaded.mistakes)
    assert f"{tmp_path}/tables/one/defs.yaml:4: path: the guard two has this table too" in lines
    assert f"{tmp_path}/tables/two/defs.yaml:4: path: the guard one has this table too" in lines
    assert f"{tmp_path}/tables/odd/defs.yaml:10: cadance: not known here; did you mean cadence?" in lines
    with pytest.raises(ConfigError):
        load_tables()
    graph = build_definitions(settings).resolve_asset_graph()
    assert {dg.AssetKey("guard_good"), dg.AssetKey("configuration_one")} <= graph.get_all_asset_keys()


def test_a_clean_table_that_is_not_the_guard_s_own_stops_the_guard(tmp_path, monkeypatch):
    def text(name, path, to):
        return GUARD.format(name=name, path=path, more=f"  publish: {{to: {to}}}")

    guards = {
        "itself": text("itself", "a", "./a"),
        "within": text("within", "b", "b/clean"),
        "lake": text("lake", "c", "./data/lake/silver/weather"),
        "there": text("there", "d", "./e"),
        "back": text("back", "e", "./d"),
        "onto": text("onto", "f", "./g"),
        "twice": text("twice", "h", f"{tmp_path}/i/"),
        "again": text("again", "j", "./i"),
        "named": text("named", "k", "clean.orders"),
        "good": text("good", "g", "./clean"),
    }
    loaded = find_tables(project(tmp_path, monkeypatch, **guards))
    assert [guard.spec.name for guard in loaded.guards] == ["good", "named"]
    lines = dict(line.split("/defs.yaml:10: publish.to: ") for line in loaded.mistakes)
    by_guard = {file.rpartition("/")[2]: line for file, line in lines.items()}
    assert "this is the guarded table itself" in by_guard["itself"]
    assert "or lies within it" in by_guard["within"]
    assert "this lies in the lake" in by_guard["lake"]
    assert "the table of the guard back, which publishes to the table of there: they go in a circle" in by_guard["there"]
    assert "they go in a circle" in by_guard["back"]
    assert "this is the table of the guard good, which guards it" in by_guard["onto"]
    assert "the guard again publishes to this table too" in by_guard["twice"]


def test_a_table_that_cannot_be_read_is_reported_once_and_holds_up_no_other(spark, tmp_path, monkeypatch):
    texts = {name: GUARD.format(name=name, path=name, more="") for name in ("gone", "here", "named")}
    texts["named"] = texts["named"].replace("path: named", "table: nowhere.orders")
    settings = project(tmp_path, monkeypatch, **texts)
    ForeignOrders(spark, tmp_path / "here").append((1, 1.0, "DE"))
    definitions = build_definitions(settings, overrides={SPARK: SparkOfTests()})
    with dg.instance_for_test() as instance:
        first = tick(definitions, instance)
        # Only a run can ask a catalog.
        assert [request.job_name for request in first.run_requests] == ["guard_here_job", "guard_named_job"]
        (event,) = first.asset_events
        assert (event.check_name, event.passed) == ("table_history", False)
        assert "there is no Delta table" in event.description
        assert not tick(definitions, instance, first.cursor).asset_events
        with pytest.raises(SourceError, match="there is no Delta table"):
            definitions.resolve_job_def("guard_gone_job").execute_in_process(instance=instance)
        with pytest.raises(SourceError, match=r"table: nowhere.orders: Spark's catalog has no table of this name"):
            definitions.resolve_job_def("guard_named_job").execute_in_process(instance=instance)
        assert definitions.resolve_job_def("guard_here_job").execute_in_process(instance=instance).success


@pytest.mark.exhaustive(seconds=60)
def test_checks_on_ones_own_asset_run_when_it_materializes(spark, tmp_path, monkeypatch):
    settings = project(tmp_path, monkeypatch, orders=GUARD.format(name="orders", path="theirs", more="  asset: raw/orders"))
    table, read = ForeignOrders(spark, tmp_path / "theirs"), []

    @dg.asset(key=["raw", "orders"])
    def orders():
        table.append((len(read), -1.0 if not read else 1.0, "DE"), mode="overwrite")
        read.append("orders")

    @dg.asset(deps=[orders])
    def report():
        read.append("report")

    ours = build_definitions(settings, overrides={SPARK: SparkOfTests()})
    definitions = dg.Definitions.merge(ours, dg.Definitions(assets=[orders, report]))
    job = definitions.resolve_implicit_global_asset_job_def()
    with dg.instance_for_test() as instance:
        assert not job.execute_in_process(instance=instance, raise_on_error=False).success
        assert read == ["orders"]
        assert job.execute_in_process(instance=instance).success
        assert read == ["orders", "orders", "report"]
        assert results(instance, definitions, ["raw", "orders"])["in_range_amount"] == "SUCCEEDED"
        table.append((7, 1.0, "DE"))
        (request,) = tick(definitions, instance).run_requests
        assert definitions.resolve_job_def(request.job_name).execute_in_process(instance=instance).success
    assert [d.bronze_version for d in logs.decisions(settings, "orders") if not d.superseded_by] == [0, 1, 2]


def test_a_guard_is_a_component_of_ones_own_project(tmp_path, monkeypatch):
    folder = tmp_path / f"watch_{tmp_path.name}"
    for path, text in plan_project(folder, tmp_path).files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    defs = folder / "src" / folder.name / "defs"
    for name, more in (("orders", ""), ("refunds", "  cadance: daily")):
        (defs / name).mkdir()
        (defs / name / "defs.yaml").write_text(GUARD.format(name=name, path=name, more=more))
    monkeypatch.syspath_prepend(folder / "src")
    monkeypatch.delenv("LAKEHOUSE_PROJECT", raising=False)
    definitions = dg.load_from_defs_folder(path_within_project=folder)
    dg.Definitions.validate_loadable(definitions)
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"guard_orders", "configuration_refunds"} <= keys
    assert "guard_refunds" not in keys
    assert "watch_guards" in {sensor.name for sensor in definitions.sensors}
    assert definitions.get_repository_def().has_job("guard_orders_job")
