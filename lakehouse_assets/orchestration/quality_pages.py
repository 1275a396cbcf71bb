"""The quality pages from the daemon: made again after runs, and the links from Dagster to them.

Belongs here: the sensor, and links as metadata. Does not: the pages (pages).
"""

from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.pages.names import check_path, page_url, window_name, window_path
from lakehouse_assets.pages.site import make_site
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta

OFF = "LAKEHOUSE_PAGES_REFRESH is off: `lakehouse pages` makes the pages"
# A tick has a minute: a table that is begun takes some seconds, and the next tick goes on with the others.
SECONDS = 20.0


def pages_sensor(settings: Settings) -> dg.SensorDefinition:
    """Return `refresh_pages`, on by default: it makes the quality pages again where a log has changed. No JVM."""

    @dg.sensor(
        name="refresh_pages",
        description="Makes the quality pages again after runs, unless LAKEHOUSE_PAGES_REFRESH is off.",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def tick(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if not settings.pages_refresh:
            return dg.SkipReason(OFF)
        logs = " ".join(delta.content_id(settings.path("ops", log)) for log in ("decisions", "extractions", "audits"))
        if not logs.strip():
            return dg.SkipReason("nothing has been judged yet")
        if context.cursor == logs:
            return dg.SkipReason("no new decisions")
        try:
            report = make_site(settings, seconds=SECONDS, wait_seconds=0)
        except LakehouseError as error:
            context.log.warning(str(error))
            return dg.SkipReason(str(error))
        for note in report.notes:
            context.log.warning(note)
        if not report.waiting:
            context.update_cursor(logs)
        waiting = f", {report.waiting} wait" if report.waiting else ""
        return dg.SkipReason(f"{report.refreshed} of {report.tables} table(s) made anew{waiting}: {report.first_page}")

    return tick


def window_url(settings: Settings, table: str, cadence: Any, decision: Decision) -> str | None:
    """Return the address of a window's page; None where no address is set."""
    name = window_name(decision.p_extracted_at, cadence, decision.extraction_seq)
    return settings.pages_url and page_url(settings.pages_url, window_path(table, name))


def window_link(settings: Settings, table: str, decision: Decision | None, cadence: Any) -> dict[str, Any]:
    """Return the link from a window's materialization to its page; nothing where no address is set."""
    url = decision and window_url(settings, table, cadence, decision)
    return {"quality_page": dg.MetadataValue.url(url)} if url else {}


def check_link(settings: Settings, table: str, check: str) -> dict[str, Any]:
    """Return the link from a check's evaluation to its page; nothing where no address is set."""
    if settings.pages_url is None:
        return {}
    return {"quality_page": dg.MetadataValue.url(page_url(settings.pages_url, check_path(table, check)))}
