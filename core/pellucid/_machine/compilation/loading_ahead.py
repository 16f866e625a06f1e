"""Executables that the last process of a session used, loaded before they are asked for.

A notebook whose kernel is restarted runs the same programs again. A thread loads them from disk, in the order of their
first use, as soon as there are devices, and then runs a small product. Nothing follows from that but time: a program is
still traced and lowered, and its executable is found by the content of its module.
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
"""Number of programs of a session that are loaded ahead."""


class SessionPrograms(Generic[T]):
    """The programs of a session: those of its last process, and in their place, by and by, those of this one.

    `open_entry(key)` loads a program, or gives None; `save(keys)` keeps the list for the next process.
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
        for dialect in ("stablehlo", "builtin"):  # which the first program to be lowered needs
            operation_classes(dialect)
        for key, future in list(self._loading.items()):
            if not threading.main_thread().is_alive():  # the process ends
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
        """The program under `key`, once, if it is loaded or being loaded."""
        future = self._loading.pop(key, None)
        if future is None or future.cancel():
            return None
        return future.result()

    def note(self, key: str) -> None:
        """The program under `key` is used."""
        if key not in self._used:
            self._used.append(key)
            self._save(list(dict.fromkeys([*self._used, *self._earlier]))[:MAX_PROGRAMS])

    def let_go(self) -> None:
        """Forget what nobody has asked for."""
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

    For a process's first one Eigen asks the processor for the sizes of its caches (25 ms in a virtual machine), and its
    first compilation sets up LLVM (30 ms).
    """
    client = clients_by_platform().get("cpu")
    if client is None:
        return
    devices = client.local_devices()[:1]
    options = compile_options(devices, overrides((), "cpu", calls=0, largest_contraction=8**3))
    with new_context():
        module = ir.Module.parse(_PRODUCT)
    compile_module(client, module, devices, options, ()).execute_sharded([])
