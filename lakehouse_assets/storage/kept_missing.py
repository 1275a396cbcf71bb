"""The keys that one mapping of a table's windows has and another lacks, which a process keeps: it then looks at changes alone.

Belongs here: keeping them. Does not: finding them (decisions/growing_map), or what follows.
"""

from collections.abc import Collection, Hashable, Mapping, Set
from typing import Any

from lakehouse_assets.decisions.growing_map import Missing, find_missing
from lakehouse_assets.storage.newest_values import NewestValues

# Of so many keys, most of which other caches have too.
MOST_KEYS = 2_000_000
_pairs = NewestValues[Missing](MOST_KEYS, lambda missing: len(missing.wanted))


def kept_missing(name: Hashable, wanted: Mapping[Any, Any], present: Collection[Any]) -> Set[Any]:
    """Return the keys of ``wanted`` that ``present`` lacks. ``name``: of this pair, under which they are kept. Both are read
    only: a mapping that has changed is another object.
    """
    missing = find_missing(wanted, present, _pairs.get(name))
    _pairs.put(name, missing)
    return missing.keys
