"""Every error that this project raises on purpose, with the CLI's exit code for it; and the causes of a Java error.

Belongs here: the error tree and its codes. Does not: where an error is raised, or how it is shown.
"""

from collections.abc import Iterator
from typing import Any


def java_causes(error: BaseException) -> Iterator[Any]:
    """Yield the Java exceptions behind a Spark error, the outermost first; none for an error of Python's."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()


class LakehouseError(Exception):
    """The base class. The message states what is wrong, where, and what to do."""

    exit_code = 1


class ConfigError(LakehouseError):
    """A table's YAML or SQL is wrong. The message starts with ``file:line: key``."""

    exit_code = 2


class EnvironmentMissing(LakehouseError):
    """This machine lacks Java, a folder or a variable."""

    exit_code = 3


class ProjectMissing(EnvironmentMissing):
    """No project was found. The message says where it was searched for, and how to make one."""


class DiskError(EnvironmentMissing):
    """A disk is full, read-only or fails. The message names the disks and their free space."""


class SourceError(LakehouseError):
    """The landing folder, database or broker cannot be reached at all, or a frame fails while it is read. One bad file is data,
    not an error.
    """

    exit_code = 4


class RefusedError(LakehouseError):
    """The request names what is not there, or contradicts the recorded state, such as a release of a superseded batch. The
    message gives the reason.
    """

    exit_code = 5


class LockedError(LakehouseError):
    """Another process is writing the same table."""

    exit_code = 6


class LeaseLostError(LockedError):
    """Another process has taken over a lease, since this one did not renew it: its late commits are refused. ``name``: of the
    lease.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: another process has taken over this table's lease, since this one did not renew it in time; what it had"
            " not committed by then is not written. Run it again"
        )
        self.name = name


class RunFailedError(LakehouseError):
    """A Dagster run that a command started has failed."""

    exit_code = 7


class MaskedError(LakehouseError):
    """An error of Spark or Python in rows with personal columns: its class and its code location, without any value."""


class CheckFailedError(LakehouseError):
    """The check of `lakehouse check run` fails on the data or is in error; an audit stops; or a released window still fails."""

    exit_code = 8


class EvidenceError(LakehouseError):
    """Bronze, silver, quarantine, the baseline or a log differs from the record. The table stops: nothing is built from it."""

    exit_code = 9


class QuarantinedError(CheckFailedError):
    """A gate refuses a frame. ``result``: its verdict, its reasons and its rows (`frames.result.FrameResult`)."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result
