"""Alert channels of extensions: the base class, and the keys that they add to `alerts:`.

Belongs here: what a table's contract needs to know of a channel. Does not: the built-in channels, or sending (events/alerts).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, ClassVar

from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import extensions


class AlertChannel(ABC):
    """A channel of an extension: tables name its recipients below `alerts.<key>`."""

    key: ClassVar[str]
    """The key below `alerts:`, a list of texts. Each is one recipient."""
    description: ClassVar[str] = ""
    """What a recipient is: shown by editors."""

    @abstractmethod
    def send(self, recipient: str, secret: Callable[[str], str], title: str, text: str) -> None:
        """Send one message. ``secret(NAME)`` returns the variable `LAKEHOUSE_SECRET_<NAME>`.

        Raises ConnectionError if it fails, with a text that has no secret: the message is sent again at the next tick.
        """


@cache
def own_channels(built_in: Collection[str]) -> dict[str, AlertChannel]:
    """Return the extensions' channels by key. Raises ConfigError for an unfit class or a key that is taken."""
    channels: dict[str, AlertChannel] = {}
    sources = dict.fromkeys(built_in, "the package")
    for extension in extensions("alerts"):
        own = [each for each in extension.members if _is_channel(each)]
        if not own:
            raise ConfigError(f"{extension.source}: it has no alert channel: a class of AlertChannel with `key` and `send`")
        for channel in own:
            key = channel.key
            if not isinstance(key, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", key):
                raise ConfigError(f"{extension.source}: key {key!r}: lower-case letters, digits and _, at most 50")
            if key in sources:
                raise ConfigError(
                    f"two alert channels have the key {key!r}: in {sources[key]} and {extension.source}; rename one"
                )
            channels[key], sources[key] = channel(), extension.source
    return channels


def _is_channel(member: Any) -> bool:
    is_class = isinstance(member, type) and issubclass(member, AlertChannel)
    return is_class and not getattr(member, "__abstractmethods__", None) and hasattr(member, "key")
