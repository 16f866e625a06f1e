"""Connections between processes of a job: messages, one JSON line each, and tunnelled bytes."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pellucid._machine.base import interruptible

T = TypeVar("T")
Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]

VERSION = 4
CHUNK = 1 << 16


class EventLoopThread:
    """An event loop that runs in its own thread until `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run_until_the_end, name="pellucid-distributed", daemon=True
        )
        self._thread.start()

    def _run_until_the_end(self) -> None:
        with asyncio.Runner(
            loop_factory=lambda: self._loop
        ) as runner:  # on exit, it cancels all tasks
            runner.run(self._end.wait())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Result of `coroutine`, run in the thread of the loop; Ctrl-C cancels it."""
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `coroutine` in the thread of the loop, in the background; cancelling the future ends it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """Cancel everything and end the thread."""
        self._loop.call_soon_threadsafe(self._end.set)
        interruptible(self._thread.join)


async def repeat(seconds: float, function: Callable[..., None], *arguments: Any) -> None:
    """Call `function(*arguments)` every `seconds`, until the task is cancelled."""
    while True:
        await asyncio.sleep(seconds)
        function(*arguments)


def line(event: str, **fields: Any) -> bytes:
    """A message in its encoded form."""
    return json.dumps({"event": event, **fields}).encode() + b"\n"


def send(writer: StreamWriter, event: str, **fields: Any) -> None:
    """Send a message; drop it if it can't be delivered any more."""
    if not writer.is_closing():
        writer.write(line(event, **fields))


def proof(secret: str, *facts: Any) -> str:
    """A text that can be computed from `facts` only with `secret`; one fact must be new each time."""
    return hmac.new(secret.encode(), json.dumps(facts).encode(), "sha256").hexdigest()


def is_same(given: Any, expected: str) -> bool:
    """Whether a text from another process equals the expected one, compared in constant time."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(), expected.encode())


async def receive(reader: StreamReader, seconds: float | None = None) -> dict[str, Any]:
    """The next message; a message with the event "lost" and a `reason` if none arrives within `seconds`, or the
    connection ends.
    """
    try:
        async with asyncio.timeout(seconds):
            message = json.loads(await reader.readline())
    except TimeoutError:
        return {"event": "lost", "reason": f"nothing was heard of it for {seconds:g} s"}
    except (OSError, ValueError, RecursionError):  # end of the connection, or another protocol
        message = None
    if isinstance(message, dict) and "event" in message:
        return message
    return {"event": "lost", "reason": "its connection closed"}


async def serve(handle: Handler, host: str | None, port: int) -> asyncio.Server:
    """Listen, with a task that runs `handle` for each connection and then closes it."""

    async def attend(reader: StreamReader, writer: StreamWriter) -> None:
        # The peer has disconnected, or the event loop ends.
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            await handle(reader, writer)

    return await asyncio.start_server(attend, host, port)


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    """Forward bytes until either side closes."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


async def join(
    reader: StreamReader, writer: StreamWriter, host: str, port: int, hello: bytes = b""
) -> None:
    """Forward bytes to `host`, after `hello`, and back, until either connection ends."""
    far_reader, far_writer = await asyncio.open_connection(host, port)
    far_writer.write(hello)
    copies = [
        asyncio.ensure_future(_copy(reader, far_writer)),
        asyncio.ensure_future(_copy(far_reader, writer)),
    ]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)
        far_writer.close()


async def start_tunnel(host: str, port: int, job: str) -> int:
    """Start forwarding connections to the coordinator of a job; returns the local port to connect to.

    jaxlib's client reaches its coordination service this way. It aborts the process when its connection is lost, so the
    near end stays open if the far end is gone.
    """

    async def carry(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError):  # then it is as if the far end didn't respond
            await join(reader, writer, host, port, line("tunnel", job=job))
        while await reader.read(CHUNK):
            continue

    server = await serve(carry, "127.0.0.1", 0)
    return server.sockets[0].getsockname()[1]
