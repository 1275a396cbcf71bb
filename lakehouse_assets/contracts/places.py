"""Where a table's attributes are written: its own document, the folder's `defaults.yaml`, or a pack of `packs.yaml`.

Belongs here: reading the two shared files, and the file and line of any key. Does not: YAML itself (document), or how the
parts are put together (sharing).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.mistakes import keys_of, reason_of
from lakehouse_assets.contracts.sharing import Defaults, Keys, Pack, Shared, Source, Unshared, Whole, whole
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
# A promise that joins several keys names the one that is wrong at the beginning of its message.
NAMED = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)*)(?= \(|[:, ])")
MISSING = "attributes are missing; a table needs at least name, source, extraction and columns"


@dataclass(frozen=True)
class SharedFiles:
    """What the tables of one folder share, and the documents in which it is written."""

    values: Shared = field(default_factory=Shared)
    defaults: Document | None = None
    packs: Document | None = None


def shared_of(folder: Path, variables: Mapping[str, str]) -> SharedFiles:
    """The shared files of the tables' package that a table's folder is in. Raises ConfigError with file and line."""
    root = next((place for place in (folder, *folder.parents) if (place / "__init__.py").is_file()), folder)
    defaults, packs = _only_document(root / "defaults.yaml"), _only_document(root / "packs.yaml")
    found: dict[str, Pack] = {}
    general = Defaults()
    if defaults:
        general = _valid(Defaults, defaults, (), defaults.data)
    if packs:
        for name, written in packs.data.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", str(name)):
                raise ConfigError(f"{packs.at([name])}: {name}: a pack's name is of lower-case letters, digits and _")
            found[name] = _valid(Pack, packs, (name,), written)
    return SharedFiles(Shared(general, found, variables), defaults, packs)


def _only_document(file: Path) -> Document | None:
    if not file.is_file():
        return None
    documents = [document for document in read_documents(file) if document.data is not None]
    if not documents:
        return None
    if len(documents) > 1 or not isinstance(documents[0].data, dict):
        raise ConfigError(f"{file}:1: one document of keys is wanted here")
    return documents[0]


def _valid(model: type[Model], document: Document, keys: Keys, written: Any) -> Model:
    try:
        return model.model_validate(written)
    except ValidationError as error:
        lines = []
        for mistake in error.errors(include_url=False):
            at = [*keys, *mistake["loc"]]
            lines.append(f"{document.at(at)}: {'.'.join(map(str, at))}: {reason_of(mistake)}")
        raise ConfigError("\n".join(lines)) from None


@dataclass(frozen=True)
class Places:
    """The places of one table's keys. ``sources``: see `Whole`."""

    document: Document | None = None
    files: SharedFiles = field(default_factory=SharedFiles)
    sources: Mapping[Keys, tuple[Source, ...]] = field(default_factory=dict)

    def told(self, keys: Sequence[str | int]) -> tuple[str, str]:
        """``file:line`` and the dotted name of a key of the whole attributes, as its author wrote it."""
        keys = tuple(keys)
        for of_list, sources in self.sources.items():
            size = len(of_list)
            place = keys[size] if len(keys) > size and keys[:size] == of_list else None
            if not isinstance(place, int) or place >= len(sources):
                continue
            source = sources[place]
            rest = keys[size + 1 :]
            if self._is_own(source, rest):
                keys = (*source.override, *rest)
                break
            if source.pack and self.files.packs:
                inner = (source.pack, "checks", source.place, *rest)
                return self.files.packs.at(inner), ".".join(map(str, inner))
            keys = (*of_list, source.place, *rest)
        name = ".".join(map(str, keys))
        defaults = self.files.defaults
        if self.document is None:
            return "defs.yaml:1", name
        if keys and defaults and not self.document.has(["attributes", *keys]) and defaults.has(["tables", *keys]):
            return defaults.at(["tables", *keys]), f"tables.{name}"
        shared = self._in_defaults(keys)
        if defaults and shared and defaults.has(shared):
            return defaults.at(shared), ".".join(map(str, shared))
        return self.document.at(["attributes", *keys]), name

    def _in_defaults(self, keys: Keys) -> Keys:
        """Where defaults would say what a check of the table does not say itself; nothing for any other key."""
        at = next((place for place, key in enumerate(keys[:-2]) if key == "checks" and isinstance(keys[place + 1], int)), None)
        node: Any = self.document.data.get("attributes") if self.document and at is not None else None
        try:
            for key in keys[: (at or 0) + 2]:
                node = node[key]
            kind = node["check"]
        except (KeyError, IndexError, TypeError):
            return ()
        # Pydantic puts the kind between the check and its key.
        rest = keys[(at or 0) + 2 :]
        rest = rest[1:] if rest[0] == kind else rest
        return ("checks", kind, *rest) if rest and rest[0] not in node else ()

    def of_pack(self, keys: Sequence[str | int]) -> bool:
        """Whether it is a pack's check that these keys are told of, and not what the table says of it itself."""
        sources, place = self.sources.get(tuple(keys[:1]), ()), keys[1] if len(keys) > 1 else None
        if not isinstance(place, int) or place >= len(sources):
            return False
        return sources[place].pack is not None and not self._is_own(sources[place], tuple(keys[2:]))

    def _is_own(self, source: Source, rest: Keys) -> bool:
        """Whether a key of a pack's check is what the table overrides; the check as a whole is, where it is another by that."""
        if not source.override or self.document is None:
            return False
        return self.document.has(["attributes", *source.override, *rest])

    def at(self, keys: Sequence[str | int]) -> str:
        """``file:line`` of a key."""
        return self.told(keys)[0]


def places_of(path: Path, table: str, files: SharedFiles) -> Places:
    """The places of a table that is known to be right. A file of one table is that table's, whatever name is asked for."""
    found = []
    for document in read_documents(path) if path.is_file() else ():
        attributes = document.data.get("attributes") if isinstance(document.data, dict) else None
        if isinstance(attributes, dict):
            made = whole(attributes, files.values)
            found.append((made.attributes.get("name"), Places(document, files, made.sources)))
    named = [places for name, places in found if name == table or len(found) == 1]
    return named[0] if named else Places()


def table_mistakes(document: Document, files: SharedFiles) -> Iterator[str]:
    """``file:line: key: what is wrong`` for each mistake of a table's promise; nothing if it can be kept."""
    for key in document.data:
        if key not in ("type", "attributes"):
            yield f"{document.at([key])}: {key}: not known here; a table's document has type and attributes, nothing else"
    attributes = document.data.get("attributes")
    if not isinstance(attributes, dict):
        yield f"{document.at(['attributes'])}: {MISSING}"
        return
    try:
        found = whole(attributes, files.values)
    except Unshared as error:
        place, name = Places(document, files).told(error.keys)
        yield f"{place}: {name}: {error.text}"
        return
    places = Places(document, files, found.sources)
    try:
        TableSpec.model_validate(found.attributes)
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            yield _line(places, found, keys_of(mistake), reason_of(mistake))


def _line(places: Places, found: Whole, loc: Keys, text: str) -> str:
    """One mistake, at the deepest key that it names."""
    named = NAMED.match(text)
    inner = tuple(int(key) if key.isdigit() else key for key in named[1].split(".")) if named else ()
    if not _holds(found.attributes, (*loc, *inner)):
        inner = ()
    keys = (*loc, *inner)
    # A pack's check is many tables': say of which one this is told.
    whose = f" (in table {found.attributes.get('name')})" if places.of_pack(keys) else ""
    if named and inner:
        place, name = places.told(keys)
        return f"{place}: {name}{text[named.end() :]}{whose}"
    place, name = places.told(loc)
    return f"{place}: {name}{': ' if name else ''}{text}{whose}"


def _holds(value: Any, keys: Keys) -> bool:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
