"""Every error that this project raises on purpose, each with the exit code that the CLI ends with.

Belongs here: the tree and its codes. Does not: where an error is raised, or how it is shown.

LakehouseError (1)
├── ConfigError (2)        a table's YAML or SQL is wrong: names file, line and key
├── EnvironmentMissing (3) Java, a folder or a variable that the machine lacks
├── SourceError (4)        the landing place cannot be listed or read at all
├── RefusedError (5)       the request contradicts the ledger (release of a superseded batch, …)
├── LockedError (6)        another process is writing the same table
├── RunFailedError (7)     a Dagster run ended in failure
└── CheckFailedError (8)   `lakehouse check run`: the check fails on the data, or is in error; an audit stops
"""


class LakehouseError(Exception):
    """Base of the tree. The message is for a person: what is wrong, where, and the way out."""

    exit_code = 1


class ConfigError(LakehouseError):
    """A promise that cannot be kept as written. The message starts with ``file:line: key``."""

    exit_code = 2


class EnvironmentMissing(LakehouseError):
    """Something that the machine must have is not there."""

    exit_code = 3


class SourceError(LakehouseError):
    """The source as a whole cannot be reached (one bad file is data, not an error)."""

    exit_code = 4


class RefusedError(LakehouseError):
    """The request is understood and not allowed, with the reason."""

    exit_code = 5


class LockedError(LakehouseError):
    """Another process holds the table."""

    exit_code = 6


class RunFailedError(LakehouseError):
    """A Dagster run that a command started has failed."""

    exit_code = 7


class CheckFailedError(LakehouseError):
    """A check that a person asked for does not hold."""

    exit_code = 8
