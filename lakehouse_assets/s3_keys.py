"""Keys of S3 that are in no variable: a profile of Amazon's tools, or a role of the machine.

Belongs here: a profile's files, and keys for a library that does not read them. Does not: addresses and options (object_store).
"""

import os
import time
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypedDict

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.project import FrozenModel

# Amazon renews a role's keys at least five minutes before they expire.
SECONDS = 120


class AwsProfile(FrozenModel):
    """A profile of Amazon's tools. ``is_named``: ``AWS_PROFILE`` names it, so that it must be there."""

    name: str = "default"
    is_named: bool = False
    credentials: Path | None = None
    config: Path | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read the variables of Amazon's own tools."""
        name, home = env.get("AWS_PROFILE"), env.get("HOME")
        folder = Path(home) / ".aws" if home else None
        paths = {
            file: Path(own) if (own := env.get(variable)) else folder and folder / file
            for file, variable in (("credentials", "AWS_SHARED_CREDENTIALS_FILE"), ("config", "AWS_CONFIG_FILE"))
        }
        return cls(name=name or "default", is_named=bool(name), **paths)

    def require(self) -> None:
        """Raise EnvironmentMissing if the profile is named and absent."""
        if self.is_named and self._values() is None:
            raise EnvironmentMissing(
                f"AWS_PROFILE names the profile {self.name}, which is in neither {self.credentials} nor {self.config}"
            )

    def require_for_spark(self) -> None:
        """Raise EnvironmentMissing if the profile is absent, or has a login and no keys: Spark's jars do not have the parts for
        that.
        """
        self.require()
        values = self._values() or {}
        if "aws_access_key_id" not in values and any(name.startswith("sso_") for name in values):
            raise EnvironmentMissing(
                f"the profile {self.name} has a login (IAM Identity Center), which Spark cannot use: set its keys as variables,"
                f' by `eval "$(aws configure export-credentials --profile {self.name} --format env)"`'
            )

    @property
    def region(self) -> str | None:
        """Return the profile's region; None if it has none."""
        return (self._values() or {}).get("region")

    def _values(self) -> dict[str, str] | None:
        """Return what both files say of the profile; None if neither has it."""
        names = (self.name, f"profile {self.name}")
        files = [parser for path in (self.credentials, self.config) if path and (parser := _parse(path))]
        sections = [parser[name] for parser in files for name in names if parser.has_section(name)]
        return {key: value for section in sections for key, value in section.items()} if sections else None


def _parse(path: Path) -> RawConfigParser | None:
    # `DEFAULT` is a section like any other, and a value may have any character.
    parser = RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.read_text())
    except FileNotFoundError:
        return None
    except (Error, OSError, ValueError):
        # The message of the error may quote a key.
        raise EnvironmentMissing(f"{path} cannot be read as a file of profiles") from None
    return parser


class S3Keys(TypedDict):
    """Keys as obstore takes them."""

    access_key_id: str
    secret_access_key: str
    token: str | None
    expires_at: datetime


Variables = tuple[tuple[str, str], ...]
# Credentials of a role, for the last environment that had one: they ask for the next keys by themselves.
_last_role_credentials: dict[Variables, Any] = {}


def find_keys() -> S3Keys:
    """Return the keys that Amazon's chain finds: of the profile, else of the role. Raises EnvironmentMissing without any."""
    variables = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(("AWS_", "HOME"))))
    access_key, secret_key, token = _search(variables, int(time.monotonic() // SECONDS))
    expires_at = datetime.now(UTC) + timedelta(seconds=SECONDS)
    return {"access_key_id": access_key, "secret_access_key": secret_key, "token": token, "expires_at": expires_at}


@lru_cache(maxsize=1)
def _search(variables: Variables, period: int) -> tuple[str, str, str | None]:
    """Search once for an environment and a period: a role is asked by a request. Where it does not answer, its last keys are
    used until they expire.
    """
    import botocore.exceptions  # noqa: PLC0415 (a quarter of a second, which keys in variables need not)
    import botocore.session  # noqa: PLC0415 (the same)
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 (the same)

    # ClientError: a role that is refused. RuntimeError: keys that have expired. OSError: a token's file that is gone.
    failures = botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, RuntimeError, OSError
    try:
        credentials = botocore.session.Session().get_credentials()
        keys = credentials.get_frozen_credentials() if credentials else None
    except failures as error:
        credentials, keys, failure = None, None, type(error).__name__
    else:
        failure = ""
    if keys is None and (last := _last_role_credentials.get(variables)) is not None:
        with suppress(*failures):
            return _as_texts(last.get_frozen_credentials())
    if failure:
        # Its message may quote the answer, and with it a key.
        raise EnvironmentMissing(f"the keys of S3 cannot be read from the profile or the role: {failure}")
    if isinstance(credentials, RefreshableCredentials):
        _last_role_credentials.clear()
        _last_role_credentials[variables] = credentials
    if keys is None or keys.access_key is None or keys.secret_key is None:
        raise EnvironmentMissing(
            "there are no keys of S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this machine a"
            " role. A public bucket needs keys as well: those of any account that may read it"
        )
    return _as_texts(keys)


def _as_texts(keys: Any) -> tuple[str, str, str | None]:
    return keys.access_key, keys.secret_key, keys.token
