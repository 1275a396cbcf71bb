"""One check of a guard alone, on the table as it is now. Nothing is recorded.

Belongs here: the whole table's newest version → one check's result. Does not: decisions (run).
"""

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.frame_document import FrameDocument
from lakehouse_assets.contracts.frame_rules import FrameRules, frame_mistakes
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.mistakes import join_keys
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.judgement import Options, judge
from lakehouse_assets.guards.catalog import quoted_name, with_table_path
from lakehouse_assets.guards.observed_table import foreign_table, table_path
from lakehouse_assets.settings import Settings


def try_check(spec: GuardSpec, settings: Settings, spark: SparkSession, check: str) -> Outcome:
    """Return the result of a configured check on all rows of the newest version. Raises RefusedError for an unknown check, one
    that needs other checks or earlier windows, or columns that the table lacks; SourceError where there is no table.
    """
    chosen = [each for each in spec.checks if each.id == check]
    if not chosen:
        raise RefusedError(
            f"{spec.name} has no check {check!r}; there are {', '.join(each.id for each in spec.checks) or 'none'}"
        )
    alone = chosen[0].model_copy(update={"depends_on": ()})
    rules = FrameRules.model_construct(
        name=spec.name, description="", key=spec.key, last_modified=spec.last_modified, cadence=None, columns=spec.columns,
        checks=(alone,), drift=None,
    )  # fmt: skip
    spec = with_table_path(spec, spark)
    foreign_table(spec, settings).log()
    of_catalog = spec.is_of_catalog and spec.table
    path = table_path(spec, settings)
    rows = spark.table(quoted_name(of_catalog)) if of_catalog else spark.read.format(spec.format).load(path)
    if mistakes := [f"{join_keys(keys)}: {text}" for keys, text in frame_mistakes(rules, dict(rows.dtypes))]:
        raise RefusedError(f"{spec.name}: " + "; ".join(mistakes))
    with judge(FrameDocument(rules), rows, Options()) as result:
        outcomes = [Outcome(**outcome) for outcome in result.decision.checks]
    return next(outcome for outcome in outcomes if outcome.check == check)
