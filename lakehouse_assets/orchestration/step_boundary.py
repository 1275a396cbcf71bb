"""The boundary of a step: an error that leaves it goes into Dagster's event log, onto the terminal and into process logs.

Belongs here: no error of a table with personal columns leaves with a value in it. Does not: an error's text (measures).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError, MaskedError
from lakehouse_assets.measures.error_text import as_evidence_error, masked_text
from lakehouse_assets.orchestration.partition_results import of_newest_materialization

Step = TypeVar("Step", bound=Callable[..., Any])


def any_personal(specs: Sequence[TableSpec]) -> bool:
    """Whether one of these tables has personal columns."""
    return any(spec.pii_columns for spec in specs)


@contextmanager
def mask_errors(personal: bool) -> Iterator[None]:
    """Where ``personal``, raise an error of Spark, Java or Python as a MaskedError, and one of ours without its causes: Dagster
    stores the text of each cause. Spark's error about a data file that is gone is raised as an EvidenceError.
    """
    try:
        yield
    except (LakehouseError, dg.Failure) as error:
        if not personal:
            raise
        raise error from None
    except Exception as error:
        if (ours := as_evidence_error(error)) is not None:
            raise ours from (None if personal else error)
        if not personal:
            raise
        raise MaskedError(masked_text(error)).with_traceback(error.__traceback__) from None
    except BaseException as error:
        if personal:
            # An interrupt while an error was handled: that error would be shown as its context.
            error.__cause__, error.__suppress_context__ = None, True
        raise


def step_of(personal: bool) -> Callable[[Step], Step]:
    """Return a decorator that puts `mask_errors` around the function or generator of an op, asset or asset check."""

    def decorate(function: Step) -> Step:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with mask_errors(personal):
                return function(*args, **kwargs)

        @wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with mask_errors(personal):
                yield from function(*args, **kwargs)

        return generate if isgeneratorfunction(function) else call  # type: ignore[return-value]

    return decorate


def masked_check(
    asset: dg.AssetKey, name: str, description: str, personal: bool, result: Callable[..., dg.AssetCheckResult]
) -> dg.AssetChecksDefinition:
    """Return an asset check that starts no JVM and evaluates ``result`` under `mask_errors`."""

    @wraps(result)
    def evaluate(*args: Any, **kwargs: Any) -> dg.AssetCheckResult:
        return of_newest_materialization(result(*args, **kwargs))

    return dg.asset_check(asset=asset, name=name, description=description)(step_of(personal)(evaluate))
