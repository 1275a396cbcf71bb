"""What silver's own properties say of the contract that it was made by, and what the contract declares of the Delta table.

Belongs here: recording the contract, and column comments, properties and constraints. Does not: what a contract is (contracts),
or when silver is made anew (pipeline).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.declarations import DeclarationChange, Declarations, changes_between, declarations_of
from lakehouse_assets.contracts.silver import silver_types
from lakehouse_assets.contracts.spark_types import sql_type, type_of_json
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.session_properties import set_session_property

# The columns that silver was made with and no source brought, as JSON.
COMPUTED = "lakehouse.computed"
# The comments, properties and constraints that the YAML declared when they were last changed, as JSON.
DECLARED = "lakehouse.declared"
CONSTRAINTS = "delta.constraints."


@dataclass(frozen=True)
class TableMetadata:
    """What the newest version's log says of the table: column types, properties and column comments."""

    types: Mapping[str, str]
    properties: Mapping[str, str]
    comments: Mapping[str, str]

    @property
    def recorded(self) -> Declarations:
        """What the YAML declared when silver was last changed to it."""
        return Declarations(**json.loads(self.properties.get(DECLARED, "{}")))

    @property
    def actual(self) -> Declarations:
        """What the table has, whoever made it."""
        constraints = {n.removeprefix(CONSTRAINTS): value for n, value in self.properties.items() if n.startswith(CONSTRAINTS)}
        return Declarations(dict(self.comments), dict(self.properties), constraints)

    def changes_to(self, spec: TableContract) -> list[DeclarationChange]:
        """Return the changes from the table to what its contract declares of it."""
        return changes_between(declarations_of(spec), self.recorded, self.actual, self.types, silver_types(spec))


def read_metadata(path: str) -> TableMetadata:
    """Return a table's metadata by one read of its log. No JVM."""
    table = delta.open_table(path)
    fields = json.loads(table.schema().to_json())["fields"]
    properties = {name: value for name, value in table.metadata().configuration.items() if value}
    comments = {field["name"]: text for field in fields if (text := (field.get("metadata") or {}).get("comment"))}
    return TableMetadata({f["name"]: sql_type(type_of_json(f["type"])) for f in fields}, properties, comments)


def record_contract(spark: SparkSession, path: str, spec: TableContract) -> None:
    """Record the contract by which silver has been made, and the columns that no source brought. Set the comments and
    properties that it declares; constraints are added by `apply_declarations`.
    """
    values, computed, before = {delta.MEANING: spec.meaning}, spec.computed_columns, read_metadata(path)
    if computed or json.loads(before.properties.get(COMPUTED, "[]")):
        values[COMPUTED] = json.dumps(computed)
    _declare(spark, path, spec, before, values)


def recorded_computed_columns(path: str) -> list[str]:
    """Return the columns that silver was made with and no source brought; none without a table. No JVM."""
    return json.loads(delta.properties(path).get(COMPUTED, "[]")) if delta.exists(path) else []


def recorded_declarations(path: str) -> Declarations:
    """Return what the YAML declared when silver was last changed to it. No JVM."""
    return read_metadata(path).recorded


def pending_changes(path: str, spec: TableContract) -> list[DeclarationChange]:
    """Return the changes from the table to what its contract declares of it. No JVM."""
    return read_metadata(path).changes_to(spec)


def _drop_removed_constraints(
    spark: SparkSession, path: str, changes: Sequence[DeclarationChange], recorded: Declarations
) -> None:
    """Drop the constraints that the contract has no more, or in another form."""
    for change in changes:
        if change.kind == "constraints" and change.was and change.name in recorded.constraints:
            spark.sql(f"ALTER TABLE delta.{identifier(path)} DROP CONSTRAINT IF EXISTS {identifier(change.name)}")


def apply_declarations(spark: SparkSession, path: str, spec: TableContract) -> None:
    """Change the table's comments, properties and constraints to what the contract declares. Raises RefusedError before any
    change if rows violate a new constraint, or somebody else's has its name.

    Safe to repeat after a crash at any point: what is declared is recorded before constraints are added.
    """
    before = read_metadata(path)
    added = _refuse_violated(spark, path, spec, before)
    _declare(spark, path, spec, before, {})
    for change in added:
        name = identifier(change.name)
        spark.sql(f"ALTER TABLE delta.{identifier(path)} ADD CONSTRAINT {name} CHECK ({change.becomes})")


def _declare(spark: SparkSession, path: str, spec: TableContract, before: TableMetadata, values: Mapping[str, str]) -> None:
    """Set comments and properties, drop removed constraints, and record what is declared, with these values. ``before``: the
    table as it is.
    """
    changes, declared, recorded = before.changes_to(spec), declarations_of(spec), before.recorded
    table = f"ALTER TABLE delta.{identifier(path)}"
    _drop_removed_constraints(spark, path, changes, recorded)
    on_table = before.actual.constraints
    own = {n: sql for n, sql in declared.constraints.items() if n in recorded.constraints or n not in on_table}
    declared = replace(declared, constraints=own)
    values = {**values, **{c.name: c.becomes for c in changes if c.kind == "properties" and c.becomes}}
    if declared != recorded:
        values[DECLARED] = json.dumps(declared.as_dict(), ensure_ascii=False, sort_keys=True)
    # Descriptions may have `${…}`, which Spark would replace.
    with set_session_property(spark, "spark.sql.variable.substitute", "false"):
        if comments := [f"{identifier(c.name)} COMMENT {_text(c.becomes)}" for c in changes if c.kind == "comments"]:
            spark.sql(f"{table} ALTER COLUMN {', '.join(comments)}")
        if removed := [_text(c.name) for c in changes if c.kind == "properties" and not c.becomes]:
            spark.sql(f"{table} UNSET TBLPROPERTIES IF EXISTS ({', '.join(removed)})")
        changed = {name: value for name, value in values.items() if before.properties.get(name) != value}
        pairs = [f"{_text(name)} = {_text(value)}" for name, value in changed.items()]
        try:
            if pairs:
                spark.sql(f"{table} SET TBLPROPERTIES ({', '.join(pairs)})")
        except (PySparkException, Py4JJavaError) as error:
            if "[DELTA_" not in str(error):
                raise
            raise RefusedError(f"{spec.name}: properties: Delta refuses them: {str(error).splitlines()[0][:300]}") from None


def refuse_violated(spark: SparkSession, path: str, spec: TableContract) -> list[DeclarationChange]:
    """Return the constraints to be added. Raises RefusedError for those that rows of the table violate, with their number, and
    for one whose name is somebody else's.
    """
    return _refuse_violated(spark, path, spec, read_metadata(path))


def _refuse_violated(spark: SparkSession, path: str, spec: TableContract, before: TableMetadata) -> list[DeclarationChange]:
    recorded = before.recorded.constraints
    added = [change for change in before.changes_to(spec) if change.kind == "constraints" and change.becomes]
    for change in added:
        if change.was and change.name not in recorded:
            raise RefusedError(
                f"{spec.name}: constraints.{change.name}: silver has a constraint of this name that somebody else has made;"
                f" choose another name, or drop theirs: ALTER TABLE … DROP CONSTRAINT {change.name}"
            )
    if not added:
        return []
    counts = [F.expr(f"count_if(NOT ({change.becomes}))").alias(change.name) for change in added]
    row = spark.read.format("delta").load(path).agg(*counts).first()
    violated = {name: count for name, count in (row.asDict() if row else {}).items() if count}
    if violated:
        rows = ", ".join(f"constraints.{name}: {count} row(s) of silver violate it" for name, count in violated.items())
        raise RefusedError(
            f"{spec.name}: {rows}; nothing was changed. Judge their windows again by today's rules, which quarantines such rows"
            f" (`lakehouse run --table {spec.name} --window A..B --rejudge --because …`), or remove the constraint"
        )
    return added


@contextmanager
def constrained_write(spark: SparkSession, path: str, spec: TableContract) -> Iterator[None]:
    """Drop the constraints that the contract has no more. Raise RefusedError, without any value, where a write within the block
    violates another one.
    """
    before = read_metadata(path)
    _drop_removed_constraints(spark, path, before.changes_to(spec), before.recorded)
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if "DELTA_VIOLATE_CONSTRAINT" not in str(error):
            raise
        name = "".join(re.findall(r"CHECK constraint (\w+)", str(error))[:1])
        raise RefusedError(
            f"{spec.name}: rows to be published violate silver's constraint {name}, though each batch's rows passed its check:"
            " a key's row may keep values of earlier batches, or somebody else has made the constraint. Remove it from"
            f" constraints:, or drop theirs: ALTER TABLE … DROP CONSTRAINT {name}"
        ) from None


def _text(value: str) -> str:
    return exp.Literal.string(value).sql(dialect="spark")
