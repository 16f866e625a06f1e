"""Loads the executables that the last process of a session used, before they are requested.

A notebook whose kernel is restarted runs the same programs again. When devices have started, a thread loads them from
disk in the order of their first use, then runs a small matrix product. This only saves time: programs are still traced
and lowered, and executables are found by the content of modules.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from pellucid._machine.runtime.platforms import clients_by_platform
from pellucid._machine.xla.compile import compile_module, compile_options
from pellucid._machine.xla.mlir import ir, new_context, operation_classes

from .options import overrides

T = TypeVar("T")
MAX_PROGRAMS = 32
"""Maximum number of a session's executables that are loaded ahead."""


class SessionExecutables(Generic[T]):
    """The executables of a session: initially those of its last process, gradually replaced by this process's.

    `open_entry(key)` loads an executable or returns None; `save(keys)` stores the list for the next process.
    """

    def __init__(
        self,
        keys: Sequence[str],
        open_entry: Callable[[str], T | None],
        save: Callable[[Sequence[str]], None],
    ) -> None:
        self._earlier = list(keys)
        self._used: list[str] = []
        self._save = save
        self._loading: dict[str, Future[T | None]] = {key: Future() for key in keys}
        threading.Thread(
            target=self._load, args=(open_entry,), name="pellucid-loading-ahead"
        ).start()

    def _load(self, open_entry: Callable[[str], T | None]) -> None:
        for dialect in ("stablehlo", "builtin"):  # needed by the first program to be lowered
            operation_classes(dialect)
        for key, future in list(self._loading.items()):
            if not threading.main_thread().is_alive():  # the process is ending
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(open_entry(key))
            except BaseException as error:
                future.set_exception(error)
                raise
        if threading.main_thread().is_alive():
            run_product()

    def take(self, key: str) -> T | None:
        """The executable with this `key`, waited for if it is being loaded; None if it isn't, or was taken before."""
        future = self._loading.pop(key, None)
        if future is None or future.cancel():
            return None
        return future.result()

    def note(self, key: str) -> None:
        """Record a use of the executable with this `key`."""
        if key not in self._used:
            self._used.append(key)
            self._save(list(dict.fromkeys([*self._used, *self._earlier]))[:MAX_PROGRAMS])

    def let_go(self) -> None:
        """Drop the executables that weren't taken."""
        while self._loading:
            _, future = self._loading.popitem()
            future.cancel()


_PRODUCT = """
func.func @main() -> tensor<8x8xf32> {
  %x = stablehlo.iota dim = 0 : tensor<8x8xf32>
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
"""


def run_product() -> None:
    """Run a small matrix multiplication on the CPU, compiled without cache.

    The first one in a process makes Eigen query the processor's cache sizes (25 ms in a virtual machine), and its
    compilation initializes LLVM (30 ms).
    """
    client = clients_by_platform().get("cpu")
    if client is None:
        return
    devices = client.local_devices()[:1]
    options = compile_options(devices, overrides((), "cpu", calls=0, largest_contraction=8**3))
    with new_context():
        module = ir.Module.parse(_PRODUCT)
    compile_module(client, module, devices, options, ()).execute_sharded([])
