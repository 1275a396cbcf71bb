"""OpenLineage over HTTP: a sender that reports for each message whether the receiver has taken all of its events.

Belongs here: the use of the library's HTTP transport. Does not: the events (lineage), or how far they were sent (outbox).
Importing it needs the extra `openlineage`.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import requests
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

from lakehouse_assets.errors import ConfigError
from lakehouse_assets.events.outbox import Answer, Message
from lakehouse_assets.settings import OPENLINEAGE_SECRET, Settings

UNREACHABLE = "the receiver of OpenLineage cannot be reached"
# One event. A receiver that hangs costs each poll as much.
EVENT_SECONDS = 5.0
TOO_LARGE = 413


class LineageSender:
    """Sends to one receiver. Opened and closed by `open_lineage_sender`."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    def send(self, messages: Mapping[str, Message], seconds: float) -> dict[str, Answer]:
        """Send one message per table, each event after the one before. After a failure to connect, no other is tried."""
        end = time.monotonic() + seconds
        answers: dict[str, Answer] = {}
        unreachable: Answer | None = None
        for table, message in messages.items():
            if unreachable is None and time.monotonic() > end:
                unreachable = Answer(error="the time of this poll is over; the next one goes on")
            answers[table] = unreachable or self._send_events(message, end)
            if answers[table].error.startswith(UNREACHABLE):
                unreachable = answers[table]
        return answers

    def _send_events(self, message: Message, end: float) -> Answer:
        for event in message.value:
            self._transport.timeout = min(EVENT_SECONDS, max(end - time.monotonic(), 0.5))
            try:
                response = self._transport.emit(event)
            except requests.HTTPError as error:
                status = error.response.status_code if error.response is not None else "of an error"
                return Answer(too_large=status == TOO_LARGE, error=f"the receiver answers with status {status}")
            except requests.RequestException as error:
                # Its text has the address, which may have a password.
                return Answer(error=f"{UNREACHABLE} ({type(error).__name__}): see LAKEHOUSE_OPENLINEAGE_URL")
            if response.history:
                # A redirected POST has become a GET, which delivers nothing.
                return Answer(error="the receiver redirects; set LAKEHOUSE_OPENLINEAGE_URL to its final address")
        return Answer(accepted=True)


@contextmanager
def open_lineage_sender(settings: Settings) -> Iterator[LineageSender]:
    """Open a sender for the block. Raises ConfigError for an address that is none; the address is not shown."""
    url, key = settings.openlineage_url, settings.secrets.get(OPENLINEAGE_SECRET)
    config = HttpConfig(
        url=(url.get_secret_value() if url else "").rstrip("/") + "/",
        timeout=EVENT_SECONDS,
        auth=ApiKeyTokenProvider({"api_key": key.get_secret_value()}) if key else TokenProvider({}),
        # The next poll tries again.
        retry={"total": 0},
    )
    try:
        transport = HttpTransport(config)
    except ValueError:
        raise ConfigError("LAKEHOUSE_OPENLINEAGE_URL is no address of a server: http://host:port is wanted") from None
    try:
        yield LineageSender(transport)
    finally:
        transport.close()
