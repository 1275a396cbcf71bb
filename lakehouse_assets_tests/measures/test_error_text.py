"""An exception as text: what a person needs of it, and nothing that it quotes from a row of a table with personal columns.

Belongs here: errors that are made up; no JVM. Does not: where they are shown (test_personal_token).
"""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.base import NumberFormatException, PySparkException

from lakehouse_assets import cli
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import EvidenceError, LakehouseError, MaskedError, RefusedError
from lakehouse_assets.measures.error_text import error_text, masked_text, plain_text
from lakehouse_assets.orchestration.step_boundary import step_of

SECRET = "ann@example.com"
CAST = f'[CAST_INVALID_INPUT] The value \'{SECRET}\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018'


class JavaError:
    """As py4j shows a Throwable."""

    def __init__(self, name: str, message: str | None, cause: "JavaError | None" = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getClass(self) -> "JavaError":
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> "JavaError | None":
        return self.cause


class Raised(Py4JJavaError):
    """What py4j raises: its own text has the whole stack, where Java can still be asked for it."""

    def __init__(self, *causes: JavaError, stack: str = "") -> None:
        Exception.__init__(self, "An error occurred while calling o3867.save.")
        for outer, inner in zip(causes, causes[1:], strict=False):
            outer.cause = inner
        self.java_exception, self.stack = causes[0], stack

    def __str__(self) -> str:
        return f"An error occurred while calling o3867.save.\n{self.stack}"


def spark_failed(text: str) -> JavaError:
    return JavaError("org.apache.spark.SparkException", text)


DISK = Raised(spark_failed("Job aborted."), JavaError("java.io.IOException", "No space left on device\nat x"))
JSON = Raised(spark_failed("Job aborted."), JavaError("com.fasterxml.jackson.core.JsonParseException", f"token '{SECRET}'"))
SILENT = Raised(JavaError("java.lang.NullPointerException", None))
TASK = Raised(spark_failed("x"), stack=f": org.apache.spark.SparkException: [TASK_WRITE_FAILED] {SECRET}\n\tat y")


@pytest.mark.parametrize(
    ("error", "open_", "closed"),
    [
        (DISK, "IOException: No space left on device", "IOException: No space left on device"),
        (JSON, f"JsonParseException: token '{SECRET}'", f"JsonParseException: {MASKED}"),
        (SILENT, "NullPointerException: no message", f"NullPointerException: {MASKED}"),
        (TASK, f"[TASK_WRITE_FAILED] {SECRET}", f"[TASK_WRITE_FAILED] {MASKED}"),
        (NumberFormatException(CAST), CAST, f"[CAST_INVALID_INPUT] {MASKED}"),
        (ValueError(SECRET), SECRET, f"ValueError: {MASKED}"),
        (KeyError(SECRET), repr(SECRET), f"KeyError: {MASKED}"),
        (ValueError(), "ValueError", f"ValueError: {MASKED}"),
        (AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] x"), *["[TABLE_OR_VIEW_NOT_FOUND] x"] * 2),
        (RefusedError("there is no table 'x'"), *["there is no table 'x'"] * 2),
        (FileNotFoundError(2, "No such file", "/x"), "[Errno 2] No such file: '/x'", "FileNotFoundError: No such file: /x"),
    ],
)
def test_an_error_as_text(error, open_, closed):
    assert plain_text(error) == error_text(error, personal=False) == open_
    assert masked_text(error) == error_text(error, personal=True) == closed


def test_an_error_without_text_names_its_location():
    with pytest.raises(ValueError, match="secret") as raised:
        step_of(personal=False)(int)("secret")
    assert masked_text(raised.value).startswith(f"ValueError: {MASKED} (at orchestration/step_boundary.py:")


def chain(error: BaseException | None) -> str:
    """Every text that Dagster keeps of an error."""
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return " ".join(texts)


@pytest.mark.parametrize("kind", ["spark", "ours", "ours in an except", "generator", "interrupted"])
@pytest.mark.parametrize("personal", [True, False])
def test_a_step_raises_masked_errors(kind, personal):
    @step_of(personal)
    def function() -> None:
        if kind == "spark":
            raise NumberFormatException(CAST)
        try:
            raise NumberFormatException(CAST)
        except NumberFormatException as error:
            if kind == "interrupted":
                raise KeyboardInterrupt  # noqa: B904
            if kind == "ours":
                raise RefusedError("no") from error
            raise RefusedError("no")  # noqa: B904 (its context is what is tested)

    @step_of(personal)
    def generator():
        yield 1
        raise NumberFormatException(CAST)

    with pytest.raises((PySparkException, LakehouseError, KeyboardInterrupt)) as raised:
        list(generator()) if kind == "generator" else function()
    assert (SECRET in chain(raised.value)) == (not personal)
    expected = MaskedError if personal else NumberFormatException
    expected = {"ours": RefusedError, "ours in an except": RefusedError, "interrupted": KeyboardInterrupt}.get(kind, expected)
    assert type(raised.value) is expected


MISSING_FILE = (
    "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:/lake/{}/part-0.parquet. File does not exist."
)


@pytest.mark.parametrize("personal", [True, False])
def test_of_a_data_file_that_is_gone_the_table_and_the_way_out_are_named(personal, monkeypatch, capsys):
    silver, gold = (spark_failed(MISSING_FILE.format(table)) for table in ("silver/t/p_extracted_at=1", "gold/g"))
    assert error_text(Raised(silver), personal) == (
        "silver/t lacks a data file that its log names: `lakehouse rebuild t` writes it anew"
    )
    assert error_text(Raised(gold), personal) == "gold/g lacks a data file that its log names: see `lakehouse verify`"
    assert "lacks a data file" not in error_text(Raised(spark_failed(MISSING_FILE.format("staging/t"))), personal)
    with pytest.raises(EvidenceError, match="lakehouse rebuild t"):
        step_of(personal)(raise_error)(Raised(silver))
    monkeypatch.setattr(cli, "app", lambda **_: raise_error(Raised(silver)))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, "lakehouse rebuild t" in capsys.readouterr().err) == (EvidenceError.exit_code, True)


@pytest.mark.parametrize("layer", ["baseline/sales", "quarantine/sales", "ops/decisions"])
def test_a_lost_file_ends_a_command_with_one_line(layer, monkeypatch, capsys):
    text = f"[Errno 2] Failed to open local file '/lake/{layer}/part-0.parquet'. Detail: [errno 2] No such file or directory"
    monkeypatch.setattr(cli, "app", lambda **_: raise_error(FileNotFoundError(text)))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == EvidenceError.exit_code
    error = f"error: {layer} lacks a data file that its log names: see `lakehouse verify`"
    assert capsys.readouterr().err.split() == error.split()
    monkeypatch.setattr(cli, "app", lambda **_: raise_error(FileNotFoundError("no such file: /somewhere/ops/else/a.parquet")))
    with pytest.raises(FileNotFoundError):
        cli.main()


def raise_error(error: Exception) -> None:
    raise error
