"""`lakehouse init`: a draft that loads, from what a file shows; and what it says where it cannot guess."""

import gzip

import pytest
import yaml

from lakehouse_assets.contracts.draft import draft_table
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError


def spec_of(text: str) -> TableSpec:
    return TableSpec.model_validate(yaml.safe_load(text)["attributes"])


def test_a_csv(tmp_path):
    file = tmp_path / "orders" / "2024-05-01.csv"
    file.parent.mkdir()
    file.write_text("Order Id,ordered_at,amount,note\n1,2024-05-01T08:00:00Z,1.5,NA\n2,2024-05-01T09:00:00Z,2,it's: {odd}\n")
    text, advice = draft_table("orders", file, tmp_path, None)
    spec = spec_of(text)
    assert spec.source.path == "orders/{window:%Y-%m-%d}.csv"
    assert (spec.extraction.cadence, spec.extraction.first.key, spec.extraction.mode) == ("daily", "2024-05-01", "upsert")
    assert {n: c.type for n, c in spec.columns.items()} == {
        "order_id": "bigint", "ordered_at": "timestamp", "amount": "double", "note": "string",
    }  # fmt: skip
    assert spec.columns["order_id"].source_name == "Order Id"
    assert (spec.key, spec.last_modified, spec.source.nulls) == (("order_id",), "ordered_at", ("NA",))
    assert any("order_id" in line for line in advice)


def test_gzip_json_lines_by_hour_without_a_key(tmp_path):
    file = tmp_path / "e-2024-05-01T07.json.gz"
    file.write_bytes(gzip.compress(b'{"v": 1, "n": {"x": 2}}\n{"v": 1}\n'))
    spec = spec_of(draft_table("events", file, tmp_path, None)[0])
    assert (spec.source.format, spec.extraction.cadence, spec.extraction.mode, spec.key) == ("json", "hourly", "append", ())
    assert spec.source.path == "e-{window:%Y-%m-%dT%H}.json.gz"


@pytest.mark.parametrize(
    ("table", "name", "content", "said"),
    [
        ("Bad Name", "2024-05-01.csv", "a\n1\n", "not a table name"),
        ("t", "nodate.csv", "a\n1\n", "no date was found"),
        ("t", "2024-05-01.csv", "", "the file is empty"),
        ("t", "2024-05-01.csv", None, "no such file"),
        ("t", "2024-13-41.csv", "a\n1\n", "no date was found"),
    ],
)
def test_what_cannot_be_guessed(tmp_path, table, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=said):
        draft_table(table, tmp_path / name, tmp_path, None)


def test_a_file_outside_the_landing_folder(tmp_path):
    (tmp_path / "2024-05-01.csv").write_text("a\n1\n")
    (tmp_path / "landing").mkdir()
    with pytest.raises(ConfigError, match="must lie in the landing folder"):
        draft_table("t", tmp_path / "2024-05-01.csv", tmp_path / "landing", None)
