"""Contracts of the Open Data Contract Standard: there and back, what is lost, and what is refused. No JVM.

Belongs here: the mapping in both directions, by the standard's own JSON schema. Does not: the commands (test_cli).
"""

import json
from importlib.resources import files

import jsonschema
import pytest
import yaml

from lakehouse_assets.contracts.open_contract_export import export_contract
from lakehouse_assets.contracts.open_contract_import import import_contract
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.component import find_tables
from lakehouse_assets.settings import Settings

# Every part that a contract of somebody else's may have, and ours does not.
THEIRS = """\
kind: DataContract
apiVersion: v3.0.2
id: 7c1f
version: 2.1.0
status: draft
domain: sales
price: {priceAmount: 9.95, priceCurrency: EUR}
tags: [gold, "tier: 1"]
team:
  - {username: ana@shop.example, role: owner}
  - {username: bob}
servers: [{server: prod, type: postgres, host: db, port: 5432}]
slaProperties: [{property: latency, value: 4, unit: h}]
schema:
  - name: orders
    description: One row per order.
    relationships: [{type: foreignKey, from: customer_id, to: customers.id}]
    properties:
      - {name: order_id, logicalType: integer, primaryKey: true, primaryKeyPosition: 2, required: true}
      - {name: shop, logicalType: string, physicalType: VARCHAR(20), primaryKey: true, primaryKeyPosition: 1}
      - name: amount
        logicalType: number
        physicalType: DECIMAL(12, 2)
        required: true
        criticalDataElement: true
        quality:
          - {type: library, metric: nullValues, mustBeLessOrEqualTo: 5, unit: percent, severity: warning}
          - {type: sql, query: "select max(amount) from {object}", mustBeLessThan: 10000, name: not_absurd}
      - {name: email, logicalType: string, classification: PII, unique: true}
      - {name: secret, logicalType: string, classification: confidential}
      - name: address
        logicalType: object
        properties:
          - {name: city, logicalType: string}
          - {name: lines, logicalType: array, items: {logicalType: string}}
      - name: state
        logicalType: string
        quality:
          - {rule: invalidValues, arguments: {validValues: [open, paid]}, mustBe: 0}
          - {metric: missingValues, arguments: {missingValues: ["", "N/A"]}, mustBe: 0}
          - {type: custom, engine: soda, implementation: "checks for orders"}
          - {type: text, description: people read it}
    quality:
      - {metric: rowCount, mustBeGreaterThan: 0, mustBeLessThan: 1000}
      - {metric: duplicateValues, arguments: {properties: [shop, order_id]}, mustBe: 0}
  - {name: customers, properties: [{name: id, logicalType: integer}]}
"""
EVERYTHING = {
    "name": "everything",
    "description": "Each part once: {{ braces }}, 'quotes', ümlauts and\na second line.",
    "owners": ["team:sales", "ana@shop.example"],
    "tags": {"tier": "1", "plain": ""},
    "group": "sales",
    "source": {"kind": "jdbc", "connection": "SHOP", "table": "public.orders", "modified": "updated_at"},
    "extraction": {"cadence": "hourly", "start": "2024-05-01", "mode": "upsert", "delete_when": "state = 'gone'"},
    "key": ["shop", "order_id"],
    "last_modified": "updated_at",
    "columns": {
        "order_id": "bigint",
        "shop": {"type": "string", "from": "Shop Name"},
        "amount": {"type": "decimal(12,2)", "expr": "value / 100", "unit": "€", "description": "net: without tax"},
        "email": {"type": "string", "pii": True},
        "parts": "array<struct<sku: string, n: int>>",
        "notes": "map<string, string>",
        "day": {"type": "date", "format": "dd.MM.yyyy"},
        "updated_at": "timestamp",
        "state": "string",
    },
    "surrogate_key": {"name": "order_sk", "from": ["shop", "order_id"]},
    "schema": {"new_columns": "evolve"},
    "supersede": "any",
    "checks": [
        {"check": "not_empty"},
        {"check": "row_count", "min": 1, "max": 9, "severity": "warning"},
        {"check": "row_count", "name": "enough", "min": 1},
        {"check": "not_null", "column": "amount"},
        {"check": "not_null", "column": "day", "threshold": 0.9},
        {"check": "in_set", "column": "state", "values": ["open"], "where": "amount > 0", "name": "of_paid"},
        {"check": "in_set", "column": "state", "values": ["open", "paid", "gone"]},
        {"check": "matches", "column": "shop", "pattern": "^[a-z]+$"},
        {"check": "unique", "columns": ["email"]},
        {"check": "unique", "columns": ["shop", "order_id"]},
        {"check": "sql", "name": "not_ahead", "sql": "select * from batch where day > :window_end"},
        {"check": "compare", "column": "day", "operator": "<=", "other": "updated_at", "depends_on": ["enough"]},
    ],
    "drift": {"features": ["amount"]},
    "alerts": {"webhooks": ["OPS_HOOK"]},
    "maintenance": {"quarantine_days": 90},
}


def comparable(spec: TableSpec) -> dict:
    """A table without the order of its checks, which a contract keeps by column."""
    attributes = spec.model_dump(mode="json", by_alias=True)
    return attributes | {"checks": sorted(map(json.dumps, attributes["checks"]))}


def there_and_back(spec: TableSpec, folder) -> tuple[TableSpec, list[str]]:
    text, _ = export_contract(spec)
    jsonschema.validate(
        yaml.safe_load(text), json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text())
    )
    file = folder / "contract.yaml"
    file.write_text(text)
    name, table, advice = import_contract(file)
    document = yaml.safe_load(table)
    assert (name, document["type"]) == (spec.name, "lakehouse_assets.LakehouseTable")
    return TableSpec.model_validate(document["attributes"]), advice


def test_a_table_with_every_part_comes_back_the_same(tmp_path):
    spec = TableSpec.model_validate(EVERYTHING)
    again, advice = there_and_back(spec, tmp_path)
    assert comparable(again) == comparable(spec)
    assert advice == []
    contract = yaml.safe_load((tmp_path / "contract.yaml").read_text())
    rules = [rule for column in contract["schema"][0]["properties"] for rule in column.get("quality", ())]
    assert [rule["metric"] for rule in rules if rule["type"] == "library"] == [
        "invalidValues", "nullValues", "duplicateValues", "invalidValues",
    ]  # fmt: skip
    metrics = [rule["metric"] for rule in contract["schema"][0]["quality"] if rule["type"] == "library"]
    assert metrics == ["rowCount", "duplicateValues"]


def test_the_projects_own_tables_come_back_the_same(tmp_path):
    tables = find_tables(Settings.from_environment()).tables
    assert len(tables) > 3
    for table in tables:
        again, advice = there_and_back(table.spec, tmp_path)
        assert comparable(again) == comparable(table.spec)
        assert all(line.startswith("gold: put ") for line in advice)


def test_somebody_elses_contract(tmp_path):
    file = tmp_path / "orders.odcs.yaml"
    file.write_text(THEIRS)
    name, text, advice = import_contract(file, "orders")
    spec = TableSpec.model_validate(yaml.safe_load(text)["attributes"])
    assert (name, spec.key, spec.owners, spec.tags) == (
        "orders",
        ("shop", "order_id"),
        ("ana@shop.example",),
        {"gold": "", "tier": "1"},
    )
    assert {column: declared.type for column, declared in spec.columns.items()} == {
        "order_id": "bigint", "shop": "string", "amount": "decimal(12,2)", "email": "string", "secret": "string",
        "address": "struct<city: string, lines: array<string>>", "state": "string",
    }  # fmt: skip
    assert spec.pii_columns == {"email"}
    assert [check.model_dump(mode="json", exclude_unset=True) for check in spec.checks] == [
        {"check": "not_null", "column": "amount", "threshold": 0.95, "severity": "warning"},
        {"check": "unique", "columns": ["email"]},
        {"check": "in_set", "column": "state", "values": ["open", "paid"]},
        {"check": "row_count", "min": 1, "max": 999},
        {"check": "unique", "columns": ["shop", "order_id"]},
    ]
    without = {line.partition(":")[0] for line in advice}
    assert without == {
        "domain", "price", "servers", "slaProperties", "team", "schema.orders.relationships", "source", "extraction",
        "schema.orders.amount.criticalDataElement", "schema.orders.amount.quality.1 (not_absurd)",
        "schema.orders.secret.classification", "schema.orders.state.quality.1 (missingValues)",
        "schema.orders.state.quality.2 (custom)", "schema.orders.state.quality.3 (people read it)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("kind: DataContract", "kind: Dataset"), "kind: a contract of the Open Data Contract Standard says"),
        (("v3.0.2", "v2.2.2"), "apiVersion: 'v2.2.2'; versions v3.x are read"),
        (("domain: sales", "domains: sales"), "domains: "),
        (
            ("criticalDataElement", "critical"),
            r"schema\.0\.properties\.2\.critical: the standard \(v3",
        ),
        (("port: 5432", "port: many"), r"servers\.0\.port"),
        (("logicalType: integer, primaryKey", "logicalType: time, primaryKey"), r"schema\.orders\.order_id: its types"),
        (("name: shop,", 'name: "a b",'), "its table would not load: columns"),
        (("kind: DataContract", "kind: [DataContract"), "cannot be read as YAML"),
    ],
)
def test_what_is_refused_names_file_and_field(tmp_path, edit, message):
    file = tmp_path / "orders.yaml"
    file.write_text(THEIRS.replace(*edit))
    with pytest.raises(ConfigError, match=message) as error:
        import_contract(file, "orders")
    assert str(error.value).startswith(str(file))


def test_one_of_several_tables_is_chosen(tmp_path):
    file = tmp_path / "orders.yaml"
    file.write_text(THEIRS)
    with pytest.raises(ConfigError, match=r"it has 2 tables \(orders, customers\); choose one with --table"):
        import_contract(file)
    with pytest.raises(ConfigError, match="it has no table 'refunds'; there are orders, customers"):
        import_contract(file, "refunds")
    with pytest.raises(ConfigError, match="cannot be read"):
        import_contract(tmp_path / "none.yaml")
