"""The audits' section of the quality pages: the site of `lakehouse audit-docs`, below `audits/`.

Belongs here: that site's files, and each table's last audit. Does not: its content (audit/pages). It loads SciPy, so
it is imported only where there are new audits.
"""

from collections.abc import Iterator
from datetime import datetime

from lakehouse_assets.audit.pages import Marks, build_pages
from lakehouse_assets.contracts.audit import read_rules
from lakehouse_assets.reports.audit_site import page_path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audit_log


def last_audits(settings: Settings) -> dict[str, list[str]]:
    """Return verdict, day and page of each table's last audit."""
    latest = audit_log.latest_audits(audit_log.read_audits(settings))
    return {name: [record.verdict, f"{record.started_at:%Y-%m-%d}", page_path(name)] for name, record in latest.items()}


def audit_files(settings: Settings, now: datetime, marks: Marks) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each page of the section."""
    for path, html in build_pages(settings, read_rules(own=settings.audits), now, marks).items():
        yield f"audits/{path}", html.encode()
