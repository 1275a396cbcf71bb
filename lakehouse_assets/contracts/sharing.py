"""What tables share: `defaults.yaml` and `packs.yaml` beside their folders, and variables of the environment.

Belongs here: a table's attributes as written → all of them. Does not: their meaning (table), or reading files (document).

`${NAME}` is the environment's `LAKEHOUSE_VAR_NAME`; within a pack `${name}` is a parameter. `$${` is a plain `${`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.registry import AnyCheck, kinds
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.document import Document
from lakehouse_assets.contracts.mistakes import Keys, join_keys, mistakes_in

FILLED = re.compile(r"\$(?=\$\{)|(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
CHECK: TypeAdapter[Check] = TypeAdapter(AnyCheck)


class Pack(StrictModel):
    """Checks under a name, for any table."""

    description: str = ""
    """What the checks have in common."""
    parameters: dict[str, Any] = {}
    """`name: default`, in lower case; a table that uses the pack must set those without a default (`name:`, or `name:
    null`)."""
    checks: tuple[dict[str, Any], ...] = Field(min_length=1)
    """The checks, as a table writes them, with `${name}` for a parameter. A check with `for_columns: "*_id"` is made once for
    each declared column that matches the pattern, with `${column}` for its name."""

    @field_validator("parameters")
    @classmethod
    def _lower_case(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "column":
                raise ValueError(f"{name!r}: lower-case letters, digits and _ only, and not `column`")
        return value


class UsedPack(StrictModel):
    """How a table uses a pack. Its name alone is short for `{pack: name}`."""

    pack: str
    """A name in `packs.yaml`."""
    parameters: dict[str, Any] = Field(default={}, alias="with")
    """`parameter: value`."""
    override: dict[str, dict[str, Any]] = {}
    """`check: {parameter: value}`: the parameters that differ here; the check by its name in this table."""
    without: tuple[str, ...] = ()
    """Checks that this table leaves out."""


class Defaults(StrictModel):
    """Defaults for every table. A table's own lists replace them; mappings are merged, key by key."""

    tables: dict[str, Any] = {}
    """Any attributes of a table."""
    checks: dict[str, dict[str, Any]] = {}
    """`kind: {parameter: value}`, for the checks of all tables and packs."""

    @field_validator("checks")
    @classmethod
    def _of_a_kind(cls, value: dict[str, Any]) -> dict[str, Any]:
        for kind, parameters in value.items():
            if kind not in kinds():
                raise ValueError(f"{kind!r}: there is no such kind; `lakehouse check kinds` lists them")
            if unknown := [name for name in parameters if name not in kinds()[kind].model_fields]:
                raise ValueError(f"{kind}: there is no parameter {', '.join(unknown)}")
        return value


@dataclass(frozen=True)
class Shared:
    """``defaults`` and ``packs`` of a tables' folder, with their documents; ``variables``: the environment's, by name."""

    defaults: Defaults = field(default_factory=Defaults)
    packs: Mapping[str, Pack] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    defaults_document: Document | None = None
    packs_document: Document | None = None


@dataclass(frozen=True)
class CheckOrigin:
    """Where a check is written: at an index of the table's own list (``pack`` None), or of a pack's. ``override``: the table's
    keys that override it, if they change what only the table can validate.
    """

    index: int
    pack: str | None = None
    override: Keys = ()


@dataclass(frozen=True)
class ResolvedAttributes:
    """All attributes of a table. ``origins``: of the checks of each list, by the list's keys."""

    attributes: dict[str, Any]
    origins: Mapping[Keys, tuple[CheckOrigin, ...]]


class SharingError(Exception):
    """A wrong use of packs or variables. ``keys``: below the attributes."""

    def __init__(self, keys: Keys, text: str) -> None:
        super().__init__(text)
        self.keys, self.text = keys, text


def resolve_attributes(written: Mapping[str, Any], shared: Shared) -> ResolvedAttributes:
    """Fill in a table's variables, defaults, and the checks of its packs, which come before its own. Raises SharingError."""
    attributes: dict[str, Any] = _filled(_merged(shared.defaults.tables, written), shared.variables, _no_variable)
    defaults: dict[str, Any] = _filled(shared.defaults.checks, shared.variables, _no_variable)
    golds, declared = attributes.get("gold"), attributes.get("columns")
    owners: list[tuple[Keys, Any, list[str]]] = [((), attributes, list(declared) if isinstance(declared, dict) else [])]
    owners += [(("gold", index), gold, []) for index, gold in enumerate(golds if isinstance(golds, list) else [])]
    origins: dict[Keys, tuple[CheckOrigin, ...]] = {}
    for keys, owner, columns in owners:
        if not isinstance(owner, dict):
            continue
        packs, own = owner.pop("packs", None) or [], owner.get("checks", [])
        if not isinstance(packs, list):
            raise SharingError((*keys, "packs"), "expected a list of packs")
        if not isinstance(own, list | tuple):
            continue  # the model reports it
        checks: list[tuple[Any, CheckOrigin]] = []
        for index, use in enumerate(packs):
            checks += _checks_of_pack(use, (*keys, "packs", index), columns, shared, defaults)
        checks += [(check, CheckOrigin(index)) for index, check in enumerate(own)]
        if checks:
            owner["checks"] = [_with_defaults(check, defaults) for check, _ in checks]
        origins[(*keys, "checks")] = tuple(origin for _, origin in checks)
    return ResolvedAttributes(attributes, origins)


def _checks_of_pack(
    use: Any, keys: Keys, columns: Sequence[str], shared: Shared, defaults: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], CheckOrigin]]:
    """Yield the checks that one use of a pack makes for these columns. ``keys``: of the use."""
    used, values = _used_pack(use, keys, shared)
    checks: dict[str, tuple[dict[str, Any], Check, CheckOrigin]] = {}
    for index, written in enumerate(shared.packs[used.pack].checks):
        for column in _columns_of(written, columns):
            filled = _fill_check(written, {**values, **column}, shared.variables, keys)
            try:
                check = CHECK.validate_python(_with_defaults(filled, defaults))
            except ValidationError as error:
                loc, text = next(mistakes_in(error))
                text = f"{join_keys(loc[1:])}: {text}".lstrip(": ")
                raise SharingError(keys, f"check {index} of pack {used.pack} ({filled.get('check')}): {text}") from None
            if check.id in checks:
                text = f"makes two checks {check.id!r}: let `name:` differ, e.g. by `${{column}}`"
                raise SharingError(keys, f"pack {used.pack} {text}")
            checks[check.id] = filled, check, CheckOrigin(index, used.pack)
    for key, named in (("override", used.override), ("without", used.without)):
        if unknown := [name for name in named if name not in checks]:
            names = ", ".join(checks) or "none"
            raise SharingError((*keys, key), f"pack {used.pack} makes no check {', '.join(unknown)} here; it makes {names}")
    if not checks.keys() - set(used.without):
        raise SharingError(keys, f"pack {used.pack} makes no check in this table: no column matches, or all are left out")
    for name, (filled, check, origin) in checks.items():
        if name in used.without:
            continue
        changed, own = {**filled, **used.override.get(name, {})}, (*keys, "override", name)
        overridden = changed != filled and _is_another(check, _with_defaults(changed, defaults), own)
        yield changed, replace(origin, override=own) if overridden else origin


def _used_pack(use: Any, keys: Keys, shared: Shared) -> tuple[UsedPack, dict[str, Any]]:
    """Return how a table uses a pack, and the values of the pack's parameters."""
    try:
        used = UsedPack.model_validate({"pack": use} if isinstance(use, str) else use)
    except ValidationError as error:
        loc, text = next(mistakes_in(error))
        raise SharingError((*keys, *loc), text) from None
    pack = shared.packs.get(used.pack)
    if pack is None:
        raise SharingError(keys, f"there is no pack {used.pack!r}; there are {', '.join(shared.packs) or 'none'}")
    if unknown := sorted(set(used.parameters) - set(pack.parameters)):
        names = ", ".join(pack.parameters) or "none"
        raise SharingError((*keys, "with"), f"pack {used.pack} has no parameter {', '.join(unknown)}; there are {names}")
    values = {**_filled(pack.parameters, shared.variables, _no_variable, keys), **used.parameters}
    if missing := [name for name, value in values.items() if value is None]:
        raise SharingError((*keys, "with"), f"pack {used.pack} needs {', '.join(missing)}")
    return used, values


def _is_another(check: Check, written: Any, keys: Keys) -> bool:
    """Whether an overridden check needs the table's own validation. Raises SharingError, at ``keys``, if it is no check."""
    try:
        now = CHECK.validate_python(written)
    except ValidationError as error:
        loc, text = next(mistakes_in(error))
        raise SharingError((*keys, *loc[1:]), text) from None
    return any(getattr(now, name, None) != getattr(check, name, None) for name in ("id", "columns_used", "depends_on", "sql"))


def _columns_of(check: Mapping[str, Any], columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the parameter `column` of each column that the check's `for_columns` matches; without it, one empty mapping."""
    pattern = check.get("for_columns")
    return [{}] if pattern is None else [{"column": name} for name in columns if fnmatchcase(name, str(pattern))]


def _fill_check(check: Mapping[str, Any], values: Mapping[str, Any], variables: Mapping[str, str], keys: Keys) -> Any:
    def no_parameter(name: str) -> str:
        return f"${{{name}}} is no parameter of the pack ({', '.join(values) or 'it has none'}), and no variable"

    own = {key: value for key, value in check.items() if key != "for_columns"}
    return _filled(own, {**variables, **values}, no_parameter, keys)


def _with_defaults(check: Any, defaults: Mapping[str, Any]) -> Any:
    kind = check.get("check") if isinstance(check, dict) else None
    return {**defaults.get(kind, {}), **check} if isinstance(kind, str) else check


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return above


def _filled(value: Any, values: Mapping[str, Any], unknown: Callable[[str], str], keys: Keys = ()) -> Any:
    """Return the value with its texts filled in; a text that is one name becomes that value, of any type.

    Raises SharingError with the message that ``unknown`` returns for a name without a value.
    """
    if isinstance(value, Mapping):
        return {name: _filled(inner, values, unknown, (*keys, name)) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, values, unknown, (*keys, index)) for index, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    for name in FILLED.findall(value):
        if name and name not in values:
            raise SharingError(keys, unknown(name))
    if (alone := FILLED.fullmatch(value)) and alone[1]:
        return values[alone[1]]
    return FILLED.sub(lambda match: str(values[match[1]]) if match[1] else "", value)


def _no_variable(name: str) -> str:
    return f"the environment has no LAKEHOUSE_VAR_{name}; set it, or write $${{{name}}} for the plain text"
