"""Mappings of a table's many windows that grow by a few: a copy costs what has changed, and so does a comparison with it.

Belongs here: that mapping, its comparison, and the keys that one mapping has and another lacks. Does not: what is mapped.

A run that adds one window to 100,000 makes some ten copies of what a log adds up to, and compares them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
# After so many changes they become a part of what copies share. That costs as much as a copy of all.
MOST_CHANGES = 1_000
ABSENT: Any = object()


class _Parts(NamedTuple):
    """``base``: shared, nobody changes it. ``changed``: of its keys, other values or ABSENT. ``added``: values of other keys.
    ``removed``: how many keys of the base are absent.
    """

    base: dict[Any, Any]
    changed: dict[Any, Any]
    added: dict[Any, Any]
    removed: int = 0

    def as_dict(self) -> dict[Any, Any]:
        """Return all keys, those of the base first."""
        if not self.changed and not self.added:
            return self.base
        rest = {**{key: value for key, value in self.changed.items() if value is not ABSENT}, **self.added}
        if self.removed:
            return {**{key: value for key, value in self.base.items() if self.changed.get(key) is not ABSENT}, **rest}
        return {**self.base, **rest}


class GrowingMap(MutableMapping[Key, Value]):
    """A dict, also in its order. Copies share a base, which nobody changes; each has its own changes of it.

    Several threads may read and copy one that nobody changes any more: its parts are exchanged together.
    """

    __slots__ = ("_parts",)

    def __init__(self, items: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = ()) -> None:
        self._parts = _Parts(dict(items), {}, {})

    def copy(self) -> "GrowingMap[Key, Value]":
        """Return an equal mapping, which can be changed by itself."""
        parts = self._parts
        if len(parts.changed) + len(parts.added) > MOST_CHANGES:
            self._parts = parts = _Parts(parts.as_dict(), {}, {})
        other = GrowingMap[Key, Value]()
        other._parts = _Parts(parts.base, parts.changed.copy(), parts.added.copy(), parts.removed)
        return other

    def find_changed(self, before: "GrowingMap[Key, Value]") -> set[Key]:
        """Return the keys with another value than ``before``, or that only one of the two has. Another object of the same value
        may be among them.
        """
        if before is self:
            return set()
        now, then = self._parts, before._parts
        if then.base is now.base:
            keys = {*now.changed, *now.added, *then.changed, *then.added}
        else:
            keys = {*now.as_dict(), *then.as_dict()}
        return {key for key in keys if self.get(key, ABSENT) is not before.get(key, ABSENT)}

    def get(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        parts = self._parts
        value = parts.changed.get(key, self) if parts.changed else self
        if value is self:
            value = parts.base.get(key, self)
            value = parts.added.get(key, ABSENT) if value is self else value
        elif value is ABSENT:
            value = parts.added.get(key, ABSENT)
        return default if value is ABSENT else value

    def __getitem__(self, key: Key) -> Value:
        value = self.get(key, ABSENT)
        if value is ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key, ABSENT) is not ABSENT

    def __setitem__(self, key: Key, value: Value) -> None:
        parts = self._parts
        if key in parts.base and key not in parts.added and parts.changed.get(key) is not ABSENT:
            parts.changed[key] = value
        else:
            parts.added[key] = value

    def __delitem__(self, key: Key) -> None:
        parts = self._parts
        if key in parts.added:
            del parts.added[key]
        elif key in parts.base and parts.changed.get(key) is not ABSENT:
            parts.changed[key] = ABSENT
            self._parts = parts._replace(removed=parts.removed + 1)
        else:
            raise KeyError(key)

    def __len__(self) -> int:
        parts = self._parts
        return len(parts.base) - parts.removed + len(parts.added)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._parts.as_dict())

    def values(self) -> Any:
        """As a dict's."""
        return self._parts.as_dict().values()

    def items(self) -> Any:
        """As a dict's."""
        return self._parts.as_dict().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GrowingMap):
            return self._parts.as_dict() == other._parts.as_dict()
        return isinstance(other, Mapping) and self._parts.as_dict() == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"GrowingMap({self._parts.as_dict()})"


def find_changed_keys(before: Collection[Any], now: Collection[Any]) -> set[Any]:
    """Return the keys of two mappings whose values differ, or that only one has; of other collections, such members."""
    if before is now:
        return set()
    if isinstance(before, GrowingMap) and isinstance(now, GrowingMap):
        return {key for key in now.find_changed(before) if now.get(key, ABSENT) != before.get(key, ABSENT)}
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        pairs = ((key, before.get(key, ABSENT), now.get(key, ABSENT)) for key in {*before, *now})
        return {key for key, old, new in pairs if old is not new and old != new}
    return {*before} ^ {*now}


def find_new_keys(before: Mapping[Key, Any], now: Mapping[Key, Any]) -> set[Key]:
    """Return the keys of ``now`` that have another value than ``before``, or none."""
    return {key for key in find_changed_keys(before, now) if key in now}


def select_keys(values: Mapping[Key, Value], keys: Iterable[Key]) -> dict[Key, Value]:
    """Return the values of these keys; of a key that is absent, none."""
    return {key: values[key] for key in keys if key in values}


@dataclass(frozen=True)
class Missing:
    """The keys of ``wanted`` that ``present`` lacks; and both, which nobody changes any more."""

    wanted: Mapping[Any, Any]
    present: Collection[Any]
    keys: Set[Any]


def find_missing(wanted: Mapping[Any, Any], present: Collection[Any], before: Missing | None = None) -> Missing:
    """Return the keys of ``wanted`` that ``present`` lacks. ``before``: what was found earlier of the same pair; then only what
    has changed since is looked at.
    """
    candidates: Iterable[Any] = wanted
    if before is not None:
        are_growing = all(isinstance(each, GrowingMap) for each in (wanted, present, before.wanted, before.present))
        if are_growing or (wanted is before.wanted and present is before.present):
            changed = find_changed_keys(before.wanted, wanted) | find_changed_keys(before.present, present)
            candidates = changed | before.keys
    return Missing(wanted, present, {key for key in candidates if key in wanted and key not in present})
