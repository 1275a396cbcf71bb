"""A table that Spark can read, as a source: a name in its catalog or a format, and which column has the time of a row's change.

Belongs here: the shape of `source: {kind: table}` (pure). Does not: reading (sources), or a catalog's settings (Spark's).
"""

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.contracts.delta_source import checked_folder
from lakehouse_assets.contracts.source import Zone
from lakehouse_assets.contracts.source_kind import SourceKind, refuse_snapshots
from lakehouse_assets.contracts.windows import Cadence

OWN_KINDS = {"jdbc": "jdbc", "kafka": "kafka"}
SECRET_OPTION = re.compile(r"(?i).*(passw|pwd|secret|token|credential|access.?key|jaas).*")


class SparkTableSource(SourceKind):
    """A table that Spark can read: by its name in Spark's catalog, or by a data source on Spark's class path. A window's rows
    are those whose `modified` is in it. With `history: none`, a window has the whole table as it was when it was read. Bronze
    has every value as text: nested ones as JSON, binary as base64, times in ISO 8601 (with `Z`, unless they have no zone).
    """

    kind: Literal["table"]
    """What the source is."""
    table: str | None = None
    """The name in Spark's catalog: `orders`, `shop.orders` or `catalog.shop.orders`. `LAKEHOUSE_SPARK_CONF` sets up a catalog
    (`spark.sql.catalog.<name>`, `spark.jars`). Either this or `format`."""
    format: str | None = None
    """The name of a Spark data source: `orc`, `iceberg`, or one of a jar. Databases and Kafka have kinds of their own."""
    path: str | None = None
    """With `format`: a folder or file: absolute, a URL, or relative to the landing folder."""
    options: Mapping[str, str] = {}
    """With `format`: its options."""
    secret_options: Mapping[str, str] = {}
    """With `format`: options with a secret: `{token: ERP}` is the option `token` with the value of `LAKEHOUSE_SECRET_ERP`."""
    modified: str | None = None
    """The column with the time of a row's last change: a `timestamp`, `timestamp_ntz` or `date`. A row without a value is in no
    window. Let the table be partitioned or clustered by it: then a window reads its own files only."""
    history: Literal["window", "none"] = "window"
    """`window`: a row keeps its time, and a window can be read again. `none`: the table has its present rows only. Then a
    window has the whole table, once, and bronze is the only copy. The newest window is read; an older one that was missed
    stays missing. `snapshot` mode only, and without `modified`."""
    fingerprint: Literal["modified", "content"] = "modified"
    """How a change is detected, in one aggregation over all windows. `modified`: by the number of rows and their times, which
    reads that column alone. `content`: by every value, for rows that change without a new time."""
    poll_minutes: int = Field(default=15, ge=0, le=10_080)
    """How long a poll's answer, or its error, counts: each poll starts a Spark of its own. A window that ended since then is
    asked for at once."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value". Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of times that name none, `modified` included."""

    @field_validator("table")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and ("" in value.split(".") or re.search(r"[`\x00-\x1f\x7f]", value)):
            raise ValueError(f"{value!r} is not `table`, `schema.table` or `catalog.schema.table`, without quotes")
        return value

    @field_validator("format")
    @classmethod
    def _is_a_format(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"\w+(\.\w+)*", value):
            raise ValueError(f"{value!r} is no data source of Spark: its short name or its class")
        if value is not None and value.lower() in OWN_KINDS:
            raise ValueError(f"format {value} has a kind of its own: {{kind: {OWN_KINDS[value.lower()]}}}")
        return value

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, value: str | None) -> str | None:
        return None if value is None else checked_folder(value)

    @field_validator("options")
    @classmethod
    def _without_secrets(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in value.items():
            if name.lower() in ("path", "paths"):
                raise ValueError(f"{name} is no option here; write source.path")
            if SECRET_OPTION.fullmatch(name) or re.search(r"://[^/@]*:[^/@]+@", text):
                raise ValueError(
                    f"{name} holds a secret; write `secret_options: {{{name}: NAME}}`, and set LAKEHOUSE_SECRET_NAME"
                )
        return value

    @field_validator("secret_options")
    @classmethod
    def _are_names(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, variable in value.items():
            if not re.fullmatch("[A-Z][A-Z0-9_]*", variable):
                raise ValueError(f"{name}: write the NAME in LAKEHOUSE_SECRET_<NAME>, in capitals, and never the secret itself")
        return value

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> "SparkTableSource":
        if (self.table is None) == (self.format is None):
            raise ValueError("either `table`, a name in Spark's catalog, or `format`, a data source of Spark")
        if self.table is not None and (self.path is not None or self.options or self.secret_options):
            raise ValueError("path, options, secret_options: they belong to `format`; a table of the catalog has its own")
        if self.history == "window" and self.modified is None:
            raise ValueError("modified: needed, since it tells a row's window; or history: none, for whole snapshots")
        if self.history == "none" and self.modified is not None:
            raise ValueError("modified: with history: none a window has the whole table; remove it")
        if self.history == "none" and self.fingerprint != "modified":
            raise ValueError("fingerprint: with history: none a window is read once, and never compared; remove it")
        return self

    def refuse_extraction(self, cadence: Cadence, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if the rows cannot be read in this mode."""
        refuse_snapshots(self.history, mode, "table")

    @property
    def medium(self) -> str:
        """The kind of storage, in one word."""
        return self.format or "table"

    @property
    def location(self) -> str:
        """Where the data is, without any address."""
        return self.table or " ".join(part for part in (self.format, self.path) if part)

    @property
    def keeps_history(self) -> bool:
        """Whether a row stays in its window."""
        return self.history == "window"

    @property
    def polled_by_spark(self) -> bool:
        """Whether fingerprints are Spark's: not those of snapshots, which arrive by the calendar."""
        return self.history == "window"
