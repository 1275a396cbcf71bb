"""The judgement of a frame for people: one line, or markdown.

Belongs here: a frame's decision → text. Does not: a decision's drift (drift), or plots.
"""

from collections.abc import Mapping, Sequence

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.reports.drift import describe_status, feature_table
from lakehouse_assets.reports.markdown import escape, table

CHECKS = ("check", "severity", "status", "effect", "failed rows", "message")


def describe_decision(decision: Decision) -> str:
    """Return verdict, counts and reasons as one line."""
    counts = decision.counts
    text = (
        f"{decision.table}: {decision.verdict}: {counts.rows_in} row(s), {counts.rows_published} clean, "
        f"{counts.rows_superseded} superseded, {counts.rows_quarantined} quarantined"
    )
    reasons = "; ".join(f"{reason.check}: {reason.message}" for reason in decision.reasons)
    return f"{text}; {reasons}" if reasons else text


def frame_markdown(
    decision: Decision, samples: Mapping[str, Sequence[str]], pictures: Sequence[str], left_out: Mapping[str, str]
) -> str:
    """Return markdown of the whole judgement. ``pictures``: markdown with images. ``left_out``: checks that were not judged."""
    counts = decision.counts
    names = ("rows", "clean", "superseded", "quarantined")
    numbers = (counts.rows_in, counts.rows_published, counts.rows_superseded, counts.rows_quarantined)
    parts = [f"## {escape(decision.table)}: {escape(decision.verdict)}", table(names, [numbers])]
    if decision.checks:
        rows = [(o["check"], o["severity"], o["status"], o["effect"], o["failed_rows"], o["message"]) for o in decision.checks]
        parts.append(table(CHECKS, rows, 200))
    if left_out:
        parts.append("\n".join(f"- {escape(check)} is left out: {escape(why)}" for check, why in left_out.items()))
    if samples:
        parts.append("\n".join(f"- {escape(check)}: {escape(value)}" for check, values in samples.items() for value in values))
    if decision.drift:
        parts += [f"### Drift\n\n{escape(describe_status(decision.drift))}", feature_table(decision.drift)]
    return "\n\n".join([*parts, *pictures])
