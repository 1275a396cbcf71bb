"""The text of a `defs.yaml`: strict YAML, and the line of every key, so that a mistake is told where it stands.

Belongs here: YAML documents and positions. Does not: what stands in them (places, sharing).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

from lakehouse_assets.errors import ConfigError

# What a plain word means: YAML 1.1 without what surprises. NO, yes and off are texts, as in YAML 1.2; so are 12:30:45 (a
# number of seconds, once), 010 (an octal, once), 0b1 and 1_000. Whatever PyYAML writes is read back as it was.
PLAIN = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+0123456789."),
)


class _Strict(yaml.SafeLoader):
    """YAML without its traps: a key given twice, an anchor, an alias or a tag is an error."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, known) for tag, known in found if tag.rpartition(":")[2] in ("null", "timestamp", "merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        for what, sign in (("anchor", "*" if isinstance(event, yaml.AliasEvent) else "&"), ("tag", "")):
            if given := getattr(event, what, None):
                name = "alias" if sign == "*" else what
                raise yaml.MarkedYAMLError(problem=f"{name} {sign}{given} is not allowed", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"key {name!r} is given twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in PLAIN:
    _Strict.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


@dataclass(frozen=True)
class Document:
    """One YAML document: ``data`` as Python values, ``node`` with the positions."""

    path: Path
    node: yaml.Node | None
    data: Any

    def at(self, keys: Sequence[str | int]) -> str:
        """``file:line`` of the deepest of the keys that is there; a key that is none (a check's kind) is passed over."""
        node, line = self.node, self.node.start_mark.line + 1 if self.node else 1
        for key in keys:
            found = _child(node, key)
            if found:
                line, node = found
        return f"{self.path}:{line}"

    def has(self, keys: Sequence[str | int]) -> bool:
        """Whether every one of the keys is there."""
        node = self.node
        for key in keys:
            found = _child(node, key)
            if not found:
                return False
            node = found[1]
        return True


def read_documents(path: Path) -> tuple[Document, ...]:
    """Every document of a file. Raises ConfigError, with file and line, for what a strict and safe loader refuses."""
    try:
        return read_text(path.read_text(encoding="utf-8"), path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:1: the file is not UTF-8") from None


@lru_cache(maxsize=256)
def read_text(text: str, path: Path | str) -> tuple[Document, ...]:
    """Every document of a text; ``path``: what it is called in errors. Raises ConfigError as `read_documents`.

    Kept by its text, since what tables share is asked for with each of them: nobody may change what is in it.
    """
    try:
        loader = _Strict(text)
        try:
            found = []
            while loader.check_node():
                node = loader.get_node()
                found.append(Document(Path(path), node, loader.construct_document(node) if node else None))
            return tuple(found)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:1: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}:1: the YAML is nested too deeply") from None


def _child(node: yaml.Node | None, key: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if str(name.value) == str(key):
                return name.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and 0 <= key < len(node.value):
        return node.value[key].start_mark.line + 1, node.value[key]
    return None
