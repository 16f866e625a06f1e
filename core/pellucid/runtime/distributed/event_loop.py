"""A thread in which the connections of a job are attended."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from pellucid.base import interruptible

T = TypeVar("T")


class EventLoopThread:
    """An event loop that runs in a thread of its own until `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pellucid-distributed", daemon=True
        )
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Result of `coroutine`, run in the thread of the loop; Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
        """Run `coroutine` in the thread of the loop, in the background; cancelling the future ends it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, function: Any, *arguments: Any) -> None:
        """Have `function(*arguments)` called in the thread of the loop, soon."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """Cancel everything and end the thread."""
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        interruptible(self._thread.join)
        self._loop.close()


async def _cancel_others() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
