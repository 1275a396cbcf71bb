"""Reading a `tests.yaml`: values as they are written, and file, line and key of every mistake.

Belongs here: YAML → `TableTest`. Does not: what a test means (table_tests), or YAML itself (document).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lakehouse_assets.contracts.document import NULL, Document, read_documents
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.mistakes import Keys, join_keys, mistakes_in
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_tests import TableTest, TableTestsFile, mistakes_of_test, refuse_namesakes
from lakehouse_assets.errors import ConfigError

TESTS_FILE = "tests.yaml"
ROWS = ("rows", "silver")
Queries = Mapping[str, Mapping[str, GoldQuery]]


def read_tests(
    path: Path, tables: Mapping[str, TableSpec], others: Mapping[str, TableSpec], queries: Queries
) -> list[tuple[str, TableTest, str]]:
    """Return each test of a file with its table's name and its ``file:line``. ``tables``: those of the folder; ``others``: all.
    ``queries``: by table, of its gold tables. Raises ConfigError, with a line for each mistake.
    """
    document = _read_document(path)
    try:
        tests = TableTestsFile.model_validate(with_texts(document.data, document.node)).tests
    except ValidationError as error:
        mistakes = [(_without_branches(keys), text) for keys, text in mistakes_in(error)]
        # A list whose entry has a mistake counts as shorter than it is.
        inner = [keys for keys, _ in mistakes]
        lines = [_line(document, k, text) for k, text in mistakes if not any(k == o[: len(k)] and k != o for o in inner)]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None
    lines = [
        _line(document, ("tests", index, "name"), f"another test is called {name!r} too; give one of them another name")
        for index, name in refuse_namesakes([test.name for test in tests])
    ]
    read = []
    for index, test in enumerate(tests):
        table = test.table or (next(iter(tables)) if len(tables) == 1 else None)
        if table is None or table not in tables:
            there = ", ".join(tables) or "none"
            text = f"there is no table {table!r} in this folder; there are {there}" if table else f"name one of {there}"
            lines.append(_line(document, ("tests", index, "table"), text))
            continue
        mistakes = mistakes_of_test(test, tables[table], others, queries.get(table, {}))
        lines += [_line(document, ("tests", index, *keys), text) for keys, text in mistakes]
        read.append((table, test, document.at(["tests", index])))
    if lines:
        raise ConfigError("\n".join(lines))
    return read


def _read_document(path: Path) -> Document:
    documents = [each for each in read_documents(path) if each.data is not None]
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise ConfigError(f"{path}:1: expected one document with the key `tests`")
    return documents[0]


def _line(document: Document, keys: Keys, text: str) -> str:
    return f"{document.at(keys)}: {join_keys(keys)}: {text}"


def _without_branches(keys: Keys) -> Keys:
    """Return keys without the branch of a union, which pydantic puts among them."""
    return tuple(key for key in keys if key != "str" and not str(key).startswith("dict["))


def with_texts(value: Any, node: yaml.Node | None, key: Any = None, above: Any = None) -> Any:
    """Return the data with the cells of rows as they are written: `007` and `1.50` stay texts. Nested values become JSON."""
    if key in ROWS or above == "tables":
        if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
            return [_row(each, inner) for each, inner in zip(value, node.value, strict=True)]
        return value
    if key == "window" and isinstance(node, yaml.ScalarNode):
        return _cell(value, node)
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
        pairs = zip(value.items(), node.value, strict=True)
        return {name: with_texts(each, inner, name, key) for (name, each), (_, inner) in pairs}
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        return [with_texts(each, inner, None, key) for each, inner in zip(value, node.value, strict=True)]
    return value


def _row(row: Any, node: yaml.Node) -> Any:
    if isinstance(row, dict) and isinstance(node, yaml.MappingNode):
        cells = zip(row.items(), node.value, strict=True)
        return {str(name): _cell(value, inner) for (name, value), (_, inner) in cells}
    return _cell(row, node)


def _cell(value: Any, node: yaml.Node) -> str | None:
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == NULL else node.value
    return json.dumps(value, default=str)
