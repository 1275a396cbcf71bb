"""A source in Kafka: the topic, and the columns of a message's key.

Belongs here: the shape of `source: {kind: kafka}` (pure). Does not: offsets or reading (sources), or brokers (settings).
"""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.contracts.source import Zone
from lakehouse_assets.contracts.source_kind import SourceKind
from lakehouse_assets.contracts.windows import Cadence

# What a declared column may take `from` beside the keys of a message.
OF_THE_MESSAGE = ("kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key", "kafka_tombstone")


class KafkaSource(SourceKind):
    """Messages of one topic, each value a JSON object in UTF-8, or a record in Avro. A window is a range of offsets per
    partition. It begins where the window before it ended; the first window begins at the first message of its time. It ends
    before the first message of the next window's time. The range is recorded when the window is first read, and every later
    read uses it. Late messages belong to the window in which they arrived. A message that is neither is kept and quarantined.

    A declared column may take `from` the message as well: `kafka_partition`, `kafka_offset`, `kafka_timestamp`, `kafka_key`
    (base64 where it is no UTF-8) and `kafka_tombstone` (`true` or `false`).
    """

    kind: Literal["kafka"]
    """What the source is."""
    topic: str
    """Its name, on the brokers of `LAKEHOUSE_KAFKA_BOOTSTRAP` (their other properties: `LAKEHOUSE_KAFKA_CONF`)."""
    format: Literal["json", "avro"] = Field(default="json", exclude_if=lambda value: value == "json")
    """What a message's value is. `avro`: a record in the wire format of a schema registry (a zero byte, the schema's id in four
    bytes, the record). Each message is decoded by the schema that it names. A message's key is text or JSON in both."""
    registry: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """With `avro`: the registry's address, such as `https://registry:8081`. Its user and password, or token, are lines of
    `LAKEHOUSE_KAFKA_CONF`: `schema.registry.basic.auth.user.info=user:${LAKEHOUSE_SECRET_<NAME>}`."""
    message_key: tuple[str, ...] = ()
    """The columns in a message's key: one, as text, or several, as a JSON object. A tombstone (a message without a value) has
    only these; `extraction.delete_when` lets it delete. Without `message_key`, a tombstone is kept and quarantined."""
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

    @field_validator("registry")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        text = None if value is None else value.rstrip("/")
        if text is not None and not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", text):
            raise ValueError(f"{value!r} is no address of a registry: http(s)://host:port, without user and password")
        return text

    @model_validator(mode="after")
    def _with_registry(self) -> "KafkaSource":
        if (self.format == "avro") != (self.registry is not None):
            raise ValueError("registry: format avro needs the address of its schema registry; json has none")
        return self

    def refuse_extraction(self, cadence: Cadence, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if messages cannot be read in this mode."""
        if mode == "snapshot":
            raise ValueError("extraction.mode: a window of a topic has only the messages of its time; use upsert or append")
        if self.message_key and mode == "upsert" and not delete_when:
            raise ValueError(
                "extraction.delete_when: needed with source.message_key, or a tombstone would empty its row; declare a column"
                " {from: kafka_tombstone, type: boolean} and name it here"
            )

    def refuse_stream(self, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if messages cannot be read in this mode."""
        self.refuse_extraction("hourly", mode, delete_when)

    @property
    def medium(self) -> str:
        """The kind of storage, in one word."""
        return "kafka"

    @property
    def location(self) -> str:
        """Where the data is."""
        return f"topic {self.topic}"

    @property
    def records_positions(self) -> bool:
        """Whether offsets are recorded: a topic's windows are ranges of them."""
        return True
