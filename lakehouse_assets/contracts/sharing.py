"""What tables share: `defaults.yaml` and `packs.yaml` beside their folders, and variables of the environment.

Belongs here: the written attributes of a table → all of them. Does not: what they mean (table), or reading files (document).

`${NAME}` is the environment's `LAKEHOUSE_VAR_NAME`; within a pack `${name}` is a parameter. `$${` is a plain `${`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.registry import AnyCheck, kinds
from lakehouse_assets.contracts.mistakes import reason_of

Keys = tuple[str | int, ...]
FILLED = re.compile(r"\$(?=\$\{)|(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
CHECK: TypeAdapter[Check] = TypeAdapter(AnyCheck)


class Pack(Closed):
    """Checks under a name, for any table to use."""

    description: str = ""
    """What they promise together."""
    parameters: dict[str, Any] = {}
    """`name: default`, in lower case; a table that uses the pack must give those without one (`name:`, or `name: null`)."""
    checks: tuple[dict[str, Any], ...] = Field(min_length=1)
    """The checks, as a table writes them, with `${name}` for a parameter. One with `for_columns: "*_id"` is made once for each
    declared column of the table that this pattern fits, with `${column}` for its name."""

    @field_validator("parameters")
    @classmethod
    def _lower_case(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "column":
                raise ValueError(f"{name!r}: lower-case letters, digits and _ only, and not `column`")
        return value


class UsedPack(Closed):
    """A pack as one table uses it. Its name alone is short for `{pack: name}`."""

    pack: str
    """A name in `packs.yaml`."""
    given: dict[str, Any] = Field(default={}, alias="with")
    """`parameter: value`."""
    override: dict[str, dict[str, Any]] = {}
    """`check: {parameter: value}`: what is different here; the check by its name in this table."""
    without: tuple[str, ...] = ()
    """Checks that this table does not want."""


class Defaults(Closed):
    """What every table says unless it says otherwise. Lists are replaced; what has keys is merged, key by key."""

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
    """``defaults`` and ``packs`` of a tables' folder; ``variables``: the environment's, by name."""

    defaults: Defaults = field(default_factory=Defaults)
    packs: Mapping[str, Pack] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Where a check of the whole list is written: in the table's own list (``pack`` None), or in a pack's.

    ``override``: the table's own keys for it (below the attributes), where they change what only the whole table can judge.
    """

    place: int
    pack: str | None = None
    override: Keys = ()


@dataclass(frozen=True)
class Whole:
    """A table's attributes with all that it shares. ``sources``: by list of checks (its keys), each check's place."""

    attributes: dict[str, Any]
    sources: Mapping[Keys, tuple[Source, ...]]


class Unshared(Exception):
    """A use of packs or variables that cannot be kept: ``keys`` below the attributes, and what is wrong."""

    def __init__(self, keys: Keys, text: str) -> None:
        super().__init__(text)
        self.keys, self.text = keys, text


def whole(written: Mapping[str, Any], shared: Shared) -> Whole:
    """All attributes of a table: variables filled in, defaults below, packs' checks before its own. Raises Unshared."""
    merged = _merged(shared.defaults.tables, written)
    found: dict[str, Any] = _filled(merged, shared.variables, _variable, ())
    general: dict[str, Any] = _filled(shared.defaults.checks, shared.variables, _variable, ())
    sources: dict[Keys, tuple[Source, ...]] = {}
    golds, declared = found.get("gold"), found.get("columns")
    golds = golds if isinstance(golds, list) else []
    columns = list(declared) if isinstance(declared, dict) else []
    lists: list[tuple[Keys, Any, list[str]]] = [((), found, columns)]
    lists += [(("gold", place), gold, []) for place, gold in enumerate(golds)]
    for keys, owner, names in lists:
        if not isinstance(owner, dict):
            continue
        packs = owner.pop("packs", None) or []
        own = owner.get("checks", [])
        if not isinstance(own, list | tuple) or not isinstance(packs, list):
            if not isinstance(packs, list):
                raise Unshared((*keys, "packs"), "a list of packs is wanted")
            continue  # the model says what is wrong
        made: list[tuple[dict[str, Any], Source]] = []
        for place, use in enumerate(packs):
            made += _of_pack(use, (*keys, "packs", place), names, shared, general)
        made += [(check, Source(place)) for place, check in enumerate(own)]
        if made:
            owner["checks"] = [_with_defaults(check, general) for check, _ in made]
        sources[(*keys, "checks")] = tuple(source for _, source in made)
    return Whole(found, sources)


def _of_pack(
    use: Any, keys: Keys, columns: Sequence[str], shared: Shared, general: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], Source]]:
    try:
        wanted = UsedPack.model_validate({"pack": use} if isinstance(use, str) else use)
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        raise Unshared((*keys, *mistake["loc"]), reason_of(mistake)) from None
    pack = shared.packs.get(wanted.pack)
    if pack is None:
        raise Unshared(keys, f"there is no pack {wanted.pack!r}; there are {', '.join(shared.packs) or 'none'}")
    if unknown := sorted(set(wanted.given) - set(pack.parameters)):
        names = ", ".join(pack.parameters) or "none"
        raise Unshared((*keys, "with"), f"pack {wanted.pack} has no parameter {', '.join(unknown)}; there are {names}")
    values = {**_filled(pack.parameters, shared.variables, _variable, keys), **wanted.given}
    if missing := [name for name, value in values.items() if value is None]:
        raise Unshared((*keys, "with"), f"pack {wanted.pack} needs {', '.join(missing)}")
    found: dict[str, tuple[dict[str, Any], Check, Source]] = {}
    for place, written in enumerate(pack.checks):
        for check in _bound(written, columns):
            given = {**values, **({"column": check.pop("")} if "" in check else {})}
            filled = _filled(check, given, _parameter(shared.variables), keys)
            try:
                made = CHECK.validate_python(_with_defaults(filled, general))
            except ValidationError as error:
                mistake = error.errors(include_url=False)[0]
                text = f"{'.'.join(map(str, mistake['loc'][1:]))}: {reason_of(mistake)}".lstrip(": ")
                raise Unshared(keys, f"check {place} of pack {wanted.pack} ({filled.get('check')}): {text}") from None
            name = made.id
            if name in found:
                raise Unshared(keys, f"pack {wanted.pack} makes two checks {name!r}: let `name:` differ, e.g. by `${{column}}`")
            found[name] = filled, made, Source(place, wanted.pack)
    for key, given_names in (("override", wanted.override), ("without", wanted.without)):
        if unknown := [name for name in given_names if name not in found]:
            names = ", ".join(found) or "none"
            raise Unshared((*keys, key), f"pack {wanted.pack} makes no check {', '.join(unknown)} here; it makes {names}")
    kept = [name for name in found if name not in wanted.without]
    if not kept:
        raise Unshared(keys, f"pack {wanted.pack} binds to nothing in this table")
    for name in kept:
        filled, made, source = found[name]
        changes, own = wanted.override.get(name, {}), (*keys, "override", name)
        yield {**filled, **changes}, _changed(source, made, {**filled, **changes}, general, own) if changes else source


def _changed(source: Source, made: Check, written: Mapping[str, Any], general: Mapping[str, Any], keys: Keys) -> Source:
    """The source of a check that a table has overridden, at ``keys``. Raises Unshared there for what cannot be a check."""
    try:
        now = CHECK.validate_python(_with_defaults(written, general))
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        raise Unshared((*keys, *mistake["loc"][1:]), reason_of(mistake)) from None

    def seen(check: Check) -> tuple[Any, ...]:
        return check.id, check.columns_used, check.depends_on, getattr(check, "sql", None)

    return source if seen(now) == seen(made) else replace(source, override=keys)


def _bound(written: Mapping[str, Any], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The check once, or once for each column that its pattern fits, whose name then stands under the empty key."""
    check = deepcopy(dict(written))
    pattern = check.pop("for_columns", None)
    if pattern is None:
        yield check
        return
    yield from ({**deepcopy(check), "": name} for name in columns if fnmatchcase(name, str(pattern)))


def _with_defaults(check: Any, general: Mapping[str, Any]) -> Any:
    if not isinstance(check, dict):
        return check
    kind = check.get("check")
    return {**general.get(kind, {}), **check} if isinstance(kind, str) else check


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return above


def _filled(value: Any, known: Mapping[str, Any], lookup: Callable[[str, Mapping[str, Any]], Any], keys: Keys) -> Any:
    """The value with its texts filled in, as text where there is more around it. Raises Unshared."""
    if isinstance(value, Mapping):
        return {name: _filled(inner, known, lookup, (*keys, name)) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(inner, known, lookup, (*keys, place)) for place, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    try:
        if (alone := FILLED.fullmatch(value)) and alone[1]:
            return lookup(alone[1], known)
        return FILLED.sub(lambda found: str(lookup(found[1], known)) if found[1] else "", value)
    except KeyError as error:
        raise Unshared(keys, str(error.args[0])) from None


def _variable(name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise KeyError(f"the environment has no LAKEHOUSE_VAR_{name}; set it, or write $${{{name}}} for the plain text")
    return known[name]


def _parameter(variables: Mapping[str, str]) -> Callable[[str, Mapping[str, Any]], Any]:
    def lookup(name: str, known: Mapping[str, Any]) -> Any:
        if name in known:
            return known[name]
        if name in variables:
            return variables[name]
        raise KeyError(f"${{{name}}} is no parameter of the pack ({', '.join(known) or 'it has none'}), and no variable")

    return lookup
