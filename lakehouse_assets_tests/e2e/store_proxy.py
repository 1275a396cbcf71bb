"""A proxy before an S3 server: it counts requests, carries out one write at a time, and lets some fail as a store does.

Belongs here: HTTP as far as that needs it, and the faults. Does not: the server (servers), or which requests fail (the tests).

moto looks whether an object is there, and then writes it: of two conditional requests at once both may succeed. So the proxy
passes one write at a time.
"""

import http.client
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from lakehouse_assets_tests.e2e.listeners import QuietHandler, listening
from lakehouse_assets_tests.e2e.servers import s3_server

# SLOW: carried out and answered late. REFUSED: 503, not carried out. LOST: carried out, and no answer. UNSURE: carried out, and
# answered by 500. GIVEN_UP: no answer, and carried out some time afterwards. None: as the server does it.
Fault = Literal["slow", "refused", "lost", "unsure", "given_up"] | None
FAULTS: tuple[Fault, ...] = ("slow", "refused", "lost", "unsure", "given_up")
WRITES = ("PUT", "POST", "DELETE")
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_ERROR = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
_OF_A_CONNECTION = ("connection", "keep-alive", "transfer-encoding", "content-length")
_OF_THE_SERVER = (*_OF_A_CONNECTION, "date", "server")


@dataclass(frozen=True)
class StoreRequest:
    """``number``: from 0. ``path``: the object's, or the listed prefix, after the bucket's name."""

    number: int
    method: str
    path: str
    is_list: bool


@dataclass
class StoreProxy:
    """``choose_fault``: what becomes of a request; it may be replaced at any time. ``requests``: all so far. ``variables``: of
    the environment of processes that speak to it.
    """

    server: str
    choose_fault: Callable[[StoreRequest], Fault] = lambda request: None
    slow_seconds: float = 0.3
    variables: dict[str, str] = field(default_factory=dict)
    requests: list[StoreRequest] = field(default_factory=list)
    faults: list[tuple[Fault, StoreRequest]] = field(default_factory=list)
    signers: set[tuple[str, str]] = field(default_factory=set)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _late: list[threading.Thread] = field(default_factory=list)

    @contextmanager
    def up(self) -> Iterator[str]:
        """Yield the address for clients, for as long as the block lasts."""
        proxy = self

        class Handler(_Handler):
            store_proxy = proxy

        with listening(Handler) as address:
            yield address

    def await_late_requests(self) -> None:
        """Wait until the server has got each request that its client gave up."""
        for thread in list(self._late):
            thread.join()

    def note(self, method: str, target: str) -> tuple[StoreRequest, Fault]:
        """Count a request, and choose what becomes of it."""
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        is_list = method == "GET" and ("list-type" in query or "prefix" in query)
        path = query.get("prefix", [""])[0] if is_list else unquote(parts.path).lstrip("/").partition("/")[2]
        with self._counting:
            request = StoreRequest(len(self.requests), method, path, is_list)
            self.requests.append(request)
            fault = self.choose_fault(request)
            if fault:
                self.faults.append((fault, request))
        return request, fault

    def carry_out(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> http.client.HTTPResponse:
        """Send a request to the server, and return its answer, of which nothing has been read."""
        connection = http.client.HTTPConnection(self.server.removeprefix("http://"), timeout=60)
        connection.request(method, target, body=body, headers=headers)
        return connection.getresponse()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, list, bytes]:
        """Return the server's answer to a request: status, headers, content."""
        with self._writing if method in WRITES else nullcontext():
            response = self.carry_out(method, target, headers, body)
            content = response.read()
        response.close()
        return response.status, response.getheaders(), content

    def answer_late(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Carry a request out some time after its client gave it up."""

        def send() -> None:
            time.sleep(self.slow_seconds)
            self.answer(method, target, headers, body)

        thread = threading.Thread(target=send, daemon=True)
        self._late.append(thread)
        thread.start()


def draw_faults(seed: int, of_writes: float, of_reads: float) -> Callable[[StoreRequest], Fault]:
    """Return what draws the fate of each request: a share of the writes and of the reads fail, in one of five ways."""
    drawn = random.Random(seed)

    def choose(request: StoreRequest) -> Fault:
        share = of_writes if request.method in WRITES else of_reads
        return drawn.choice(FAULTS) if drawn.random() < share else None

    return choose


@contextmanager
def store_behind_proxy(home: Path) -> Iterator[StoreProxy]:
    """A proxy before an S3 server with the bucket `lake`. Processes that get `variables` speak to the proxy. This one speaks to
    the server: a library that keeps Python waiting for an answer would keep the proxy's threads waiting too.
    """
    if not all(find_spec(name) for name in ("moto", "flask", "flask_cors")):
        pytest.skip("moto's S3 server is not installed (the extra `dev` has it)")
    with s3_server(home, "lake") as server, pytest.MonkeyPatch.context() as patch:
        proxy = StoreProxy(server)
        for name, value in variables_of(server).items():
            patch.setenv(name, value)
        with proxy.up() as address:
            proxy.variables = variables_of(address)
            yield proxy


def variables_of(address: str) -> dict[str, str]:
    """Return the variables by which Amazon's libraries find a server."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return {**keys, "AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}


class _Handler(QuietHandler):
    """One connection of a client."""

    store_proxy: StoreProxy

    def handle_expect_100(self) -> bool:
        """Ask for the content at once. Hadoop's client sends it without being asked, but only after three seconds."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def handle_any(self) -> None:
        """Pass one request on, or let it fail."""
        proxy, method, target, body = self.store_proxy, self.command, self.path, self._body()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in (*_OF_A_CONNECTION, "expect")}
        _, fault = proxy.note(method, target)
        key = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        proxy.signers.add((re.split(r"[/ ]", self.headers.get("User-Agent", ""))[0], key[1] if key else ""))
        if fault == "given_up":
            proxy.answer_late(method, target, headers, body)
            self._hang_up()
            return
        if fault == "refused":
            self._send(503, [("Content-Type", "application/xml")], _BUSY)
            return
        if fault == "slow":
            time.sleep(proxy.slow_seconds)
        status, answered, content = proxy.answer(method, target, headers, body)
        if fault == "lost":
            self._hang_up()
        elif fault == "unsure":
            self._send(500, [("Content-Type", "application/xml")], _ERROR)
        else:
            self._send(status, answered, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        with suppress(ConnectionError):  # a client that has read enough hangs up
            self._write(status, headers, content)

    def _write(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            if name.lower() not in _OF_THE_SERVER:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()
