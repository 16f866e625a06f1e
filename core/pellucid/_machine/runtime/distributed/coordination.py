"""Barriers and the key-value store of a job."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pellucid._machine.base import DistributedError, DistributedTimeoutError, Ints, PellucidError
from pellucid._machine.runtime import peers
from pellucid._machine.xla import JaxRuntimeError

T = TypeVar("T")
_MISSING = re.compile(r"timed out task names:\n([\d\s]+)")


def ask(
    what: str,
    function: Callable[..., T],
    *arguments: Any,
    explain_lateness: Callable[[str], str] = lambda text: text.splitlines()[0],
) -> T:
    """The result of a function of jaxlib's client; raises PeerFailureError as soon as a process of the job has failed."""
    peers.check()
    try:
        return peers.wait(function, *arguments)
    except PellucidError:
        raise
    except JaxRuntimeError as error:
        text = str(error)
        if "DEADLINE_EXCEEDED" in text or "timed out" in text:
            raise DistributedTimeoutError(
                f"{what} took too long.",
                got=explain_lateness(text),
                do="Raise its timeout, or look at what the other processes do.",
            ) from None
        raise DistributedError(f"{what} failed.", got=text.splitlines()[:4]) from None


class KeyValueStore:
    """Strings and bytes by name, the same for all processes of the job; `distributed.key_value_store()` gives it.

    >>> def share(store: KeyValueStore) -> str:
    ...     if pl.process_index() == 0:
    ...         store.set("run/name", "blue", overwrite=True)
    ...     return store.get("run/name", timeout_seconds=30.0)
    >>> share(pl.distributed.key_value_store())
    Traceback (most recent call last):
        ...
    pellucid.errors.DistributedError: distributed.key_value_store: this process is not joined to others.
    ...
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def set(self, key: str, value: str | bytes, *, overwrite: bool = False) -> None:
        """Store `value`; a key that is there is an error, unless `overwrite`."""
        client = self._client
        put = client.key_value_set if isinstance(value, str) else client.key_value_set_bytes
        ask(f"setting {key!r}", put, key, value, overwrite)

    def get(self, key: str, timeout_seconds: float = 60.0) -> str:
        """Waits until `key` is set, and returns its string; DistributedTimeoutError if no process sets it in time."""
        get = self._client.blocking_key_value_get
        return ask(f"waiting for {key!r}", get, key, int(timeout_seconds * 1000))

    def get_bytes(self, key: str, timeout_seconds: float = 60.0) -> bytes:
        """Waits until `key` is set, and returns its bytes; DistributedTimeoutError if no process sets it in time."""
        get = self._client.blocking_key_value_get_bytes
        return ask(f"waiting for {key!r}", get, key, int(timeout_seconds * 1000))

    def increment(self, key: str, by: int = 1) -> int:
        """Add to the integer at `key` (0 if it isn't there); gives the sum."""
        return ask(f"incrementing {key!r}", self._client.key_value_increment, key, by)

    def delete(self, key: str) -> None:
        """Remove `key` and all keys in the folder `key/`."""
        ask(f"deleting {key!r}", self._client.key_value_delete, key)

    def items(self, folder: str = "") -> dict[str, str]:
        """Keys that are in `folder`, with their strings."""
        return dict(ask(f"listing {folder!r}", self._client.key_value_dir_get, folder))


class Barriers:
    """Points that processes pass together, each by its name, any number of times."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._passed: collections.Counter[str] = collections.Counter()

    def wait(self, name: str, seconds: float, process_ids: Ints | None = None) -> None:
        """Wait until all processes (of `process_ids`) wait at barrier `name`.

        Raises: DistributedTimeoutError after `seconds`, with who is missing.
        """
        members = None if process_ids is None else sorted(process_ids)
        place = f"pellucid/barrier/{name}/{members or 'all'}"
        self._passed[place] += 1

        def explain(text: str) -> str:
            missing = _MISSING.search(text)
            names = ", ".join(missing[1].split()) if missing else "others"
            return f"process {names} did not come within {seconds:g} s"

        ask(
            f"barrier {name!r}", self._client.wait_at_barrier, f"{place}/{self._passed[place]}",
            int(seconds * 1000), members, explain_lateness=explain,
        )  # fmt: skip
