"""What `drift:` may say: the short forms, the defaults, and what is refused.

Belongs here: the contract. Does not: what the gate makes of it (test_judge).
"""

import json

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from lakehouse_assets.cli import app
from lakehouse_assets.contracts.drift import DriftSpec, drift_default, feature_meanings
from lakehouse_assets.decisions.drift.compare import compare
from lakehouse_assets_tests.support import readings


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": []}, "at least 1"),
        ({"features": ["a", "A"]}, "two features are called 'A'"),
        ({"features": ["a", {"name": "a", "expr": "b"}]}, "two features"),
        ({"features": ["a"], "hold_from": 5}, "greater than or equal to 20"),
        ({"features": ["a"], "warn_from": 5}, "greater than or equal to 20"),
        ({"features": ["a"], "warn_at": 0.001}, "warn_at 0.001 is below hold_at"),
        ({"features": ["a"], "hold_from": 25, "warn_from": 26}, "hold_from 25 is below warn_from 26"),
        ({"features": ["Volume"]}, "a name that the gate itself uses"),
        ({"features": [{"name": "relations by x", "expr": "a"}]}, "a name that the gate itself uses"),
        ({"features": ["a"], "lasting_over": [1]}, "between 2 and 60"),
        ({"features": ["a"], "remember": 25}, "remember 25 is below hold_from 28"),
        ({"features": ["a"], "cold_start": "wait"}, "learn"),
        ({"features": ["a"], "typo": 1}, "not known here"),
        ({"features": [{"name": "a", "expression": "b"}]}, "not known here"),
    ],
)
def test_a_contradictory_spec_is_refused(parameters, message):
    with pytest.raises(ValidationError, match=message):
        DriftSpec.model_validate(parameters)


def test_the_short_forms():
    spec = DriftSpec.model_validate({"features": ["a", {"name": "b", "by": "origin"}, {"name": "c", "expr": "a - b"}]})
    assert [(f.name, f.expr, f.by) for f in spec.features] == [("a", "a", None), ("b", "b", "origin"), ("c", "a - b", None)]
    assert DriftSpec.model_validate(json.loads(spec.model_dump_json())) == spec


def test_a_features_meaning_is_its_expression_its_stratum_and_its_columns():
    def meaning(feature: dict, **value) -> str:
        columns = {"sensor": "string", "hour": "int", "updated": "timestamp", "value": {"type": "double", **value}}
        return feature_meanings(readings(columns=columns, drift={"features": [{"name": "v", **feature}]}).ruleset())["v"]

    plain = meaning({"expr": "value"})
    assert meaning({"expr": "value"}, unit="kPa", description="new words") == plain
    assert meaning({"expr": "value"}, expr="value / 10") != plain
    assert meaning({"expr": "value"}, **{"from": "other"}) != plain
    assert meaning({"expr": "value", "by": "sensor"}) != plain
    assert meaning({"expr": "value * 10"}) != plain
    assert feature_meanings(readings().ruleset()) == {}


@pytest.fixture
def other_defaults(monkeypatch):
    defaults = {"warn_at": 0.02, "hold_at": 0.005, "warn_from": 60, "hold_from": 220, "remember": 300, "min_effect": 9.5}
    with monkeypatch.context() as patch:
        for name, value in defaults.items():
            patch.setattr(DriftSpec.model_fields[name], "default", value)
        DriftSpec.model_rebuild(force=True)
        yield defaults
    DriftSpec.model_rebuild(force=True)


def test_every_reader_takes_the_defaults_of_the_contract(other_defaults, tmp_path):
    """`drift:`, `compare` and `lakehouse drift test` have no default of their own."""
    baseline, batch = np.random.default_rng(0).normal(size=(2, 400))
    specs = [DriftSpec(features=["a"]), compare(batch + 1, baseline).spec]
    for name, value in other_defaults.items():
        assert [getattr(spec, name) for spec in specs] == [value, value]
        assert drift_default(name) == value
    for name, values in (("batch", batch + 1), ("baseline", baseline)):
        pd.DataFrame({"a": values}).to_csv(tmp_path / f"{name}.csv", index=False)
    arguments = ["drift", "test", str(tmp_path / "batch.csv"), "--baseline", str(tmp_path / "baseline.csv"), "--json"]
    outcomes = [
        json.loads(CliRunner().invoke(app, [*arguments, *more], standalone_mode=False).stdout)
        for more in ([], ["--min-effect", "0.05"])
    ]
    assert [(outcome["drifted"], outcome["windows_until_calibrated"]) for outcome in outcomes] == [(False, 59), (True, 59)]
