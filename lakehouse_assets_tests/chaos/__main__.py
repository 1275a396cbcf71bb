"""`make chaos`: every kill point, in first and second attempts, by some seeds; two writers; stories of several machines; many
histories; a schema that changes with every window. Reported as JSON.

Belongs here: arguments, order, the account. Does not: any blow.
"""

import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session
from lakehouse_assets_tests.chaos.changes import check_changes
from lakehouse_assets_tests.chaos.files import EveryFile
from lakehouse_assets_tests.chaos.machine import machines
from lakehouse_assets_tests.chaos.play import POINTS
from lakehouse_assets_tests.chaos.stories import HOSTS, Stage
from lakehouse_assets_tests.chaos.strike import Ground
from lakehouse_assets_tests.chaos.writers import race
from lakehouse_assets_tests.e2e.servers import fetch_jars_of_s3
from lakehouse_assets_tests.e2e.store_proxy import store_behind_proxy
from lakehouse_assets_tests.laws.child import at, jvm_for_children
from lakehouse_assets_tests.laws.on_delta import DRAWN, check_histories
from lakehouse_assets_tests.support import lake_settings


class Account:
    """What was done and what came of it: a line each, and JSON after each, since a long run may be stopped."""

    def __init__(self, file: Path | None, minutes: float) -> None:
        self.file, self.lines, self.until = file, [], time.monotonic() + minutes * 60

    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.until

    def note(self, what: str, **fields: Any) -> None:
        """One result."""
        self.lines.append({"what": what, **fields})
        print(what, *(f"{name}={value}" for name, value in fields.items()), flush=True)
        if self.file:
            self.file.write_text(json.dumps(self.lines, indent=1) + "\n")


def main(
    seeds: Annotated[int, typer.Option(help="Seeds of each kill point.")] = 3,
    first: Annotated[int, typer.Option(help="The first seed.")] = 1,
    operations: Annotated[list[str] | None, typer.Option("--operation", help=f"Only these, of {', '.join(POINTS)}.")] = None,
    appends: Annotated[int, typer.Option(help="Appends of two processes in all.")] = 2000,
    histories: Annotated[int, typer.Option(help="Random histories on Delta.")] = 500,
    stories: Annotated[int, typer.Option(help="Random stories of three machines on one lake.")] = 20,
    s3: Annotated[bool, typer.Option("--s3", help="Play the stories on an S3 server (moto).")] = False,
    changes: Annotated[int, typer.Option(help="Changes of a schema, one after another.")] = 50,
    every_file: Annotated[bool, typer.Option(help="Also kill each operation at every file that it writes.")] = True,
    minutes: Annotated[float, typer.Option(help="Begin nothing after so many.")] = 24 * 60,
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep the results there.")] = None,
) -> None:
    """Kill, race, shuffle; compare with the oracle. Ends with 1 if anything differed."""
    account, failed = Account(json_file, minutes), 0
    with tempfile.TemporaryDirectory(prefix="lakehouse-chaos-") as name:
        home = Path(name)
        if appends:
            acknowledged, there = race(home / "race", appends)
            account.note("two writers", acknowledged=acknowledged, there=there, equal=acknowledged == there)
            failed += acknowledged != there
        if stories:
            failed += _play_stories(account, home / "stories", range(first, first + stories), s3)
        (home / "jvm").mkdir()
        spark = build_session(at(home / "jvm"), "chaos")
        if changes:
            failed += _change(account, spark, home / "changes", changes)
        kinds = [kind for kind in DRAWN for _ in range(8 if kind != "snapshot" else 1)]
        with jvm_for_children(home / "jvm") as jvm:
            for seed in range(first, first + seeds):
                for operation, points in POINTS.items():
                    if account.over() or operation not in (operations or POINTS):
                        continue
                    ground = Ground(spark, home / f"{operation}-{seed}", operation, seed)
                    if every_file:
                        failed += _kill_at_every_file(
                            account, spark, home / f"{operation}-{seed}-files", operation, ground.before
                        )
                    for point in points:
                        for times in (1, 2):
                            if not account.over():
                                failed += _strike(account, ground, point, times, jvm)
        played = 0
        while played < histories and not account.over():
            for kind in dict.fromkeys(kinds):
                size = min(kinds.count(kind) * 4 if kind != "snapshot" else 1, histories - played)
                drawn_seeds = [*range(1000 + played, 1000 + played + size)]
                try:
                    if drawn_seeds:
                        check_histories(spark, lake_settings(home / f"histories{played}"), kind, drawn_seeds)
                    account.note("histories", kind=kind, seeds=f"{drawn_seeds[:1]}..{drawn_seeds[-1:]}", equal=True)
                except AssertionError as error:
                    failed += 1
                    account.note("histories", kind=kind, equal=False, why=str(error)[:2000])
                played += size
        spark.stop()
    sys.exit(1 if failed else 0)


def _play_stories(account: Account, home: Path, seeds: range, s3: bool) -> int:
    home.mkdir()
    with ExitStack() as stack:
        store, proxy = None, None
        if s3:
            fetch_jars_of_s3()
            store, proxy = "s3a://lake", stack.enter_context(store_behind_proxy(home))
        variables = proxy.variables if proxy else {}
        running = stack.enter_context(machines(home / "machines", *HOSTS, root=store, variables=variables))
        stage, failed = Stage(running, home, store, proxy), 0
        for seed in seeds:
            if account.over():
                break
            begun = time.monotonic()
            try:
                outcomes = stage.play(seed)
                seconds = round(time.monotonic() - begun)
                account.note("story of machines", seed=seed, s3=s3, seconds=seconds, outcomes=dict(outcomes), equal=True)
            except AssertionError as error:
                account.note("story of machines", seed=seed, s3=s3, equal=False, why=str(error)[:2000])
                failed += 1
        return failed


def _change(account: Account, spark: Any, home: Path, count: int) -> bool:
    try:
        account.note("schema changes", count=count, versions=check_changes(spark, lake_settings(home), count), equal=True)
        return False
    except AssertionError as error:
        account.note("schema changes", count=count, equal=False, why=str(error)[:2000])
        return True


def _kill_at_every_file(account: Account, spark: Any, home: Path, operation: str, before: Settings) -> int:
    begun = time.monotonic()
    differences = [wrong for _, wrong in EveryFile(spark, home, operation, before).differences()]
    summary = {"places": len(differences), "seconds": round(time.monotonic() - begun)}
    account.note(
        "every file", act=operation, **summary, equal=not any(differences), why=[wrong for wrong in differences if wrong]
    )
    shutil.rmtree(home)
    return sum(map(bool, differences))


def _strike(account: Account, ground: Ground, point: str, times: int, jvm: dict[str, str]) -> bool:
    fields = {"act": ground.operation, "point": point, "seed": ground.seed, "attempts": times}
    try:
        account.note("kill", **fields, killed=ground.strike(point, times, jvm), equal=True)
        return False
    except AssertionError as error:
        account.note("kill", **fields, equal=False, why=str(error)[:2000])
        return True


if __name__ == "__main__":
    typer.run(main)
