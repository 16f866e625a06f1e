"""Debugging while a program runs: `debug.print`, `debug.log`, `debug.callback`."""

from __future__ import annotations

import logging
import string
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    Function,
    Keywords,
    capture,
    identity,
    user_frame,
)
from pellucid._machine.base.formats import check_fields
from pellucid._machine.higher_order.custom_vmap import each_element
from pellucid._machine.ir import Operands, Values, debug_effect, ordered_debug_effect
from pellucid._machine.lowering.custom_calls import HostFunction, host_call
from pellucid._machine.runtime.tokens import tokens
from pellucid._machine.tracing import bind, is_array_like
from pellucid._machine.transforms import check_callable, checked_leaves
from pellucid._machine.xla.pytree import flatten

from .host import FlatCallback
from .pure import HostCall, values_of

logger = logging.getLogger("pellucid.debug")
_ORDERED = frozenset({ordered_debug_effect})
_UNORDERED = frozenset({debug_effect})
_MAX_UNROLLED_BATCH = 32
"""Maximum batch size at which calls for the elements are unrolled; larger batches use a loop."""


class DebugCall(HostCall):
    """Base class of calls without results, which transformations don't remove."""

    def callback_of(self, params: Any) -> FlatCallback:
        """The Python function to call."""
        raise NotImplementedError(type(self))

    def abstract_eval(self, avals, params):
        return ()

    def effects(self, avals, params):
        return _ORDERED if params.ordered else _UNORDERED

    def run(self, operands, params):
        if params.ordered:  # print the output of programs that still run first
            tokens.block_until_ready()
        self.callback_of(params).call(operands, ())
        return []

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), []

    def printed_params(self, equation):
        return equation.params._asdict()

    def batch(self, axis, operands, dims, params):
        unrolled = axis.size <= _MAX_UNROLLED_BATCH
        each_element(self, axis, operands, dims, params, unrolled=unrolled)
        return [], []

    def lower(self, ctx, operands, params):
        function = self.callback_of(params).for_program(ctx, ())
        effect = ordered_debug_effect if params.ordered else None
        return host_call(
            ctx,
            function,
            operands,
            has_side_effect=True,
            effect=effect,
            of_parts=params.partitioned,
        )


class DebugCallbackParams(NamedTuple):
    """If `partitioned`, the callback receives each device's part instead of whole arrays."""

    callback: FlatCallback
    ordered: bool
    partitioned: bool


class DebugCallback(DebugCall):
    """A call of a Python function that inspects values."""

    name = "debug_callback"

    def callback_of(self, params):
        return params.callback


debug_callback_p = DebugCallback()


class DebugPrintParams(NamedTuple):
    """`in_tree` is the structure of (args, kwargs); `static_args` are the leaves that aren't arrays, by position."""

    fmt: str
    has_placeholders: bool
    in_tree: Any
    logging_record: LogSite | None
    np_printoptions: tuple[tuple[str, Any], ...]
    ordered: bool
    partitioned: bool
    static_args: tuple[tuple[int, Any], ...]


class LogSite(NamedTuple):
    """The source position of a call of `debug.log`."""

    file: str
    line: int
    function: str


class DebugPrint(DebugCall):
    """Prints or logs formatted text."""

    name = "debug_print"
    calls_python = False

    def callback_of(self, params):
        show = _Show(
            params.fmt, params.has_placeholders, params.np_printoptions, params.logging_record
        )
        caller = "debug.print" if params.logging_record is None else "debug.log"
        return FlatCallback(caller, show, params.in_tree, None, params.static_args)


debug_print_p = DebugPrint()


@dataclass(frozen=True, eq=False)
class _Show(HostFunction):
    """Prints or logs its arguments, formatted by `fmt`."""

    fmt: str
    has_placeholders: bool
    options: tuple[tuple[str, Any], ...]
    record: LogSite | None

    @property
    def identity(self) -> Hashable:
        """A key that determines what it prints."""
        options = tuple([(name, identity(value)) for name, value in self.options])
        return self.fmt, self.has_placeholders, options, self.record

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        text = self.fmt
        if self.has_placeholders:
            with np.printoptions(**dict(self.options)):
                text = text.format(*args, **kwargs)
        if self.record is None:
            sys.stdout.write(text + "\n")
        else:
            file, line, function = self.record
            entry = logger.makeRecord(
                logger.name, logging.INFO, file, line, text, (), None, function
            )
            if logger.isEnabledFor(logging.INFO):
                logger.handle(entry)


def _options() -> tuple[tuple[str, Any], ...]:
    """NumPy's print options at the user's call; the program may run in another context."""
    return tuple(np.get_printoptions().items())


def _split_arguments(
    caller: str, function: Function, args: Operands, kwargs: Keywords
) -> tuple[Values, Any, tuple[tuple[int, Any], ...]]:
    """(leaves that are arrays, structure of all, other leaves by position)."""
    leaves, tree = flatten((args, kwargs))
    static = tuple((i, x) for i, x in enumerate(leaves) if not is_array_like(x))
    arrays = values_of([x for x in leaves if is_array_like(x)])
    return checked_leaves(arrays, caller, function, arrays), tree, static


def _show(
    fmt: Any, args: Operands, kwargs: Keywords, *, ordered: bool, partitioned: bool,
    skip_format_check: bool, record: LogSite | None,
) -> None:  # fmt: skip
    if not isinstance(fmt, str):
        raise ArgumentTypeError(
            "debug.print needs a format string first.",
            got=f"got {type(fmt).__name__}",
            do='Write `debug.print("x = {}", x)`.',
        )
    if not skip_format_check:
        check_fields("debug.print", fmt, args, kwargs)
    arrays, tree, static = _split_arguments("debug.print", debug_print, args, kwargs)
    params = DebugPrintParams(
        fmt, _has_placeholders(fmt), tree, record, _options(), ordered, partitioned, static
    )
    bind(debug_print_p, *arrays, params=params)


def _has_placeholders(fmt: str) -> bool:
    """Whether `fmt` has fields; a string without fields is printed verbatim, including doubled braces."""
    return any(field is not None for _, field, _, _ in string.Formatter().parse(fmt))


def _record() -> LogSite:
    frame = user_frame(capture())
    return LogSite("", 0, "") if frame is None else LogSite(frame.file, frame.line, frame.function)


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Print `fmt.format(*args, **kwargs)` with the values that the arrays have when the program runs.

    It works in all transformations: `vmap` prints each element, `grad` the values of the forward pass, a loop each
    step. Prints that are `ordered` come in program order, also from one program to the next; others may come in any
    order. `partitioned` prints the parts of each device instead of whole arrays. Values that aren't arrays are
    printed as they are. Without `fmt` it gives a function that prints with these options, whose own arguments are
    then free: `debug.print(ordered=True)("{ordered}", ordered=x)`.

    Raises: ArgumentValueError for arguments that the format string doesn't show (not with `skip_format_check`).

    >>> from pellucid import effects_barrier, jit
    >>> jit(lambda x: debug_print("x = {}, twice {y}", x, y=2 * x, ordered=True))(3)
    x = 3, twice 6
    >>> effects_barrier()
    """

    def show(fmt: str, *args: Any, **kwargs: Any) -> None:
        record = _record() if _use_logging else None
        _show(
            fmt, args, kwargs, ordered=ordered, partitioned=partitioned,
            skip_format_check=skip_format_check, record=record,
        )  # fmt: skip

    if fmt is None:
        return _two_calls("debug.print", show, args, kwargs)
    return show(fmt, *args, **kwargs)


def debug_log(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = True,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Like `debug.print`, to the logger `pellucid.debug` at level INFO, with the user's line as the record's place.

    >>> debug_log("x = {}", 3)
    """
    return debug_print(
        fmt, *args, ordered=ordered, partitioned=partitioned, skip_format_check=skip_format_check,
        _use_logging=_use_logging, **kwargs,
    )  # fmt: skip


def debug_callback(
    callback: Function | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Call `callback(*args, **kwargs)` when the program gets there, with the values that the arrays have then.

    What it returns is dropped. As `debug.print`, it works in all transformations, and calls that are `ordered` come
    in program order. Without `callback` it gives a function that takes one, and has these options.

    Raises: CallbackError where the function raises an exception.

    >>> from pellucid import vmap
    >>> import numpy as np
    >>> seen = []
    >>> vmap(lambda x: debug_callback(lambda v: seen.append(float(v)), x))(np.arange(3.0))
    >>> seen
    [0.0, 1.0, 2.0]
    """

    def call(callback: Function, *args: Any, **kwargs: Any) -> None:
        check_callable(callback, "debug.callback")
        arrays, tree, static = _split_arguments("debug.callback", callback, args, kwargs)
        flat = FlatCallback("debug.callback", callback, tree, None, static)
        bind(debug_callback_p, *arrays, params=DebugCallbackParams(flat, ordered, partitioned))

    if callback is None:
        return _two_calls("debug.callback", call, args, kwargs)
    return call(callback, *args, **kwargs)


def _two_calls(
    caller: str, second: Callable[..., None], args: Operands, kwargs: Keywords
) -> Callable[..., None]:
    if args or kwargs:
        raise ArgumentTypeError(
            f"{caller} without its first argument takes options alone.",
            got=f"{len(args)} positional arguments, keywords {', '.join(kwargs) or 'none'}",
            do=f"Pass values in the second call: `{caller}(ordered=True)(first, *values)`.",
        )
    return second
