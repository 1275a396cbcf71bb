"""Names of declared checks: an asset's own checks keep theirs, or Dagster would load no table of the project.

Belongs here: every name that Dagster shows, and what a YAML may call a check. Does not: names within a decision (checks).
"""

import json

import pytest
import yaml
from pydantic import ValidationError

from lakehouse_assets import definitions
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.settings import Settings

DECLARED = {"check": "not_null", "column": "id", "name": "declared"}
TABLE = {
    "name": "orders",
    "source": {"kind": "files", "path": "orders/{window:%Y-%m-%d}.csv", "format": "csv"},
    "extraction": {"cadence": "daily", "start": "2024-05-01", "mode": "upsert", "delete_when": "amount < 0"},
    "key": ["id"],
    "columns": {"id": "bigint", "amount": "double"},
    "checks": [DECLARED],
    "drift": {"features": ["amount"]},
}
GOLD = {
    "name": "totals",
    "sql": "totals.sql",
    "key": ["id"],
    "grain": {"column": "id", "inputs": {"silver_orders": "id"}},
    "checks": [DECLARED],
}
GUARD = {
    "name": "deliveries",
    "path": "./deliveries",
    "key": ["id", "at"],
    "columns": {"id": "bigint", "at": "timestamp", "amount": "double"},
    "windows": {"column": "at", "cadence": "daily"},
    "publish": {"to": "./clean"},
    "checks": [DECLARED],
    "drift": {"features": ["amount"]},
}
SPECS = {"silver_orders": (TableSpec, TABLE), "gold_totals": (GoldSpec, GOLD), "guard_deliveries": (GuardSpec, GUARD)}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a table, its gold and a guard that have every check of their own."""
    tables = tmp_path / "tables" / "orders"
    tables.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    documents = [("LakehouseTable", {**TABLE, "gold": [GOLD]}), ("GuardedTable", GUARD)]
    components = [{"type": f"lakehouse_assets.{kind}", "attributes": spec} for kind, spec in documents]
    copies = json.loads(json.dumps(components))  # else YAML would have anchors
    (tables / "defs.yaml").write_text(yaml.safe_dump_all(copies, sort_keys=False))
    (tables / "totals.sql").write_text("SELECT id, sum(amount) AS amount FROM silver_orders GROUP BY id")
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tables


def test_no_declared_check_has_the_name_of_a_check_that_its_asset_has_anyway(project):
    repository = definitions.build_definitions(Settings.from_environment()).get_repository_def()
    names = {asset: set[str]() for asset in SPECS}
    for check in repository.asset_graph.asset_check_keys:
        names[check.asset_key.to_user_string()].add(check.name)
    assert {"audit", "no_window_quarantined", "declared"} <= names["silver_orders"]
    for asset, (model, spec) in SPECS.items():
        model.model_validate(spec)
        for name in names[asset] - {"declared"}:
            with pytest.raises(ValidationError, match=name):
                model.model_validate({**spec, "checks": [{**DECLARED, "name": name}]})
                pytest.fail(f"{asset} has a check {name!r} that a declared one would replace")


def test_the_mistake_names_its_line_and_a_name_of_another_layer_is_free(project):
    file = project / "defs.yaml"
    text = file.read_text()
    line = text.splitlines().index("  - check: not_null") + 1
    file.write_text(text.replace("name: declared", "name: evidence_complete", 1))
    with pytest.raises(ConfigError, match=rf"defs\.yaml:{line}: checks.0 \(evidence_complete\): .* give the check"):
        load_tables(project)
    file.write_text(text.replace("name: declared", "name: calendar", 1))
    assert [check.id for table in load_tables(project) for check in table.spec.checks] == ["calendar"]


def test_a_recorded_rule_set_keeps_its_names():
    ruleset = TableSpec.model_validate(TABLE).ruleset()
    again = TableSpec.from_ruleset(ruleset.replace('"declared"', '"audit"'))
    assert [check.id for check in again.checks] == ["audit"]
