"""Alerts: one message per run of news, sent by Apprise to the places that a table names.

Belongs here: what is said and to whom. Does not: which decisions are news (orchestration), or any secret's value in a log.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import apprise

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings

SCHEMES = {"http://": "json://", "https://": "jsons://"}
SHOWN = 10


def addresses(spec: TableSpec, settings: Settings) -> list[str]:
    """Apprise addresses of a table's alerts. Webhook and Slack entries name ``LAKEHOUSE_SECRET_*`` variables; e-mails go
    through the mail server of ``LAKEHOUSE_SECRET_SMTP`` (an Apprise ``mailto://`` address). Raises EnvironmentMissing.
    """
    found = [_webhook(settings.secret(name)) for name in spec.alerts.webhooks]
    found += [settings.secret(name) for name in spec.alerts.slack]
    if spec.alerts.emails:
        server = settings.secret("SMTP")
        found += [f"{server}{'&' if '?' in server else '?'}to={quote(email, safe='')}" for email in spec.alerts.emails]
    return found


def _webhook(url: str) -> str:
    for scheme, kind in SCHEMES.items():
        if url.startswith(scheme):
            return kind + url.removeprefix(scheme)
    return url


def message(spec: TableSpec, decisions: Sequence[Decision]) -> tuple[str, str]:
    """Title and text of the news that these windows are in quarantine. Checks' messages hold no values of `pii` columns."""
    title = f"{spec.name}: {len(decisions)} window(s) quarantined"
    lines = []
    for decision in decisions[:SHOWN]:
        window = f"{decision.p_extracted_at:%Y-%m-%d %H:%M} UTC" if decision.p_extracted_at else "whole table"
        why = "; ".join(f"{r.check}: {r.message}" for r in decision.reasons if r.effect == "batch")
        lines.append(f"- {window}: {decision.counts.rows_quarantined} rows held. {why}")
    if len(decisions) > SHOWN:
        lines.append(f"… and {len(decisions) - SHOWN} more")
    lines.append(f"Look: lakehouse quarantine list --table {spec.name}")
    return title, "\n".join(lines)


def send(spec: TableSpec, settings: Settings, decisions: Sequence[Decision]) -> None:
    """Tell of these decisions. Raises ConfigError where an address is none, ConnectionError where nobody took the message."""
    to = addresses(spec, settings)
    if not to or not decisions:
        return
    hub = apprise.Apprise()
    for place, address in enumerate(to):
        if not hub.add(address):
            raise ConfigError(f"{spec.name}: alerts: address {place + 1} is none that Apprise knows (its value is kept secret)")
    title, body = message(spec, decisions)
    if not hub.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT):
        raise ConnectionError(f"{spec.name}: an alert was not taken; it is tried again at the next look")


def news(decisions: Sequence[Decision], after: Mapping[str, int], table: str) -> list[Decision]:
    """Applied decisions of a table that hold their batch still and are not announced yet, in order."""
    since = after.get(table, 0)
    last = ledger.standing(d for d in decisions if d.table == table).values()
    fresh = [d for d in last if d.number > since and d.superseded_by is None and d.applied_at]
    return sorted((d for d in fresh if d.verdict == "quarantined"), key=lambda d: d.number)
