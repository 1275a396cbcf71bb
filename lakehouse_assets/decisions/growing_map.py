"""Mappings of a table's many windows that grow by a few: a copy costs what has changed, and so does a comparison with it.

Belongs here: that mapping, its comparison, and the keys that one mapping has and another lacks. Does not: what is mapped.

A run that adds one window to 100,000 makes some ten copies of what a log adds up to, and compares them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Set
from dataclasses import dataclass
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
# After so many changes they become a part of what copies share. That costs as much as a copy of all.
MOST_CHANGES = 1_000
ABSENT: Any = object()


class GrowingMap(MutableMapping[Key, Value]):
    """A dict, also in its order. Copies share ``_base``, which nobody changes; each has its own changes of it."""

    __slots__ = ("_added", "_base", "_changed", "_removed")

    def __init__(self, items: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = ()) -> None:
        self._base: dict[Key, Value] = dict(items)
        # Of keys of the base: other values, or ABSENT. Of other keys: their values.
        self._changed: dict[Key, Any] = {}
        self._added: dict[Key, Value] = {}
        self._removed = 0

    def copy(self) -> "GrowingMap[Key, Value]":
        """Return an equal mapping, which can be changed by itself."""
        if len(self._changed) + len(self._added) > MOST_CHANGES:
            self._base, self._changed, self._added, self._removed = self._as_dict(), {}, {}, 0
        other = GrowingMap[Key, Value]()
        other._base, other._removed = self._base, self._removed
        other._changed, other._added = self._changed.copy(), self._added.copy()
        return other

    def find_changed(self, before: "GrowingMap[Key, Value]") -> set[Key]:
        """Return the keys with another value than ``before``, or that only one of the two has. Another object of the same value
        may be among them.
        """
        if before is self:
            return set()
        if before._base is self._base:
            keys = {*self._changed, *self._added, *before._changed, *before._added}
        else:
            keys = {*self, *before}
        return {key for key in keys if self.get(key, ABSENT) is not before.get(key, ABSENT)}

    def _as_dict(self) -> dict[Key, Value]:
        if self._removed:
            return {**{key: value for key, value in self._base.items() if self._changed.get(key) is not ABSENT}, **self._rest()}
        return {**self._base, **self._rest()}

    def _rest(self) -> dict[Key, Value]:
        return {**{key: value for key, value in self._changed.items() if value is not ABSENT}, **self._added}

    def get(self, key: Any, default: Any = None) -> Any:
        """As a dict's."""
        value = self._changed.get(key, self) if self._changed else self
        if value is self:
            value = self._base.get(key, self)
            value = self._added.get(key, ABSENT) if value is self else value
        elif value is ABSENT:
            value = self._added.get(key, ABSENT)
        return default if value is ABSENT else value

    def __getitem__(self, key: Key) -> Value:
        value = self.get(key, ABSENT)
        if value is ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key, ABSENT) is not ABSENT

    def __setitem__(self, key: Key, value: Value) -> None:
        if key in self._base and key not in self._added and self._changed.get(key) is not ABSENT:
            self._changed[key] = value
        else:
            self._added[key] = value

    def __delitem__(self, key: Key) -> None:
        if key in self._added:
            del self._added[key]
        elif key in self._base and self._changed.get(key) is not ABSENT:
            self._changed[key] = ABSENT
            self._removed += 1
        else:
            raise KeyError(key)

    def __len__(self) -> int:
        return len(self._base) - self._removed + len(self._added)

    def __iter__(self) -> Iterator[Key]:
        if self._changed or self._added:
            return iter(self._as_dict())
        return iter(self._base)

    def values(self) -> Any:
        """As a dict's."""
        return self._as_dict().values() if self._changed or self._added else self._base.values()

    def items(self) -> Any:
        """As a dict's."""
        return self._as_dict().items() if self._changed or self._added else self._base.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GrowingMap):
            return self._as_dict() == other._as_dict()
        return isinstance(other, Mapping) and self._as_dict() == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"GrowingMap({self._as_dict()})"


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
