"""Alerts of critical failures: one message per table and poll, sent by Apprise to the channels that a table names.

Belongs here: which decisions raise an alert, its text, and its channels. Does not: how far a table was sent
(orchestration/notify), or any secret's value in a log.

A new alert channel is an entry of `CHANNELS` (and `channel_address`, if it is no plain address), and its key in `AlertSpec`.
"""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Protocol
from urllib.parse import parse_qsl, quote, urlencode

import apprise

from lakehouse_assets.contracts.alert_channel import AlertChannel
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table_contract import OWN_CHANNELS, AlertSpec
from lakehouse_assets.errors import ConfigError, LakehouseError
from lakehouse_assets.reports.decision_rows import current_batches
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings

log = logging.getLogger("lakehouse.alerts")
SCHEMES = {"http://": "json://", "https://": "jsons://"}
SHOWN = 10
# Each kind of channel, and its key in `alerts:`.
CHANNELS = {"webhook": "webhooks", "slack": "slack", "e-mail": "emails"}
Channel = tuple[str, str]


class AlertingTable(Protocol):
    """What an alert needs of a table or a guard."""

    @property
    def name(self) -> str:
        """Its name in the logs."""
        ...

    @property
    def alerts(self) -> AlertSpec:
        """Who gets alerts."""
        ...

    @property
    def gold(self) -> Sequence[GoldSpec]:
        """Its gold tables."""
        ...


def alert_channels(spec: AlertingTable) -> list[Channel]:
    """Return a table's channels; each is sent to by itself, so that an unreachable one holds up no other."""
    keys = CHANNELS | dict(zip(OWN_CHANNELS, OWN_CHANNELS, strict=True))
    return [(kind, name) for kind, key in keys.items() for name in getattr(spec.alerts, key)]


def channel_address(channel: Channel, settings: Settings) -> str:
    """Return a channel's Apprise address. Webhook and Slack entries name ``LAKEHOUSE_SECRET_*`` variables; e-mails use the mail
    server of ``LAKEHOUSE_SECRET_SMTP`` (an Apprise ``mailto://`` address). Raises EnvironmentMissing.
    """
    kind, name = channel
    if kind == "e-mail":
        server = settings.secret("SMTP")
        return f"{server}{'&' if '?' in server else '?'}to={quote(name, safe='')}"
    return _webhook(name, settings.secret(name)) if kind == "webhook" else settings.secret(name)


def _webhook(channel: str, url: str) -> str:
    for scheme, kind in SCHEMES.items():
        if url.startswith(scheme):
            address, _, query = url.removeprefix(scheme).partition("?")
            pairs = parse_qsl(query, keep_blank_values=True)
            # Apprise keeps one value of a name.
            fields = dict(pairs)
            if len(fields) < len(pairs):
                _warn_of_repeated_name(channel)
            # Apprise sends what has a hyphen before its name; everything else is an option of Apprise. It unquotes both twice.
            options = [(f"-{quote(name, safe='')}", quote(value, safe="")) for name, value in fields.items()]
            return f"{kind}{address}{'?' if options else ''}{urlencode(options, quote_via=quote)}"
    return url


@cache
def _warn_of_repeated_name(channel: str) -> None:
    """Log a warning, once in a process for each webhook."""
    log.warning("webhook %s: the query of its address has a name twice; only the name's last value is sent", channel)


def is_critical(decision: Decision) -> bool:
    """Whether a critical check quarantines the batch, or rows of it."""
    rows = any(r.effect == "rows" and r.severity == "critical" for r in decision.reasons)
    return decision.verdict == "quarantined" or (rows and decision.counts.rows_quarantined > 0)


def select_new(decisions: Sequence[Decision], since: int) -> list[Decision]:
    """Return the current applied decisions of one table, numbered after ``since``, that quarantine something critical; in
    order.
    """
    applied = [d for d in decisions if d.applied_at]
    new = [d for d in current_batches(applied) if d.number > since and d.superseded_by is None]
    return sorted(filter(is_critical, new), key=lambda d: d.number)


def format_message(spec: AlertingTable, decisions: Sequence[Decision]) -> tuple[str, str]:
    """Return title and text of an alert of a table and its gold. Checks' messages hold no values of `pii` columns."""
    windows = [d for d in decisions if d.verdict == "quarantined" and d.p_extracted_at]
    partial = [d for d in decisions if d.verdict != "quarantined" and d.p_extracted_at]
    gold = sorted({d.table for d in decisions if d.p_extracted_at is None})
    parts = [f"{len(windows)} window(s) quarantined"] if windows else []
    parts += [f"{len(partial)} window(s) with quarantined rows"] if partial else []
    parts += [f"{name} quarantined" for name in gold]
    lines = []
    for decision in decisions[:SHOWN]:
        batch = f"{decision.p_extracted_at:%Y-%m-%d %H:%M} UTC" if decision.p_extracted_at else decision.table
        effect = "batch" if decision.verdict == "quarantined" else "rows"
        why = "; ".join(f"{r.check}: {r.message}" for r in decision.reasons if r.effect == effect and r.severity == "critical")
        of = "" if effect == "batch" else f" of {decision.counts.rows_in}"
        lines.append(f"- {batch}: {decision.counts.rows_quarantined}{of} rows quarantined. {why}")
    if len(decisions) > SHOWN:
        lines.append(f"… and {len(decisions) - SHOWN} more")
    tables = ([spec.name] if windows or partial else []) + gold
    lines += [f"Look: lakehouse quarantine list --table {name}" for name in tables]
    return f"{spec.name}: {', '.join(parts)}", "\n".join(escape_controls(" ".join(line.split())) for line in lines)


def send_message(spec: AlertingTable, settings: Settings, channel: Channel, title: str, body: str) -> None:
    """Send one channel a message. Raises ConfigError for an invalid address, ConnectionError if it fails."""
    name = f"{spec.name}: alerts: {channel[0]} {channel[1]}"
    if channel[0] in OWN_CHANNELS:
        _send_by_extension(OWN_CHANNELS[channel[0]], name, channel[1], settings, title, body)
        return
    hub = apprise.Apprise()
    if not hub.add(channel_address(channel, settings)):
        raise ConfigError(f"{name}: its address is none that Apprise knows (it is kept secret)")
    if not hub.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT):
        raise ConnectionError(f"{name}: the channel refused the alert; the next tick sends it again")


def _send_by_extension(own: AlertChannel, name: str, recipient: str, settings: Settings, title: str, body: str) -> None:
    try:
        own.send(recipient, settings.secret, title, body)
    except (LakehouseError, ConnectionError):
        raise
    except Exception as error:
        # Its text may have a secret of somebody else's code.
        raise ConnectionError(f"{name}: the channel failed with {type(error).__name__}; the next tick sends it again") from None
