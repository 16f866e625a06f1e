"""NumPy functions: one compiled call when eager, part of the caller's program when traced."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.base import PellucidError
from pellucid.higher_order.jitted import Jitted
from pellucid.runtime.calls import make_call
from pellucid.runtime.transfer import from_host
from pellucid.tracing import (
    FunctionSpec,
    Tracer,
    as_operand,
    context,
    is_array_like,
    name_operands,
    resolve_arguments,
    type_of,
)
from pellucid.xla.arrays import ARRAY_TYPES
from pellucid.xla.pytree import flatten

from .recall import remembering, with_operands


def numpy_function(
    function: Callable[..., Any] | None = None, *, static: str | Sequence[str] = ()
) -> Any:
    """Compile `function` for eager calls; under a trace its primitives are traced.

    `static` names the arguments that are not arrays (axes, dtypes, flags); they must be hashable.
    `.python` is the function as it runs under a trace, for callers that know they are being traced.
    """
    if function is None:
        return functools.partial(numpy_function, static=static)
    chosen = function
    static_nums, static_names = resolve_arguments(chosen, None, static or None, "static")
    spec = FunctionSpec(chosen, chosen.__name__, static_nums, static_names)
    jitted = Jitted(spec, inline=True, share=False)
    python = _for_traces(remembering(chosen, static_nums, static_names))

    def cache_miss(*args: Any, **kwargs: Any) -> Any:
        if not context.trace.is_eager:
            return python(*args, **kwargs), None
        args, kwargs = with_operands(args, kwargs)
        if any(isinstance(x, Tracer) for x in flatten((args, kwargs))[0]):
            return python(*args, **kwargs), None
        return jitted.cache_miss(*args, **kwargs)

    call = make_call(
        chosen.__name__,
        chosen,
        cache_miss,
        static_nums,
        static_names,
        (chosen, static_nums),
    )
    functools.update_wrapper(call, chosen)
    call.python = python
    call.jitted = jitted
    jitted.callable = weakref.ref(call)
    return call


def _for_traces(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with arrays in place of numbers of the host among its results, and named arguments in its errors.

    What is computed of numbers alone may be folded to a number, which would compute on by the rules of NumPy.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except PellucidError as error:
            name_operands(error, [x for x in flatten((args, kwargs))[0] if is_array_like(x)])
            raise
        kind = type(result)
        return kind(map(_as_array, result)) if kind in (list, tuple) else _as_array(result)

    return call


def _as_array(x: Any) -> Any:
    if type(x) in ARRAY_TYPES or isinstance(x, Tracer):
        return x
    operand = as_operand(x)
    if operand is not x:
        return _as_array(operand)
    return from_host(x, weak_type=type_of(x).weak_type)
