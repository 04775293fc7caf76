"""The page of a run that goes on: served on this machine only, to readers with the address.

The page is the same as that of a file, but empty; what is new reaches it as server-sent events, the
lines of ``engines.news``. The server listens on the loopback interface and nowhere else. Its
address has a random token, and it answers only to its own name, so that neither another user nor a
page from elsewhere can read it.
"""

from __future__ import annotations

import json
import secrets
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from bequest.view.page import page_of
from bequest.view.reading import ShownRun, empty_document
from bequest.view.scenery import staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOOPBACK = "127.0.0.1"
# Seconds: a browser hears something this often, and readers may take so long to hear the end.
_PULSE, _FAREWELL = 10.0, 2.0


class LivePage:
    """Serves the page of one run after another; use it as a context.

    Attributes:
        address: where the page is.
    """

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(16)
        self._changed = Condition()
        self._title = ""
        self._names: tuple[str, ...] = ()
        self._lines: list[Mapping[str, Any]] = []
        self._run = 0
        self._is_over = False
        self._readers = 0
        self._server = _server(self)
        self.address = f"http://{LOOPBACK}:{self._server.server_port}/?token={self._token}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the readers hear the end, and stop."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._readers, timeout=_FAREWELL)
        self._server.shutdown()
        self._server.server_close()

    def begin(self, title: str, names: tuple[str, ...] = ()) -> None:
        """Begin with another run, whose nodes may have names."""
        with self._changed:
            self._title, self._names, self._lines = title, names, []
            self._run += 1
            self._changed.notify_all()

    def tell(self, line: Mapping[str, Any]) -> None:
        """Add what is new."""
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def is_allowed(self, host: str | None, token: str) -> bool:
        """Whether a request is for this page, and by a reader who was given the address."""
        own = {f"{name}:{self._server.server_port}" for name in (LOOPBACK, "localhost")}
        return host in own and secrets.compare_digest(token.encode(), self._token.encode())

    def page(self) -> bytes:
        """Return the page, as it is before any news."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_over, timeout=_PULSE)
            lines, title, names = list(self._lines), self._title, self._names
        begun = next((line["begun"] for line in lines if "begun" in line), None)
        document = empty_document(begun or {})
        if len(names) == document["network"]["nodes"]:
            document["network"] = document["network"] | {"names": list(names)}
        return page_of(staged([ShownRun(title, "live", document, is_whole=False)], live=True))

    def news(self) -> Iterator[bytes]:
        """Yield what is new, as server-sent events, until there will be no more of this run."""
        with self._changed:
            run, sent = self._run, 0
            self._readers += 1
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(partial(self._is_new, run, sent), timeout=_PULSE)
                    fresh = self._lines[sent:] if run == self._run else []
                    over, moved = self._is_over, run != self._run
                sent += len(fresh)
                yield (
                    b"".join(b"data: %s\n\n" % json.dumps(line).encode() for line in fresh)
                    or b":\n\n"
                )
                if moved or over:
                    yield b"event: %s\ndata: \n\n" % (b"next" if moved else b"over")
                    return
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def _is_new(self, run: int, sent: int) -> bool:
        return self._is_over or run != self._run or len(self._lines) > sent


def _server(live: LivePage) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                asked = urlsplit(self.path)
            except ValueError:  # no address at all
                self._begin(400, "text/plain")
                return
            token = parse_qs(asked.query).get("token", [""])[0]
            if not live.is_allowed(self.headers.get("Host"), token):
                self._begin(403, "text/plain")
                self.wfile.write(b"This address lacks the token that was printed with it.\n")
            elif asked.path == "/":
                self._begin(200, "text/html; charset=utf-8")
                self.wfile.write(live.page())
            elif asked.path == "/news":
                self._begin(200, "text/event-stream")
                try:
                    for part in live.news():
                        self.wfile.write(part)
                        self.wfile.flush()
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the reader has closed the page
            else:
                self._begin(404, "text/plain")

        def _begin(self, code: int, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet: the terminal shows the run."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    return server
