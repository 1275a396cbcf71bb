"""A project's folder, and what its `pyproject.toml` says under `[tool.lakehouse]`.

Belongs here: finding the folder, the keys with their defaults, errors with file, line and key. Does not: the environment, which
wins over these keys (settings).
"""

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from lakehouse_assets.errors import ConfigError, ProjectMissing

FILE = "pyproject.toml"
SECTION = "tool.lakehouse"
AssetKeyPart = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")]
Lock = Literal["auto", "file", "lease"]
Text = Annotated[str, StringConstraints(min_length=1)]


class FrozenModel(BaseModel):
    """A model without further fields, whose values do not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProjectConfig(FrozenModel):
    """The keys of `[tool.lakehouse]`. Relative paths start at the project's folder."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    tables: Text
    """The folder of the tables: each has a folder in it, with a `defs.yaml`."""
    audits: Text | None = None
    """A folder of your own audit rules, which are read beside the built-in ones."""
    root: Text = "data/lake"
    """The lake. `LAKEHOUSE_ROOT` wins."""
    landing: Text = "data/landing"
    """The folder of landing files. `LAKEHOUSE_LANDING` wins."""
    dagster_home: Text = "."
    """The folder of `dagster.yaml`. `DAGSTER_HOME` wins."""
    spark_master: Text = "local[*]"
    """Spark's master. `LAKEHOUSE_SPARK_MASTER` wins."""
    spark_conf: Text | None = None
    """A file of Spark properties. `LAKEHOUSE_SPARK_CONF` wins."""
    lock: Lock = "auto"
    """`file`: a lock file, for one machine. `lease`: any number of machines. `auto`: `lease` on an object store, else `file`.
    `LAKEHOUSE_LOCK` wins.
    """
    lease_seconds: float = Field(default=60, ge=1, le=3600)
    """How long a lease lasts that its holder does not renew. `LAKEHOUSE_LEASE_SECONDS` wins."""
    asset_prefix: list[AssetKeyPart] = []
    """The first parts of every asset key."""
    executor: Literal["in_process", "project"] = "project"
    """`in_process`: each run is one process with one JVM. `project`: the executor of the project's own definitions."""
    single_step: bool = False
    """Bronze, silver and baseline of a table are one step: for an executor that starts a process for each step."""


def locate_project(chosen: str | None, start: Path | None) -> Path:
    """Return the ``chosen`` folder (`LAKEHOUSE_PROJECT`), else the nearest one, from ``start`` (default: the working directory)
    upwards, whose `pyproject.toml` has `[tool.lakehouse]`. Raises ProjectMissing.
    """
    if chosen:
        folder = Path(chosen).expanduser().resolve()
        if not is_project(folder):
            raise ProjectMissing(
                f"LAKEHOUSE_PROJECT is {folder}, which has no pyproject.toml with [tool.lakehouse]; unset it to search from the"
                f" working directory upwards, or make it a project: `lakehouse new {folder}`"
            )
        return folder
    try:
        start = (start or Path.cwd()).resolve()
    except FileNotFoundError:
        raise ProjectMissing(
            "the working directory is gone; change to the project's folder, or set LAKEHOUSE_PROJECT"
        ) from None
    root_folder = next((folder for folder in (start, *start.parents) if is_project(folder)), None)
    if root_folder is None:
        raise ProjectMissing(
            f"there is no lakehouse project: neither {start} nor a folder above it has a pyproject.toml with [tool.lakehouse];"
            " `lakehouse new` makes one, or set LAKEHOUSE_PROJECT to the folder of one"
        )
    return root_folder


def is_project(folder: Path) -> bool:
    """Whether the folder's `pyproject.toml` has `[tool.lakehouse]`. Raises ConfigError if the file cannot be read."""
    return _section(folder) is not None


def read_config(folder: Path) -> ProjectConfig:
    """Return the project's keys. Raises ConfigError: one line per mistake, with file, line and key."""
    section = _section(folder)
    if section is None:
        raise ProjectMissing(f"{folder} is no lakehouse project; `lakehouse new {folder}` makes it one")
    try:
        return ProjectConfig.model_validate(section)
    except ValidationError as error:
        raise ConfigError("\n".join(_mistake(folder / FILE, dict(each)) for each in error.errors())) from None


def _section(folder: Path) -> Any:
    file = folder / FILE
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: it cannot be read as TOML: {error}") from None
    tool = data.get("tool")
    section = tool.get("lakehouse") if isinstance(tool, dict) else None
    if section is not None and not isinstance(section, dict):
        raise ConfigError(f"{file}:{_line(file, 'lakehouse')}: {SECTION}: a table of keys is wanted: [{SECTION}]")
    return section


def _mistake(file: Path, mistake: dict[str, Any]) -> str:
    key, keys = str(mistake["loc"][0]), list(ProjectConfig.model_fields)
    text = mistake["msg"]
    if mistake["type"] == "extra_forbidden":
        near = get_close_matches(key, keys, 1)
        text = f"not known here; {f'did you mean {near[0]}? T' if near else 't'}here are {', '.join(keys)}"
    elif mistake["type"] == "missing":
        text = 'the folder of the tables is missing, e.g. tables = "src/my_project/defs"'
    return f"{file}:{_line(file, key)}: {SECTION}.{'.'.join(map(str, mistake['loc']))}: {text}"


def _line(file: Path, key: str) -> int:
    """Return the line of a key of the section; the section's own where the key is not written."""
    lines = file.read_text(encoding="utf-8").splitlines()
    first = next((n for n, line in enumerate(lines, 1) if re.match(r"\s*\[\s*tool\s*\.\s*lakehouse\s*\]", line)), 1)
    written = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    return next((n for n, line in enumerate(lines, 1) if n >= first and written.match(line)), first)
