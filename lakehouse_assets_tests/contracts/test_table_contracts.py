"""The three contracts of a table: what stays the same whichever it is, and the texts that logs keep of them."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.batch import start_of
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.silver import silver_columns, silver_types
from lakehouse_assets.contracts.table import EffectiveTable, StagedTable, TableSpec
from lakehouse_assets.contracts.total_order import total_order

SPEC = TableSpec.model_validate(
    {
        "name": "orders",
        "source": {"kind": "files", "path": "orders/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA"]},
        "extraction": {"cadence": "daily", "start": "2024-01-01", "retries": 3},
        "key": ["id"],
        "last_modified": "changed_at",
        "columns": {
            "id": "bigint",
            "changed_at": {"type": "timestamp", "from": "changed at"},
            "amount": {"type": "decimal(10,2)", "unit": "EUR", "expr": "value / 100"},
            "email": {"type": "string", "pii": True},
        },
        "schema": {"new_columns": "evolve", "type_changes": "widen"},
        "checks": [
            {"check": "in_range", "column": "amount", "min": 0, "threshold": 0.99, "severity": "warning"},
            {"check": "row_count", "min": 1},
            {"check": "sql", "name": "no_future", "sql": "select * from batch where changed_at >= :window_end"},
        ],
        "drift": {"features": ["amount", {"name": "cents", "expr": "amount * 100", "by": "id"}]},
        "gold": [],
    }
)
EVOLVED = {**SPEC.columns, "note": Column(type="string")}


def test_hashes_that_lakes_keep_do_not_change():
    """Lakes made before must not be judged as if their rules had changed, or be folded anew. Defaults are part of the rules."""
    assert (SPEC.ruleset_hash, SPEC.meaning) == ("1a19dedd4fc56c25", "885f32b7b25d2aeb")


@pytest.mark.parametrize("kind", [EffectiveTable, StagedTable])
def test_rules_and_meaning_are_the_declared_ones_whatever_batches_added(kind):
    table = kind.of(SPEC, EVOLVED)
    assert (table.ruleset(), table.meaning, table.declared) == (SPEC.ruleset(), SPEC.meaning, SPEC)
    assert (table.evolved_columns, SPEC.evolved_columns) == (("note",), ())
    assert kind.of(SPEC).columns == SPEC.columns
    assert TableSpec.from_ruleset(table.ruleset()).ruleset() == SPEC.ruleset()


def test_silver_has_the_added_columns_last():
    table = EffectiveTable.of(SPEC, EVOLVED)
    declared = ["id", "changed_at", "amount", "email"]
    assert silver_columns(table) == [*declared, "p_extracted_at", "extraction_seq", "_content_hash", "note"]
    assert silver_types(table)["amount"] == "decimal(10,2)"
    assert total_order("changed_at") == ("changed_at", "p_extracted_at", "extraction_seq", "_content_hash")


def test_a_batch_of_gold_has_no_window():
    start = datetime(2024, 1, 1, tzinfo=UTC)
    assert start_of((start, 1)) == start
    with pytest.raises(ValueError, match="no window"):
        start_of((None, 3))


GOLD = {"name": "totals", "sql": "totals.sql", "key": ["id"]}
GUARD = {"name": "guard", "path": "/lake/orders", "columns": {"id": "bigint"}}


def test_the_prefix_of_asset_keys_stays_in_every_contract_and_is_no_rule():
    spec = TableSpec.model_validate({**SPEC.model_dump(by_alias=True), "gold": [GOLD]})
    prefixed = spec.with_asset_prefix(("shop", "eu"))
    contracts = [EffectiveTable.of(prefixed), StagedTable.of(prefixed), prefixed.as_judged(spec.ruleset()), *prefixed.gold]
    assert {contract.asset_prefix for contract in contracts} == {("shop", "eu")}
    assert (spec.asset_prefix, prefixed.ruleset()) == ((), spec.ruleset())


@pytest.mark.parametrize(
    ("model", "contract"), [(TableSpec, SPEC.model_dump(by_alias=True)), (GoldSpec, GOLD), (GuardSpec, GUARD)]
)
def test_a_contract_cannot_set_the_prefix(model, contract):
    assert model.model_validate(contract).with_asset_prefix(("shop",)).asset_prefix == ("shop",)
    assert "asset_prefix" not in model.model_json_schema()["properties"]
    with pytest.raises(ValidationError, match=r"not known here; there are (?!.*asset_prefix)") as caught:
        model.model_validate({**contract, "asset_prefix": ["shop"]})
    assert [error["loc"] for error in caught.value.errors()] == [("asset_prefix",)]
