"""`GuardedTable`: the Dagster component whose attributes are a guard's contract.

Belongs here: a component's YAML → its contract. Does not: what its assets do (guard_assets), or what a guard may declare
(contracts).
"""

from pathlib import Path

import dagster as dg
from pydantic import BaseModel

from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.source_map import MISSING_OF_GUARD, SourceMap, read_shared_files
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.component import ProjectComponent
from lakehouse_assets.orchestration.assets.table_attributes import RawAttributes, RawGuardAttributes
from lakehouse_assets.orchestration.assets.table_files import GUARDS, read_guard
from lakehouse_assets.settings import template_variables


class GuardedTable(ProjectComponent):
    """The guard of a Delta table that others write: its versions are checked, compared with history and decided on."""

    def __init__(self, name: str, folder: Path, spec: GuardSpec | None = None, source_map: SourceMap | None = None) -> None:
        self._name, self.folder, self.spec = name, folder, spec
        self.source_map = source_map or SourceMap()

    @property
    def name(self) -> str:
        """The guard's name."""
        return self._name

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model whose JSON schema has every key; values are validated once shared files are resolved."""
        return RawGuardAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "GuardedTable":
        """Return the guard with packs resolved; with mistakes, a component without assets: the project reports them."""
        if not isinstance(attributes, RawAttributes):
            raise ConfigError(f"{context.path}: {MISSING_OF_GUARD}")
        folder = Path(context.path)
        name = str((attributes.model_extra or {}).get("name") or folder.name)
        documents = [each for each in read_documents(folder / "defs.yaml") if isinstance(each.data, dict)]
        own = [each for each in documents if each.data.get("type") in GUARDS]
        named = [each for each in own if (each.data.get("attributes") or {}).get("name") == name] or own
        try:
            spec, source_map = read_guard(named[0], read_shared_files(folder, template_variables()))
        except ConfigError:
            return cls(name, folder)
        return cls(name, folder, spec, source_map)
