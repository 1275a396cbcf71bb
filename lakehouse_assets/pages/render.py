"""Views → HTML, from templates. Every name and value is escaped, in markup, in figures, and control characters everywhere.

Belongs here: the template environment, and the files that pages share. Does not: what a page shows (*_view), writing (site).
"""

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.pages.fragments import feature_rows, passed_rows, strip_cells
from lakehouse_assets.pages.history import LABELS
from lakehouse_assets.pages.overview import STRIP
from lakehouse_assets.reports.markdown import CONTROLS, escape_controls

TEMPLATES = Path(__file__).with_name("templates")
LIBRARY = "plotly"
PLAIN = b"\t\n" + bytes(range(32, 127))


@cache
def _environment() -> Environment:
    # No file of the page's folder is executed: templates are the package's own.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "labels": LABELS,
        "strip": STRIP,
        "made_at": "",
        "feature_rows": feature_rows,
        "passed_rows": passed_rows,
        "strip_cells": strip_cells,
    }
    environment.filters["figure"] = figure_json
    return environment


def figure_json(figure: Mapping[str, Any]) -> Markup:
    """Return a figure as JSON that no browser reads as markup."""
    text = json.dumps(figure, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704 (nothing in it is markup)


def render(name: str, root: str, view: Mapping[str, Any], made_at: datetime | None = None) -> bytes:
    """Return a page. ``root``: the way from the page to the site's folder. ``made_at``: shown below, if given."""
    values = {"made_at": f"{made_at:%Y-%m-%d %H:%M}"} if made_at else {}
    html = _environment().get_template(f"{name}.html.j2").render(root=root, **values, **view)
    content = html.encode("utf-8", "backslashreplace")
    if CONTROLS.search(content.translate(None, PLAIN).decode()):  # in what is left: a search of whole pages takes long
        content = escape_controls(html).encode("utf-8", "backslashreplace")
    return content


@cache
def renderer_id() -> str:
    """Return a text that changes with templates and code: then every page is made anew."""
    files = sorted([*TEMPLATES.iterdir(), *TEMPLATES.parent.glob("*.py")])
    contents = b"".join(file.read_bytes() for file in files if file.is_file())
    return hashlib.sha256(contents).hexdigest()[:16]


def shared_files() -> dict[str, tuple[str, Path]]:
    """Return path, version and source of the files that pages share. Raises EnvironmentMissing without the chart library."""
    found_spec = importlib.util.find_spec(LIBRARY)
    folders = list(found_spec.submodule_search_locations or ()) if found_spec else []
    script = Path(folders[0]) / "package_data" / "plotly.min.js" if folders else None
    if script is None or not script.is_file():
        raise EnvironmentMissing(
            "the package plotly is not installed, whose script draws the charts: run `make setup`, or install it"
        )
    own = {name: (renderer_id(), TEMPLATES / name) for name in ("pages.css", "pages.js")}
    files = {**own, "plotly.min.js": (importlib.metadata.version(LIBRARY), script)}
    return {f"assets/{name}": each for name, each in files.items()}
