"""Alerts of critical failures: one message per table and look, sent by Apprise to the places that a table names.

Belongs here: what is news, what is said and to whom. Does not: how far a table was told of (orchestration), or any secret's
value in a log.
"""

from collections.abc import Sequence
from typing import Literal
from urllib.parse import quote

import apprise

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings

SCHEMES = {"http://": "json://", "https://": "jsons://"}
SHOWN = 10


Place = tuple[Literal["webhook", "slack", "e-mail"], str]


def places(spec: TableSpec) -> list[Place]:
    """Whom a table's alerts go to: each by itself, so that one that cannot be reached holds up no other."""
    webhooks: list[Place] = [("webhook", name) for name in spec.alerts.webhooks]
    channels: list[Place] = [("slack", name) for name in spec.alerts.slack]
    letters: list[Place] = [("e-mail", name) for name in spec.alerts.emails]
    return [*webhooks, *channels, *letters]


def address(place: Place, settings: Settings) -> str:
    """The Apprise address of a place. Webhook and Slack entries name ``LAKEHOUSE_SECRET_*`` variables; e-mails go through the
    mail server of ``LAKEHOUSE_SECRET_SMTP`` (an Apprise ``mailto://`` address). Raises EnvironmentMissing.
    """
    kind, name = place
    if kind == "e-mail":
        server = settings.secret("SMTP")
        return f"{server}{'&' if '?' in server else '?'}to={quote(name, safe='')}"
    return _webhook(settings.secret(name)) if kind == "webhook" else settings.secret(name)


def _webhook(url: str) -> str:
    for scheme, kind in SCHEMES.items():
        if url.startswith(scheme):
            return kind + url.removeprefix(scheme)
    return url


def critical(decision: Decision) -> bool:
    """Whether a critical check holds something of it: the batch, or rows of it."""
    rows = any(r.effect == "rows" and r.severity == "critical" for r in decision.reasons)
    return decision.verdict == "quarantined" or (rows and decision.counts.rows_quarantined > 0)


def news(decisions: Sequence[Decision], since: int) -> list[Decision]:
    """Applied decisions of one table, numbered after ``since``, that still stand and hold something for a critical check; in
    order. A gold table is one batch, whatever its decision: only the last one stands.
    """
    applied = [d for d in decisions if d.applied_at]
    last = list(ledger.standing(applied).values())
    if applied and applied[0].p_extracted_at is None:
        last = [max(applied, key=lambda d: d.number)]
    fresh = [d for d in last if d.number > since and d.superseded_by is None]
    return sorted(filter(critical, fresh), key=lambda d: d.number)


def message(spec: TableSpec, decisions: Sequence[Decision]) -> tuple[str, str]:
    """Title and text of the news of a table and its gold. Checks' messages hold no values of `pii` columns."""
    whole = [d for d in decisions if d.verdict == "quarantined" and d.p_extracted_at]
    rows = [d for d in decisions if d.verdict != "quarantined" and d.p_extracted_at]
    gold = sorted({d.table for d in decisions if d.p_extracted_at is None})
    told = [f"{len(whole)} window(s) quarantined"] if whole else []
    told += [f"{len(rows)} window(s) with rows held"] if rows else []
    told += [f"{name} held" for name in gold]
    lines = []
    for decision in decisions[:SHOWN]:
        batch = f"{decision.p_extracted_at:%Y-%m-%d %H:%M} UTC" if decision.p_extracted_at else decision.table
        effect = "batch" if decision.verdict == "quarantined" else "rows"
        why = "; ".join(f"{r.check}: {r.message}" for r in decision.reasons if r.effect == effect and r.severity == "critical")
        of = "" if effect == "batch" else f" of {decision.counts.rows_in}"
        lines.append(f"- {batch}: {decision.counts.rows_quarantined}{of} rows held. {why}")
    if len(decisions) > SHOWN:
        lines.append(f"… and {len(decisions) - SHOWN} more")
    tables = ([spec.name] if whole or rows else []) + gold
    lines += [f"Look: lakehouse quarantine list --table {name}" for name in tables]
    return f"{spec.name}: {', '.join(told)}", "\n".join(lines)


def send(spec: TableSpec, settings: Settings, place: Place, decisions: Sequence[Decision]) -> None:
    """Tell one place of these decisions. Raises ConfigError where its address is none, ConnectionError where it did not take
    the message.
    """
    hub, named = apprise.Apprise(), f"{spec.name}: alerts: {place[0]} {place[1]}"
    if not hub.add(address(place, settings)):
        raise ConfigError(f"{named}: its address is none that Apprise knows (it is kept secret)")
    title, body = message(spec, decisions)
    if not hub.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT):
        raise ConnectionError(f"{named}: the alert was not taken; it is tried again at the next look")
