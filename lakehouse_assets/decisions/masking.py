"""Decisions as a page may show them: no value of a personal column, also of one that was marked after the decision.

Belongs here: what is hidden in checks and drift. Does not: which columns are personal (contracts), rows (queries/quarantine).
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import RELATIONS, VOLUME
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.drift.named_rows import NAMED_ROWS
from lakehouse_assets.decisions.gate import group_of, masked_now
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import LakehouseError


def personal_names(rules: Mapping[str, Any]) -> frozenset[str]:
    """Return the columns that a rule set marks `pii`, without reading anything else of it."""
    columns = rules.get("columns")
    named = columns.items() if isinstance(columns, Mapping) else ()
    return frozenset(name for name, column in named if isinstance(column, Mapping) and column.get("pii"))


def with_personal(spec: TableSpec, names: Collection[str]) -> TableSpec:
    """Return the contract with these columns marked, too."""
    marked = {n: c.model_copy(update={"pii": c.pii or n in names}) for n, c in spec.columns.items()}
    return spec.model_copy(update={"columns": marked})


@dataclass
class Mask:
    """``names``: columns that any known contract of the table marks. ``all_texts``: hide every text that may quote a value."""

    names: frozenset[str] = frozenset()
    all_texts: bool = False
    _specs: dict[str, TableSpec | None] = field(default_factory=dict)

    def spec(self, decision: Decision) -> TableSpec | None:
        """Return the rules of a decision, with the marks of today; None if today's code cannot read them, and with `all_texts`:
        other columns than the marked ones may be personal.
        """
        if self.all_texts:
            return None
        if decision.ruleset_hash not in self._specs:
            self._specs[decision.ruleset_hash] = self._read(decision.ruleset)
        return self._specs[decision.ruleset_hash]

    def _read(self, ruleset: str) -> TableSpec | None:
        try:
            return with_personal(TableSpec.from_ruleset(ruleset), self.names)
        except (LakehouseError, ValueError, TypeError, KeyError):
            return None

    def apply(self, decision: Decision) -> Decision:
        """Return the decision as it is shown."""
        if not self.names and not self.all_texts:
            return decision
        spec = self.spec(decision)
        if spec is None:
            return _without_texts(decision)
        shown = masked_now(decision, spec.checks, self.names)
        features = self._hidden_features(decision, spec)
        if not features:
            return shown
        checks = tuple(_without_message(each) if group_of(each["check"]) == "drift" else each for each in shown.checks)
        return replace(shown, checks=checks, drift=_without_values(shown.drift, features))

    def _hidden_features(self, decision: Decision, spec: TableSpec) -> set[str]:
        """Return the features whose values or strata may be personal: also those that the rules do not explain."""
        open_features = {f.name for f in spec.features if not (f.columns_used | {f.by}) & self.names}
        recorded = {str(each.get("feature")) for each in (decision.drift or {}).get("results", ())}
        return {name for name in recorded - open_features if name != VOLUME and not name.startswith(RELATIONS)}


def _without_message(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return an outcome of the drift check without what it says of values."""
    observed = {name: value for name, value in outcome["observed"].items() if name != NAMED_ROWS}
    return {**outcome, "message": MASKED if outcome["message"] else "", "observed": observed}


def _without_values(drift: Mapping[str, Any] | None, features: Collection[str]) -> dict[str, Any] | None:
    if drift is None:
        return None
    hidden = {
        "stratum": MASKED,
        "quantiles": None,
        "baseline_quantiles": None,
        "median_shift": None,
        "usual_shift": None,
        "deviation": None,
        "figures": {},
        "changed": [],
        "new": [],
        "vanished": [],
    }
    results = [{**each, **hidden} if each["feature"] in features else each for each in drift.get("results", ())]
    keys = {name: [] for name in ("absent", "unwatched", "statistics") if name in drift}  # strata are values, too
    shown = {name: value for name, value in drift.items() if name != NAMED_ROWS}
    return {**shown, **keys, "results": results, "message": MASKED, "worst": None}


def _without_texts(decision: Decision) -> Decision:
    """Return a decision whose rules cannot be read: figures stay, texts do not."""
    checks = tuple(
        {
            **each,
            "message": MASKED if each.get("message") else "",
            "observed": {n: v if isinstance(v, int | float) else MASKED for n, v in (each.get("observed") or {}).items()},
        }
        for each in decision.checks
    )
    features = {each["feature"] for each in (decision.drift or {}).get("results", ())}
    return replace(decision, checks=checks, drift=_without_values(decision.drift, features))


def rules_of(ruleset: str | None) -> dict[str, Any]:
    """Return a rule set as JSON values; empty if it is none."""
    try:
        rules = json.loads(ruleset or "{}")
    except ValueError:
        return {}
    return rules if isinstance(rules, dict) else {}
