"""`python -m benchmarks.tick`: what a tick costs when there is nothing to do. CPU seconds of this process; no Spark, no JVM.

Belongs here: an instance on which many windows of many tables are done, and one tick of each sensor. Does not: runs.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
import typer

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing.automation import HEALS
from lakehouse_assets.orchestration.healing.retries import plan_retries
from lakehouse_assets.orchestration.healing.source_state import poll_sources, time_budget
from lakehouse_assets.orchestration.healing.source_versions import VERSION_TAG
from lakehouse_assets.orchestration.notify import alert_sensor, decision_event_sensor, log_state
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_source
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.check_results import project_check_results

START = datetime(2024, 1, 1, tzinfo=UTC)


def table(name: str, windows: int) -> TableSpec:
    """An hourly table of so many windows."""
    return TableSpec.model_validate(
        {
            "name": name,
            "source": {"kind": "files", "path": f"{name}/{{window:%Y-%m-%dT%H}}.csv", "format": "csv"},
            "extraction": {"cadence": "hourly", "start": START, "end": START + timedelta(hours=windows)},
            "key": ["id"],
            "columns": {"id": "int"},
        }
    )


def complete_windows(instance: dg.DagsterInstance, home: Path, settings: Settings, spec: TableSpec) -> None:
    """Every window has landed, is reported, and is in bronze, silver and baseline, as the instance's storage keeps it."""
    folder = Path(settings.landing, spec.name)
    folder.mkdir()
    windows = spec.extraction.windows(datetime.now(UTC))
    for window in windows:
        (folder / f"{window.start:%Y-%m-%dT%H}.csv").write_text("id\n1\n")
    prints = open_source(spec, settings, {}).fingerprints(windows)
    for asset in (f"source_{spec.name}", f"bronze_{spec.name}", f"silver_{spec.name}", f"baseline_{spec.name}"):
        first = windows[0]
        tags = {VERSION_TAG: prints[first]}
        event = dg.AssetMaterialization(asset, partition=first.key, tags=tags)
        instance.report_runless_asset_event(event)
        _repeat(home, asset, first.key, prints[first], {w.key: prints[w] for w in windows[1:]})


def log_decisions(settings: Settings, spec: TableSpec) -> None:
    """Every window was decided and carried out, with two checks that passed, as the log and the checks' results have it."""
    passed = {"status": "passed", "effect": "none", "failed_rows": 0, "message": "", "observed": {"rows": 1}, "waived": False}
    checks = tuple({"check": kind, "kind": kind, "severity": "critical", **passed} for kind in ("readable_row", "casts"))
    decided = [
        Decision(
            table=spec.name, p_extracted_at=window.start, extraction_seq=1, number=number, kind="judged", verdict="published",
            counts=Counts(1, 1), reasons=(), ruleset_hash="0" * 16, ruleset="{}", bronze_version=number, baseline_version=None,
            run_id="benchmark", decided_at=window.end, checks=checks,
        )
        for number, window in enumerate(spec.extraction.windows(datetime.now(UTC)), 1)
    ]  # fmt: skip
    logs.log_decisions(settings, decided)
    logs.mark_applied(settings, decided, len(decided) + 1, datetime.now(UTC))
    project_check_results(settings, spec.name)


def _repeat(home: Path, asset: str, key: str, print_: str, others: dict[str, str]) -> None:
    """The stored event of one partition, again for each other: to report them takes milliseconds each."""
    asset_key = json.dumps([asset])
    with sqlite3.connect(next(home.rglob("index.db"))) as store:
        cells = [row[1] for row in store.execute("pragma table_info(event_logs)") if row[1] != "id"]
        names = ", ".join(cells)
        newest = store.execute(f"select id, {names} from event_logs where asset_key = ?", (asset_key,)).fetchone()  # noqa: S608
        template = dict(zip(cells, newest[1:], strict=True))
        tags = store.execute(
            "select key, value, event_timestamp from asset_event_tags where event_id = ?", (newest[0],)
        ).fetchall()
        for other, fingerprint in others.items():
            body = template["event"].replace(key, other).replace(print_, fingerprint)
            row = {**template, "event": body, "partition": other}
            placeholders = ", ".join("?" * len(cells))
            cursor = store.execute(f"insert into event_logs ({names}) values ({placeholders})", [row[c] for c in cells])  # noqa: S608
            store.executemany(
                "insert into asset_event_tags (asset_key, event_id, key, value, event_timestamp) values (?, ?, ?, ?, ?)",
                [(asset_key, cursor.lastrowid, k, v.replace(print_, fingerprint), at) for k, v, at in tags],
            )


def main(
    tables: Annotated[int, typer.Option(help="Tables.")] = 20,
    windows: Annotated[int, typer.Option(help="Windows of each, hourly: 8760 are a year.")] = 8760,
    ticks: Annotated[int, typer.Option(help="Ticks that count, after two to warm up.")] = 3,
) -> None:
    """CPU seconds of a tick in which nothing is to be done, of each sensor, the least of some.

    `watch` is a tick of the source sensor, which polls some tables in turn; `watch_all` polls all of them.
    """
    with tempfile.TemporaryDirectory(prefix="lakehouse-tick-") as name:
        home = Path(name)
        (home / "landing").mkdir()
        settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home)
        specs = [table(f"t{number:02d}", windows) for number in range(tables)]
        definitions = build_definitions(settings, [LakehouseTable(spec, home) for spec in specs])
        repository = definitions.get_repository_def()
        with dg.DagsterInstance.local_temp(str(home)) as instance:
            for spec in specs:
                complete_windows(instance, home, settings, spec)
                log_decisions(settings, spec)
            cursors: dict[str, Any] = {"conditions": None, "retries": None, "watch": None, "announce": None, "publish": None}
            polled_counts: list[int] = []

            def conditions() -> int:
                context = dg.build_sensor_context(instance=instance, cursor=cursors["conditions"], repository_def=repository)
                result = repository.get_sensor_def(HEALS).evaluate_tick(context)
                cursors["conditions"] = result.cursor
                return len(result.run_requests or ())

            def retries() -> int:
                plan = plan_retries(instance, settings, specs, cursors["retries"], datetime.now(UTC))
                cursors["retries"] = plan.cursor
                return len(plan.requests)

            def watch() -> int:
                poll = poll_sources(instance, settings, specs, {}, datetime.now(UTC), time_budget(), cursors["watch"])
                cursors["watch"] = poll.next_table
                polled_counts.append(len(poll.tables))
                return len(poll.events) + len(poll.unsettled)

            def watch_all() -> int:
                poll = poll_sources(instance, settings, specs, {}, datetime.now(UTC))
                return len(poll.events) + len(poll.unsettled)

            def announce() -> int:
                return ticked("announce", alert_sensor(settings, specs))

            def publish() -> int:
                return ticked("publish", decision_event_sensor(kafka_settings))

            def ticked(name: str, sensor: dg.SensorDefinition) -> int:
                context = dg.build_sensor_context(instance=instance, cursor=cursors[name])
                cursors[name] = sensor.evaluate_tick(context).cursor
                return 0

            # Nobody listens there. All has been sent, as far as the sensor knows.
            kafka_settings = settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:1"})
            cursors["publish"] = log_state(kafka_settings)
            seconds = {f.__name__: _least(f, ticks) for f in (watch, watch_all, conditions, retries, announce, publish)}
    summary = {"tables": tables, "windows": windows, "tables_looked_at": polled_counts, "cpu_seconds": seconds}
    typer.echo(json.dumps(summary, indent=1))


def _least(tick: Callable[[], int], ticks: int) -> float:
    spent, requested_windows = [], 0
    for _ in range(2 + ticks):
        began = time.process_time()
        requested_windows = tick()
        spent.append(time.process_time() - began)
    if requested_windows:
        raise SystemExit(f"{tick.__name__} asked for {requested_windows} windows that are done")
    return round(min(spent[2:]), 3)


if __name__ == "__main__":
    typer.run(main)
