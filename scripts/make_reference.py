"""Write `docs/reference.md` from the models of the configuration: every key, its values, its default, its meaning.

Belongs here: models → markdown. Does not: the description of a key, which is the string below the key in the model.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Set
from inspect import getdoc
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.contracts.audit import AuditPack, AuditRule, AuditSetting
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.delta_source import DeltaSource
from lakehouse_assets.contracts.drift import DriftSpec, FeatureSpec
from lakehouse_assets.contracts.extraction import ExtractionSpec, StreamSpec
from lakehouse_assets.contracts.fixed_width import FixedField
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.contracts.gold import GoldSchema, GoldSpec, GrainSpec, ReadTable
from lakehouse_assets.contracts.guarded_table import GuardSchema, GuardSpec, PublishSpec
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.contracts.layout import DerivedColumn, LayoutSpec
from lakehouse_assets.contracts.sharing import Defaults, Pack, UsedPack
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.surrogate_key import SurrogateKeySpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_contract import AlertSpec, MaintenanceSpec, SchemaPolicy, SupersedeSpec
from lakehouse_assets.contracts.table_tests import ExpectedGold, GivenBatch, TableTest, TableTestsFile

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "source` of kind `files": FilesSource, "source.fields.*": FixedField,
    "source` of kind `jdbc": JdbcSource, "source` of kind `kafka": KafkaSource, "source` of kind `delta": DeltaSource,
    "source` of kind `table": SparkTableSource,
    "extraction": ExtractionSpec, "extraction.stream": StreamSpec, "columns.*": Column, "surrogate_key": SurrogateKeySpec,
    "layout": LayoutSpec, "layout.derived.*": DerivedColumn, "schema": SchemaPolicy, "supersede": SupersedeSpec,
    "drift": DriftSpec, "drift.features.*": FeatureSpec, "gold.*": GoldSpec, "gold.*.grain": GrainSpec,
    "gold.*.reads.*": ReadTable, "gold.*.schema": GoldSchema, "alerts": AlertSpec,
    "maintenance": MaintenanceSpec,
    "packs.*": UsedPack,
}  # fmt: skip
SHARED: dict[str, dict[str, type[BaseModel]]] = {
    "packs.yaml": {"*": Pack}, "defaults.yaml": {"": Defaults},
    "tests.yaml": {"": TableTestsFile, "tests.*": TableTest, "tests.*.batches.*": GivenBatch, "tests.*.gold.*": ExpectedGold},
    "rules of a frame": {"": FrameRules},
    "a guard": {"": GuardSpec, "publish": PublishSpec, "schema": GuardSchema},
    "audits/*.yaml": {"": AuditPack, "rules.*": AuditRule, "settings.*": AuditSetting},
}  # fmt: skip
TOP = """# Reference

After this page you can look up every key of a table's `defs.yaml`, and every kind of check.

[tables.md](tables.md) explains how the keys work together. `*` is each entry of a list or a mapping.
`python scripts/make_reference.py` generates this page from the code.
"""
COMMON = set(Check.model_fields) | {"check"}


def main() -> int:
    """Write the page, or with ``--check`` compare it with the models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is not up to date")
    page = "\n".join(lines()) + "\n"
    if not parser.parse_args().check:
        REFERENCE.write_text(page, encoding="utf-8")
        return 0
    if REFERENCE.read_text(encoding="utf-8") == page:
        return 0
    print("docs/reference.md is out of date; run python scripts/make_reference.py", file=sys.stderr)
    return 1


def lines() -> Iterator[str]:
    """The page."""
    yield TOP
    yield "## A table\n"
    yield from keys(TableSpec)
    for location, model in SECTIONS.items():
        yield f"\n## `{location}`\n"
        yield _paragraphs(getdoc(model)) + "\n"
        yield from keys(model)
    for file, models in SHARED.items():
        yield f"\n## `{file}`\n"
        for location, model in models.items():
            yield f"{f'`{location}`: ' if location else ''}{_paragraphs(getdoc(model))}\n"
            yield from keys(model)
    yield "\n## `checks.*`, of every kind\n"
    yield from keys(Check)
    for name, kind in kinds().items():
        yield f"\n### `{name}`\n"
        yield _paragraphs(getdoc(kind)) + "\n"
        yield f"```yaml\n- {' '.join(kind.example.split())}\n```"
        if set(kind.model_fields) - COMMON:
            yield ""
            yield from keys(kind, COMMON)


def keys(model: type[BaseModel], without: Set[str] = frozenset()) -> Iterator[str]:
    """A table of one model's keys."""
    schema = model.model_json_schema(by_alias=True)
    yield "| Key | Values | Default | Meaning |"
    yield "| --- | --- | --- | --- |"
    for name, key in schema["properties"].items():
        if name in without:
            continue
        meaning = _paragraphs(key.get("description")) or _paragraphs(_definition(schema, key).get("description"))
        if not meaning:
            raise SystemExit(f"{model.__name__}.{name} has no description")
        default = "required" if name in schema.get("required", []) else _default(key.get("default"))
        yield f"| `{name}` | {_cell(' or '.join(_values(schema, key)))} | {_cell(default)} | {_cell(meaning)} |"


def _values(schema: dict[str, Any], key: dict[str, Any]) -> list[str]:
    """The accepted values, without duplicates."""
    if "anyOf" in key:
        return list(dict.fromkeys(text for each in key["anyOf"] for text in _values(schema, each) if text != "null"))
    if "const" in key or "enum" in key:
        return [f"`{value}`" for value in key.get("enum", [key.get("const")])]
    if "$ref" in key or "oneOf" in key:
        return ["keys of its own"]
    kind = key.get("type", "text")
    if kind == "array":
        return [f"list of {' or '.join(_values(schema, key['items']))}".replace("keys of its own", "entries, see below")]
    if kind == "object":
        inner = key.get("additionalProperties")
        return [f"mapping to {' or '.join(_values(schema, inner))}" if inner and inner is not True else "mapping"]
    if kind == "string":
        return [{"date-time": "time", "date": "date"}.get(key.get("format", ""), "text")]
    names = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "null": "null"}
    return [names[kind] + _bounds(key)]


def _bounds(key: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    shown = {name: f"{key[name]:,}" if isinstance(key[name], int) else f"{key[name]:g}" for name in signs if name in key}
    bounds = [f"{sign} {shown[name]}" for name, sign in signs.items() if name in shown]
    return f" ({', '.join(bounds)})" if bounds else ""


def _definition(schema: dict[str, Any], key: dict[str, Any]) -> dict[str, Any]:
    return schema.get("$defs", {}).get(key.get("$ref", "").rpartition("/")[2], {})


def _default(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, dict):
        return "its defaults"
    return f"`{json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value}`"


def _paragraphs(text: str | None) -> str:
    parts = [part for part in (text or "").replace("``", "`").split("\n\n") if not part.lstrip().startswith(">>>")]
    return "\n\n".join(" ".join(part.split()) for part in parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n\n", " ")


if __name__ == "__main__":
    raise SystemExit(main())
