"""Checks added to the text of a `defs.yaml`, at the end of its `checks:`; every other character stays as it is.

Belongs here: where the lines go, and proof that nothing else changed. Does not: which checks, or writing the file (cli).
"""

from collections.abc import Sequence
from copy import deepcopy

import yaml

from lakehouse_assets.contracts.document import Document, read_text
from lakehouse_assets.errors import ConfigError, RefusedError

PASTE = "paste the checks by hand"


def add_checks(document: Document, text: str, root: Sequence[str | int], checks: Sequence[str]) -> str:
    """Return the text of the document's file with these checks, a line of YAML each. ``root``: the keys of the table's
    attributes. Raises RefusedError, with the file and line, where its `checks:` is no list of lines. It also does so where the
    text is not what the document was read from.
    """
    node = next((each.node for each in read_text(text, document.path) if each.data == document.data), None)
    if node is None:
        raise RefusedError(f"{document.path}:1: the file has changed meanwhile; run the command again")
    for key in root:
        node = _value(node, str(key))
    where = document.at(root)
    if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
        raise RefusedError(f"{where}: the attributes are not one key a line; {PASTE}")
    written = _value(node, "checks")
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    if written is None:
        indent = " " * node.start_mark.column
        new, at = [f"{indent}checks:", *[f"{indent}  - {check}" for check in checks]], _line_after(node.value[-1][1], lines)
    elif isinstance(written, yaml.SequenceNode) and not written.flow_style and written.value:
        indent = " " * written.start_mark.column
        new, at = [f"{indent}- {check}" for check in checks], _line_after(written.value[-1], lines)
    else:
        raise RefusedError(f"{document.at([*root, 'checks'])}: checks is not one check a line; {PASTE}")
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    result = "".join([*lines[:at], *[line + end for line in new], *lines[at:]])
    if not _is_as_expected(result, document, text, root, checks):
        raise RefusedError(f"{where}: its layout is unusual; {PASTE}")
    return result


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def _line_after(node: yaml.Node, lines: Sequence[str]) -> int:
    """Return the index of the line after a node. A block ends where the next token begins, after comments and empty lines."""
    end = node.end_mark
    if end.line < len(lines) and lines[end.line][: end.column].strip():
        return end.line + 1
    at = min(end.line, len(lines))
    while at > 0 and (not lines[at - 1].strip() or lines[at - 1].lstrip().startswith("#")):
        at -= 1
    return at


def _is_as_expected(result: str, document: Document, text: str, root: Sequence[str | int], checks: Sequence[str]) -> bool:
    """Whether the documents of the file have the data that they had, and the checks."""
    try:
        documents = [each.data for each in read_text(result, document.path)]
    except ConfigError:
        return False
    (added,) = read_text("\n".join(f"- {check}" for check in checks), document.path)
    every = [deepcopy(each.data) for each in read_text(text, document.path)]
    for each in every:
        if each == document.data:
            attributes = each
            for key in root:
                attributes = attributes[key]
            attributes["checks"] = [*attributes.get("checks", []), *added.data]
            break
    return documents == every
