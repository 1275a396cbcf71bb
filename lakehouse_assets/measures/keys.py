"""Keys: which of them stay published when a later extraction is accepted, and how many each of several snapshots deletes.

Belongs here: frames of keys → frames of keys, and counts. Does not: where the rows come from (pipeline), or a verdict.

A frame of keys has ``p_extracted_at``, ``extraction_seq``, the key's columns, and ``_clean``: false for a quarantined row.
A key with a NULL column is unreadable.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import SEQUENCE, WINDOW
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.measures.frames import MOMENT, all_of, local_frame, moment

SEQUENCES = pa.list_(pa.int32())
NEW = -1  # in place of the new extraction's number, of which an older decision may have published rows


@dataclass(frozen=True)
class Chain:
    """The accepted extractions of a window, oldest first. ``publishes``: those whose own rows may be published."""

    seqs: tuple[int, ...]
    publishes: tuple[int, ...]


@dataclass
class KeyCounts:
    """The counts of one window. ``published``: keys that its earlier extractions publish now; ``lost``: those that nothing
    would publish.

    ``stays``: the number of rows of each earlier extraction that stay published, where there are any.
    """

    published: int = 0
    lost: int = 0
    stays: dict[int, int] = field(default_factory=dict)


def key_columns(spec: TableContract) -> list[str]:
    """Return the columns that identify a row within its window."""
    return [name for name in spec.silver_key if name != WINDOW]


def is_readable(key: Sequence[str]) -> Column:
    """Return whether a row's key is readable."""
    return all_of(F.col(identifier(name)).isNotNull() for name in key)


def published_keys(keys: DataFrame, chains: Mapping[datetime, Chain], key: Sequence[str]) -> DataFrame:
    """Return ``p_extracted_at``, ``extraction_seq`` and key of the published clean rows, once each.

    A clean row of an earlier extraction stays published while each later one of the chain has its key in quarantine only. A
    quarantined row with an unreadable key may have any key.
    """
    rows = [(start, chain.seqs, chain.publishes) for start, chain in sorted(chains.items())]
    of_window = local_frame(keys.sparkSession, [(WINDOW, MOMENT), ("_chain", SEQUENCES), ("_publishes", SEQUENCES)], rows)
    unread = keys.where(~is_readable(key) & ~F.col("_clean")).groupBy(WINDOW).agg(F.collect_set(SEQUENCE).alias("_unread"))
    by_key = keys.where(is_readable(key)).groupBy(WINDOW, *map(identifier, key)).agg(*_sequences(F.lit(True)))
    by_key = by_key.join(F.broadcast(of_window), WINDOW).join(F.broadcast(unread), WINDOW, "left")
    by_key = by_key.withColumn("_unread", F.coalesce("_unread", F.array().cast("array<int>")))
    published = F.explode(_publishing("_chain", "_publishes"))
    return by_key.withColumn(SEQUENCE, published).select(WINDOW, SEQUENCE, *map(identifier, key))


def _sequences(counted: Column) -> list[Column]:
    """The extractions in which a key has a clean row, and those in which it has a quarantined one."""
    clean, quarantined = counted & F.col("_clean"), counted & ~F.col("_clean")
    return [
        F.collect_set(F.when(clean, F.col(SEQUENCE))).alias("_clean_in"),
        F.collect_set(F.when(quarantined, F.col(SEQUENCE))).alias("_quarantined_in"),
    ]


def _publishing(chain: str, publishes: str) -> Column:
    """The extractions of a chain whose clean row of the key is published."""

    def keeps_it(later: Column) -> Column:
        quarantined = F.array_contains("_quarantined_in", later) | F.array_contains("_unread", later)
        return ~F.array_contains("_clean_in", later) & quarantined

    def is_published(seq: Column) -> Column:
        return F.array_contains(publishes, seq) & F.forall(F.filter(chain, lambda later: later > seq), keeps_it)

    return F.filter("_clean_in", is_published)


def count_redelivered(
    rows: DataFrame,
    new: DataFrame,
    current: Mapping[datetime, Chain],
    earlier: Mapping[datetime, Chain],
    spec: TableContract,
    elsewhere: DataFrame | None = None,
) -> dict[datetime, KeyCounts]:
    """Return what each window's new extraction would keep of the earlier ones. Collects a few rows for each window.

    ``rows``: one row for each bronze row of the extractions in either chain. ``new``: the staged rows of the new extractions.
    ``current``: the chains that are published now; ``earlier``: those before the new extraction. ``elsewhere``: keys and the
    window that publishes them; a row that moved to another window is not lost.
    """
    key = key_columns(spec)
    columns = [WINDOW, SEQUENCE, *map(identifier, key), "_clean"]
    both = rows.select(*columns, F.lit(False).alias("_new")).unionByName(new.select(*columns, F.lit(True).alias("_new")))
    marked = _mark_keys(both, current, earlier, key, {})
    counted, unread = _count_marks(marked), defaultdict[datetime, list[int]](list)
    for start, mark, seq in counted:
        if mark == "unread":
            unread[start].append(seq)
    if unread:
        marked = _mark_keys(both, current, earlier, key, unread)
        counted = _count_marks(marked)
    counts = {start: KeyCounts() for start in earlier}
    for (start, mark, seq), keys in counted.items():
        if mark == "stays":
            counts[start].stays[seq] = keys
    for start, each in counts.items():
        each.published, each.lost = (counted.get((start, mark, NEW), 0) for mark in ("published", "lost"))
    if elsewhere is not None and any(each.lost for each in counts.values()):
        names = [F.col(identifier(name)).alias(f"_k{index}") for index, name in enumerate(key)]
        others = elsewhere.select(F.col(WINDOW).alias("_other"), *names)
        same_key = all_of(F.col(identifier(name)) == F.col(f"_k{index}") for index, name in enumerate(key))
        lost = marked.where(F.exists("_marks", lambda mark: mark["mark"] == "lost"))
        counted = _count_marks(lost.join(others, (F.col("_other") != F.col(WINDOW)) & same_key, "left_anti"))
        for start, each in counts.items():
            each.lost = counted.get((start, "lost", NEW), 0)
    return counts


def _mark_keys(
    rows: DataFrame,
    current: Mapping[datetime, Chain],
    earlier: Mapping[datetime, Chain],
    key: Sequence[str],
    unread: Mapping[datetime, Sequence[int]],
) -> DataFrame:
    """Return one row for each window and key, with ``_marks``: `published`, `lost`, and `stays` for each extraction whose row
    stays published; an unreadable key has `unread` for each extraction that quarantined it.

    ``rows``: a frame of keys, with ``_new``: whether the new extraction has the row. ``unread``: the extractions with a
    quarantined row of an unreadable key; NEW stands for the new one.
    """
    lists = ("_current", "_current_publishes", "_earlier", "_earlier_publishes", "_unread")
    chains = []
    for start, before in sorted(earlier.items()):
        now = current.get(start, Chain((), ()))
        chains.append((start, now.seqs, now.publishes, before.seqs, before.publishes, unread.get(start, ())))
    of_window = local_frame(rows.sparkSession, [(WINDOW, MOMENT), *[(name, SEQUENCES) for name in lists]], chains)
    is_new, is_clean = F.col("_new"), F.col("_clean")
    by_key = rows.groupBy(WINDOW, *map(identifier, key)).agg(
        *_sequences(~is_new),
        F.bool_or(is_new & is_clean).alias("_new_clean"),
        F.bool_or(is_new & ~is_clean).alias("_new_quarantined"),
    )
    by_key = by_key.join(F.broadcast(of_window), WINDOW)
    none, once = F.array().cast("array<int>"), F.array(F.lit(NEW))
    lacks, may_have = ~F.col("_new_clean"), F.col("_new_quarantined") | F.array_contains("_unread", NEW)
    is_published = F.size(_publishing("_current", "_current_publishes")) > 0
    of_readable = {
        "published": F.when(is_published, once),
        "lost": F.when(is_published & lacks & ~may_have, once),
        "stays": F.when(lacks & may_have, _publishing("_earlier", "_earlier_publishes")),
    }
    of_unreadable = {"unread": F.concat("_quarantined_in", F.when(F.col("_new_quarantined"), once).otherwise(none))}

    def marks(seqs_of: Mapping[str, Column]) -> Column:
        return F.flatten(F.array(*[pairs(mark, F.coalesce(seqs, none)) for mark, seqs in seqs_of.items()]))

    def pairs(mark: str, seqs: Column) -> Column:
        return F.transform(seqs, lambda seq: F.struct(F.lit(mark).alias("mark"), seq.alias("seq")))

    every = F.when(is_readable(key), marks(of_readable)).otherwise(marks(of_unreadable))
    return by_key.select(WINDOW, *map(identifier, key), every.alias("_marks"))


def _count_marks(marked: DataFrame) -> dict[tuple[datetime, str, int], int]:
    """Return the number of keys by window, mark and extraction."""
    each = marked.select(F.unix_micros(WINDOW).alias("window"), F.inline("_marks")).groupBy("window", "mark", "seq")
    return {(moment(window), mark, seq): keys for window, mark, seq, keys in each.agg(F.count(F.lit(1))).collect()}


def unread_windows(keys: DataFrame, key: Sequence[str]) -> set[datetime]:
    """Return the windows with a quarantined row of an unreadable key: it may be any key, so none is absent there. Collects at
    most one row per window.
    """
    rows = keys.where(~is_readable(key) & ~F.col("_clean")).select(F.unix_micros(WINDOW).alias("window")).distinct().collect()
    return {moment(row["window"]) for row in rows}


def deleted_keys(
    before: DataFrame, keys: DataFrame, key: Sequence[str], starts: Sequence[datetime], unread: Sequence[datetime]
) -> dict[datetime, tuple[int, int]]:
    """Return for each snapshot, oldest first, the number of keys published before it, and of those that it deletes, if all
    snapshots are accepted. One aggregation; collects at most two rows for each snapshot.

    ``before``: the published keys, once each. ``keys``: a frame of keys of these snapshots (``starts``, ascending).
    ``unread``: those snapshots that delete nothing.
    """
    names = [identifier(name) for name in key]
    index_of = {start: index for index, start in enumerate(starts, start=1)}
    deleting = [index for start, index in index_of.items() if start not in unread]
    # For each index, the first later snapshot that deletes the keys that it lacks; `none` after the last one.
    none = len(starts) + 1
    following = [next((index for index in deleting if index > each), none) for each in range(none)]
    indices = local_frame(keys.sparkSession, [(WINDOW, MOMENT), ("_index", pa.int32())], index_of.items())
    rows = keys.where(is_readable(key)).join(F.broadcast(indices), WINDOW).groupBy(*names, "_index")
    rows = rows.agg(F.bool_or("_clean").alias("_clean"))
    rows = rows.unionByName(before.select(*names).withColumns({"_index": F.lit(0), "_clean": F.lit(True)}))
    rows = rows.withColumn("_following", F.element_at(F.array(*map(F.lit, following)), F.col("_index") + 1))
    in_order = W.partitionBy(*names).orderBy("_index")
    # A run: snapshots with the key, and none between them that deletes it. It is published from the run's first clean row on.
    rows = rows.withColumn("_breaks", F.coalesce(F.lag("_following").over(in_order) < F.col("_index"), F.lit(False)))
    rows = rows.withColumn("_run", F.sum(F.col("_breaks").cast("int")).over(in_order))
    within = W.partitionBy(*names, "_run").orderBy("_index")
    rows = rows.withColumn("_published", F.max("_clean").over(within))
    began = F.col("_published") & ~F.coalesce(F.lag("_published").over(within), F.lit(False))
    following_row = F.lead("_index").over(in_order)
    ends = F.col("_published") & (F.col("_following") < none)
    ends = ends & (following_row.isNull() | (F.col("_following") < following_row))
    rows = rows.select("_index", "_following", began.alias("_began"), ends.alias("_ends"))
    events = rows.where("_began").select("_index", F.lit(1).alias("_new"), F.lit(0).alias("_gone"))
    ended = rows.where("_ends").select(F.col("_following").alias("_index"), F.lit(0).alias("_new"), F.lit(1).alias("_gone"))
    sums = events.unionByName(ended).groupBy("_index").agg(F.sum("_new").alias("n"), F.sum("_gone").alias("g"))
    counted = {row["_index"]: (row["n"], row["g"]) for row in sums.collect()}
    published, deleted = counted.get(0, (0, 0))[0], {}
    for start, index in index_of.items():
        new, gone = counted.get(index, (0, 0))
        deleted[start] = (published, gone)
        published += new - gone
    return deleted
