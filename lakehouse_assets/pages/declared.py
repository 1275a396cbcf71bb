"""What the project's YAML says of a table today: its contract, and file and line of each check. Read for changed tables only.

Belongs here: files → `TableDeclaration`. Does not: validation (orchestration/assets/table_files): a mistake is a note.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lakehouse_assets.checks.base import Check
from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.sharing import Shared, resolve_attributes
from lakehouse_assets.contracts.source_map import SourceMap, is_guard, read_shared_files, shared_with_guards
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.pages.history import Declared
from lakehouse_assets.settings import Settings


@dataclass(frozen=True)
class TableDeclaration:
    """``spec``: None for a guard, a gold table, or a contract that cannot be read; its `problem` says why. ``personal``: the
    columns that a table or a guard marks `pii`.
    """

    shown: Declared
    spec: TableSpec | None = None
    problem: str = ""
    personal: frozenset[str] = frozenset()


@dataclass
class Project:
    """The YAML files of a project's tables. ``files``: each with its text."""

    folder: Path | None
    variables: Mapping[str, str]
    files: dict[Path, str] = field(default_factory=dict)
    _by_table: dict[str, TableDeclaration | None] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> "Project":
        """Return the files below the project's folder of tables; none if it has none."""
        project = cls(settings.tables, settings.variables)
        for file in sorted(settings.tables.rglob("*.y*ml")) if settings.tables and settings.tables.is_dir() else ():
            try:
                project.files[file] = file.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
        return project

    def fingerprint(self, table: str) -> str:
        """Return a text that changes with the files that may declare the table."""
        texts = [f"{file}\n{self.files[file]}" for file in self._candidates(table)]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def find(self, table: str) -> TableDeclaration | None:
        """Return what declares the table today; None if no file does. Without any folder of tables nothing has left it."""
        if self.folder is None or not self.files:
            return TableDeclaration(Declared())
        if table not in self._by_table:
            files = (file for file in self._candidates(table) if file.name == "defs.yaml")
            self._by_table[table] = next(filter(None, (self._read(file, table) for file in files)), None)
        return self._by_table[table]

    def _candidates(self, table: str) -> list[Path]:
        names = (table, table.removeprefix("gold_"))
        shared = ("defaults.yaml", "packs.yaml")
        return [f for f, text in self.files.items() if f.name in shared or any(name in text for name in names)]

    @cached_property
    def _shared(self) -> Shared:
        file = next(f for f in self.files if f.name == "defs.yaml")
        return read_shared_files(file.parent, self.variables)

    def _read(self, file: Path, table: str) -> TableDeclaration | None:
        try:
            for document in read_documents(file):
                if found_table := self._of_document(document, table):
                    return found_table
        except (LakehouseError, OSError, ValueError, TypeError, KeyError) as error:
            # The table may be this one: its marks are unknown, and the log's own are used.
            return TableDeclaration(Declared(), problem=str(error).splitlines()[0]) if file.parent.name == table else None
        return None

    def _of_document(self, document: Document, table: str) -> TableDeclaration | None:
        attributes = document.data.get("attributes") if isinstance(document.data, dict) else None
        if not isinstance(attributes, dict):
            return None
        gold = [each.get("name") for each in attributes.get("gold") or () if isinstance(each, dict)]
        own, is_gold = attributes.get("name") == table, table.removeprefix("gold_") in gold
        if not own and not is_gold:
            return None
        guard = is_guard(document)
        shared = shared_with_guards(self._shared) if guard else self._shared
        resolved = resolve_attributes(attributes, shared)
        source_map = SourceMap(document, shared, resolved.origins)
        if guard:
            spec = GuardSpec.model_validate(resolved.attributes)
            checks = dict(self._located(spec.checks, source_map, ("checks",)))
            return TableDeclaration(Declared(checks, spec.owners, spec.description or ""), personal=spec.pii_columns)
        spec = TableSpec.model_validate(resolved.attributes)
        if own:
            checks = dict(self._located(spec.checks, source_map, ("checks",)))
            shown = Declared(checks, tuple(spec.owners), spec.description or "")
            return TableDeclaration(shown, spec, personal=spec.pii_columns)
        index = gold.index(table.removeprefix("gold_"))
        declared = spec.gold[index]
        checks = dict(self._located(declared.checks, source_map, ("gold", index, "checks")))
        return TableDeclaration(Declared(checks, tuple(spec.owners), declared.description or ""))

    def _located(
        self, checks: tuple[Check, ...], source_map: SourceMap, keys: tuple[str | int, ...]
    ) -> Iterator[tuple[str, str]]:
        for index, check in enumerate(checks):
            location = source_map.at((*keys, index))
            yield check.id, location.removeprefix(f"{self.folder.parent}/" if self.folder else "")
