"""Where a table's attributes are written: its own document, the folder's `defaults.yaml`, or a pack of `packs.yaml`.

Belongs here: reading the two shared files, and the file and line of any key. Does not: YAML itself (document), or resolving
packs and defaults (sharing).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.mistakes import NAME, Keys, join_keys, mistakes_in
from lakehouse_assets.contracts.sharing import CheckOrigin, Defaults, Pack, Shared, SharingError, resolve_attributes
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
# A validation of several keys together names the wrong one at the beginning of its message.
NAMED = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)*)(?= \(|[:, ])")
# Keys that no rule compares with others, and what is said of a key that resembles no other.
ALONE = ("description", "owners", "tags", "group", "alerts", "maintenance", "properties", "supersede", "schema")
UNKNOWN = "not known here; there are"
MISSING = "attributes are missing; a table needs at least name, source, extraction and columns"
MISSING_OF_GUARD = "attributes are missing; a guard needs at least name, and path or table"


def read_shared_files(folder: Path, variables: Mapping[str, str]) -> Shared:
    """Return the shared files of the package with a table's folder. Raises ConfigError with file and line."""
    root = next((above for above in (folder, *folder.parents) if (above / "__init__.py").is_file()), folder)
    defaults, packs = _read_document(root / "defaults.yaml"), _read_document(root / "packs.yaml")
    general = _validated(Defaults, defaults, (), defaults.data) if defaults else Defaults()
    by_name: dict[str, Pack] = {}
    if packs:
        for name, written in packs.data.items():
            if not NAME.fullmatch(str(name)):
                raise ConfigError(f"{packs.at([name])}: {name}: a pack's name is of lower-case letters, digits and _")
            by_name[name] = _validated(Pack, packs, (name,), written)
    return Shared(general, by_name, variables, defaults, packs)


def _read_document(file: Path) -> Document | None:
    documents = [each for each in read_documents(file) if each.data is not None] if file.is_file() else []
    if len(documents) > 1 or not all(isinstance(each.data, dict) for each in documents):
        raise ConfigError(f"{file}:1: expected one document of keys")
    return documents[0] if documents else None


def _validated(model: type[Model], document: Document, keys: Keys, written: Any) -> Model:
    try:
        return model.model_validate(written)
    except ValidationError as error:
        mistakes = [((*keys, *loc), text) for loc, text in mistakes_in(error)]
        raise ConfigError("\n".join(f"{document.at(at)}: {join_keys(at)}: {text}" for at, text in mistakes)) from None


@dataclass(frozen=True)
class SourceMap:
    """Where one table's keys are written. ``origins``: see `ResolvedAttributes`. ``root``: the keys of the document that its
    attributes are below.
    """

    document: Document | None = None
    shared: Shared = field(default_factory=Shared)
    origins: Mapping[Keys, tuple[CheckOrigin, ...]] = field(default_factory=dict)
    root: Keys = ("attributes",)

    def locate(self, keys: Sequence[str | int]) -> tuple[str, str]:
        """Return ``file:line`` and the dotted name of a key of the resolved attributes, as its author wrote it."""
        keys = tuple(keys)
        checks, origin, rest = self._origin(keys)
        if origin and self._is_overridden(origin, rest):
            keys = (*origin.override, *rest)
        elif origin and origin.pack and self.shared.packs_document:
            inner = (origin.pack, "checks", origin.index, *rest)
            return self.shared.packs_document.at(inner), join_keys(inner)
        elif origin:
            keys = (*checks, origin.index, *rest)
        if self.document is None:
            return "defs.yaml:1", join_keys(keys)
        if defaults := self.shared.defaults_document:
            if keys and not self.document.has([*self.root, *keys]) and defaults.has(["tables", *keys]):
                return defaults.at(["tables", *keys]), join_keys(["tables", *keys])
            if (inner := self._keys_in_defaults(keys)) and defaults.has(inner):
                return defaults.at(inner), join_keys(inner)
        return self.document.at([*self.root, *keys]), join_keys(keys)

    def at(self, keys: Sequence[str | int]) -> str:
        """Return ``file:line`` of a key."""
        return self.locate(keys)[0]

    def is_of_pack(self, keys: Keys) -> bool:
        """Whether a pack, and not the table itself, writes this key of a check."""
        _, origin, rest = self._origin(keys)
        return origin is not None and origin.pack is not None and not self._is_overridden(origin, rest)

    def _origin(self, keys: Keys) -> tuple[Keys, CheckOrigin | None, Keys]:
        """Return the list of checks that the keys are in, the origin of their check, and the keys below it."""
        for checks, origins in self.origins.items():
            index = keys[len(checks)] if keys[: len(checks)] == checks and len(keys) > len(checks) else None
            if isinstance(index, int) and index < len(origins):
                return checks, origins[index], keys[len(checks) + 1 :]
        return (), None, ()

    def _keys_in_defaults(self, keys: Keys) -> Keys:
        """Return where defaults would set a check's key that the table does not set; nothing for any other key."""
        end = next((i + 2 for i, key in enumerate(keys[:-2]) if key == "checks" and isinstance(keys[i + 1], int)), None)
        check = _value_at(self.document.data, (*self.root, *keys[:end])) if self.document and end else None
        kind = check.get("check") if isinstance(check, dict) else None
        rest = keys[end:]
        if rest[:1] == (kind,):  # pydantic puts the kind between the check and its key
            rest = rest[1:]
        return ("checks", kind, *rest) if check and kind and rest and rest[0] not in check else ()

    def _is_overridden(self, origin: CheckOrigin, rest: Keys) -> bool:
        """Whether the table overrides this key of a pack's check; without a key, whether it makes the check another one."""
        in_table = self.document is not None and self.document.has([*self.root, *origin.override, *rest])
        return bool(origin.override) and in_table


def is_guard(document: Document) -> bool:
    """Whether a document declares a guard of somebody else's table, and no table of the lake."""
    kind = document.data.get("type") if isinstance(document.data, dict) else None
    return isinstance(kind, str) and kind.startswith("lakehouse_assets.") and kind.endswith(".GuardedTable")


def shared_with_guards(shared: Shared) -> Shared:
    """Return what guards share with tables: packs, variables and the defaults of checks."""
    return replace(shared, defaults=shared.defaults.model_copy(update={"tables": {}}))


def table_mistakes(document: Document, shared: Shared) -> Iterator[str]:
    """Yield ``file:line: key: text`` for each mistake of a table's document, or a guard's."""
    model: type[BaseModel] = TableSpec
    if is_guard(document):
        model, shared = GuardSpec, shared_with_guards(shared)
    for key in document.data:
        if key not in ("type", "attributes"):
            yield f"{document.at([key])}: {key}: not known here; a table's document has type and attributes, nothing else"
    attributes = document.data.get("attributes")
    if not isinstance(attributes, dict):
        yield f"{document.at(['attributes'])}: {MISSING if model is TableSpec else MISSING_OF_GUARD}"
        return
    try:
        resolved = resolve_attributes(attributes, shared)
    except SharingError as error:
        location, name = SourceMap(document, shared).locate(error.keys)
        yield f"{location}: {name}: {error.text}"
        return
    try:
        model.model_validate(resolved.attributes)
    except ValidationError as error:
        source_map, mistakes = SourceMap(document, shared, resolved.origins), [*mistakes_in(error)]
        for keys, text in [*mistakes, *_mistakes_beside(mistakes, model, resolved.attributes)]:
            yield mistake_line(source_map, resolved.attributes, keys, text)


def _mistakes_beside(
    mistakes: Sequence[tuple[Keys, str]], model: type[BaseModel], attributes: Mapping[str, Any]
) -> Iterator[tuple[Keys, str]]:
    """Yield what else is wrong where only single checks, single columns or keys that stand alone could not be read: pydantic
    compares keys with each other last. What may follow from one of those is left out: a mistake that names the column, and
    `depends_on` of a check.
    """
    others, checks, columns = dict(attributes), set[int](), set[str]()
    for keys, text in mistakes:
        match keys:
            case ("checks", int() as index, *_):
                checks.add(index)
            case ("columns", str() as name, *_):
                columns.add(name)
            case (str() as name, *_) if name in ALONE or (len(keys) == 1 and UNKNOWN in text):
                others.pop(name, None)
            case _:
                return
    if checks:
        others["checks"] = [_readable(index, check, checks) for index, check in enumerate(attributes["checks"])]
    if columns:
        others["columns"] = {**attributes["columns"], **dict.fromkeys(columns, "string")}
    try:
        model.model_validate(others)
    except ValidationError as error:
        for keys, text in mistakes_in(error):
            named = f"{join_keys(keys)} {text.partition('; there are ')[0]}"
            if not any(re.search(rf"\b{re.escape(name)}\b", named) for name in columns):
                yield keys, text


def _readable(index: int, check: Any, unread: Collection[int]) -> Any:
    if index in unread:
        return {"check": "not_empty", "name": f"unread_check_{index}"}
    return {key: value for key, value in check.items() if key != "depends_on"} if isinstance(check, dict) else check


def mistake_line(source_map: SourceMap, attributes: Mapping[str, Any], keys: Keys, text: str) -> str:
    """Return one mistake as a line, at the deepest key that its text names."""
    named = NAMED.match(text)
    inner = tuple(int(key) if key.isdigit() else key for key in named[1].split(".")) if named else ()
    if named and _value_at(attributes, (*keys, *inner)) is not None:
        keys, text = (*keys, *inner), text[named.end() :]
    elif keys:
        text = f": {text}"
    # Many tables have a pack's check.
    whose = f" (in table {attributes.get('name')})" if source_map.is_of_pack(keys) else ""
    location, name = source_map.locate(keys)
    return f"{location}: {name}{text}{whose}"


def _value_at(value: Any, keys: Keys) -> Any:
    """Return the value below these keys; None if there is none."""
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value
