"""The quality pages: a static site from the logs alone. A table is read again only where its log, its YAML or the templates
changed; a file is written only where its content did. Nothing outside the pages' folder is written.

Belongs here: which tables are made anew, the overview, the audits' section. Does not: a table's pages (table_site).
"""

import gc
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake.exceptions import DeltaError
from jinja2 import TemplateRuntimeError
from pyarrow import ArrowException, fs

from lakehouse_assets.errors import EnvironmentMissing, EvidenceError, LakehouseError
from lakehouse_assets.pages.declared import Project
from lakehouse_assets.pages.folder import PagesFolder, hold_folder
from lakehouse_assets.pages.names import table_path
from lakehouse_assets.pages.overview import overview
from lakehouse_assets.pages.reading import UNREADABLE, LogSnapshot
from lakehouse_assets.pages.render import render, renderer_id, shared_files
from lakehouse_assets.pages.table_site import Neighbours, facts_of, read_table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.collector import paused_collector
from lakehouse_assets.storage.file_systems import open_filesystem

WINDOWS = 1_000  # of each table, the newest, that have a page
FAILURES = (LakehouseError, OSError, ArrowException, DeltaError, TemplateRuntimeError, *UNREADABLE)


@dataclass(frozen=True)
class SiteReport:
    """What a making did. ``refreshed``: tables made anew. ``waiting``: tables left to do. ``notes``: what is left out."""

    first_page: Path
    tables: int
    refreshed: int
    written: int
    removed: int
    waiting: int = 0
    notes: tuple[str, ...] = ()


def make_site(
    settings: Settings,
    *,
    windows: int = WINDOWS,
    seconds: float | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    wait_seconds: float = 60,
) -> SiteReport:
    """Make the pages, and return what was done. ``seconds``: begin no table after them; the next making goes on.

    Raises EnvironmentMissing without a lake, LockedError beside another process, EvidenceError if the log cannot be read.
    """
    _require_lake(settings)
    shared = shared_files()
    with hold_folder(settings.site, wait_seconds):
        making = _Making(settings, PagesFolder.open(settings.site), windows, clock())
        with paused_collector():  # `_make_table` collects after every ten tables
            return making.run(seconds, shared)


def _require_lake(settings: Settings) -> None:
    try:
        filesystem, path = open_filesystem(settings.root)
        is_there = filesystem.get_file_info(path).type is not fs.FileType.NotFound or delta.exists(
            settings.path("ops", "decisions")
        )
    except (OSError, ArrowException, DeltaError) as error:
        raise EnvironmentMissing(
            f"the lake at {settings.root} cannot be reached ({type(error).__name__}): see LAKEHOUSE_ROOT"
        ) from None
    if not is_there:
        raise EnvironmentMissing(f"there is no lake at {settings.root} (LAKEHOUSE_ROOT): run `lakehouse run` first")


class _Making:
    def __init__(self, settings: Settings, folder: PagesFolder, windows: int, now: datetime) -> None:
        self.settings, self.folder, self.windows, self.now = settings, folder, windows, now
        # Pages of another lake, or by other templates, are all made anew; their files stay known, and go if nobody writes them.
        self.tables: dict[str, dict[str, Any]] = folder.state.get("tables") or {}
        self.context = f"{settings.root} {renderer_id()} {windows}"
        self.notes: list[str] = []
        self.refreshed = self.waiting = 0

    def run(self, seconds: float | None, shared: Mapping[str, tuple[str, Path]]) -> SiteReport:
        started = time.monotonic()
        if not self.folder.state:
            self.folder.save()  # a making that is killed leaves a folder of pages, and not one of unknown files
        self._write_shared(shared)
        snapshot, fingerprints = self._open()
        for table in [table for table in self.tables if table not in fingerprints]:
            self.folder.remove(self.tables.pop(table).get("files", {}))
        project = Project.of(self.settings)
        # First what tables know of each other: lineage to gold, and which inputs of gold have personal columns.
        for table, fingerprint in fingerprints.items():
            self._learn(snapshot, table, f"{fingerprint} {project.fingerprint(table)} {self.context}", project)
        audits = self._audits()
        for table in sorted(fingerprints):
            key = self._key(table, fingerprints[table], project, audits)
            if self.tables.get(table, {}).get("key") == key:
                continue
            if seconds is not None and time.monotonic() - started > seconds:
                self.waiting += 1
                continue
            self._make_table(snapshot, table, key, project, audits)
        self._write_overview(audits)
        self.folder.state |= {"tables": self.tables, "context": self.context}
        self.folder.save()
        report = (len(fingerprints), self.refreshed, self.folder.written, self.folder.removed, self.waiting)
        return SiteReport(self.folder.path / "index.html", *report, tuple(self.notes))

    def _open(self) -> tuple[LogSnapshot, dict[str, str]]:
        try:
            snapshot = LogSnapshot(self.settings)
            return snapshot, snapshot.fingerprints()
        except (OSError, ArrowException, DeltaError, KeyError) as error:
            text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise EvidenceError(
                f"the logs under {self.settings.path('ops')} cannot be read: {text}; see `lakehouse verify`"
            ) from None

    def _learn(self, snapshot: LogSnapshot, table: str, source: str, project: Project) -> None:
        state = self.tables.setdefault(table, {})
        if state.get("facts", {}).get("source") != source:
            try:
                state["facts"] = {**facts_of(snapshot.rulesets(table), project.find(table)), "source": source}
            except FAILURES:
                state["facts"] = {"personal": True, "sql": None}  # unknown, and read again by the next making

    def _neighbours(self) -> Neighbours:
        sql = {name: state["facts"]["sql"] for name, state in self.tables.items() if state.get("facts", {}).get("sql")}
        return Neighbours(sql, frozenset(name for name, state in self.tables.items() if state.get("facts", {}).get("personal")))

    def _marks(self) -> dict[str, list[str] | None]:
        """Return the columns marked `pii` of each table, by the audits' names of it; None where nobody knows them, and for gold
        that reads such a table, or did when it was audited.
        """
        personal_inputs, marks = self._neighbours().personal, dict[str, list[str] | None]()
        for table, state in sorted(self.tables.items()):
            facts = state.get("facts", {})
            if table.startswith("gold_"):
                sql = facts.get("all_sql")
                may_read = personal_inputs and (not sql or any(f"silver_{each}" in sql for each in personal_inputs))
                marks[_audited(table)] = None if may_read else []
            else:
                personal = facts.get("personal")
                names = personal if isinstance(personal, list) else None if personal else []
                marks |= {_audited(table): names, f"guarded/{table}": names}
        return marks

    def _key(self, table: str, fingerprint: str, project: Project, audits: Mapping[str, Any]) -> str:
        neighbours = self._neighbours()
        gold = sorted(sql for sql in neighbours.gold_sql.values() if f"silver_{table}" in sql)
        personal = sorted(neighbours.personal) if table.startswith("gold_") else []
        parts = (self.context, fingerprint, project.fingerprint(table), gold, personal, audits.get(_audited(table)))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _make_table(self, snapshot: LogSnapshot, table: str, key: str, project: Project, audits: Mapping[str, Any]) -> None:
        before = self.tables.get(table, {}).get("files", {})
        try:
            try:
                site = read_table(snapshot, table, project.find(table), self.windows, self._neighbours())
            except FileNotFoundError:
                # Maintenance removed files of the version that is being read: the newest one has others.
                site = read_table(LogSnapshot(self.settings), table, project.find(table), self.windows, self._neighbours())
            pages = site.files(self.settings, self._neighbours(), audits.get(_audited(table)))
            files = dict(self.folder.write(before, path, content) for path, content in pages)
        except FAILURES as error:
            # Without the error's text, which may quote a value.
            note = f"{table}: its pages could not be made ({type(error).__name__}); those of an earlier making stay"
            self.notes.append(note)
            earlier = self.tables.get(table, {})
            self.tables[table] = {**earlier, "key": "", "summary": earlier.get("summary") or _unread(table), "files": before}
            return
        self.folder.remove(path for path in before if path not in files)
        self.tables[table] |= {"key": key, "files": files, "summary": site.summary()}
        self.refreshed += 1
        if self.refreshed % 10 == 0:
            gc.collect()

    def _write_shared(self, shared: Mapping[str, tuple[str, Path]]) -> None:
        versions = self.folder.state.setdefault("shared", {})
        for path, (version, source) in shared.items():
            if versions.get(path) != version or not (self.folder.path / path).is_file():
                self.folder.write({}, path, source.read_bytes())
                versions[path] = version

    def _audits(self) -> dict[str, Any]:
        """Make the audits' section where there are new audits or other marks; return verdict, day and page of each table's last
        one.
        """
        state, marks = self.folder.state.setdefault("audits", {}), self._marks()
        try:
            version = delta.content_id(self.settings.path("ops", "audits"))
            marked = hashlib.sha256(repr(marks).encode()).hexdigest()
            content, before = f"{self.context} {version} {marked}" if version else "", state.get("files", {})
            if content and state.get("content") != content:
                from lakehouse_assets.pages.audits import audit_files, last_audits  # noqa: PLC0415 (it loads SciPy)

                last = last_audits(self.settings)
                files = dict(self.folder.write(before, *page) for page in audit_files(self.settings, self.now, marks))
                self.folder.remove(path for path in before if path not in files)
                self.folder.state["audits"] = state = {"content": content, "last": last, "files": files}
        except FAILURES as error:
            self.notes.append(f"the audits' section could not be made ({type(error).__name__}); see `lakehouse audit-docs`")
        return state.get("last", {})

    def _write_overview(self, audits: Mapping[str, Any]) -> None:
        summaries = [state["summary"] for state in self.tables.values() if "summary" in state]
        notes = [f"{self.waiting} tables are not up to date yet: the next making goes on with them"] if self.waiting else []
        has_audits = bool(self.folder.state.get("audits", {}).get("files"))
        view = {**overview(summaries, audits, self.now), "notes": [*self.notes, *notes], "has_audits": has_audits}
        self.folder.write({}, "index.html", render("overview", "", view, self.now))


def _audited(table: str) -> str:
    return f"gold/{table.removeprefix('gold_')}" if table.startswith("gold_") else f"silver/{table}"


def _unread(table: str) -> dict[str, Any]:
    """Return the overview's row of a table whose pages could not be made."""
    empty = dict.fromkeys(("newest", "newest_start", "cadence", "end", "rows", "drift"))
    counts = dict.fromkeys(("quarantined_windows", "quarantined_rows", "missing", "waiting"), 0)
    lists: dict[str, list[Any]] = {"strip": [], "quarantined": [], "failing": []}
    return {"table": table, "path": table_path(table), "left_yaml": False, "notes": 1, **empty, **counts, **lists}
