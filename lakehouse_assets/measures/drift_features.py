"""All that the drift check measures of batches: profiles and relations, and the slices that follow from them.

Belongs here: the two in their order, and batches that cannot be measured. Does not: either aggregation (profile, slices).
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.relations import Measurement, Relations
from lakehouse_assets.measures.batches import isolate_failures, select_batches
from lakehouse_assets.measures.profile import MAX_STRATA, measure_profiles
from lakehouse_assets.measures.profile_files import StoredRows, choose_numbers, profile_files
from lakehouse_assets.measures.slices import add_slice_columns, measure_slices

TOO_MANY_STRATA = f"a feature's `by` has more than {MAX_STRATA} strata; use a coarser one"


def measure_features(
    staged: DataFrame, drift: DriftSpec, only: Batch | None = None, stored: StoredRows | None = None
) -> tuple[dict[Batch, list[Measurement]], set[Batch]]:
    """Return what `measure_profiles` does, and the slices of each batch that has some, which take one more job. ``stored``:
    where the rows of the only batch are, so that numbers take no job.
    """
    counted = add_slice_columns(drift)
    measured, too_many_strata = _measure_profiles(staged, counted, only, stored)
    slices = measure_slices(staged.where(F.col("_newest")), counted, measured)
    added = {feature.name for feature in counted.features} - {feature.name for feature in drift.features}
    results = {}
    for batch, own in measured.items():
        declared = [each for each in own if not (isinstance(each, Profile) and each.feature in added)]
        results[batch] = [*declared, slices[batch]] if batch in slices else declared
    return results, too_many_strata


def _measure_profiles(
    staged: DataFrame, drift: DriftSpec, only: Batch | None, stored: StoredRows | None
) -> tuple[dict[Batch, list[Measurement]], set[Batch]]:
    numbers = choose_numbers(staged, drift) if only and stored else []
    read = profile_files(staged, stored, drift, numbers) if stored and numbers else None
    if only is None or read is None:
        return measure_profiles(staged, drift, only)
    names = {number.feature for number in numbers}
    others = tuple(feature for feature in drift.features if feature.name not in names)
    if not others:
        return {only: read}, set()
    measured, too_many_strata = measure_profiles(staged, drift.model_copy(update={"features": others}), only)
    return {only: _in_order([*read, *measured.get(only, [])], drift)}, too_many_strata


def _in_order(measured: Sequence[Measurement], drift: DriftSpec) -> list[Measurement]:
    """These in the order of `measure_profiles`: by the first feature with their `by`; numbers, texts, relations without one."""
    columns = list(dict.fromkeys(feature.by for feature in drift.features))
    by_feature = {feature.name: feature.by for feature in drift.features}

    def position_of(each: Measurement) -> tuple[int, int]:
        by, kind = None, 2
        if isinstance(each, Profile):
            by, kind = by_feature[each.feature], 0 if each.kind == "number" else 1
        elif isinstance(each, Relations):
            by = each.by
        return columns.index(by), kind if by is None else 0

    return sorted(measured, key=position_of)


def profile_batches(
    staged: DataFrame, drift: DriftSpec, batches: Sequence[Batch], stored: StoredRows | None = None, *, personal: bool
) -> tuple[dict[Batch, list[Measurement]], dict[Batch, str]]:
    """Return each batch's profiles, relations and slices, and the errors of batches without them. ``stored``: where the rows
    are, of one batch.
    """
    profiles: dict[Batch, list[Measurement]] = {}
    errors: dict[Batch, str] = {}

    def attempt(some: Sequence[Batch]) -> None:
        rows = staged if len(some) == len(batches) else select_batches(staged, some)
        measured, too_many = measure_features(rows, drift, some[0] if len(some) == 1 else None, stored)
        profiles.update(measured)
        errors.update(dict.fromkeys(too_many & set(some), TOO_MANY_STRATA))

    for batch, message in isolate_failures(sorted(batches), attempt, personal=personal).items():
        errors[batch] = f"the features could not be measured: {message}"
    return profiles, errors
