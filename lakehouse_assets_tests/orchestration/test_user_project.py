"""A Dagster project of somebody else's with our tables in it, loaded as `dg` loads it.

Belongs here: that components, shared definitions and the project's own go together. Does not: an installed wheel (e2e).
"""

import sys

import dagster as dg
import pytest

from lakehouse_assets import definitions_for
from lakehouse_assets.contracts.new_project import plan_project
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.healing.automation import ResumableSensor
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets_tests.test_project import TABLE

THEIRS = """\
import dagster as dg

class TheirSpark(dg.ConfigurableResource):
    pass

@dg.asset(deps=["silver_orders"], group_name="theirs")
def report(spark: TheirSpark): ...

@dg.asset(automation_condition=dg.AutomationCondition.eager())
def customers(): ...

@dg.definitions
def defs():
    return dg.Definitions([report, customers], resources={"spark": TheirSpark()}, executor=dg.multiprocess_executor)
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A project `shop<n>` with two tables, and with assets, a resource `spark` and an executor of its own."""
    folder = tmp_path / f"shop_{tmp_path.name}"
    for path, text in plan_project(folder, tmp_path).files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace('executor = "in_process"\n', ""))
    defs = folder / "src" / folder.name / "defs"
    for name in ("orders", "refunds"):
        (defs / name).mkdir()
        (defs / name / "defs.yaml").write_text(TABLE.format(name=name))
    (defs / "theirs.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(folder / "src")
    monkeypatch.delenv("LAKEHOUSE_PROJECT", raising=False)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == folder.name]:
        del sys.modules[name]


def load(folder) -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=folder)


def test_tables_come_with_what_they_share_beside_the_projects_own(shop, monkeypatch):
    monkeypatch.chdir("/")
    definitions = load(shop)
    dg.Definitions.validate_loadable(definitions)
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"silver_orders", "silver_refunds", "baseline_orders", "report", "customers"} <= keys
    sensors = {sensor.name: sensor for sensor in definitions.sensors}
    assert {"watch_sources", "heal_and_follow", "retry_failed"} <= set(sensors)
    assert len(definitions.sensors) == len(sensors)
    assert set(definitions.resources) == {SPARK, "spark"}
    repository = definitions.get_repository_def()
    assert repository.get_job("__ASSET_JOB").executor_def.name == "multiprocess"
    for name in ("rebuild_silver", "maintain_tables", "verify_evidence", "audit_gold"):
        assert repository.get_job(name).executor_def.name == "in_process", name
    # Dagster copies the sensors of a folder, to note where they came from.
    assert isinstance(sensors["heal_and_follow"], ResumableSensor)
    assert sensors["heal_and_follow"].metadata.keys() >= sensors["watch_sources"].metadata.keys()
    # Their conditions are evaluated by Dagster's own sensor.
    target = sensors["heal_and_follow"].asset_selection.resolve(repository.asset_graph)
    assert "customers" not in {key.to_user_string() for key in target}
    assert {"silver_orders", "silver_refunds"} <= {key.to_user_string() for key in target}
    assert "default_automation_condition_sensor" in {sensor.name for sensor in repository.sensor_defs}


def test_one_line_without_components(shop):
    source = shop / "src" / shop.name / "definitions.py"
    theirs = dg.Definitions(resources={"spark": object()}, executor=dg.multiprocess_executor)
    definitions = dg.Definitions.merge(theirs, definitions_for(str(source)))
    dg.Definitions.validate_loadable(definitions)
    assert definitions.resolve_job_def("run_checks")


def test_keys_have_the_projects_prefix_and_groups_are_of_ones_choice(shop):
    config = shop / "pyproject.toml"
    config.write_text(config.read_text() + 'asset_prefix = ["shop", "eu"]\n')
    defs = shop / "src" / shop.name / "defs"
    (defs / "theirs.py").unlink()
    gold = "  group: sales\n  gold: [{name: totals, sql: totals.sql, key: [id]}]\n"
    reference = "  checks: [{check: foreign_key, columns: [id], table: orders}]\n"
    (defs / "orders" / "defs.yaml").write_text(TABLE.format(name="orders") + gold)
    (defs / "orders" / "totals.sql").write_text("select o.id from silver_orders o join silver_refunds r on o.id = r.id")
    (defs / "refunds" / "defs.yaml").write_text(TABLE.format(name="refunds") + reference)
    definitions = load(shop)
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    assert all(key.path[:2] == ["shop", "eu"] for key in graph.get_all_asset_keys()), graph.get_all_asset_keys()
    assert all(key.asset_key in graph.get_all_asset_keys() for key in graph.asset_check_keys)
    gold_node = graph.get(dg.AssetKey(["shop", "eu", "gold_totals"]))
    assert {key.path[-1] for key in gold_node.parent_keys} == {"silver_orders", "silver_refunds"}
    assert gold_node.group_name == "sales"
    refunds = graph.get(dg.AssetKey(["shop", "eu", "silver_refunds"]))
    assert refunds.group_name == "refunds"
    assert dg.AssetKey(["shop", "eu", "silver_orders"]) in refunds.parent_keys
    lineage = gold_node.metadata["dagster/column_lineage"].deps_by_column["id"]
    assert [dep.asset_key.path for dep in lineage] == [["shop", "eu", "silver_orders"]]


def test_a_project_may_set_one_process_per_run(shop):
    config = shop / "pyproject.toml"
    config.write_text(config.read_text() + 'executor = "in_process"\n')
    (shop / "src" / shop.name / "defs" / "theirs.py").unlink()
    job = load(shop).get_repository_def().get_job("__ASSET_JOB")
    assert job.executor_def.name == "in_process"


def test_components_of_another_project_than_the_chosen_one_are_refused(shop, tmp_path, monkeypatch):
    other = tmp_path / "other"
    (other / "defs" / "orders").mkdir(parents=True)
    (other / "defs" / "orders" / "defs.yaml").write_text(TABLE.format(name="orders"))
    (other / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "defs"\n')
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(other))
    with pytest.raises(Exception) as caught:
        dg.Definitions.validate_loadable(load(shop))
    causes = []
    error = caught.value
    while error is not None:
        causes.append(error)
        error = error.__cause__
    (refused,) = [each for each in causes if isinstance(each, ConfigError)]
    assert f"orders/defs.yaml:3: this table is not in {other}/defs, the tables of the project {other}" in str(refused)
