"""Loading the tables: every `defs.yaml` under the tables' package, through Dagster's component loader.

Belongs here: YAML files → components, and errors that name file, line and key. Does not: what a table may say (contracts).
"""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg

from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.places import shared_of, table_mistakes
from lakehouse_assets.contracts.references import circle, gold_reference_mistakes, reference_mistakes
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.settings import PROJECT_ROOT, Settings

OURS = ("lakehouse_assets.LakehouseTable", "lakehouse_assets.orchestration.component.LakehouseTable")


def load_tables(package: str = "lakehouse_assets.tables", project: Path = PROJECT_ROOT) -> list[LakehouseTable]:
    """Every table, by name. Raises ConfigError: one line per mistake, each with file, line and key."""
    module = importlib.import_module(package)
    folder = Path(next(iter(module.__path__)))
    mistakes = [mistake for file in sorted(folder.rglob("defs.yaml")) for mistake in _mistakes(file)]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    try:
        tree = dg.ComponentTree.from_module(defs_module=module, project_root=project)
        found = tree.get_all_components(of_type=LakehouseTable)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(_plain(error)) from error
    found = sorted(found, key=lambda t: t.spec.name)
    names: dict[str, str] = {}
    for table in found:
        for name in [table.spec.name, *(f"gold {gold.name}" for gold in table.spec.gold)]:
            place = table.places.at(["name"])
            if name in names:
                raise ConfigError(f"{place}: name: {name!r} is already described in {names[name]}")
            names[name] = place
    mistakes = list(_between(found))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return found


def golds_of(tables: Sequence[LakehouseTable]) -> dict[str, GoldQuery]:
    """What every gold table reads, by its name."""
    specs = [table.spec for table in tables]
    return {gold.name: table.query_of(gold, specs) for table in tables for gold in table.spec.gold}


def _between(tables: Sequence[LakehouseTable]) -> Iterator[str]:
    """Mistakes between tables, and in gold's SQL."""
    specs = [table.spec for table in tables]
    known = {spec.name: spec for spec in specs}
    for table in tables:
        wrong = list(reference_mistakes(table.spec, known))
        for place, gold in enumerate(table.spec.gold):
            wrong += gold_reference_mistakes(place, gold.checks, table.query_of(gold, specs), known)
        for keys, text in wrong:
            place, name = table.places.told(keys)
            yield f"{place}: {name} {text}"
    if names := circle(specs):
        place = next(table.places for table in tables if table.spec.name == names[0]).at(["checks"])
        yield f"{place}: checks: these tables look into each other: {' → '.join(names)}"


def _mistakes(file: Path) -> Iterator[str]:
    documents = read_documents(file)
    if not any(document.data for document in documents):
        yield f"{file}:1: the file is empty; `lakehouse init` drafts one, and a table needs `type:` and `attributes:`"
        return
    for document in documents:
        kind = document.data.get("type") if isinstance(document.data, dict) else None
        if kind in OURS:
            yield from table_mistakes(document, shared_of(file.parent, Settings.from_environment().variables))
        elif not isinstance(kind, str) or not _exists(kind):
            yield f"{document.at(['type'])}: type: there is no component {kind!r}; a table is a {OURS[0]}"


def _exists(kind: str) -> bool:
    """Whether a component's class can be imported: a table may stand beside other people's components."""
    module, _, name = kind.rpartition(".")
    try:
        return bool(module) and hasattr(importlib.import_module(module), name)
    except (ImportError, ValueError):
        return False


def _plain(error: BaseException) -> str:
    """The innermost cause that says where: Dagster wraps a mistake in the stack of its own loading."""
    cause: BaseException | None = error
    texts = []
    while cause is not None:
        texts.append(str(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return next((text for text in reversed(texts) if "defs.yaml" in text), texts[-1] or repr(error)).strip()
