"""Serving a folder of pages: files only, no folders, no log of requests, no caching.

Belongs here: the server. Does not: which folder, or its files.
"""

import functools
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakehouse_assets.cli.terminal import out
from lakehouse_assets.errors import EnvironmentMissing

SECONDS = 30.0  # between two looks at the log


def serve_folder(folder: Path, host: str, port: int, refresh: Callable[[], None] | None = None) -> None:
    """Serve until Ctrl-C. ``refresh``: called every half a minute. Raises EnvironmentMissing where the port is taken."""
    try:
        server = ThreadingHTTPServer((host, port), functools.partial(PageHandler, directory=str(folder)))
    except OSError as error:
        raise EnvironmentMissing(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another with --port"
        ) from None
    out.print(f"http://{host}:{server.server_port}/ (Ctrl-C ends it)", highlight=False)
    ended = threading.Event()
    if refresh is not None:
        threading.Thread(target=_refresh_until, args=(ended, refresh), daemon=True).start()
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            out.print("ended")
        finally:
            ended.set()


def _refresh_until(ended: threading.Event, refresh: Callable[[], None]) -> None:
    while not ended.wait(SECONDS):
        refresh()


class PageHandler(SimpleHTTPRequestHandler):
    """Serves pages and what they need; nothing that begins with a dot, and no manifest."""

    def send_head(self) -> Any:
        """Refuse files that are no part of a page."""
        name = unquote(self.path.partition("?")[0]).rpartition("/")[2]
        if name.startswith(".") or name == "manifest.json":
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def list_directory(self, path: Any) -> None:
        """Refuse a folder."""
        self.send_error(404)

    def end_headers(self) -> None:
        """Forbid guessed types and caching."""
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()
