"""A fault in some rows of a window, through the whole gate: quarantined, the rows named, judged again with the same result.

Belongs here: slices on real Spark and Delta. Does not: what is measured (measures), what is unusual (decisions/drift).
"""

import json
import random
from dataclasses import replace

from lakehouse_assets.decisions.drift.method import FIRST_METHOD
from lakehouse_assets.decisions.drift.pseudonyms import pseudonym
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets_tests.support import heal, land, readings, runner, window

LEVELS = {"hold_at": 0.05, "hold_from": 20, "warn_at": 0.05, "warn_from": 20, "sketch_k": 256, "lasting_at": 0, "remember": 40}
FAULTS = {23: "Bonn", 24: "Rome"}
LAST = max(FAULTS)


def people(**more):
    return readings(
        columns={"mail": {"type": "string", "pii": True}, "city": "string", "value": "double", "updated": "timestamp"},
        key=["mail"],
        checks=[{"check": "in_set", "column": "city", "values": ["Bonn"], "severity": "warning"}],
        drift={**LEVELS, "features": ["value", "city"], **more},
    )


def arrive(settings, day: int) -> None:
    dice = random.Random(day)
    level = dice.gauss(0, 1)  # of the whole window: far more than the faults
    rows = []
    for n in range(90):
        city = dice.choice(["Bonn", "Rome", "Oslo"])
        value = level + dice.gauss(0, 0.5) + 1.0 * (FAULTS.get(day) == city)
        rows.append(f"m{n}@x.org,{city},{value:.4f},2024-01-{day:02d}T00:00:00Z")
    land(settings, day, rows, "mail,city,value,updated")


def test_a_fault_in_some_rows_is_quarantined_named_and_judged_alike_again(spark, settings):
    for day in range(1, LAST + 1):
        arrive(settings, day)
    published = heal(spark, settings, range(1, LAST + 1), people())
    decisions = logs.decisions(settings, "readings", evidence=True)
    for day, city in FAULTS.items():
        decision = next(d for d in decisions if d.p_extracted_at == window(day).start)
        assert published.current[window(day)].verdict == "quarantined"
        shown = city if city == "Bonn" else pseudonym(city)  # the contract lists Bonn alone, and the table has personal columns
        [message] = [reason.message for reason in decision.reasons if reason.check == "drift"]
        assert f"where city = {shown} (" in message
        assert "higher than usual" in message
        assert (decision.drift or {})["worst"]["slice"]["conditions"] == [["city", shown]]
        again = replay(runner(spark, settings, people()), decision)
        assert json.dumps(again.drift, sort_keys=True) == json.dumps(decision.drift, sort_keys=True)
    # What an earlier version recorded names no method: it is judged again by the first one.
    older = replace(decision, drift={name: value for name, value in (decision.drift or {}).items() if name != "method"})
    assert (replay(runner(spark, settings, people()), older).drift or {})["method"] == FIRST_METHOD
    assert '"Rome"' not in json.dumps([[d.profiles, d.drift] for d in decisions])
    # Those that were accepted are in the baseline, with their slices.
    history = read_baseline(settings, people(), decisions, len(decisions)).history
    assert len([each for each in history.slices if each]) == len(history) >= 20
    assert history.count_slices() == 3
