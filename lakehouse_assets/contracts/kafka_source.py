"""What a table says of its source in Kafka: the topic, and what a message's key holds.

Belongs here: the shape of `source: {kind: kafka}` (pure). Does not: offsets or reading (sources), or brokers (settings).
"""

import re
from typing import Literal

from pydantic import field_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.contracts.source import Zone
from lakehouse_assets.contracts.windows import Cadence

# What a declared column may take `from` beside the keys of a message.
OF_THE_MESSAGE = ("kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key", "kafka_tombstone")


class KafkaSource(Closed):
    """Messages of one topic, each value a JSON object in UTF-8. A window is a range of offsets per partition: it begins where
    the window before it ended (the first one, at the first message of its time) and ends before the first message of the next
    window's time. The range is put on record when the window is first read, and read again ever after. Late messages belong to
    the window in which they arrived. A message that is no JSON object is kept and held.

    A declared column may take `from` the message as well: `kafka_partition`, `kafka_offset`, `kafka_timestamp`, `kafka_key`
    (base64 where it is no UTF-8) and `kafka_tombstone` (`true` or `false`).
    """

    kind: Literal["kafka"]
    """What the source is."""
    topic: str
    """Its name, on the brokers of `LAKEHOUSE_KAFKA_BOOTSTRAP` (their other properties: `LAKEHOUSE_KAFKA_CONF`)."""
    message_key: tuple[str, ...] = ()
    """The columns that a message's key holds: one, as text, or several, as a JSON object of them. It is what a tombstone (a
    message without a value) has; the table says by `extraction.delete_when` that it deletes. Without it, a tombstone is kept
    and held."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value". Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of times in messages that name none."""

    @field_validator("topic")
    @classmethod
    def _legal(cls, value: str) -> str:
        if not re.fullmatch("[A-Za-z0-9._-]{1,249}", value) or value in (".", ".."):
            raise ValueError(f"{value!r} is no topic's name: letters, digits and any of . _ -, at most 249")
        return value

    def check_cadence(self, cadence: Cadence) -> None:
        """Any cadence will do."""

    def check_mode(self, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if messages cannot be what the mode says."""
        if mode == "snapshot":
            raise ValueError("extraction.mode: a window of a topic has only the messages of its time; use upsert or append")
        if self.message_key and mode == "upsert" and not delete_when:
            raise ValueError(
                "extraction.delete_when: needed with source.message_key, or a tombstone would empty its row; declare a column"
                " {from: kafka_tombstone, type: boolean} and name it here"
            )

    @property
    def medium(self) -> str:
        """What the source is made of, in one word."""
        return "kafka"

    @property
    def place(self) -> str:
        """Where the data is."""
        return f"topic {self.topic}"
