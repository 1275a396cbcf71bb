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
from lakehouse_assets.orchestration.assets.project_tables import find_tables
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
          - {metric: nullValues, mustBe: 0, severity: info}
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
        {"check": "not_null", "column": "state", "severity": "info"},
        {"check": "not_null", "column": "day", "threshold": 0.9},
        {"check": "not_null", "column": "updated_at", "severity": "info", "where": "amount > 0"},
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
        "invalidValues", "nullValues", "duplicateValues", "nullValues", "invalidValues",
    ]  # fmt: skip
    assert [rule["severity"] for rule in rules if "info" in str(rule)] == ["info", "info"]
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
        {"check": "not_null", "column": "state", "severity": "info"},
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
        (("kind: DataContract", "kind: [DataContract"), r"orders\.yaml:\d+: expected ',' or"),
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


# YAML that a hand or a tool may have broken: what is put into a contract of one table, and what the error names.
MINIMAL = """\
kind: DataContract
apiVersion: v3.1.0
customProperties: [{custom}]
{more}
schema:
  - name: {name}
    properties:
      - {{name: id, logicalType: integer, primaryKey: true, {column}}}
      {columns}
    quality: [{quality}]
"""


def contract(custom="", name="orders", column="", columns="", quality="", more="") -> str:
    return MINIMAL.format(custom=custom, name=name, column=column, columns=columns, quality=quality, more=more)


def carried(key: str, value: str) -> str:
    return contract(custom=f"{{property: lakehouse_assets.{key}, value: {value}}}")


HOSTILE = {
    "a source that is a list": (carried("source", "[kind, files]"), "source"),
    "a source that is a text": (carried("source", "files"), "source"),
    "a source that is empty": (carried("source", "{}"), "source"),
    "a source that is false": (carried("source", "false"), "source"),
    "a source with an unknown key": (carried("source", "{kind: files, path: a.csv, draft: true}"), "source"),
    "a source of no kind": (carried("source", "{kind: [files]}"), "source"),
    "an extraction that is a number": (carried("extraction", "5"), "extraction"),
    "gold that is a number": (carried("gold", "5"), "gold"),
    "gold that is a text": (carried("gold", "daily.sql"), "gold"),
    "gold that is a mapping": (carried("gold", "{name: daily, sql: daily.sql}"), "gold"),
    "gold of texts": (carried("gold", "[daily.sql]"), "gold.0"),
    "gold of nothing": (carried("gold", "[null]"), "gold.0"),
    "gold whose SQL is a list": (carried("gold", "[{name: daily, sql: [daily.sql]}]"), "gold.0.sql"),
    "drift that is a number": (carried("drift", "5"), "drift"),
    "an endless number": (carried("drift", "9" * 5000), "a whole number of 5000 digits is not allowed"),
    "a surrogate key of nothing": (carried("surrogate_key", "{name: sk, from: [none]}"), "surrogate_key"),
    "an anchor": (carried("drift", "&a [*a]"), r":3: anchor &a is not allowed"),
    "a tag": (carried("drift", "!!python/none x"), r":3: tag .* is not allowed"),
    "a key twice": (contract(more="kind: DataContract"), "'kind' is given twice"),
    "a date that is none": (contract(more="id: 2024-13-45"), ":4: 2024-13-45: month must be in 1..12"),
    "an expr of a list": (contract(column="customProperties: [{property: lakehouse_assets.expr, value: [1]}]"), "expr"),
    "an expression that is none": (
        contract(column="customProperties: [{property: lakehouse_assets.expr, value: 'value +'}]"), "id.expr",
    ),
    "a name that is a path": (contract(name="../orders"), "'../orders' is not a table name"),
    "a name that is a number": (contract(name="5"), "schema.0.name"),
    "no name": (contract(name="null"), "is not a table name"),
    "two columns of one name": (contract(columns="- {name: id, logicalType: string}"), r"schema\.orders\.id: two properties"),
    "a column without a name": (contract(columns="- {logicalType: string}"), "property 1 has no name"),
    "a part without a name": (
        contract(columns="- {name: a, logicalType: object, properties: [{logicalType: string}]}"), "orders.a: its types",
    ),
    "a type that is too deep": (
        contract(columns=f"- {{name: a, physicalType: '{'array<' * 900}int{'>' * 900}'}}"), "too deep",
    ),
    "parts that are too deep": (
        contract(columns=f"- {{name: a, {'logicalType: array, items: {' * 900}logicalType: string{'}' * 900}}}"), "too deep",
    ),
    "a check of no kind": (
        contract(quality="{type: custom, engine: lakehouse_assets, implementation: {check: [not_null]}}"), r"checks",
    ),
    "a check without a kind": (contract(quality="{type: custom, engine: lakehouse_assets, implementation: {}}"), "checks"),
    "valid values that are a number": (
        contract(column="quality: [{metric: invalidValues, arguments: {validValues: 5}, mustBe: 0}]"), "checks",
    ),
    "a pattern that is none": (
        contract(column="quality: [{metric: invalidValues, arguments: {pattern: '('}, mustBe: 0}]"), "checks",
    ),
    "YAML of two documents": (contract() + "---\n" + contract(), "it has 2 documents"),
    "a text": ("only words", "kind: a contract"),
    "nothing": ("", "kind: a contract"),
    "a schema that is a text": (contract().replace("schema:", "schema: orders\nservers:"), "schema"),
}  # fmt: skip

# What has no counterpart stays out, and is listed.
WITHOUT_COUNTERPART = {
    "a row count of a text": "{metric: rowCount, mustBe: many}",
    "a row count of a list": "{metric: rowCount, mustBe: [5]}",
    "a row count of a truth": "{metric: rowCount, mustBe: true}",
    "a row count of a fraction": "{metric: rowCount, mustBe: 1.5}",
    "an endless row count": "{metric: rowCount, mustBeGreaterThan: .inf}",
    "a row count that is no number": "{metric: rowCount, mustBeBetween: [0, .nan]}",
    "missing values that are a number": "{metric: missingValues, arguments: {missingValues: 5}, mustBe: 0}",
    "duplicates of a number": "{metric: duplicateValues, arguments: {properties: 5}, mustBe: 0}",
    "duplicates of a text": "{metric: duplicateValues, arguments: {properties: id}, mustBe: 0}",
    "a bound that is a mapping": "{metric: duplicateValues, arguments: {properties: [id]}, mustBe: {a: 0}}",
    "a bound that is no number": (
        "{metric: duplicateValues, arguments: {properties: [id]}, mustBeLessOrEqualTo: .nan, unit: percent}"
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_broken_contract_is_a_clear_error(tmp_path, case):
    text, message = HOSTILE[case]
    file = tmp_path / "contract.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        import_contract(file)
    assert str(error.value).startswith(str(file))


@pytest.mark.parametrize("case", WITHOUT_COUNTERPART)
def test_a_rule_that_cannot_be_read_is_listed(tmp_path, case):
    file = tmp_path / "contract.yaml"
    file.write_text(contract(quality=WITHOUT_COUNTERPART[case]))
    _, text, advice = import_contract(file)
    assert "checks" not in yaml.safe_load(text)["attributes"]
    assert [line for line in advice if line.startswith("schema.orders.quality.0 (")]


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.exhaustive(seconds=70))])
def test_any_value_of_any_key_is_read_or_refused(tmp_path, step):
    file = tmp_path / "contract.yaml"
    document = yaml.safe_load(export_contract(TableSpec.model_validate(EVERYTHING))[0]) | {"tags": ["a:b"]}
    outcomes = {"read": 0, "refused": 0}
    for keys in list(paths_of(document))[::step]:
        for value in (None, True, "text", [None], {"a": 1}):
            file.write_text(yaml.dump(replace_value(document, keys, value), Dumper=NoAliases))
            try:
                import_contract(file)
                outcomes["read"] += 1
            except ConfigError as error:
                assert str(error).startswith(str(file)), (keys, value)
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 100 / step, outcomes


class NoAliases(yaml.SafeDumper):
    """Writes equal values out."""

    def ignore_aliases(self, data):
        return True


def paths_of(node, keys=()):
    """Every key of a document, at any depth."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*keys, key)
        yield from paths_of(value, (*keys, key))


def replace_value(node, keys, value):
    """The document with one value replaced."""
    if not keys:
        return value
    copy = node.copy()
    copy[keys[0]] = replace_value(node[keys[0]], keys[1:], value)
    return copy
