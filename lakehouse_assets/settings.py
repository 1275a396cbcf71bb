"""Where things are on this machine: the only reader of the environment, passed down as a frozen value.

Belongs here: paths, the Spark master, secrets by name. Does not: anything about one table.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lakehouse_assets.errors import EnvironmentMissing

PROJECT_ROOT = Path(__file__).resolve().parent.parent
SECRET_PREFIX = "LAKEHOUSE_SECRET_"  # noqa: S105 (the name of variables, not a secret)


def _is_url(place: str) -> bool:
    return "://" in place


class Settings(BaseModel):
    """Paths are absolute, or object-store URLs. ``secrets`` holds the ``LAKEHOUSE_SECRET_*`` variables, never shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    project: Path = PROJECT_ROOT
    root: str
    landing: str
    spark_master: str = "local[*]"
    spark_conf: Path | None = None
    dagster_home: Path
    secrets: Mapping[str, SecretStr] = Field(default={}, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read ``LAKEHOUSE_*`` and ``DAGSTER_HOME``; relative paths are taken from the project's folder."""
        env = os.environ if environ is None else environ

        def place(name: str, default: str) -> str:
            given = env.get(name) or default
            return given if _is_url(given) else str((PROJECT_ROOT / Path(given).expanduser()).resolve())

        conf = env.get("LAKEHOUSE_SPARK_CONF")
        return cls(
            root=place("LAKEHOUSE_ROOT", "data/lake"),
            landing=place("LAKEHOUSE_LANDING", "data/landing"),
            spark_master=env.get("LAKEHOUSE_SPARK_MASTER") or "local[*]",
            spark_conf=(PROJECT_ROOT / conf).resolve() if conf else None,
            dagster_home=Path(env.get("DAGSTER_HOME") or PROJECT_ROOT).resolve(),
            secrets={k.removeprefix(SECRET_PREFIX): SecretStr(v) for k, v in env.items() if k.startswith(SECRET_PREFIX)},
        )

    def path(self, *parts: str) -> str:
        """A place below the lake's root. Parts are table names that the contracts have checked."""
        return "/".join([self.root.rstrip("/"), *parts])

    @property
    def locks(self) -> Path:
        """Lock files live on a local disk: beside the lake where it is local, else beside Dagster's storage."""
        if _is_url(self.root):
            return self.dagster_home / "data" / "locks"
        return Path(self.root) / "_locks"

    def secret(self, name: str) -> str:
        """The value of ``LAKEHOUSE_SECRET_<name>``. Raises EnvironmentMissing, naming the variable."""
        if name not in self.secrets:
            raise EnvironmentMissing(f"the environment has no {SECRET_PREFIX}{name}; set it, or remove its use from defs.yaml")
        return self.secrets[name].get_secret_value()
