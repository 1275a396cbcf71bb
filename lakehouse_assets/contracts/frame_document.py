"""A frame's rules from a file: rules of their own, or a table's `defs.yaml`; mistakes by file, line and key.

Belongs here: YAML → `FrameRules`. Does not: what the rules mean (frame_rules), or YAML itself (document).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.frame_rules import FrameRules, rules_of_table
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.mistakes import Keys, join_keys, mistakes_in
from lakehouse_assets.contracts.sharing import SharingError, resolve_attributes
from lakehouse_assets.contracts.source_map import (
    SourceMap,
    is_guard,
    mistake_line,
    read_shared_files,
    shared_with_guards,
    table_mistakes,
)
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError


@dataclass(frozen=True)
class FrameDocument:
    """Rules and where they are written. ``left_out``: checks of a table that a frame cannot have, each with the reason."""

    rules: FrameRules
    source_map: SourceMap | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    def refuse(self, mistakes: Iterable[tuple[Keys, str]]) -> None:
        """Raise ConfigError, with a line for each mistake, if there are any."""
        lines = []
        for keys, text in mistakes:
            where = "" if self.source_map is None else f"{self.source_map.at(keys)}: "
            lines.append(f"{where}{join_keys(keys)}: {text}")
        if lines:
            raise ConfigError("\n".join(lines))


def read_rules(path: Path, table: str | None = None, variables: Mapping[str, str] | None = None) -> FrameDocument:
    """Return the rules of a file. ``table``: which one, if it has several. ``variables``: the values of `${NAME}`.

    Raises ConfigError with file, line and key of every mistake. `packs.yaml` and the checks' defaults beside it hold.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file of rules")
    documents = [each for each in read_documents(path) if each.data is not None]
    for document in documents:
        if not isinstance(document.data, dict):
            raise ConfigError(f"{document.at([])}: expected keys: name, key, columns, checks, drift")
    names = [_attributes(each).get("name") for each in documents]
    chosen = [each for each, name in zip(documents, names, strict=True) if table in (None, name)]
    if len(chosen) != 1:
        has = ", ".join(map(str, names)) or "nothing"
        raise ConfigError(f"{path}:1: expected one set of rules{f' for {table!r}' if table else ''}; the file has {has}")
    (document,) = chosen
    shared = read_shared_files(path.absolute().parent, variables or {})
    if "type" in document.data or "attributes" in document.data:
        if mistakes := list(table_mistakes(document, shared)):
            raise ConfigError("\n".join(mistakes))
        if is_guard(document):
            resolved = resolve_attributes(document.data["attributes"], shared_with_guards(shared))
            return FrameDocument(GuardSpec.model_validate(resolved.attributes), SourceMap(document, shared, resolved.origins))
        resolved = resolve_attributes(document.data["attributes"], shared)
        rules, left_out = rules_of_table(TableSpec.model_validate(resolved.attributes))
        return FrameDocument(rules, SourceMap(document, shared, resolved.origins), left_out)
    # Only the defaults of checks apply: this is no table.
    shared = replace(shared, defaults=shared.defaults.model_copy(update={"tables": {}}))
    try:
        resolved = resolve_attributes(document.data, shared)
    except SharingError as error:
        raise ConfigError(f"{document.at(error.keys)}: {join_keys(error.keys)}: {error.text}") from None
    source_map = SourceMap(document, shared, resolved.origins, root=())
    try:
        return FrameDocument(FrameRules.model_validate(resolved.attributes), source_map)
    except ValidationError as error:
        lines = [mistake_line(source_map, resolved.attributes, keys, text) for keys, text in mistakes_in(error)]
        raise ConfigError("\n".join(lines)) from None


def rules_of(values: Mapping[str, Any]) -> FrameDocument:
    """Return the rules of a mapping. Raises ConfigError with the key of every mistake."""
    try:
        return FrameDocument(FrameRules.model_validate(dict(values)))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{join_keys(keys)}: {text}".lstrip(": ") for keys, text in mistakes_in(error))) from None


def _attributes(document: Document) -> dict[str, Any]:
    inner = document.data.get("attributes")
    return inner if isinstance(inner, dict) else document.data
