"""A guard: the contract of a table that others write, as its YAML declares it.

Belongs here: the keys, and what is wrong with them alone. Does not: what two guards may not share (guard_conflicts), or Delta.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from lakehouse_assets.checks.strict_model import StrictModel, is_recorded
from lakehouse_assets.contracts.asset_prefix import PrefixedContract
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.guard_windows import TIMES, GuardWindows
from lakehouse_assets.contracts.mistakes import TableName, refuse_names
from lakehouse_assets.contracts.table_contract import AlertSpec
from lakehouse_assets.contracts.windows import MINUTES

# Results that a guard has besides its checks.
HISTORY, COLUMNS, WINDOWS = "table_history", "table_columns", "table_windows"
POLL_MINUTES = 15


class GuardSchema(StrictModel):
    """What to do when a version's columns differ from `columns`. A declared column that is missing, renamed or of a type that
    does not read as the declared one always quarantines the version.
    """

    new_columns: Literal["ignore", "report", "quarantine"] = "ignore"
    """An undeclared column. `report`: the version is published with a warning. `quarantine`: it is quarantined."""


class PublishSpec(StrictModel):
    """Write-audit-publish: accepted rows go into a clean Delta table, quarantined ones into the guard's quarantine."""

    to: Annotated[str, Field(min_length=1)]
    """The clean table, which the guard creates and only the guard writes: a path or URL (with a slash; a relative one starts at
    the project's folder), or the name of a table of Spark's catalog."""

    @property
    def is_path(self) -> bool:
        """Whether `to` is a path or URL, and no table's name."""
        return "/" in self.to or "\\" in self.to


class GuardSpec(FrameRules, PrefixedContract):
    """One Delta table that somebody else writes. Each version is a window: its rows are judged by the checks, compared with the
    accepted versions, and decided on. The table is never changed; its rows are copied only by `publish`.

    `published` means: accepted. `quarantined` means: the version must not be used, and everything downstream is blocked.
    """

    name: TableName  # pyright: ignore[reportGeneralTypeIssues] (every guard has a name)
    """The name in the logs and of the asset `guard_<name>`. No other table or guard may have it."""
    path: str = ""
    """The Delta table: a folder or a URL. A relative path starts at the project's folder. This or `table` is required."""
    table: Annotated[str, Field(pattern=r"^[^/\\\s]+$")] | None = None
    """The same by its name in Spark's catalog, such as `db.orders`. Each run asks the catalog where the table lies."""
    format: Literal["delta", "iceberg"] = "delta"
    """The table's format. An Iceberg table whose versions are in its own folder is named by `path`; one whose versions a
    catalog keeps is named by `table`, such as `warehouse.db.orders`."""
    poll_minutes: int = Field(default=POLL_MINUTES, ge=0, le=10_080)
    """Of an Iceberg table by its name: how long the catalog's answer, or its error, counts for the sensor. A Spark of its own
    is started for each."""
    start: int | None = Field(default=None, ge=0)
    """The first version to judge; each one after it is judged too. By default the newest version when the guard first runs,
    as the whole table."""
    versions_per_run: int = Field(default=20, ge=1, le=1000)
    """At most so many versions, or windows, are judged in one run. While more wait, the sensor requests another run."""
    rewrites: Literal["accept", "report", "quarantine"] = "report"
    """What a version means that replaces the table's content: an overwrite or RESTORE, or rows whose versions can no longer be
    read one by one. Its batch is the whole table. `report`: published with a warning. `quarantine`: a person decides."""
    windows: GuardWindows | None = None
    """Windows by a column of time. Without it each version is a window."""
    publish: PublishSpec | None = None
    """Where accepted rows go. Without it no row is copied."""
    asset: str | None = None
    """The key of your own asset that writes the table, such as `raw/orders`. The checks are that asset's, and run whenever it
    materializes. Without it the guard has an asset of its own, `guard_<name>`."""
    blocking: bool = True
    """Whether a failed critical check blocks the assets downstream in the same run."""
    schema_policy: GuardSchema = Field(default=GuardSchema(), alias="schema")
    """What to do when a version's columns differ."""
    owners: tuple[str, ...] = ()
    """Dagster owners: `team:<name>` or e-mail addresses."""
    tags: dict[str, str] = {}
    """Dagster tags of the guard's asset."""
    group: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] | None = None
    """Dagster's group of the guard's asset. By default the guard's name."""
    alerts: AlertSpec = AlertSpec()
    """Who gets alerts about critical failures."""

    @model_validator(mode="before")
    @classmethod
    def _cadence_of_windows(cls, values: Any) -> Any:
        """Give checks the length of a window, as a table's `extraction.cadence` does."""
        windows = values.get("windows") if isinstance(values, dict) else None
        cadence = windows.get("cadence") if isinstance(windows, dict) else getattr(windows, "cadence", None)
        return {**values, "cadence": cadence} if cadence and values.get("cadence") is None else values

    @model_validator(mode="after")
    def _has_no_check_of_its_asset(self, info: ValidationInfo) -> "GuardSpec":
        if not is_recorded(info):
            refuse_names(self.checks, (HISTORY, COLUMNS, WINDOWS))
        return self

    @model_validator(mode="after")
    def _guard_consistent(self) -> "GuardSpec":
        if bool(self.path) == bool(self.table):
            raise ValueError("path: a guard has either `path`, a folder or URL, or `table`, a name in Spark's catalog")
        if self.format == "iceberg" and self.windows:
            raise ValueError("windows: the windows of an Iceberg table are its snapshots; remove `windows`")
        if self.poll_minutes != POLL_MINUTES and not self.is_of_catalog:
            raise ValueError("poll_minutes: it is of Iceberg tables by their name in a catalog; remove `poll_minutes`")
        if self.cadence != (self.windows.cadence if self.windows else None):
            raise ValueError("cadence: remove it: versions have no length, and `windows` has a `cadence` of its own")
        self._refuse_unfit_windows()
        for index, check in enumerate(self.checks):
            if check.reads is not None:
                table = check.reads.table
                raise ValueError(f"checks.{index} ({check.id}): it reads {table}; a guard's checks read its own rows only")
        return self

    def _refuse_unfit_windows(self) -> None:
        if (windows := self.windows) is None:
            return
        column = self.columns.get(windows.column)
        if column is None or column.type not in TIMES:
            problem = "it is not declared there" if column is None else f"it is declared as {column.type}"
            raise ValueError(f"windows.column: {windows.column}: declare it in `columns` as {' or '.join(TIMES)}; {problem}")
        if column.type == "date" and windows.cadence in (*MINUTES, "hourly"):
            shorter = f"windows.cadence: {windows.cadence}"
            raise ValueError(f"{shorter}: the date {windows.column} has no hours; choose daily or longer")
        if self.start is not None:
            raise ValueError("start: it counts versions; with `windows`, the first day is `windows.start`")
        if self.publish and self.key and windows.column not in self.key:
            raise ValueError(
                f"publish: with `windows` and `key`, a key may have rows in two windows, of which the clean table could not"
                f" keep the newer one; add {windows.column} to `key`, or remove `key`"
            )

    @property
    def label(self) -> str:
        """What errors name, and no address."""
        return f"{self.name}: the table {self.table}" if self.table else f"{self.name}: the table at `path`"

    @property
    def is_of_catalog(self) -> bool:
        """Whether only a catalog knows the table's newest version: of a Delta table it knows the folder, which has all."""
        return self.format == "iceberg" and self.table is not None

    @property
    def gold(self) -> tuple[GoldSpec, ...]:
        """None: a guard has no gold tables."""
        return ()

    def ruleset(self) -> str:
        """Return what a version is judged by, as canonical JSON; each decision stores it."""
        not_rules = (
            "description",
            "owners",
            "tags",
            "group",
            "alerts",
            "asset",
            "blocking",
            "versions_per_run",
            "start",
            "path",
            "table",
            "format",
            "poll_minutes",
            "publish",
        )
        left_out: dict[str, Any] = dict.fromkeys(not_rules, True)
        left_out["drift"] = {"features": {"__all__": {"unit"}}}
        if self.windows is None:
            left_out["windows"] = True  # the rules of a guard of versions keep their hash
        return self.model_dump_json(by_alias=True, exclude=left_out)
