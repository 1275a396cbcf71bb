"""`python -m benchmarks.long_history`: what one more window costs a table that has had many, beside Spark; seconds by step.

Belongs here: a lake with many windows, made from the rows of a real one, and readers of its logs. Does not: long runs.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
import pyarrow as pa
import typer

from benchmarks.lab import Lab
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.operations.maintain import maintain
from lakehouse_assets.orchestration.healing.window_state import read_facts
from lakehouse_assets.pages.site import make_site
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.stream import publish_next
from lakehouse_assets.reports.decision_rows import verdict_rows
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets.sources.feed import Feed
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.check_results import CHECK_RESULTS, find_lagging_tables, project_check_results
from lakehouse_assets.storage.log_rows import DECISIONS, EXTRACTIONS
from lakehouse_assets.storage.source_positions import POSITIONS

NAME, START, ROWS = "sensors", datetime(2026, 1, 1, tzinfo=UTC), 20
SOURCE = {"kind": "files", "path": NAME + "/{window:%Y-%m-%dT%H-%M}.csv", "format": "csv"}
STREAM_SOURCE = {"kind": "files", "path": NAME + "/*.csv", "format": "csv", "settled": "rename"}


@dataclass
class Windows:
    """The windows of a table, by their numbers from 0: one a minute; or of a ``stream``, one in five seconds."""

    stream: bool = False
    feed: Feed | None = None

    @property
    def step(self) -> timedelta:
        """Between two windows."""
        return timedelta(seconds=5) if self.stream else timedelta(minutes=1)

    @cached_property
    def spec(self) -> TableSpec:
        """The table: ten checks, three drift features."""
        checks = [{"check": "in_range", "column": name, "min": -100, "max": 100} for name in ("a", "b", "c")]
        checks += [{"check": "not_null", "column": name} for name in ("a", "b", "c")]
        checks += [{"check": "row_count", "min": 1}]
        cadence = {"cadence": "daily", "stream": {}} if self.stream else {"cadence": "1min"}
        return TableSpec.model_validate(
            {
                "name": NAME,
                "source": STREAM_SOURCE if self.stream else SOURCE,
                "extraction": {"start": START, **cadence},
                "key": ["id"],
                "last_modified": "at",
                "columns": {"id": "string", "at": "timestamp", "a": "double", "b": "double", "c": "double"},
                "checks": checks,
                "drift": {"features": [{"name": name} for name in ("a", "b", "c")]},
            }
        )

    def window(self, number: int) -> Window:
        """Return a window."""
        return self.spec.extraction.window_at(START + number * self.step)

    def land(self, settings: Settings, number: int) -> None:
        """Write the file of a window."""
        window = self.window(number)
        folder = Path(settings.landing, NAME)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{number}-{i},{window.start:%Y-%m-%d %H:%M:%S},{i % 7},{i % 5 + 0.5},{i % 11}" for i in range(ROWS)]
        name = f"{number}.csv" if self.stream else f"{window.start:%Y-%m-%dT%H-%M}.csv"
        (folder / name).write_text("\n".join(["id,at,a,b,c", *lines, ""]))

    def run(self, lab: Lab, settings: Settings, number: int) -> Run:
        """Return the run of a window. A stream's is named by the clock."""
        run = lab.run(settings, self.spec)
        return replace(run, clock=lambda: self.window(number).start) if self.stream else run

    def steps(self, lab: Lab, settings: Settings, number: int) -> dict[str, Callable[[], Any]]:
        """Return what brings a window into silver, by name."""
        run, windows = self.run(lab, settings, number), [self.window(number)]
        if not self.stream:
            return {"extract": lambda: extract(run, windows), "publish": lambda: publish(run, windows)}
        self.feed = self.feed or open_feed(self.spec, settings)
        return {"publish": partial(publish_next, run, self.feed)}


class History:
    """Windows of a lake whose window 0 a real run has made, as copies of that one's rows."""

    def __init__(self, settings: Settings, windows: Windows) -> None:
        self.settings, self.windows = settings, windows
        first = next(each for each in logs.decisions(settings, NAME) if each.applied_at)
        self.rules = first.ruleset_hash
        self.tables = {
            path: delta.read_arrow(path, filters=filters)
            for path, filters in {
                settings.path("bronze", NAME): None,
                settings.path("silver", NAME): None,
                settings.path("baseline", NAME): None,
                EXTRACTIONS.path(settings): [("table", "=", NAME)],
                DECISIONS.path(settings): [("table", "=", NAME)],
                CHECK_RESULTS.path(settings): [("table", "=", NAME)],
                POSITIONS.path(settings): [("table", "=", NAME)],
            }.items()
            if delta.exists(path)
        }
        self.silver_rows = self.tables[settings.path("silver", NAME)].num_rows

    def decision_id(self, number: int) -> str:
        """Return the id of a copied decision, as `Decision.decision_id` makes it."""
        start = (START + number * self.windows.step).isoformat()
        return hashlib.sha256(f"{NAME}|{start}|1|{number + 1}|{self.rules}|".encode()).hexdigest()[:20]

    def write(self, first: int, last: int) -> None:
        """Append the windows of these numbers, one commit to each table."""
        versions = {path: delta.version(path) + 1 for path in self.tables}
        for path, template in self.tables.items():
            rows = self._copy(template, first, last, versions)
            partitions = delta.snapshot(path).partitions
            step = "silver" if "/silver/" in path else "baseline" if "/baseline/" in path else None
            named = {"step": step, "decisions": [self.decision_id(last)], "last_event": ""}
            delta.append_arrow(rows, path, partition_by=partitions, user_metadata=json.dumps(named) if step else None)

    def _copy(self, template: pa.Table, first: int, last: int, versions: dict[str, int]) -> pa.Table:
        count, size = last - first + 1, template.num_rows
        rows = template.take(pa.array(list(range(size)) * count)).combine_chunks()
        numbers = range(first, last + 1)
        bronze, silver = (versions[self.settings.path(layer, NAME)] for layer in ("bronze", "silver"))
        shift = {n: n * self.windows.step for n in numbers}
        makers: dict[str, Callable[[int, Any], Any]] = {
            "decision_id": lambda n, _: self.decision_id(n),
            "_decision_id": lambda n, _: self.decision_id(n),
            "run_id": lambda n, _: f"run-{n}",
            "number": lambda n, _: n + 1,
            "decision_number": lambda n, _: n + 1,
            "bronze_version": lambda n, _: bronze,
            "silver_version": lambda n, _: silver,
            "silver_rows": lambda n, _: (last + 1) * self.silver_rows,
            "baseline_version": lambda n, _: n,
            "id": lambda n, value: f"{n}-{value.split('-')[1]}",
        }
        for name in rows.column_names:
            field = rows.schema.field(name)
            if pa.types.is_timestamp(field.type):
                make: Callable[[int, Any], Any] = lambda n, value: value + shift[n]  # noqa: E731
            elif name in makers:
                make = makers[name]
            else:
                continue
            values = template[name].to_pylist()
            column = [None if value is None else make(n, value) for n in numbers for value in values]
            rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(column, field.type))
        return rows


def make_lake(lab: Lab, settings: Settings, windows: Windows, count: int, tail: int) -> None:
    """Make a lake of so many windows, the last ``tail`` of which have commits of their own."""
    windows.land(settings, 0)
    for work in windows.steps(lab, settings, 0).values():
        work()
    history = History(settings, windows)
    at = 1
    while at < count - tail:
        history.write(at, min(at + 10_000, count - tail) - 1)
        at = min(at + 10_000, count - tail)
    for number in range(at, count):
        history.write(number, number)


class SparkSeconds:
    """Seconds in which this process waits for the JVM."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count py4j's calls within the block."""
        from py4j.clientserver import JavaClient  # noqa: PLC0415 (as above)
        from py4j.java_gateway import GatewayClient  # noqa: PLC0415 (only where Spark runs)

        originals = {kind: kind.send_command for kind in (GatewayClient, JavaClient)}

        def counted(original: Any) -> Any:
            def send(client: Any, *args: Any, **more: Any) -> Any:
                began, self._depth = time.perf_counter(), self._depth + 1
                try:
                    return original(client, *args, **more)
                finally:
                    self._depth -= 1
                    if not self._depth:
                        self.seconds += time.perf_counter() - began

            return send

        for kind, original in originals.items():
            kind.send_command = counted(original)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for kind, original in originals.items():
                kind.send_command = original  # type: ignore[method-assign]


def one_window(lab: Lab, settings: Settings, windows: Windows, number: int) -> dict[str, float]:
    """Return the seconds of one more window: in all, and of that beside Spark, of each step."""
    windows.land(settings, number)
    seconds: dict[str, float] = {}
    for name, work in windows.steps(lab, settings, number).items():
        spark = SparkSeconds()
        began = time.perf_counter()
        with spark.measured():
            work()
        spent = time.perf_counter() - began
        seconds |= {name: round(spent, 2), f"{name} beside Spark": round(spent - spark.seconds, 2)}
    return seconds


def instance_of(spec: TableSpec, now: datetime) -> dg.DagsterInstance:
    """Return an instance that has all partitions of the table up to a moment in bronze and silver."""
    instance, extraction = dg.DagsterInstance.ephemeral(), spec.extraction
    partition = extraction.partition(extraction.window_at(START))
    while partition.start <= now:
        for layer in ("bronze", "silver"):
            event = dg.AssetMaterialization(f"{layer}_{spec.name}", partition=partition.key)
            instance.report_runless_asset_event(event)
        partition = extraction.partition(extraction.window_at(partition.end))
    return instance


def readers(settings: Settings, spec: TableSpec, now: datetime) -> dict[str, Callable[[], Any]]:
    """Return what reads the logs without Spark."""
    instance = instance_of(spec, now)
    return {
        "facts of a tick": lambda: read_facts(instance, settings, spec, now),
        "findings": lambda: findings_of(settings, spec),
        "verdicts": lambda: verdict_rows(logs.decisions(settings, NAME), full=False),
        "lagging": lambda: find_lagging_tables(settings),
        "check results": lambda: project_check_results(settings, NAME),
        "pages": lambda: make_site(settings),
    }


def main(
    counts: Annotated[str, typer.Option(help="Windows, comma-separated.")] = "1000,10000,100000",
    tail: Annotated[int, typer.Option(help="Windows with commits of their own.")] = 300,
    profile: Annotated[Path | None, typer.Option(help="A file for the profile of the last window.")] = None,
    maintained: Annotated[bool, typer.Option(help="Whether `maintain` runs, too.")] = False,
    stream: Annotated[bool, typer.Option(help="Whether the table is a stream.")] = False,
) -> None:
    """Seconds by number of windows: of two windows in a warm session, and of each reader, first and again after a window."""
    for count in map(int, counts.split(",")):
        with tempfile.TemporaryDirectory(prefix="lakehouse-long-") as folder:
            lab = Lab(Path(folder), memory="2g")
            settings, windows = lab.settings("long"), Windows(stream)
            began = time.perf_counter()
            make_lake(lab, settings, windows, count, min(tail, count - 2))
            figures: dict[str, Any] = {"windows": count, "lake made": round(time.perf_counter() - began, 1)}
            for index in range(2):
                figures |= {f"{k} {index}": v for k, v in one_window(lab, settings, windows, count + index).items()}
            for again in ("", " again"):
                for name, work in readers(settings, windows.spec, windows.window(count).start).items():
                    figures[name + again] = timed(work)
                if not again:
                    one_window(lab, settings, windows, count + 2)
            if maintained:
                figures["maintain"] = timed(lambda: maintain(lab.run(settings, windows.spec)))  # noqa: B023
                figures["maintain again"] = timed(lambda: maintain(lab.run(settings, windows.spec)))  # noqa: B023
            figures |= {f"{k} last": v for k, v in _profiled(lab, settings, windows, count + 3, profile).items()}
            lab.close()  # the next lake has a session of its own: this one's files are gone with the folder
            print(json.dumps(figures), flush=True)  # noqa: T201


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds of a call; those of a failing one negative."""
    began, sign = time.perf_counter(), 1
    try:
        work()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201
        sign = -1
    return sign * round(time.perf_counter() - began, 2)


def _profiled(lab: Lab, settings: Settings, windows: Windows, number: int, path: Path | None) -> dict[str, float]:
    if path is None:
        return one_window(lab, settings, windows, number)
    import cProfile  # noqa: PLC0415 (only where asked for)

    with cProfile.Profile() as profiler:
        figures = one_window(lab, settings, windows, number)
    profiler.dump_stats(path)
    return figures


if __name__ == "__main__":
    typer.run(main)
