"""Loading the tables: every `defs.yaml` under the tables' package, through Dagster's component loader.

Belongs here: YAML files → components, and errors that name file, line and key. Does not: what a table may say (contracts).
"""

import importlib
import re
from pathlib import Path

import dagster as dg
import yaml

from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.settings import PROJECT_ROOT

POSITION = re.compile(r"\s+at\s+(\S.*?):(\d+)")


class _Strict(yaml.SafeLoader):
    """YAML without its traps: a key given twice, an anchor, or a tag is an error."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(problem=f"alias *{event.anchor} is not allowed", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"key {name!r} is given twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def check_yaml(path: Path) -> None:
    """Raise ConfigError, with file and line, for YAML that a strict and safe loader refuses."""
    try:
        for _ in yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Strict):
            pass
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:1: the file is not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:1: {error}") from None


def load_tables(package: str = "lakehouse_assets.tables", project: Path = PROJECT_ROOT) -> list[LakehouseTable]:
    """Every table, by name. Raises ConfigError: one line per mistake, each with file, line and key."""
    module = importlib.import_module(package)
    folder = Path(next(iter(module.__path__)))
    for file in sorted(folder.rglob("defs.yaml")):
        check_yaml(file)
    try:
        tree = dg.ComponentTree.from_module(defs_module=module, project_root=project)
        found = tree.get_all_components(of_type=LakehouseTable)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(_plain(error)) from error
    names: dict[str, Path] = {}
    for table in sorted(found, key=lambda t: t.spec.name):
        for name in [table.spec.name, *(f"gold {gold.name}" for gold in table.spec.gold)]:
            if name in names:
                raise ConfigError(f"{table.folder}: {name!r} is already described in {names[name]}")
            names[name] = table.folder
    return sorted(found, key=lambda t: t.spec.name)


def _plain(error: BaseException) -> str:
    """The innermost cause that says where: Dagster wraps a mistake in the stack of its own loading."""
    cause: BaseException | None = error
    texts = []
    while cause is not None:
        texts.append(str(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return next((text for text in reversed(texts) if "defs.yaml" in text), texts[-1] or repr(error)).strip()
