"""The text of a `defs.yaml`: strict YAML, and the line of every key, for messages.

Belongs here: YAML documents and positions. Does not: their content (source_map, sharing).
"""

import re
from collections.abc import Collection, Iterator, Sequence
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

TEXT, NULL, MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "null", "merge"))
# Where the plain word `null` is the name of a mode, and not the absence of a value.
NULL_IS_A_NAME = ("missing_columns",)
# No key, and no column, has a use for longer ones; Python itself refuses to read the longest.
MOST_DIGITS = 38


class _Strict(yaml.SafeLoader):
    """YAML without its traps: a key given twice, an anchor, an alias, a tag, a merge key or an endless number is an error.

    ``bad_dates``: words that look like a date and are none, each with why; they are read as texts.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.bad_dates: list[tuple[yaml.ScalarNode, str]] = []

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "timestamp", "merge")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        for what, sign in (("anchor", "*" if isinstance(event, yaml.AliasEvent) else "&"), ("tag", "")):
            if value := getattr(event, what, None):
                name = "alias" if sign == "*" else what
                raise yaml.MarkedYAMLError(problem=f"{name} {sign}{value} is not allowed", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        earlier: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in earlier:
                raise yaml.MarkedYAMLError(problem=f"key {name!r} is given twice", problem_mark=key.start_mark)
            earlier.add(name)
            if key.tag == MERGE:
                text = "merge key << is not allowed; write the keys out, or put what tables share into defaults.yaml"
                raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
            if name in NULL_IS_A_NAME and isinstance(value, yaml.ScalarNode) and (value.tag, value.value) == (NULL, "null"):
                value.tag = TEXT
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        digits = len(str(node.value).lstrip("+-"))
        if digits > MOST_DIGITS:
            text = f"a whole number of {digits} digits is not allowed; at most {MOST_DIGITS}"
            raise yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark)
        return super().construct_yaml_int(node)

    def construct_yaml_timestamp(self, node: yaml.ScalarNode) -> Any:
        try:
            return super().construct_yaml_timestamp(node)
        except ValueError as error:
            self.bad_dates.append((node, f"{node.value}: {error}"))
            return node.value


_Strict.add_constructor("tag:yaml.org,2002:int", _Strict.construct_yaml_int)
_Strict.add_constructor("tag:yaml.org,2002:timestamp", _Strict.construct_yaml_timestamp)
for _tag, _pattern, _first in PLAIN:
    _Strict.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


@dataclass(frozen=True)
class Document:
    """One YAML document: ``data`` as Python values, ``node`` with the positions. ``bad_dates``: the keys of dates that do not
    exist.
    """

    path: Path
    node: yaml.Node | None
    data: Any
    bad_dates: tuple[tuple[str | int, ...], ...] = ()

    def at(self, keys: Sequence[str | int]) -> str:
        """Return ``file:line`` of the deepest existing key; other keys (a check's kind) are skipped."""
        node, line = self.node, self.node.start_mark.line + 1 if self.node else 1
        for key in keys:
            child = _child(node, key)
            if child:
                line, node = child
        return f"{self.path}:{line}"

    def has(self, keys: Sequence[str | int]) -> bool:
        """Whether every key exists."""
        node = self.node
        for key in keys:
            child = _child(node, key)
            if not child:
                return False
            node = child[1]
        return True


def read_documents(path: Path, dates_as_texts: bool = False) -> tuple[Document, ...]:
    """Return every document of a file. Raises ConfigError, with file and line, for anything that strict YAML refuses.

    ``dates_as_texts``: a date that does not exist is no error; only to find the file's other mistakes.
    """
    try:
        return read_text(path.read_text(encoding="utf-8"), path, dates_as_texts)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:1: the file is not UTF-8") from None


def read_component(path: Path, kinds: Collection[str], name: object) -> Document:
    """Return the document of a component of these types and this name; the first of these types if none is called so.

    It is our own reading of the YAML: Dagster's loader reads NO as false, and 12:30:45 as a number. Raises as `read_documents`.
    """
    documents = [each for each in read_documents(path) if isinstance(each.data, dict)]
    own = [each for each in documents if each.data.get("type") in kinds] or documents
    return next((each for each in own if (each.data.get("attributes") or {}).get("name") == name), own[0])


@lru_cache(maxsize=256)
def read_text(text: str, path: Path | str, dates_as_texts: bool = False) -> tuple[Document, ...]:
    """Return every document of a text, cached: do not change it. ``path``: its name in errors. Raises as `read_documents`."""
    try:
        loader = _Strict(text)
        try:
            documents = []
            while loader.check_node():
                node = loader.get_node()
                data = loader.construct_document(node) if node else None
                dates = tuple(_keys_of([date for date, _ in loader.bad_dates], node))
                documents.append(Document(Path(path), node, data, dates))
            if loader.bad_dates and not dates_as_texts:
                lines = sorted((date.start_mark.line + 1, problem) for date, problem in loader.bad_dates)
                raise ConfigError("\n".join(f"{path}:{line}: {problem}" for line, problem in lines))
            return tuple(documents)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:1: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}:1: the YAML is nested too deeply") from None


def _keys_of(
    values: Collection[yaml.Node], node: yaml.Node | None, keys: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield the keys of each of these values below a node."""
    if any(node is value for value in values):
        yield keys
    if values and isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _keys_of(values, value, (*keys, str(name.value)))
    if values and isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _keys_of(values, value, (*keys, index))


def _child(node: yaml.Node | None, key: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if str(name.value) == str(key):
                return name.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and 0 <= key < len(node.value):
        return node.value[key].start_mark.line + 1, node.value[key]
    return None
