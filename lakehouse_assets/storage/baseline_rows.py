"""Rows of `baseline/<table>` as the windows of a baseline: which decisions and seeds have joined, and what was measured.

Belongs here: decisions, events and rows → windows and entries. Does not: which rows to read (baseline_state, stream_baseline).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import SLICES, DriftRules, column_meanings, feature_meanings
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decision_log import count_alike
from lakehouse_assets.decisions.drift.doubtful_windows import is_doubtful
from lakehouse_assets.decisions.drift.profiles import CountsProfile, Key, Profile
from lakehouse_assets.decisions.drift.pseudonyms import name_mask
from lakehouse_assets.decisions.drift.relations import Measurement, Relations
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.decisions.drift.verdict import read_statistics
from lakehouse_assets.storage.baseline import BaselineEvent, Entry
from lakehouse_assets.storage.newest_values import NewestValues

Row = Mapping[str, Any]
Source = tuple[str, datetime]  # a decision's id, or a seed's, and the window


class BaselineWindow(NamedTuple):
    """A window of the baseline: the number of its decision (or its seed's), its source, and what its features meant then."""

    number: int
    seeded: bool
    source: Source
    meanings: Mapping[str, str]
    doubtful: bool = False

    def means_the_same(self, feature: str, now: Mapping[str, str]) -> bool:
        """Whether a feature had its present meaning then."""
        return feature in now and self.meanings.get(feature) == now[feature]


# By table: decisions, and the window of each; of so many in all.
_decided = NewestValues[tuple[list[Decision], list[BaselineWindow]]](300_000, lambda pair: len(pair[0]))


def group_by_source(table: pa.Table) -> dict[Source, list[Row]]:
    """Return the rows of each decision's, or seed's, window."""
    return group_rows(table.to_pylist())


def group_rows(rows: Iterable[Row]) -> dict[Source, list[Row]]:
    """The same of rows that are read."""
    by_source: dict[Source, list[Row]] = {}
    for row in rows:
        by_source.setdefault((row["decision_id"], row["p_extracted_at"]), []).append(row)
    return by_source


def list_windows(
    decisions: Sequence[Decision], events: Sequence[BaselineEvent], sources: Collection[Source], version: int
) -> list[BaselineWindow]:
    """The windows that decisions and seeds have added since the last reset. A window that was accepted when it was seeded, or
    has been accepted since, has replaced its seed for good.
    """
    resets = [index for index, event in enumerate(events) if event.kind == "reset"]
    since = events[resets[-1]].after if resets else -1
    windows = list[BaselineWindow]()
    for event in events[resets[-1] + 1 if resets else 0 :]:
        if event.kind == "seed":
            meanings = feature_meanings(event.extra["ruleset"])
            accepted = {start for start, _ in ledger.accepted_decisions(decisions, event.after)}
            accepted |= {d.p_extracted_at for d in decisions if d.accepted and event.after < d.number <= version}
            starts = sorted(start for source, start in sources if source == event.seed_id and start not in accepted)
            windows += [BaselineWindow(event.after, True, (event.seed_id, start), meanings) for start in starts]
    joined, origins = ledger.joined_decisions(decisions, version)
    own = _list_decided(joined, origins)
    if since >= 0:
        own = [window for window in own if window.number > since]
    if not windows and not origins:
        return own
    # A seed comes after the decision that was the last one then.
    return sorted([*windows, *own], key=lambda window: (window.number, window.seeded))


def _list_decided(joined: Sequence[Decision], origins: Mapping[Batch, Decision]) -> list[BaselineWindow]:
    """The windows of these decisions, all of one table, in their order. What was asked for last is made only once: a long
    history grows at its end. ``origins``: by which discarded batches joined; a discard decides nothing on the others' rows.
    """
    table = joined[0].table if joined else ""
    before, windows = (_decided.get(table) or ([], [])) if not origins else ([], [])
    alike = count_alike([*map(id, before)], [*map(id, joined)])
    windows = windows[:alike]
    for decision in joined[alike:]:
        if (start := decision.p_extracted_at) is not None:
            origin, meanings = origins.get(decision.batch, decision), feature_meanings(decision.ruleset)
            source = (decision.decision_id, start)
            windows.append(BaselineWindow(origin.number, False, source, meanings, is_doubtful(origin)))
    if not origins and len(windows) == len(joined):
        _decided.put(table, ([*joined], [*windows]))
    return windows


def make_entries(
    spec: DriftRules,
    windows: Iterable[BaselineWindow],
    rows: Mapping[Source, Sequence[Row]],
    complete: Collection[tuple[Source, Key]] | None = None,
) -> list[Entry]:
    """Return what was measured of each window that has rows.

    ``complete``: the rows that were read with their distributions; None: all. Names that were recorded before the table had
    personal columns are masked too.
    """
    now, mask = feature_meanings(spec.ruleset()), name_mask(spec)
    entries = []
    for window in windows:
        own = rows.get(window.source, ())
        read = (_read_row(row, complete is None or (window.source, row_key(row)) in complete) for row in own)
        every = [one for one in read if one is not None]
        measured = tuple(part for one in every if (part := _keep_meanings(one, window, now)) is not None)
        if not measured:
            continue
        changed = {one.key for one in every} - {one.key for one in measured}
        stored = next((row["statistics"] for row in own if "statistics" in row), "[]")
        # A stratum may have statistics and no row; then its feature's meaning decides.
        statistics = {
            key: values
            for key, values in read_statistics({"statistics": json.loads(stored)}).items()
            if key not in changed and window.meanings.get(key[0]) == now.get(key[0])
        }
        if mask:
            measured = tuple(map(mask.measurement, measured))
            statistics = {mask.key(key): values for key, values in statistics.items()}
        entries.append(Entry(window.source[1], window.number, measured, statistics, window.seeded, window.doubtful))
    return entries


def _keep_meanings(measurement: Measurement, window: BaselineWindow, now: Mapping[str, str]) -> Measurement | None:
    """The part of a measurement whose features had their present meaning then; None for nothing."""
    if isinstance(measurement, Slices):
        changed = {name for name in {*window.meanings, *now} if not window.means_the_same(name, now)}
        columns = {column for each in measurement.conditions for column, _ in each}
        if changed:  # of a column that is no feature of its own name, the features that use it know what it meant
            then, today = column_meanings(window.meanings), column_meanings(now)
            columns = {name for name in columns if then.get(name) == today.get(name)}
        return measurement.only(set(measurement.features) - changed, columns - changed)
    features = measurement.features if isinstance(measurement, Relations) else (measurement.feature,)
    return measurement if all(window.means_the_same(name, now) for name in features) else None


def row_key(row: Row) -> Key:
    """Return feature and stratum of a row."""
    return row["feature"], row["stratum"]


def _read_row(row: Row, complete: bool) -> Measurement | None:
    """None for slices of a window that is too old for them."""
    if row["feature"] == SLICES:
        return Slices.from_dict(json.loads(row["counts"])) if complete else None
    if row["relations"]:
        return Relations.from_dict(json.loads(row["relations"]))
    if not complete:
        return read_counts(row)
    values: dict[str, Any] = {name: row[name] for name in Profile.__dataclass_fields__ if name != "texts"}
    values["texts"] = _read_texts(row)
    if values["counts"] is not None:
        values["counts"] = tuple((value, int(rows)) for value, rows in json.loads(values["counts"]))
    return Profile(**values)


def read_counts(row: Row) -> CountsProfile:
    """Return the counts of a profile's row."""
    names = ("feature", "stratum", "kind", "rows", "nulls", "nans", "infinities", "others", "distinct")
    return CountsProfile(**{name: row[name] for name in names}, texts=_read_texts(row))


def _read_texts(row: Row) -> tuple[float, ...] | None:
    # Tables that were written before texts were measured have no such column.
    return None if row.get("texts") is None else tuple(json.loads(row["texts"]))
