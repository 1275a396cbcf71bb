"""`lakehouse_assets.testing` finds a check kind that breaks its contract. Our own kinds keep it (spec/test_check_kinds).

Belongs here: broken kinds, each with the promise that it breaks. Does not: sources (sources/test_contract).
"""

from typing import Literal

import pytest

from lakehouse_assets.checks import registry
from lakehouse_assets.checks.base import Judgement
from lakehouse_assets.checks.families import BatchCheck, ColumnCheck
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.testing import check_kinds, verify_batch_check, verify_check_kind, verify_row_check


class Even(ColumnCheck):
    """The number is even. NULL passes."""

    summary = "even"
    example = "{check: even, column: v}"
    rule = "{column} even"

    check: Literal["even"]
    column: str
    """A whole number."""

    def condition(self, context):
        return f"{identifier(self.column)} % 2 <> 0"


class Spliced(Even):
    """NULL passes."""

    check: Literal["even"]

    def condition(self, context):
        return f"{self.column} % 2 <> 0"


class NullFails(Even):
    """NULL fails."""

    check: Literal["even"]

    def condition(self, context):
        return f"{identifier(self.column)} % 2 <> 0 OR {identifier(self.column)} IS NULL"


class OfAnother(Even):
    """An example of another kind."""

    example = "{check: not_empty}"
    check: Literal["even"]


class NoDescription(Even):
    """A parameter without a description."""

    check: Literal["even"]
    other: int = 1


class Mean(BatchCheck):
    """The mean is at most `max`."""

    summary = "mean"
    example = "{check: mean_of, column: v, max: 1}"

    check: Literal["mean_of"]
    column: str
    """A number."""
    max: float
    """The most."""

    def metrics(self, context):
        return {"mean": f"avg({identifier(self.column)}) FILTER (WHERE {self.counted_rows})"}

    def judge(self, values, context):
        mean = values.get("mean")
        return Judgement.of({"mean": mean}, "" if mean is not None and mean <= self.max else f"the mean is {mean}")


class CountsUnclean(Mean):
    """It forgets the rows that are not clean."""

    check: Literal["mean_of"]

    def metrics(self, context):
        return {"mean": f"avg({identifier(self.column)})"}


class NotEmptyOnly(Mean):
    """It forgets the batch without rows."""

    check: Literal["mean_of"]

    def judge(self, values, context):
        return Judgement.of({}, "" if values["mean"] <= self.max else "too large")


class Silent(Mean):
    """It fails without a message."""

    check: Literal["mean_of"]

    def judge(self, values, context):
        return Judgement("failed")


@pytest.fixture
def use(monkeypatch):
    def use(kind):
        name = kind.model_fields["check"].annotation.__args__[0]
        kinds = {**registry.kinds(), name: kind}
        monkeypatch.setattr(check_kinds, "kinds", lambda: kinds)
        monkeypatch.setattr(check_kinds, "ANY", _Adapter(kinds))
        return name

    return use


class _Adapter:
    """What `TypeAdapter(AnyCheck)` is, with the kinds of a test."""

    def __init__(self, kinds):
        self.kinds = kinds

    def validate_python(self, value):
        return self.kinds[value["check"]].model_validate(value)

    def validate_json(self, text):
        import json

        return self.kinds[json.loads(text)["check"]].model_validate_json(text)


def test_kinds_that_keep_it(use, spark):
    verify_check_kind(use(Even))
    verify_row_check(spark, {"check": "even"}, "int", [2, 0, None], [1, -1])
    verify_check_kind(use(Mean))
    verify_batch_check(spark, {"check": "mean_of", "column": "v", "max": 1}, "double", [[1.0, None]], [[5.0], [], [None]])


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (OfAnother, "its example is a check of this kind"),
        (NoDescription, "the parameter other has a string below it"),
        (NotEmptyOnly, "`judge` has a result for a batch without rows"),
        (Silent, "a judgement that is no pass has a message"),
    ],
)
def test_a_broken_description_or_model_is_found(use, kind, promise):
    with pytest.raises(AssertionError, match=promise):
        verify_check_kind(use(kind))


def test_broken_sql_is_found(use, spark):
    use(NullFails)
    with pytest.raises(AssertionError, match="these values pass and should fail, or fail and should pass"):
        verify_row_check(spark, {"check": "even"}, "int", [2], [1])
    use(Spliced)
    with pytest.raises(Exception, match=r"(?i)parse|syntax|unresolved"):
        verify_row_check(spark, {"check": "even"}, "int", [2], [1])
    use(CountsUnclean)
    with pytest.raises(AssertionError, match="is passed, not failed"):
        verify_batch_check(spark, {"check": "mean_of", "column": "v", "max": 1}, "double", [[1.0]], [[5.0]])
