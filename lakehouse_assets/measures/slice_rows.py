"""One feature of one batch by whether its rows are in a slice: two profiles from one aggregation.

Belongs here: that measurement. Does not: the slices of all features (slices), or what is usual in one (decisions).
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.drift_rows import CategoryCondition
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.measures.batches import error_of
from lakehouse_assets.measures.frames import all_of
from lakehouse_assets.measures.profile import measure_profiles

IN_SLICE = "_in_slice"


def measure_slice(
    staged: DataFrame, batch: Batch, drift: DriftSpec, feature: str, conditions: Sequence[CategoryCondition], *, personal: bool
) -> tuple[Profile, Profile] | None:
    """Return the profiles of a number in the slice and in all other rows to publish. None for a text, where one of the two has
    no row, or where Spark cannot measure them.
    """
    inside = all_of(F.expr(f"coalesce({each.sql}, FALSE)") for each in conditions)
    features = [each.model_copy(update={"by": IN_SLICE}) for each in drift.features if each.name == feature]
    measured: dict[str | None, Profile] = {}

    def attempt() -> None:
        chosen = drift.model_copy(update={"features": tuple(features), "relations": False, "slices": False})
        profiles, _ = measure_profiles(staged.withColumn(IN_SLICE, inside), chosen, batch)
        measured.update({each.stratum: each for each in profiles.get(batch, ()) if isinstance(each, Profile)})

    if error_of(attempt, personal=personal) or not {"true", "false"} <= measured.keys():
        return None
    numbers = measured["true"], measured["false"]
    return numbers if all(each.kind == "number" for each in numbers) else None
