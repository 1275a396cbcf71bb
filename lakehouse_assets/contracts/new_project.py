"""The files of a new project, by the conventions of Dagster's `dg`; and what an existing project lacks.

Belongs here: texts, where they go, and additions to files that exist. Does not: writing them (cli).
"""

import json
import keyword
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lakehouse_assets.contracts.schema_file import SCHEMA_FILE, defaults_of
from lakehouse_assets.contracts.table_schema import schema_text
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.project import FILE, is_project, read_config

TEXTS = Path(__file__).with_name("project_files")
# The sections of `dagster.yaml` that the sensors and the runs depend on. The others are preferences.
NEEDED = ("concurrency", "run_monitoring", "run_retries", "sensors", "retention")


@dataclass(frozen=True)
class ProjectPlan:
    """What makes a folder a project: ``files`` to write, by path; ``additions`` to files that exist, which stay as they are."""

    files: dict[Path, str]
    additions: dict[Path, str]


def plan_project(folder: Path, dagster_home: Path | None) -> ProjectPlan:
    """Return the plan for an absolute folder. ``dagster_home``: `DAGSTER_HOME`, where it is set.

    Raises ConfigError if the folder's name gives no module's name, or its configuration cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder")
    files: dict[Path, str] = {}
    additions: dict[Path, str] = {}
    is_new = not (folder / FILE).exists()
    dg = {} if is_new and not (folder / "dg.toml").exists() else _dg_project(folder)
    module = dg.get("root_module") or _module_name(folder)
    source = folder / module if (folder / module).is_dir() else folder / "src" / module
    defs = source.parent / Path(*(dg.get("defs_module") or f"{module}.defs").split("."))
    tables = read_config(folder).tables if is_project(folder) else defs.relative_to(folder).as_posix()
    if is_new:
        values = {"distribution": module.replace("_", "-"), "module": module, "tables": tables}
        files[folder / FILE] = _text("pyproject.txt").format(**values)
        if dg:  # `dg.toml` is the place of its keys
            files[folder / FILE] = _lakehouse_section(tables)
    elif not is_project(folder):
        additions[folder / FILE] = ("" if dg else _dg_section(module)) + _lakehouse_section(tables)
    if is_new or dg:
        files[source / "__init__.py"] = ""
        files[source / "definitions.py"] = _text("definitions.txt")
        files[defs / "__init__.py"] = ""
    files[folder / tables / SCHEMA_FILE] = schema_text(defaults_of(folder / tables))
    files[folder / ".gitignore"] = _text("gitignore.txt")
    home = dagster_home or folder
    if missing := _missing_sections(home / "dagster.yaml"):
        additions[home / "dagster.yaml"] = missing
    if dagster_home is None:
        files[folder / "dagster.yaml"] = _text("dagster.yaml")
        line = f"DAGSTER_HOME={folder}\n"
        files[folder / ".env"] = line
        if (folder / ".env").exists() and "DAGSTER_HOME=" not in (folder / ".env").read_text(encoding="utf-8"):
            additions[folder / ".env"] = line
    return ProjectPlan({path: text for path, text in files.items() if not path.exists()}, additions)


def _text(name: str) -> str:
    return (TEXTS / name).read_text(encoding="utf-8")


def _dg_project(folder: Path) -> dict[str, Any]:
    """Return what `dg` knows of the project: `[tool.dg.project]`, or `[project]` of `dg.toml`; empty where it knows nothing."""
    for file, keys in ((folder / "dg.toml", ("project",)), (folder / FILE, ("tool", "dg", "project"))):
        if file.is_file():
            try:
                data: Any = tomllib.loads(file.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ConfigError(f"{file}: it cannot be read as TOML: {error}") from None
            for key in keys:
                data = data.get(key, {}) if isinstance(data, dict) else {}
            if data:
                return data
    return {}


def _module_name(folder: Path) -> str:
    name = re.sub(r"\W+", "_", folder.name.lower(), flags=re.ASCII).strip("_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(f"{folder.name!r} gives no name of a Python module; choose a folder like my_project")
    return name


def _dg_section(module: str) -> str:
    return f'[tool.dg]\ndirectory_type = "project"\n\n[tool.dg.project]\nroot_module = "{module}"\n\n'


def _lakehouse_section(tables: str) -> str:
    return f"[tool.lakehouse]\ntables = {json.dumps(tables)}\n"


def _missing_sections(file: Path) -> str:
    """Return the needed sections that an existing `dagster.yaml` lacks, as YAML; empty where it has all, or is not there."""
    if not file.is_file():
        return ""
    try:
        there = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: it cannot be read as YAML: {error}") from None
    ours = yaml.safe_load(_text("dagster.yaml"))
    missing = {name: ours[name] for name in NEEDED if not isinstance(there, dict) or name not in there}
    return yaml.safe_dump(missing, sort_keys=False) if missing else ""
