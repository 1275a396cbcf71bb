"""The contract of a check kind: its description, its SQL on real Spark, NULL, NaN, the empty batch, hostile column names.

Belongs here: what holds of every kind. Does not: what one kind promises; its author gives values that pass and that fail.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from inspect import getdoc
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck, RowCheck
from lakehouse_assets.checks.registry import AnyCheck, describe_kind, kinds
from lakehouse_assets.contracts.decision import finite
from lakehouse_assets.testing.promise import require

ANY: TypeAdapter[Check] = TypeAdapter(AnyCheck)
START = datetime(2024, 1, 1, tzinfo=UTC)
CONTEXT = CheckContext(("id",), "p_extracted_at", "(p_extracted_at + INTERVAL 1 DAY)", "batch")
VALUE = "v"
HOSTILE = "we`ird.'na\"me\\$x"
STATUSES = ("passed", "failed", "error", "skipped")


def verify_check_kind(name: str) -> None:
    """Verify a kind's description and its model, without Spark: a documented example, strict keys, replay, the empty batch."""
    require(name in kinds(), f"{name}: there is no such kind; is its file among the extensions?")
    kind = kinds()[name]
    require(bool(getdoc(kind)), f"{name}: the class has a docstring, which is its description")
    for parameter in describe_kind(kind)["parameters"]:
        require(
            bool(parameter["meaning"]), f"{name}: the parameter {parameter['name']} has a string below it that describes it"
        )
    written = yaml.safe_load(kind.example)
    examples = [ANY.validate_python(each) for each in (written if isinstance(written, list) else [written])]
    require(any(type(each) is kind for each in examples), f"{name}: its example is a check of this kind")
    for check in examples:
        again = ANY.validate_json(check.model_dump_json())
        require(again == check, f"{name}: a rule set's text gives the same check (replay)")
        try:
            ANY.validate_python({**check.model_dump(exclude_unset=True), "no_such_key": 1})
        except ValidationError:
            pass
        else:
            require(False, f"{name}: an unknown key is refused")
        if isinstance(check, RowCheck):
            require(bool(check.message()), f"{name}: `message` states the rule")
        if isinstance(check, BatchCheck):
            _require_judgement(name, _judge_nothing(name, check), "a batch without rows")


def _judge_nothing(name: str, check: BatchCheck) -> Judgement:
    try:
        return check.judge(dict(check.default_metrics), CONTEXT)
    except Exception as error:
        raise AssertionError(f"{name}: `judge` has a result for a batch without rows (no metrics): {error!r}") from error


def verify_row_check(
    spark: SparkSession,
    parameters: Mapping[str, Any],
    column_type: str,
    passing: Sequence[Any],
    failing: Sequence[Any],
    others: Mapping[str, tuple[str, Any]] | None = None,
) -> None:
    """Verify a row check on a column `v` of ``column_type``: the values that pass, and those that fail. NULL passes, unless it
    is among ``failing``; NaN has a result. ``others``: further columns, each with its type and its one value.

    A column parameter that is `v`, or is left out, is also called by a hostile name.
    """
    check = _check(parameters)
    require(isinstance(check, RowCheck), f"{check.check}: it is a RowCheck")
    passing = [*passing] if None in (*passing, *failing) else [*passing, None]
    further = {"p_extracted_at": ("timestamp", START), **(others or {})}
    undecided = [math.nan] if column_type in ("float", "double") else []
    shared = tuple(value for _, value in further.values())
    values = [(index, value, *shared) for index, value in enumerate([*passing, *failing, *undecided])]
    fields = "".join(f", {name} {kind}" for name, (kind, _) in further.items())
    frame = spark.createDataFrame(values, f"i int, {VALUE} {column_type}{fields}").withColumn(HOSTILE, F.col(VALUE))
    rows = frame.select("i", F.expr(check.failing(CONTEXT)).alias("fails")).collect()  # type: ignore[attr-defined]
    matches = [row["fails"] for row in sorted(rows, key=lambda row: row["i"])]
    require(None not in matches, f"{check.id}: its SQL is TRUE or FALSE for every row, never NULL")
    wanted = [False] * len(passing) + [True] * len(failing) + matches[len(passing) + len(failing) :]
    wrong = [
        value for (_, value, *_), is_failing, expected in zip(values, matches, wanted, strict=True) if is_failing != expected
    ]
    require(not wrong, f"{check.id}: these values pass and should fail, or fail and should pass: {wrong!r}")


def verify_batch_check(
    spark: SparkSession,
    parameters: Mapping[str, Any],
    column_type: str,
    passing: Sequence[Sequence[Any]],
    failing: Sequence[Sequence[Any]],
) -> None:
    """Verify a batch check on batches of a column `v` of ``column_type``: those that pass, and those that fail. Each batch is a
    window, measured in one scan with the others; rows that are not clean do not count. The column has a hostile name, too.
    """
    check = _check(parameters)
    require(isinstance(check, BatchCheck), f"{check.check}: it is a BatchCheck")
    batches = [*passing, *failing, []]  # the last one shows that a batch without rows has a result
    starts = [START + timedelta(days=day) for day in range(len(batches))]
    rows = [(value, start, True) for start, batch in zip(starts, batches, strict=True) for value in batch]
    unclean = sorted({value for batch in failing for value in batch if value is not None}, key=str)
    rows += [(value, start, False) for start in starts for value in unclean]
    frame = spark.createDataFrame(rows, f"{VALUE} {column_type}, p_extracted_at timestamp, _clean boolean")
    measured = _measure(spark, check, frame.withColumn(HOSTILE, F.col(VALUE)), starts)  # type: ignore[arg-type]
    judgements = [check.judge(measured[start], CONTEXT) for start in starts]
    for judgement, batch in zip(judgements, batches, strict=True):
        _require_judgement(check.id, judgement, f"the batch {list(batch)!r}")
    wanted = ["passed"] * len(passing) + ["failed"] * len(failing)
    for judgement, batch, status in zip(judgements, batches, wanted, strict=False):
        require(judgement.status == status, f"{check.id}: the batch {list(batch)!r} is {status}, not {judgement.status}")


def _measure(
    spark: SparkSession, check: BatchCheck, frame: DataFrame, starts: Sequence[datetime]
) -> dict[datetime | None, dict]:
    """Return the metrics of each window, from the scan and from the check's own query."""
    frame.where("_clean").createOrReplaceTempView(CONTEXT.batch_view)
    matches: dict[datetime | None, dict] = {start: dict(check.default_metrics) for start in starts}
    if metrics := check.metrics(CONTEXT):
        aggregates = [F.expr(sql).alias(name) for name, sql in metrics.items()]
        for row in frame.groupBy("p_extracted_at").agg(*aggregates).collect():
            matches[_utc(row["p_extracted_at"])] |= {name: row[name] for name in metrics}
    if query := check.query_by_window(CONTEXT):
        rows = {_utc(row["p_extracted_at"]): row.asDict() for row in spark.sql(query).collect()}
        of_others = rows.pop(None, {})  # of each window without a row of its own
        for start in starts:
            matches[start] |= rows.get(start, of_others)
    return matches


def _utc(moment: datetime | None) -> datetime | None:
    """Return a collected timestamp in UTC: Spark gives Python local times."""
    return None if moment is None else moment.astimezone(UTC)


def _check(parameters: Mapping[str, Any]) -> Check:
    """Return the check; its column `v` has the hostile name."""
    require(parameters.get("check") in kinds(), f"{parameters.get('check')}: there is no such kind")
    fields = kinds()[parameters["check"]].model_fields
    hostile: dict[str, Any] = {}
    if "column" in fields and parameters.get("column", VALUE) == VALUE:
        hostile["column"] = HOSTILE
    if "columns" in fields and isinstance(parameters.get("columns"), list):
        hostile["columns"] = [HOSTILE if name == VALUE else name for name in parameters["columns"]]
    return ANY.validate_python({**parameters, **hostile})


def _require_judgement(name: str, judgement: Any, of: str) -> None:
    require(isinstance(judgement, Judgement), f"{name}: `judge` returns a Judgement for {of}")
    require(judgement.status in STATUSES, f"{name}: {judgement.status!r} is no status")
    require(judgement.status == "passed" or bool(judgement.message), f"{name}: a judgement that is no pass has a message")
    try:
        json.dumps(finite(judgement.observed), allow_nan=False)
    except (TypeError, ValueError):
        require(False, f"{name}: `observed` of {of} is JSON: {judgement.observed!r}")
