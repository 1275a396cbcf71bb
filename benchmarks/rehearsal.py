"""A rehearsal of the example's weather: what it costs, and the bar for what the gate must see of the faults.

Paired with nothing. The figures are the shares of faulty copies that were seen and quarantined, and clean copies that were
quarantined. Run once, with the default windows, columns and seed of `lakehouse check rehearse`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks import PROJECT_ROOT
from benchmarks.harness import Result, Sample, timed
from benchmarks.lab import Lab, public_properties
from lakehouse_assets.decisions.rehearsal import Rehearsal
from lakehouse_assets.operations.rehearse import RehearsalRequest, rehearse
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish

TABLE, LEAST_SEEN = "weather", 0.6


def benchmark(lab: Lab) -> Iterator[Result]:
    """The size is that of the example, whatever the scale; below 0.5 the lake has its first 130 days."""
    days = sorted((PROJECT_ROOT / "data/examples" / TABLE / "on_time").glob("*.csv"))[: None if lab.scale >= 0.5 else 130]
    settings = lab.settings("rehearsal").model_copy(update={"landing": str(PROJECT_ROOT / "data/examples")})
    spec = next(table.spec for table in load_tables() if table.spec.name == TABLE)
    # The example's files are read where they are.
    source = spec.source.model_copy(update={"path": "weather/on_time/{window:%Y-%m-%d}.csv"})
    spec = spec.model_copy(update={"source": source})
    run = lab.run(settings, spec)
    lab.say(f"rehearsal: a lake of {len(days)} days")
    windows = [window for window in spec.extraction.windows(datetime.now(UTC)) if window.key <= days[-1].stem]
    extract(run, windows)
    publish(run, windows)
    results: list[Rehearsal] = []
    sample = timed(lambda _: results.append(rehearse(run, RehearsalRequest(), lambda text: lab.say(f"rehearsal: {text}"))))()
    yield _result(results[0], sample, len(days), public_properties(settings))
    lab.clear(settings.root)


def _result(scorecard: Rehearsal, sample: Sample, days: int, settings: dict[str, str]) -> Result:
    copies = sum(each.copies for each in scorecard.faults) + scorecard.unchanged + scorecard.clean.windows
    figures = {
        "percent_seen": round(100 * scorecard.share_detected),
        "percent_quarantined": round(100 * scorecard.quarantined / max(scorecard.harmful, 1)),
        "clean_copies_quarantined": scorecard.clean.quarantined,
    }
    reached = scorecard.share_detected >= LEAST_SEEN and not scorecard.clean.quarantined
    note = f"at least {LEAST_SEEN:.0%} seen and no clean copy quarantined: {'reached' if reached else 'not reached'}"
    sizes = {"windows": days, "copies": copies}
    return Result("rehearsal", "check rehearse weather", (sample,), sizes=sizes, settings=settings, figures=figures, note=note)
