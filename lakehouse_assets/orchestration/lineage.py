"""OpenLineage from the decision log: the sensor `publish_lineage` sends each applied decision's events, at least once and in
order, where `LAKEHOUSE_OPENLINEAGE_URL` names a receiver.

Belongs here: the outlet and its sensor. Does not: an event's facets or HTTP (events), or how far it was sent (outlets).
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

import dagster as dg

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.events.lineage_tables import LineageTable, lineage_tables, table_of
from lakehouse_assets.orchestration.assets.described_table import DescribedTable, golds_of
from lakehouse_assets.orchestration.assets.guard_files import DescribedGuard
from lakehouse_assets.orchestration.outlets import DeliveryReport, Outlet, log_sensor, send_due
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta

OFF = "LAKEHOUSE_OPENLINEAGE_URL is not set: no lineage is sent; decisions stay in the log"
MISSING = "LAKEHOUSE_OPENLINEAGE_URL needs the extra `openlineage`: pip install 'lakehouse-assets[openlineage]'"


def project_lineage(tables: Sequence[DescribedTable], guards: Sequence[DescribedGuard]) -> dict[str, LineageTable]:
    """Return the datasets of all tables and guards of a project."""
    return lineage_tables([table.spec for table in tables], golds_of(tables), [guard.spec for guard in guards])


def publish_lineage(
    instance: dg.DagsterInstance,
    settings: Settings,
    tables: Mapping[str, LineageTable],
    *,
    step: Callable[[str], None] = lambda _: None,
) -> DeliveryReport:
    """Send the receiver of OpenLineage what it was not sent before (`send_due`). Without its address, nothing is read."""
    if settings.openlineage_url is None:
        return DeliveryReport()
    try:
        outlet = _outlet(settings, tables)
    except EnvironmentMissing as error:
        return DeliveryReport(warnings=[str(error)])
    return send_due(instance, settings, outlet, step=step)


def _outlet(settings: Settings, tables: Mapping[str, LineageTable]) -> Outlet:
    # Only now: the library is an extra.
    try:
        lineage = importlib.import_module("lakehouse_assets.events.lineage")
        openlineage = importlib.import_module("lakehouse_assets.events.openlineage")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lakehouse_assets"):
            raise
        raise EnvironmentMissing(MISSING) from None
    return Outlet(
        lock="ops_lineage",
        cursor_key=f"lakehouse_lineage/{_receiver(settings)}",
        open_sender=openlineage.open_lineage_sender,
        forms=lambda decision: lineage.lineage_forms(
            decision, table_of(decision, tables, settings.asset_prefix), settings.openlineage_namespace
        ),
    )


def _receiver(settings: Settings) -> str:
    """Return a name of the receiver and the namespace without its address, which may have a password."""
    url = settings.openlineage_url.get_secret_value().rstrip("/") if settings.openlineage_url else ""
    return sha256(f"{url} {settings.openlineage_namespace}".encode()).hexdigest()[:16]


def lineage_sensor(settings: Settings, tables: Mapping[str, LineageTable]) -> dg.SensorDefinition:
    """Return `publish_lineage`, on by default; without a receiver's address it says so."""

    def state(_: dg.DagsterInstance) -> str:
        if settings.openlineage_url is None:
            return "off"
        return f"{_receiver(settings)} {delta.content_id(settings.path('ops', 'decisions'))}"

    def send(instance: dg.DagsterInstance) -> tuple[str, list[str], bool]:
        if settings.openlineage_url is None:
            return OFF, [], False
        report = publish_lineage(instance, settings, tables)
        return str(report), report.warnings, not report.warnings and not report.waiting

    description = "Sends each applied decision as OpenLineage, where LAKEHOUSE_OPENLINEAGE_URL names a receiver."
    return log_sensor("publish_lineage", description, state, send)
