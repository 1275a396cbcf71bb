"""The drift decision on a frame, outside any judgement.

Belongs here: a frame → its profiles → the verdict. Does not: the baseline (baseline), or judging (decisions).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.frame_document import FrameDocument
from lakehouse_assets.contracts.frame_rules import frame_mistakes
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.session import require_frame
from lakehouse_assets.measures.drift_features import profile_batches
from lakehouse_assets.measures.frames import EPOCH
from lakehouse_assets.pipeline.staging import with_batch

BATCH = (EPOCH, 1)


def compare_frame(document: FrameDocument, frame: DataFrame, baseline: BaselineState) -> DriftVerdict:
    """Return whether the frame is distributed as the baseline. Raises RefusedError without `drift`, and for a feature that
    cannot be measured.
    """
    rules = document.rules
    if rules.drift is None:
        raise RefusedError(f"{rules.name}: the rules declare no `drift:`, so that there is nothing to compare")
    document.refuse(frame_mistakes(rules, dict(require_frame(frame).dtypes)))
    used = sorted(set().union(*(feature.columns_used for feature in rules.features)))
    rows = with_batch(frame.select(*[F.col(identifier(name)) for name in used]), BATCH).withColumn("_newest", F.lit(True))
    profiles, errors = profile_batches(rows, rules.drift, [BATCH], personal=bool(rules.pii_columns))
    if errors:
        raise RefusedError(f"the frame cannot be compared: {errors[BATCH]}")
    return judge_drift(profiles.get(BATCH, []), baseline.baseline, baseline.history, baseline.spec)
