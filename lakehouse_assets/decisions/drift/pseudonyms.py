"""Pseudonyms of categories and strata in tables with personal columns: a text may be a personal value in the wrong column.

Belongs here: which names stay readable, and the pseudonyms of the others. Does not: which columns are personal (contracts).
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from lakehouse_assets.checks.kinds.values import InSet
from lakehouse_assets.contracts.drift import RELATIONS, DriftRules
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.slices import Slices

_PSEUDONYM = re.compile(r"#[0-9a-f]{16}")
# The names of a boolean feature's categories.
_BOOLEANS = frozenset({"true", "false"})
_NONE: frozenset[str] = frozenset()


def is_pseudonym(name: str) -> bool:
    """Whether a name is a pseudonym.

    >>> is_pseudonym(pseudonym("Bonn")), is_pseudonym("Bonn"), pseudonym(pseudonym("Bonn")) == pseudonym("Bonn")
    (True, False, True)
    """
    return name.startswith("#") and _PSEUDONYM.fullmatch(name) is not None


def pseudonym(name: str) -> str:
    """Return `#` and 16 hex digits of a name's hash, the same in every window; a pseudonym is its own."""
    if is_pseudonym(name):
        return name
    return f"#{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def spell_alike(names: Collection[str], others: Collection[str]) -> dict[str, str]:
    """Return the names that are pseudonyms in the other collection, each with its pseudonym: a table's columns may have been
    marked, or its `in_set` changed, since one of the two was recorded.
    """
    hidden = {name for name in (*names, *others) if is_pseudonym(name)}
    plain = {name: pseudonym(name) for name in (*names, *others) if name not in hidden} if hidden else {}
    return {name: alias for name, alias in plain.items() if alias in hidden}


@dataclass(frozen=True)
class NameMask:
    """The readable names of a table with personal columns: of categories by feature, of the strata by feature that has text
    strata (`relations by …` too), and of categories by column.
    """

    categories: Mapping[str, frozenset[str]]
    strata: Mapping[str, frozenset[str]]
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def key(self, key: Key) -> Key:
        """Return a feature and its stratum, or the stratum's pseudonym."""
        feature, stratum = key
        if stratum is None or feature not in self.strata:
            return key
        readable = {pseudonym(name): name for name in self.strata[feature]}
        return (feature, readable.get(pseudonym(stratum), pseudonym(stratum)))

    def measurement(self, measurement: Measurement) -> Measurement:
        """Return a measurement with pseudonyms."""
        if isinstance(measurement, Slices):
            named = [tuple((c, self._category(c, name)) for c, name in each) for each in measurement.conditions]
            return replace(measurement, conditions=tuple(named))
        stratum = self.key(measurement.key)[1]
        if not isinstance(measurement, Profile) or measurement.kind != "category" or measurement.counts is None:
            return replace(measurement, stratum=stratum)
        readable = self.categories.get(measurement.feature, _NONE) | _BOOLEANS
        counts: dict[str, int] = {}
        for value, rows in measurement.counts:
            name = str(value) if value in readable else pseudonym(str(value))
            counts[name] = counts.get(name, 0) + rows
        return replace(measurement, stratum=stratum, counts=tuple(sorted(counts.items())))

    def _category(self, column: str, name: str) -> str:
        # A name that is listed today may have been recorded as a pseudonym.
        readable = {pseudonym(each): each for each in self.columns.get(column, _NONE) | _BOOLEANS}
        return readable.get(pseudonym(name), pseudonym(name))


def name_mask(spec: DriftRules) -> NameMask | None:
    """Return the mask of a table's drift features; None for a table without personal columns.

    A name is readable if an `in_set` of its column lists it: the contract says so, and no row.
    """
    if not spec.pii_columns:
        return None
    listed: dict[str, frozenset[str]] = {}
    for check in spec.checks:
        if isinstance(check, InSet):
            listed[check.column] = listed.get(check.column, _NONE) | {str(value) for value in check.values}
    strata, columns = {}, {name.lower(): column for name, column in spec.columns.items()}  # of a frame in any letter case
    for feature in spec.features:
        column = columns.get((feature.by or "").lower())
        if feature.by and column is not None and column.type == "string":
            strata[feature.name] = strata[f"{RELATIONS} by {feature.by}"] = listed.get(feature.by, _NONE)
    return NameMask({feature.name: listed.get(feature.expr, _NONE) for feature in spec.features}, strata, listed)
