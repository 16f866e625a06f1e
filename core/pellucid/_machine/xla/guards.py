"""Guard flags that the C++ side respects.

C++ knows more transfer levels than are passed to it: for every level except "allow" it calls Python, which decides,
logs and raises in one place (`runtime.guards`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jaxlib import _jax

from . import flags
from .pickling import by_name

_guards = _jax.guard_lib
_DISALLOW = _guards.TransferGuardLevel.DISALLOW
_ALLOW = _guards.TransferGuardLevel.ALLOW
_COLLECTION_LEVELS = {
    name.lower(): level for name, level in _guards.GarbageCollectionGuardLevel.__members__.items()
}


class GuardFlag:
    """A flag with a global and a thread-local level, mirrored in the attribute of that name of the C++ state."""

    default: Any = "allow"

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute
        self._flag = flags.flag(f"pellucid_guard_{attribute}", self.default)

    def __reduce__(self) -> Any:
        return by_name(self)

    def known_to_cpp(self, level: Any) -> Any:
        """The level checked by C++."""
        if level is flags.unset:
            return None
        return _ALLOW if level == "allow" else _DISALLOW

    @property
    def value(self) -> str:
        return self._flag.value

    def set_global(self, level: str) -> None:
        self._flag.set_global(level)
        setattr(_guards.global_state(), self._attribute, self.known_to_cpp(level))

    def set_local(self, level: Any) -> None:
        self._flag.set_local(level)
        setattr(_guards.thread_local_state(), self._attribute, self.known_to_cpp(level))

    def swap_local(self, level: Any) -> Any:
        previous = self._flag.swap_local(level)
        setattr(_guards.thread_local_state(), self._attribute, self.known_to_cpp(level))
        return previous


class CollectionGuardFlag(GuardFlag):
    """Level of the guard for arrays freed by Python's garbage collector."""

    default = None

    def known_to_cpp(self, level: Any) -> Any:
        return _COLLECTION_LEVELS.get(level)


class ThreadGuardFlag:
    """Whether only the thread that requested it may start programs over several processes; checked by C++."""

    def __init__(self) -> None:
        self.value = False

    def set_global(self, value: bool) -> None:
        _guards.update_thread_guard_global_state(value)
        self.value = value

    set_local = set_global

    def swap_local(self, value: bool) -> bool:
        previous = self.value
        self.set_global(value)
        return previous


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Context manager in which C++ allows transfers, because Python has decided."""
    state = _guards.thread_local_state()
    previous = state.explicit_device_put, state.explicit_device_get
    state.explicit_device_put = state.explicit_device_get = True
    try:
        yield
    finally:
        state.explicit_device_put, state.explicit_device_get = previous


class AllDirections:
    """The guards of several directions as one flag: their common value, or None if they differ."""

    def __init__(self, *guards: GuardFlag) -> None:
        self._guards = guards

    @property
    def value(self) -> str | None:
        levels = {guard.value for guard in self._guards}
        return levels.pop() if len(levels) == 1 else None

    def set_global(self, level: str) -> None:
        for guard in self._guards:
            guard.set_global(level)

    def set_local(self, level: Any) -> None:
        """Sets one level for all, or the tuple of levels returned by `swap_local`."""
        levels = level if isinstance(level, tuple) else (level,) * len(self._guards)
        for guard, each in zip(self._guards, levels, strict=True):
            guard.set_local(each)

    def swap_local(self, level: Any) -> tuple[Any, ...]:
        return tuple(guard.swap_local(level) for guard in self._guards)
