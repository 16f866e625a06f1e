"""Programs compiled in a thread, while somebody looks at what came before them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from pellucid.compilation.eager import compile_ahead
from pellucid.higher_order.calls import ClosedCallParams, closed_call_p
from pellucid.ir.jaxpr import ClosedJaxpr

_thread = ThreadPoolExecutor(1, "pellucid-compiling-ahead")
_queue: list[Future[None]] = []
"""Compilations that were asked for last."""


def compile_in_thread(programs: Sequence[ClosedJaxpr], like: Any) -> None:
    """Begin to compile programs that run next, in their order, on operands placed as the array `like`.

    Those of an earlier call that have not begun are left out.
    """
    for compilation in _queue:
        compilation.cancel()
    _queue.clear()
    for program in programs:
        if "compilation ahead" not in program.jaxpr.memo or _is_cancelled(program):
            compilation = _thread.submit(_compile, program, like)
            program.jaxpr.memo["compilation ahead"] = compilation
            _queue.append(compilation)


def wait_for_compilation(program: ClosedJaxpr) -> None:
    """Return when no thread compiles a program; it is then compiled, or was not begun."""
    compilation = program.jaxpr.memo.get("compilation ahead")
    if compilation is not None and not compilation.cancel():
        wait([compilation])


def _is_cancelled(program: ClosedJaxpr) -> bool:
    return program.jaxpr.memo["compilation ahead"].cancelled()


def _compile(program: ClosedJaxpr, like: Any) -> None:
    compile_ahead(closed_call_p, ClosedCallParams(program), program.in_avals, like)
