"""Which errors are a disk's, whoever raised them, and the message. No disk is filled here (laws/test_full_disk)."""

import sqlite3
from types import SimpleNamespace

import pytest
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException

from lakehouse_assets.errors import DiskError, LakehouseError, RefusedError
from lakehouse_assets.measures.batches import errors_of, isolate_failures
from lakehouse_assets.storage import disk_errors
from lakehouse_assets.storage.disk_errors import as_disk_error, find_disk_fault
from lakehouse_assets.storage.lock import table_lock

FULL, READ_ONLY = "No space left on device", "Read-only file system"


def java(name: str, text: str, cause=None):
    """What py4j shows of a Java error."""
    return SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: name), getMessage=lambda: text, getCause=lambda: cause
    )


def of_spark(cause) -> PySparkException:
    error = PySparkException("[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/bronze/t. SQLSTATE: 58030")
    error._origin = java("org.apache.spark.SparkException", "Task failed", cause)  # type: ignore[attr-defined]
    return error


def raised_from(cause: Exception) -> Exception:
    try:
        raise RuntimeError("while writing") from cause
    except RuntimeError as error:
        return error


# As they were seen on a full tmpfs, and on one that is mounted read-only.
OF_A_DISK = {
    "Python": (OSError(28, FULL, "/lake/x"), FULL),
    "Python, read-only": (OSError(30, READ_ONLY, "/lake/_locks/t.lock"), READ_ONLY),
    "a limit of a file's size": (OSError(27, "File too large"), "File too large"),
    "deltalake's data file": (
        DeltaError(
            "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data to file:"
            " No space left on device (os error 28)"
        ),
        FULL,
    ),
    "deltalake's commit": (
        OSError(
            "Generic LocalFileSystem error\n  \x1b[31m↳\x1b[0m Unable to copy data to file\n"
            "   \x1b[31m↳\x1b[0m No space left on device (os error 28)\n"
        ),
        FULL,
    ),
    "SQLite": (sqlite3.OperationalError("database or disk is full"), FULL),
    "SQLite, read-only": (raised_from(sqlite3.OperationalError("attempt to write a readonly database")), READ_ONLY),
    "Spark": (of_spark(java("java.io.IOException", FULL)), FULL),
    "Spark's own file error": (of_spark(java("org.apache.hadoop.fs.FSError", f"java.io.IOException: {FULL}")), FULL),
}


@pytest.mark.parametrize("name", OF_A_DISK)
def test_an_error_of_a_disk(name, settings):
    error, message = OF_A_DISK[name]
    assert find_disk_fault(error) == message
    disk_error = as_disk_error(error, settings)
    assert isinstance(disk_error, DiskError)
    assert disk_error.exit_code == 3
    assert str(disk_error).startswith(message)
    assert ", and run again: " in str(disk_error)
    assert f"Now the lake {settings.root}: " in str(disk_error)
    assert "MB free" in str(disk_error)
    assert "\n" not in str(disk_error)


def test_a_sqlite_disk_error_may_be_a_full_disk(settings, monkeypatch):
    error = sqlite3.OperationalError("disk I/O error")
    assert "Have the disk looked at" in str(as_disk_error(error, settings))
    monkeypatch.setattr(disk_errors, "_free_space", lambda _: (0, 10_000_000, True))
    assert str(as_disk_error(error, settings)).startswith("Input/output error. Make room, and run again: ")
    assert "0.0 of 10 MB free" in str(as_disk_error(error, settings))


@pytest.mark.parametrize(
    ("space", "fault"), [((5, 10, False), READ_ONLY), ((0, 10, True), FULL), ((5, 10, True), None)], ids=str
)
def test_a_folder_that_cannot_be_made_is_a_fault_of_its_disk(space, fault, monkeypatch):
    """Hadoop's message on a tmpfs that is mounted read-only; with room on a writable disk, something else is wrong."""
    text = "Mkdirs failed to create file:/lake/staging/t/run/_temporary/0 (exists=false, cwd=file:/home/me)"
    folders = []
    monkeypatch.setattr(disk_errors, "_free_space", lambda folder: folders.append(str(folder)) or space)
    assert find_disk_fault(of_spark(java("java.io.IOException", text))) == fault
    assert folders == ["/lake/staging/t/run/_temporary/0"]


@pytest.mark.parametrize(
    "error",
    [
        ValueError(FULL),
        of_spark(java("org.apache.spark.SparkNumberFormatException", f"[CAST_INVALID_INPUT] The value '{FULL}' cannot")),
        OSError(2, "No such file or directory"),
    ],
)
def test_a_value_with_this_text_is_no_disk_error(error, settings):
    assert find_disk_fault(error) is None
    assert as_disk_error(error, settings) is None


def test_disk_errors_under_a_table_lock_are_recognized(settings):
    with (
        pytest.raises(DiskError, match=r"No space left on device \(/lake/x\)"),
        table_lock(settings, "t"),
        table_lock(settings, "u"),
    ):
        raise OF_A_DISK["Python"][0]
    with pytest.raises(RefusedError, match="as it was"), table_lock(settings, "t"):
        raise RefusedError("as it was")
    with pytest.raises(LakehouseError), table_lock(settings, "t"):
        raise OF_A_DISK["Spark"][0]
    with table_lock(settings, "t", 0), table_lock(settings, "u", 0):
        pass  # both are free again


def test_a_full_disk_is_no_batchs_fault_and_no_checks():
    def fails(*_):
        raise OF_A_DISK["Spark"][0]

    with pytest.raises(PySparkException):
        isolate_failures([("a", 1), ("b", 1)], fails, personal=False)  # type: ignore[list-item]
    with pytest.raises(PySparkException):
        errors_of({"check": fails})
