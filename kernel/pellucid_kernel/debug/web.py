"""Debugger prompts in a browser page: `debug.breakpoint(backend="web")` and `debugger.prompt(f, backend="web")`."""

from __future__ import annotations

import asyncio
import functools
import hmac
import queue
import secrets
import socket
import sys
import threading
from collections import deque
from importlib import resources
from typing import IO, Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from pellucid.introspect.errors import ArgumentValueError

_LOOPBACK = "127.0.0.1"
_MAX_MESSAGES = 10_000
"""Maximum number of earlier messages sent to a page that is opened late."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'",
    "Referrer-Policy": "no-referrer",  # the address contains the token
    "X-Content-Type-Options": "nosniff",
}


class Page:
    """A web page with a prompt, used as a pair of text streams: written text is shown, and lines entered by the user
    are read.

    It is served on the loopback address only, and requires the random token in `url`. It is served until the process
    ends.

    Raises: ArgumentValueError if `port` is taken; 0 selects a free port.

    >>> page = Page()
    >>> page.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, port: int = 0) -> None:
        try:
            listening = socket.create_server((_LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise ArgumentValueError(
                f"the prompt's page can't be served on port {port}.",
                got=str(error),
                do="Leave `port` out: then a free one is taken.",
            ) from None
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self.token = secrets.token_urlsafe()
        self._entered: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._messages: deque[dict[str, Any]] = deque(maxlen=_MAX_MESSAGES)
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        """Event loop of messages and connections."""
        thread = threading.Thread(
            target=self._serve, args=[listening], name="pellucid-prompt-page", daemon=True
        )
        thread.start()

    @property
    def url(self) -> str:
        """Address of the page, with the token."""
        return f"http://{_LOOPBACK}:{self.port}/?token={self.token}"

    def write(self, text: str) -> int:
        """Shows `text` on the page."""
        self._send(text=text)
        return len(text)

    def flush(self) -> None:
        """Does nothing, since text is sent at once."""

    def readline(self) -> str:
        """Waits for the next line entered on the page."""
        self._send(is_waiting=True)
        try:
            return self._entered.get()
        finally:
            self._send(is_waiting=False)

    def _send(self, **message: Any) -> None:
        self._loop.call_soon_threadsafe(self._show, message)

    def _show(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        for connection in [*self._connections]:
            connection.send(message)

    def connect(self, connection: _Connection) -> None:
        """Registers a page that was opened, and shows it the earlier messages."""
        self._connections.add(connection)
        for message in self._messages:
            connection.send(message)

    def disconnect(self, connection: _Connection) -> None:
        """Removes a page that was closed."""
        self._connections.discard(connection)

    def enter(self, line: str) -> None:
        """Handles a line that the user has entered."""
        self._show({"text": f"{line}\n"})
        self._entered.put(f"{line}\n")

    def check(self, handler: RequestHandler) -> None:
        """Rejects requests without the token or with a foreign host name, such as by DNS rebinding.

        Raises: HTTPError
        """
        token = handler.get_query_argument("token", "")
        is_here = handler.request.host in {
            f"{name}:{self.port}" for name in (_LOOPBACK, "localhost")
        }
        if not is_here or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise HTTPError(403)

    def _serve(self, listening: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        application = Application([("/", _Document), ("/lines", _Connection)], page=self)
        HTTPServer(application).add_socket(listening)
        self._loop.run_forever()


class _Document(RequestHandler):
    """Handler that serves the page."""

    def get(self) -> None:
        self.settings["page"].check(self)
        nonce = secrets.token_urlsafe()
        for name, value in _HEADERS.items():
            self.set_header(name, value.format(nonce=nonce))
        document = resources.files(__package__).joinpath("prompt_page.html")
        self.finish(document.read_text(encoding="utf-8").replace("NONCE", nonce))


class _Connection(WebSocketHandler):
    """WebSocket of an open page. The base class rejects pages of other origins."""

    def prepare(self) -> None:
        self.settings["page"].check(self)

    def open(self, *args: str, **kwargs: str) -> None:
        self.settings["page"].connect(self)

    def on_message(self, message: str | bytes) -> None:
        if isinstance(message, str):
            self.settings["page"].enter(message.replace("\n", " "))

    def on_close(self) -> None:
        self.settings["page"].disconnect(self)

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message unless the page is being closed."""
        try:
            self.write_message(message)
        except WebSocketClosedError:
            self.settings["page"].disconnect(self)


@functools.cache
def page(port: int = 0) -> Page:
    """The page of this process on `port`, the same one for all stops, so that the user opens it only once."""
    return Page(port)


def streams(port: int = 0, stdout: IO[str] | None = None) -> tuple[Page, Page]:
    """(stdin, stdout) of a prompt on the page at `port`. Its address is written to `stdout` (default: the process's).

    Raises: ArgumentValueError if the port is taken.
    """
    shown = page(port)
    print(f"Stopped: a prompt waits at {shown.url}", file=stdout or sys.stdout, flush=True)
    return shown, shown
