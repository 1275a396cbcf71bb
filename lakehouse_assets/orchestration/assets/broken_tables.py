"""Tables that stop for a mistake, in Dagster: the asset `configuration_<table>` with its failed check, and a line in the log.

Belongs here: how a mistake is seen while the other tables go on. Does not: which tables stop (table_files).
"""

import hashlib
import logging
import re
from collections.abc import Sequence

import dagster as dg

from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.assets.table_files import BrokenTable
from lakehouse_assets.reports.markdown import escape_controls

CHECK = "valid"
LOG = "dagster.lakehouse"
SHOWN = 50


def asset_of(broken: BrokenTable) -> str:
    """Return the name of the asset that stands for a table that stops."""
    return "configuration_" + re.sub(r"[^A-Za-z0-9_]", "_", broken.name)


def broken_definitions(broken: Sequence[BrokenTable], asset_prefix: Sequence[str] = ()) -> dg.Definitions:
    """Return an asset with a failing check for each table that stops, and a sensor that reports the failure. Logs the mistakes
    as errors. ``asset_prefix``: the first parts of the assets' keys.
    """
    by_asset: dict[str, list[BrokenTable]] = {}
    for each in broken:
        by_asset.setdefault(asset_of(each), []).append(each)
        for line in each.mistakes:
            logging.getLogger(LOG).error("%s stops: %s", each.name, escape_controls(line))
    assets = [
        dg.AssetSpec(
            _key(asset_prefix, asset),
            description=f"{several[0].name} stops: `lakehouse check validate` shows its mistakes. All other tables go on.",
            group_name=asset.removeprefix("configuration_"),
            kinds={"yaml"},
        )
        for asset, several in by_asset.items()
    ]
    checks = [_check(_key(asset_prefix, asset), several) for asset, several in by_asset.items()]
    sensors = [_sensor(asset, _key(asset_prefix, asset), several) for asset, several in by_asset.items()]
    return dg.Definitions(assets=assets, asset_checks=checks, sensors=sensors)


def _key(asset_prefix: Sequence[str], asset: str) -> dg.AssetKey:
    return dg.AssetKey([*asset_prefix, asset])


def _result(several: Sequence[BrokenTable]) -> dg.AssetCheckResult:
    lines = [escape_controls(line) for each in several for line in each.mistakes]
    metadata = {"mistakes": dg.MetadataValue.text("\n".join(lines[:SHOWN])), "number": len(lines)}
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.ERROR, description=lines[0], metadata=metadata)


def _check(key: dg.AssetKey, several: Sequence[BrokenTable]) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=key, name=CHECK, description="The table's YAML and SQL are right: `lakehouse check validate`.")
    def valid() -> dg.AssetCheckResult:
        return _result(several)

    return valid


def _sensor(asset: str, key: dg.AssetKey, several: Sequence[BrokenTable]) -> dg.SensorDefinition:
    lines = "\n".join(line for each in several for line in each.mistakes)
    digest = hashlib.sha256(lines.encode()).hexdigest()

    @dg.sensor(
        name=f"report_{asset}",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports a table that stops for a mistake as a failed check, once for each state of its mistakes.",
    )
    def report(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if context.cursor == digest:
            return dg.SkipReason("these mistakes are reported")
        return dg.SensorResult(asset_events=[evaluation(context.instance, key, CHECK, _result(several))], cursor=digest)

    return report
