"""The results of an audit's rules on one table: by the sample, by the whole table where that leaves a rule open, with examples.

Belongs here: which rows are read for which rule. Does not: the scans (rule_scans), or judging a share (decisions/audit).
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from lakehouse_assets.audit import rule_scans
from lakehouse_assets.audit.sample import Sample
from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.contracts.audit_binding import Binding
from lakehouse_assets.decisions.audit import verdict as judging
from lakehouse_assets.decisions.audit.share import exact_share, uniform_share, weighted_share
from lakehouse_assets.decisions.personal import MASKED, mask_text


def judge_rules(
    source: DataFrame,
    binding: Binding,
    sample: Sample,
    rows: int,
    context: CheckContext,
    personal: frozenset[str],
    escalate: Callable[[int], bool],
) -> list[judging.RuleResult]:
    """Return the result of each rule of a table, from a sample of ``rows``. ``escalate``: whether so many undecided rules read
    the whole table. ``personal``: columns whose values are not shown.
    """
    by_row = [bound for bound in binding.bound if isinstance(bound.check, RowCheck)]
    (flags, probabilities), errors = rule_scans.failures_in_sample(sample, by_row, context)
    shares = {}
    for bound, failed in zip(by_row, flags.T, strict=True):
        uniform = uniform_share(len(failed), int(failed.sum()), rows)
        shares[bound.id] = weighted_share(failed.tolist(), probabilities.tolist(), rows) if sample.weights else uniform
    undecided = [b for b in by_row if b.id not in errors and shares[b.id].answer(b.rule.threshold) == "inconclusive"]
    escalated: set[str] = set()
    if undecided and escalate(len(undecided)):
        frame = rule_scans.select_leaves(source, [name for bound in undecided for name in bound.columns])
        (table_rows, counts), full_errors = rule_scans.failures_in_full(frame, undecided, context)
        errors |= full_errors
        shares |= {name: exact_share(table_rows, failed) for name, failed in counts.items()}
        escalated = set(counts)
    failing = [b for b in by_row if b.id not in errors and shares[b.id].failed and not personal & set(b.columns)]
    examples = rule_scans.sample_examples(sample.rows, failing, context)
    failed = [b for b in failing if not examples.get(b.id) and shares[b.id].answer(b.rule.threshold) == "fail"]
    if failed:
        frame = rule_scans.select_leaves(source, [name for bound in failed for name in bound.columns])
        examples |= rule_scans.least_examples(frame, failed, context)
    results = []
    for bound in binding.bound:
        error = errors.get(bound.id)
        duplicates = 0
        if not isinstance(bound.check, RowCheck):
            # In full: two rows of one value are hardly ever both in a sample.
            duplicates, error = rule_scans.count_duplicates(source, bound, context)
        if error is not None:
            results.append(judging.exception_result(bound, mask_text(error) if personal else error))
        elif isinstance(bound.check, RowCheck):
            share = shares[bound.id]
            values = (MASKED,) if personal & set(bound.columns) and share.failed else examples.get(bound.id, ())
            results.append(judging.judge_share(bound, share, escalated=bound.id in escalated, examples=values))
        else:
            results.append(judging.judge_unique(bound, rows, duplicates))
    return results
