"""Messages between processes of a job: one JSON object on each line of a TCP connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

VERSION = 2
CHUNK = 1 << 16


def line(event: str, **fields: Any) -> bytes:
    """A message as it is sent."""
    return json.dumps({"event": event, **fields}).encode() + b"\n"


def send(writer: asyncio.StreamWriter, event: str, **fields: Any) -> None:
    """Send a message; one that can't arrive any more is dropped."""
    if not writer.is_closing():
        writer.write(line(event, **fields))


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None if the connection has ended, or if something else is said on it."""
    try:
        message = json.loads(await reader.readline())
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) and "event" in message else None


async def serve(handle: Handler, host: str | None, port: int) -> asyncio.Server:
    """Listen, with a task that runs `handle` for each connection and closes it afterwards."""
    tasks = set()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except OSError:  # whoever it was is gone
            return
        finally:
            writer.close()

    # A plain function: of a coroutine that is cancelled, asyncio logs an error.
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(attend(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return await asyncio.start_server(accept, host, port)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on bytes until either side ends."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        return


async def join(
    first: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    second: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Pass on bytes in both directions until one of the connections ends."""
    tasks = [
        asyncio.ensure_future(copy(first[0], second[1])),
        asyncio.ensure_future(copy(second[0], first[1])),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
